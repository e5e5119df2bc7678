use std::fmt;
use std::str::FromStr;

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::channel::Channel;
use crate::config::{is_campaign_name, is_word};
use crate::email::is_host_name;
use crate::text::InvalidText;
use crate::text_message::{calling_code, is_calling_code, is_e164};

/// The property of a mail by which a limit counts its recipients.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    EnumString,
    IntoStaticStr,
    VariantArray,
)]
#[strum(serialize_all = "lowercase")]
pub enum Dimension {
    /// The recipient's domain.
    Domain,
    /// The campaign from whose queue the mail came.
    Campaign,
    /// The mail's sender: an address or a domain.
    Sender,
    /// SES's configuration set, which also names the pool of IP addresses.
    #[strum(serialize = "set")]
    ConfigurationSet,
    /// SES's tenant.
    Tenant,
    /// The country of a text, as the beginning of the recipient's number without `+`.
    Country,
    /// The origin of a text: a number without `+`, a sender id or a pool.
    Origin,
    /// The recipient: an address, or a number without `+`. It has no slots, but a bucket beside the account's shared one.
    Recipient,
}

impl Dimension {
    /// The word before the colon of a key: `domain`, `campaign`, `sender`, `set`, `tenant`, `country`, `origin` or
    /// `recipient`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The properties that messages of the channel have.
    pub fn of(channel: Channel) -> impl Iterator<Item = Self> {
        let has = move |one: &Self| one.channel().is_none_or(|only| only == channel);
        Self::VARIANTS.iter().copied().filter(has)
    }

    /// The channel whose messages alone have this property; `None` if those of both have.
    const fn channel(self) -> Option<Channel> {
        match self {
            Self::Domain | Self::Sender | Self::Tenant => Some(Channel::Email),
            Self::Country | Self::Origin => Some(Channel::Sms),
            Self::Campaign | Self::ConfigurationSet | Self::Recipient => None,
        }
    }

    fn allows(self, name: &str) -> bool {
        match self {
            Self::Domain => is_domain(name),
            Self::Campaign => is_campaign_name(name) || name == crate::config::EXPRESS,
            Self::Sender => is_address(name) || is_domain(name),
            Self::Recipient => is_address(name) || is_e164(&format!("+{name}")),
            Self::ConfigurationSet | Self::Tenant | Self::Origin => is_word(name),
            Self::Country => is_calling_code(name),
        }
    }

    const fn allowed(self) -> &'static str {
        match self {
            Self::Domain => "a domain such as gmail.com in ASCII, at most 100 characters",
            Self::Campaign => "a campaign's name: 1 to 64 letters, digits, - and _",
            Self::Sender => "an address or a domain such as news@example.org or example.org",
            Self::ConfigurationSet | Self::Tenant => "1 to 64 letters, digits, - and _",
            Self::Country => {
                "a country code such as 49, or a longer beginning of numbers such as 1340"
            }
            Self::Origin => {
                "a phone number such as 12065550100, a sender id such as NEWS, or a pool"
            }
            Self::Recipient => {
                "an address such as ada@example.com, or a number such as 4915112345678"
            }
        }
    }

    /// The name that `*` counts for `name`: a sender's domain, a domain in lower case, the country code of a
    /// number, else the name itself.
    pub(super) fn each_name(self, name: &str) -> String {
        match self {
            Self::Domain => name.to_ascii_lowercase(),
            Self::Sender => name.rsplit('@').next().unwrap_or(name).to_ascii_lowercase(),
            Self::Country => calling_code(name).to_owned(),
            Self::Origin => unsigned(name).to_owned(),
            Self::Recipient => unsigned(name).to_ascii_lowercase(),
            Self::Campaign | Self::ConfigurationSet | Self::Tenant => name.to_owned(),
        }
    }

    /// Whether several names may share one limit: the domains of one provider, the addresses of one sender, countries.
    const fn has_groups(self) -> bool {
        matches!(self, Self::Domain | Self::Sender | Self::Country)
    }

    /// Whether names are the same in upper and lower case.
    const fn ignores_case(self) -> bool {
        matches!(self, Self::Domain | Self::Sender | Self::Recipient)
    }
}

