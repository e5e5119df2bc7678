use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::DomainKey;
use crate::rate::Rate;

/// The most groups that `TIDEGATE_DOMAIN_LIMITS` may list, `*` not counted.
pub const MAX_GROUPS: usize = 20;
/// The name by which counters call the limit of `*`, since not every place allows an asterisk. No group
/// can have this name: a group's name is a domain and contains a dot.
pub const OTHERS: &str = "others";

const ALLOWED: &str = "a comma-separated list such as gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%: \
    domains joined by +, then a rate a second, minute, hour or day (/s /m /h /d), or a share of the account's quota in %";

/// How fast mail may be sent to a group, as the operator wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A rate that does not depend on the account's quota, in recipients per second.
    Rate(Rate),
    /// A share of the account's quota, in millionths: 1 to 1,000,000.
    Share(u64),
}

impl Limit {
    /// The limit in recipients per second for an account with this quota. The quota is that without the
    /// rate factor: SES's throttling does not change how much mail the provider accepts.
    pub fn rate(self, quota: Rate) -> Rate {
        match self {
            Self::Rate(rate) => rate,
            Self::Share(millionths) => quota.scaled(millionths),
        }
    }
}

/// The domains of one mailbox provider, and their common limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DomainGroup {
    domains: Vec<String>,
    /// The limit that holds for all domains of the group together.
    pub limit: Limit,
}

impl DomainGroup {
    /// The group's name: its first domain, in lower case.
    pub fn name(&self) -> &str {
        self.domains.first().map_or("", String::as_str)
    }

    /// All domains of the group, in lower case and in the order of the list.
    pub fn domains(&self) -> &[String] {
        &self.domains
    }
}

/// `TIDEGATE_DOMAIN_LIMITS`: a limit for each listed group, and optionally one for every other domain.
///
/// ```
/// use tidegate_core::domains::{DomainKey, DomainLimits};
/// use tidegate_core::rate::Rate;
/// let limits: DomainLimits = "gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%".parse()?;
/// assert_eq!(limits.key_of("GoogleMail.com"), Some(DomainKey::Group(0)));
/// assert_eq!(limits.name(&DomainKey::Group(0)), "gmail.com");
/// let quota = Rate::per_second(200.0).unwrap();
/// let rate = |domain| limits.rate(&limits.key_of(domain).unwrap(), quota).unwrap().as_per_second();
/// assert_eq!((rate("gmail.com"), rate("tiny.example"), rate("other.example")), (10.0, 0.1, 50.0));
/// # Ok::<(), tidegate_core::domains::DomainLimitsError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainLimits {
    groups: Vec<DomainGroup>,
    others: Option<Limit>,
}

/// The first fault found in a list of limits.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DomainLimitsError {
    /// An entry without an equals sign, such as `gmail.com`.
    #[error("{entry:?} is no limit; allowed is {ALLOWED}")]
    Syntax {
        /// The entry as it was given, without blanks around it.
        entry: String,
    },
    /// A limit that cannot be read, or is below 0.001 recipients per second, above 10,000, or above
    /// 100 %.
    #[error(
        "{limit:?} in {entry:?} is no rate; allowed is 0.001/s (4/h, 87/d) to 10000/s, or a share from 0.0001% to 100%"
    )]
    Limit {
        /// The whole entry that contains the limit.
        entry: String,
        /// The text after the equals sign.
        limit: String,
    },
    /// A name that is no domain of at least two labels, or a `*` that is joined with domains.
    #[error(
        "{domain:?} is no domain; allowed are names such as gmail.com in ASCII, at most 100 characters, or * alone"
    )]
    Domain {
        /// The name as given, in lower case.
        domain: String,
    },
    /// A domain, or `*`, that is listed more than once.
    #[error("{domain} stands twice; allowed is once")]
    Twice {
        /// The repeated domain, in lower case.
        domain: String,
    },
    /// More groups than [`MAX_GROUPS`]; the number of groups given.
    #[error("{0} groups; allowed are at most {MAX_GROUPS}")]
    TooMany(usize),
}

