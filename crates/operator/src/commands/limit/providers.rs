//! The domains of large providers of mailboxes, for keys such as `provider:gmail`.

/// Lines of a provider's name and its domains, and comments.
const TABLE: &str = include_str!("providers.txt");

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": "))
}

/// The domains whose mail the provider takes; none of an unknown one.
pub(super) fn domains(provider: &str) -> Vec<&'static str> {
    let own = lines().filter(|(name, _)| *name == provider);
    own.flat_map(|(_, domains)| domains.split_whitespace()).collect()
}

/// The providers in the order of the table.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = lines().map(|(name, _)| name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_core::limits::LimitKey;

    use super::*;

    #[test]
    fn each_line_has_a_provider_and_the_domains_of_each_are_a_key() {
        let is_empty = |line: &&str| line.is_empty() || line.starts_with('#');
        assert_eq!(lines().count(), TABLE.lines().filter(|line| !is_empty(line)).count());
        for name in names() {
            let domains = domains(name);
            let key: LimitKey = format!("domain:{}", domains.join("+")).parse().unwrap();
            assert_eq!(key.names, domains, "{name}");
        }
    }

    #[test]
    fn a_provider_stands_at_one_place_and_a_domain_has_one_provider() {
        let names = names();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let all: Vec<_> = names.into_iter().flat_map(domains).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn the_domains_of_a_provider_are_known_and_of_no_other_name() {
        assert_eq!(domains("gmail"), ["gmail.com", "googlemail.com"]);
        assert!(domains("microsoft").contains(&"hotmail.co.uk"));
        assert!(domains("gmx").contains(&"web.de"));
        assert!(domains("gmial").is_empty());
    }
}