/// The mail that one limit holds for: that of all `names` together, or (`*`) of each name that no other
/// limit of this dimension lists, separately.
///
/// It is written `campaign:news`, `domain:gmail.com+googlemail.com`, `sender:*`, `country:49+43`. Without the word before
/// the colon, a name with an `@` is a sender, one with a dot a domain, one that begins with `+` a country, any other a
/// campaign, and `*` is `domain:*`.
///
/// ```
/// use tidegate_core::limits::LimitKey;
/// let key: LimitKey = "GMail.com+googlemail.com".parse()?;
/// assert_eq!(key.to_string(), "domain:gmail.com+googlemail.com");
/// assert_eq!("news".parse::<LimitKey>()?.to_string(), "campaign:news");
/// assert!("domain:gmail".parse::<LimitKey>().unwrap_err().to_string().contains("such as gmail.com"));
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LimitKey {
    /// The property by which the limit counts.
    pub dimension: Dimension,
    /// The names that share the limit, in lower case where case does not matter; none for `*`.
    pub names: Vec<String>,
}

impl LimitKey {
    /// The campaign whose mail is limited; `None` for every other key.
    pub fn campaign(&self) -> Option<&str> {
        let campaigns = (self.dimension == Dimension::Campaign).then_some(&self.names);
        campaigns.and_then(|names| names.first()).map(String::as_str)
    }

    /// Whether the limit holds for each name that no other limit lists, separately.
    pub fn is_each(&self) -> bool {
        self.names.is_empty()
    }

    /// The first name, or `*`: how the limit is called beside its dimension.
    pub fn name(&self) -> &str {
        self.names.first().map_or("*", String::as_str)
    }

    /// The length of the listed name under which `name` falls: that name itself, a sender's domain, the beginning of a
    /// number. A subdomain is another domain. `None` if the key lists no such name.
    pub(super) fn lists(&self, name: &str) -> Option<usize> {
        let domain = name.rsplit('@').next();
        let is = |listed: &&String| match self.dimension {
            Dimension::Domain => listed.eq_ignore_ascii_case(name),
            Dimension::Sender => {
                listed.eq_ignore_ascii_case(name)
                    || domain.is_some_and(|domain| listed.eq_ignore_ascii_case(domain))
            }
            Dimension::Country => unsigned(name).starts_with(listed.as_str()),
            Dimension::Origin => *listed == unsigned(name),
            Dimension::Recipient => listed.eq_ignore_ascii_case(unsigned(name)),
            _ => *listed == name,
        };
        self.names.iter().filter(is).map(String::len).max()
    }

    /// A name that this key and `other` both list; `*` if both are that.
    pub(super) fn shared_name<'a>(&self, other: &'a Self) -> Option<&'a str> {
        if self.dimension != other.dimension {
            return None;
        }
        if self.is_each() && other.is_each() {
            return Some("*");
        }
        other.names.iter().map(String::as_str).find(|name| self.names.iter().any(|own| own == name))
    }
}

/// The fault of a name in a list.
pub(super) const TWICE: &str = "stands twice; allowed is once";

/// The name of `*` in counters. No domain has it: a domain contains a dot.
pub const OTHERS: &str = "others";

impl FromStr for LimitKey {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        const UNKNOWN: &str = "is nothing that can be limited; allowed are domain, campaign, sender, set, tenant, country, origin and recipient";
        const JOINED: &str =
            "joins names; allowed is that for domains, senders and countries. Set a limit for each";
        let text = text.trim();
        let (dimension, names) = match text.split_once(':') {
            Some((word, names)) => {
                let unknown = |_| InvalidText::new(word.trim(), UNKNOWN);
                (word.trim().parse().map_err(unknown)?, names)
            }
            None if text.contains('@') => (Dimension::Sender, text),
            None if text == "*" || text.contains('.') => (Dimension::Domain, text),
            None if text.starts_with('+') => (Dimension::Country, text),
            None => (Dimension::Campaign, text),
        };
        let mut key = Self { dimension, names: Vec::new() };
        if names.trim() == "*" {
            return Ok(key);
        }
        let is_recipient = dimension == Dimension::Recipient;
        let may_be_number = is_recipient || dimension.channel() == Some(Channel::Sms);
        let names = if may_be_number { unsigned(names.trim()) } else { names };
        // An address may contain a +.
        for name in names.split(|c| c == '+' && !is_recipient).map(str::trim) {
            let name =
                if dimension.ignores_case() { name.to_ascii_lowercase() } else { name.to_owned() };
            if !dimension.allows(&name) {
                let (kind, allowed) = (dimension.as_str(), dimension.allowed());
                let fault = format!("is no {kind}; allowed is {allowed}, or * alone");
                return Err(InvalidText::new(&name, fault));
            }
            if key.names.contains(&name) {
                return Err(InvalidText::new(&name, TWICE));
            }
            key.names.push(name);
        }
        if key.names.len() > 1 && !dimension.has_groups() {
            return Err(InvalidText::new(names.trim(), JOINED));
        }
        Ok(key)
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = if self.is_each() { "*".to_owned() } else { self.names.join("+") };
        write!(f, "{}:{names}", self.dimension.as_str())
    }
}

