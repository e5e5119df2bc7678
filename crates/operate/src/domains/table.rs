use tidegate_core::limits::LimitKey;

use crate::send::InputFault;

/// The table that is part of the program.
pub const SHIPPED: &str = include_str!("providers.txt");

/// Providers of mailboxes, with the domains whose mail they take.
///
/// ```
/// use tidegate_operate::domains::ProviderTable;
/// let table = ProviderTable::parse("own.txt", "gmail: gmail.com googlemail.com\ngmail mx: google.com")?;
/// let of = |host| table.of_host(host).map(|provider| provider.name());
/// assert_eq!((of("aspmx.l.google.com"), of("notgoogle.com")), (Some("gmail"), None));
/// assert_eq!(table.of_domain("GMail.com").map(|provider| provider.key()), Some("gmail.com+googlemail.com".to_owned()));
/// # Ok::<(), Box<tidegate_operate::send::InputFault>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderTable(Vec<Provider>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provider {
    name: String,
    domains: Vec<String>,
    /// A host that is one of these, or below it, is a mail exchanger of the provider.
    mx: Vec<String>,
}

impl Provider {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    /// All of its domains as the key of a limit; empty for one that only hosts the domains of others.
    pub fn key(&self) -> String {
        self.domains.join("+")
    }
}

impl ProviderTable {
    /// The table that is part of the program.
    pub fn shipped() -> Self {
        Self::parse("providers.txt", SHIPPED).unwrap_or_default()
    }

    /// Reads a table in the form of [`SHIPPED`]; it is called `file` in faults.
    ///
    /// # Errors
    /// The first line with another form, or with a domain that another line has.
    pub fn parse(file: &str, text: &str) -> Result<Self, Box<InputFault>> {
        let mut table = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let fault = |field, problem: &str, value: &str| {
                Box::new(InputFault::bare(file, line, field, format!("{problem}, not {value:?}")))
            };
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let form =
                "must be such as \"gmail: gmail.com googlemail.com\" or \"gmail mx: google.com\"";
            let (head, names) = text.split_once(':').ok_or_else(|| fault("line", form, text))?;
            let (name, is_mx) = match head.trim().split_once(' ') {
                None => (head.trim(), false),
                Some((name, "mx")) => (name, true),
                Some(_) => return Err(fault("line", form, text)),
            };
            let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            if name.is_empty() || !name.chars().all(legal) {
                let problem = "must have a name of lower-case letters, digits and -";
                return Err(fault("provider", problem, name));
            }
            for domain in names.split_whitespace() {
                let key: Result<LimitKey, _> = format!("domain:{domain}").parse();
                let [domain] = key.as_ref().map_or(&[][..], LimitKey::names) else {
                    let problem = "must be a domain such as gmail.com in ASCII";
                    return Err(fault("domain", problem, domain));
                };
                if table.0.iter().any(|known| known.names(is_mx).contains(domain)) {
                    return Err(fault("domain", "must stand once in the table", domain));
                }
                table.of_name(name).names_mut(is_mx).push(domain.clone());
            }
        }
        Ok(table)
    }

    /// The provider with this name, which is added if it is new.
    fn of_name(&mut self, name: &str) -> &mut Provider {
        let place = self.0.iter().position(|known| known.name == name).unwrap_or(self.0.len());
        if place == self.0.len() {
            self.0.push(Provider { name: name.to_owned(), ..Provider::default() });
        }
        &mut self.0[place]
    }

    pub fn iter(&self) -> impl Iterator<Item = &Provider> {
        self.0.iter()
    }

    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.0.iter().find(|known| known.name == name)
    }

    /// The provider of the mailboxes of `domain`.
    pub fn of_domain(&self, domain: &str) -> Option<&Provider> {
        let lists =
            |known: &&Provider| known.domains.iter().any(|d| d.eq_ignore_ascii_case(domain));
        self.0.iter().find(lists)
    }

    /// The provider that has the mail exchanger `host`.
    pub fn of_host(&self, host: &str) -> Option<&Provider> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let ends = |suffix: &String| {
            host.strip_suffix(&**suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        self.0.iter().find(|known| known.mx.iter().any(ends))
    }
}

impl Provider {
    const fn names(&self, is_mx: bool) -> &Vec<String> {
        if is_mx { &self.mx } else { &self.domains }
    }

    const fn names_mut(&mut self, is_mx: bool) -> &mut Vec<String> {
        if is_mx { &mut self.mx } else { &mut self.domains }
    }
}