impl DomainLimits {
    /// Whether the list limits no domain at all.
    pub const fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.others.is_none()
    }

    /// The listed groups, in the order of the list; `*` is not among them.
    pub fn groups(&self) -> &[DomainGroup] {
        &self.groups
    }

    /// The limit of each domain that no group lists; `None` if these are not limited.
    pub const fn others(&self) -> Option<Limit> {
        self.others
    }

    /// The number of domain queues that these limits need: one per group, and one for all other domains
    /// together if `*` is limited.
    pub fn queues(&self) -> usize {
        self.groups.len() + usize::from(self.others.is_some())
    }

    /// The index of the queue for `key` in `TIDEGATE_DOMAIN_QUEUES`: the groups in their order, then
    /// `*`.
    pub const fn queue_of(&self, key: &DomainKey) -> usize {
        match key {
            DomainKey::Group(index) => *index,
            DomainKey::Other(_) => self.groups.len(),
        }
    }

    /// The name of the queue at index `place` in counters and messages: the group's first domain, or
    /// [`OTHERS`]; `None` for a queue that belongs to no limit.
    pub fn queue_name(&self, place: usize) -> Option<&str> {
        let others = (place == self.groups.len() && self.others.is_some()).then_some(OTHERS);
        self.groups.get(place).map(DomainGroup::name).or(others)
    }

    /// The limit that `domain` falls under. Case is ignored; a subdomain is a different domain.
    pub fn key_of(&self, domain: &str) -> Option<DomainKey> {
        let is_listed =
            |group: &DomainGroup| group.domains.iter().any(|d| d.eq_ignore_ascii_case(domain));
        match self.groups.iter().position(is_listed) {
            Some(index) => Some(DomainKey::Group(index)),
            None => self.others.map(|_| DomainKey::Other(domain.to_ascii_lowercase())),
        }
    }

    /// The name of a limit in messages: a group's first domain, or the domain itself.
    pub fn name<'a>(&'a self, key: &'a DomainKey) -> &'a str {
        match key {
            DomainKey::Group(index) => self.groups.get(*index).map_or("", DomainGroup::name),
            DomainKey::Other(domain) => domain,
        }
    }

    /// The limit of `key`; `None` if the list has no such group, or no `*`.
    pub fn limit(&self, key: &DomainKey) -> Option<Limit> {
        match key {
            DomainKey::Group(index) => self.groups.get(*index).map(|group| group.limit),
            DomainKey::Other(_) => self.others,
        }
    }

    /// The recipients per second that `key` allows for an account with this quota; `None` if the limit
    /// is at least the quota, because then the account's own slots keep it.
    pub fn rate(&self, key: &DomainKey, quota: Rate) -> Option<Rate> {
        self.limit(key).map(|limit| limit.rate(quota)).filter(|rate| *rate < quota)
    }

    /// A number that differs for different limits, by which a claim notices a change; 0 if nothing is
    /// limited. It has 53 bits.
    pub fn digest(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let hash = Sha256::digest(self.to_string().as_bytes());
        // 53 bits, because JSON readers that use doubles keep whole numbers up to 2^53 only.
        hash.iter().take(8).fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte)) >> 11
    }
}

impl FromStr for DomainLimits {
    type Err = DomainLimitsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut limits = Self::default();
        let mut seen: Vec<String> = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let syntax = || DomainLimitsError::Syntax { entry: entry.to_owned() };
            let (names, limit) = entry.split_once('=').ok_or_else(syntax)?;
            let limit = read_limit(entry, limit.trim())?;
            let domains: Vec<String> =
                names.split('+').map(|name| name.trim().to_ascii_lowercase()).collect();
            for domain in &domains {
                let alone = domain == "*" && domains.len() == 1;
                if !alone && !is_domain(domain) {
                    return Err(DomainLimitsError::Domain { domain: domain.clone() });
                }
                if seen.contains(domain) {
                    return Err(DomainLimitsError::Twice { domain: domain.clone() });
                }
                seen.push(domain.clone());
            }
            if domains == ["*"] {
                limits.others = Some(limit);
            } else {
                limits.groups.push(DomainGroup { domains, limit });
            }
        }
        if limits.groups.len() > MAX_GROUPS {
            return Err(DomainLimitsError::TooMany(limits.groups.len()));
        }
        Ok(limits)
    }
}