serialized_as_text!(LimitKey);

/// A phone number or country code without its `+`, which joins names in a key.
fn unsigned(number: &str) -> &str {
    number.strip_prefix('+').unwrap_or(number)
}

/// Whether `name` is an address of ASCII.
fn is_address(name: &str) -> bool {
    let parts = name.rsplit_once('@').filter(|_| name.is_ascii());
    parts.is_some_and(|(local, domain)| !local.is_empty() && is_domain(domain))
}

/// Whether `name` has at least two labels of 1 to 63 lower-case letters, digits and inner hyphens, and
/// at most 100 characters.
fn is_domain(name: &str) -> bool {
    name.len() <= 100
        && name.contains('.')
        && is_host_name(name)
        && !name.contains(|c: char| c.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_without_its_dimension_is_a_sender_a_domain_a_country_or_a_campaign() {
        for (text, key) in [
            ("news@Example.org", "sender:news@example.org"),
            ("gmail.com + GoogleMail.com", "domain:gmail.com+googlemail.com"),
            ("News", "campaign:News"),
            ("*", "domain:*"),
            ("campaign:*", "campaign:*"),
            ("set:pool-b", "set:pool-b"),
            ("tenant:acme", "tenant:acme"),
            ("sender:example.org+a@b.example", "sender:example.org+a@b.example"),
            ("campaign:express", "campaign:express"),
            ("+49", "country:49"),
            ("country:+49+43", "country:49+43"),
            ("origin:+12065550100", "origin:12065550100"),
            ("origin:NEWS", "origin:NEWS"),
            ("recipient:*", "recipient:*"),
            ("recipient:Ada+news@Example.com", "recipient:ada+news@example.com"),
            ("recipient:+4915112345678", "recipient:4915112345678"),
        ] {
            assert_eq!(text.parse::<LimitKey>().unwrap().to_string(), key);
        }
    }

    #[test]
    fn a_wrong_key_says_what_is_allowed() {
        for (text, said) in [
            ("queue:big", "\"queue\" is nothing that can be limited; allowed are domain, campaign"),
            ("domain:gmail", "\"gmail\" is no domain; allowed is a domain such as gmail.com"),
            ("gmail.com+*", "\"*\" is no domain"),
            ("-a.com", "\"-a.com\" is no domain"),
            ("a.example+A.example", "\"a.example\" stands twice; allowed is once"),
            ("campaign:a+b", "\"a+b\" joins names"),
            ("campaign:", "\"\" is no campaign; allowed is a campaign's name"),
            ("sender:@example.org", "\"@example.org\" is no sender"),
            ("country:DE", "\"DE\" is no country; allowed is a country code such as 49"),
            ("+49+049", "\"049\" is no country"),
            ("origin:A+B", "\"A+B\" joins names"),
            ("recipient:0151", "\"0151\" is no recipient"),
            ("recipient:example.com", "\"example.com\" is no recipient; allowed is an address"),
        ] {
            let error = text.parse::<LimitKey>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_key_reads_back_as_it_is_written(text in "[a-z.*+@:0-9-]{0,30}") {
            if let Ok(key) = text.parse::<LimitKey>() {
                prop_assert_eq!(key.to_string().parse::<LimitKey>(), Ok(key));
            }
        }
    }
}