/// Whether `name` has at least two labels of 1 to 63 lower-case letters, digits and inner hyphens, and
/// at most 100 characters.
fn is_domain(name: &str) -> bool {
    let is_label = |label: &str| {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        (1..=63).contains(&label.len())
            && label.chars().all(legal)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 100 && name.contains('.') && name.split('.').all(is_label)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1 to 1,000,000")]
fn read_limit(entry: &str, text: &str) -> Result<Limit, DomainLimitsError> {
    let wrong = || DomainLimitsError::Limit { entry: entry.to_owned(), limit: text.to_owned() };
    if let Some(percent) = text.strip_suffix('%') {
        let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
        let millionths = (percent * 10_000.0).round();
        let fits = (1.0..=1_000_000.0).contains(&millionths);
        return if fits { Ok(Limit::Share(millionths as u64)) } else { Err(wrong()) };
    }
    // A number without a unit might be meant as a share.
    let rate = text.contains('/').then(|| text.parse().ok()).flatten();
    rate.map(Limit::Rate).ok_or_else(wrong)
}

impl fmt::Display for Limit {
    #[expect(clippy::cast_precision_loss, reason = "at most a million")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => {
                let second = rate.as_per_second();
                let units = [(1.0, "s"), (60.0, "m"), (3_600.0, "h"), (86_400.0, "d")];
                // The first unit in which the number is at least 1. A rate is kept in millionths per
                // second, which is 0.0864 per day, so more than two decimals would say nothing.
                let (factor, unit) = units
                    .into_iter()
                    .find(|(factor, _)| second * factor >= 1.0)
                    .unwrap_or(units[3]);
                write!(f, "{}/{unit}", (second * factor * 100.0).round() / 100.0)
            }
            Self::Share(millionths) => write!(f, "{}%", *millionths as f64 / 10_000.0),
        }
    }
}

impl fmt::Display for DomainLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = self.groups.iter().map(|group| (group.domains.join("+"), group.limit));
        let others = self.others.map(|limit| ("*".to_owned(), limit));
        for (index, (name, limit)) in groups.chain(others).enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}={limit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<DomainLimits, String> {
        text.parse::<DomainLimits>().map_err(|error| error.to_string())
    }

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        for text in
            ["gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%", "*=1/s", "a.example=5/h"]
        {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("gmail.com = 90/m").unwrap().to_string(), "gmail.com=1.5/s");
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        for (text, said) in [
            ("gmail.com", "\"gmail.com\" is no limit; allowed is a comma-separated list"),
            ("gmail.com=10/s,", "\"\" is no limit"),
            ("gmail.com=ten/s", "\"ten/s\" in \"gmail.com=ten/s\" is no rate; allowed is 0.001/s"),
            ("gmail.com=10/w", "\"10/w\""),
            ("gmail.com=10", "\"10\""),
            ("gmail.com=1/h", "4/h"),
            ("gmail.com=101%", "to 100%"),
            ("gmail=1/s", "\"gmail\" is no domain"),
            ("gmail.com+*=1/s", "\"*\" is no domain; allowed are names such as gmail.com"),
            ("-a.com=1/s", "\"-a.com\" is no domain"),
            ("gmail.com=1/s, a.example+GMAIL.com=2/s", "gmail.com stands twice; allowed is once"),
            ("*=1/s, *=2/s", "* stands twice"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let many: Vec<String> = (0..21).map(|n| format!("d{n}.example=1/s")).collect();
        assert!(read(&many.join(",")).unwrap_err().contains("21 groups; allowed are at most 20"));
    }

    #[test]
    fn a_limit_that_the_quota_keeps_is_none() {
        let limits = read("gmail.com=10/s, *=100%").unwrap();
        let rate = |key: &DomainKey, quota| limits.rate(key, Rate::per_second(quota).unwrap());
        assert_eq!(rate(&DomainKey::Group(0), 10.0), None);
        assert!(rate(&DomainKey::Group(0), 10.5).is_some());
        assert_eq!(rate(&DomainKey::Other("a.example".to_owned()), 14.0), None);
    }

    #[test]
    fn other_limits_have_another_digest_and_none_has_none() {
        let digest = |text| read(text).unwrap().digest();
        assert_eq!(DomainLimits::default().digest(), 0);
        assert_eq!(digest("gmail.com=10/s"), digest(" GMAIL.com = 10/s "));
        assert_ne!(digest("gmail.com=10/s"), digest("gmail.com=11/s"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z.*+=%/, 0-9-]{0,60}") {
            if let Ok(limits) = text.parse::<DomainLimits>() {
                prop_assert!(limits.queues() >= 1);
                for place in 0..limits.queues() {
                    prop_assert!(limits.queue_name(place).is_some());
                }
            }
        }
    }
}
