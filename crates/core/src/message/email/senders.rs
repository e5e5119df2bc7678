//! The senders that mail may come from: `TIDEGATE_ALLOWED_SENDERS`.

use std::borrow::Cow;
use std::str::FromStr;

use super::Email;
use super::address::{Address, is_host_name};
use super::error::{EmailError, EmailErrorKind};
use crate::text::InvalidText;

/// The senders that mail may come from.
///
/// A domain on the list allows that domain, **not** its subdomains: the owner of `example.org` may not
/// be the owner of `billing.example.org`. Upper and lower case do not matter for the comparison. The
/// mail is sent with the list's spelling, because IAM's condition on `ses:FromAddress`, which is made
/// from the same list, [compares by
/// case](https://docs.aws.amazon.com/ses/latest/dg/sending-authorization-policy-examples.html).
///
/// ```
/// use tidegate_core::email::AllowedSenders;
/// let senders: AllowedSenders = "news@example.org, *@example.net".parse().unwrap();
/// assert_eq!(senders.spelling("News@Example.org").as_deref(), Some("news@example.org"));
/// assert_eq!(senders.spelling("Any@Example.net").as_deref(), Some("Any@example.net"));
/// assert_eq!(senders.spelling("any@mail.example.net"), None);
/// assert!(senders.identities().eq(["news@example.org", "example.net"]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSenders {
    everyone: bool,
    addresses: Vec<String>,
    domains: Vec<String>,
}

impl AllowedSenders {
    /// Allows every sender, as `*` does.
    pub const fn everyone() -> Self {
        Self { everyone: true, addresses: Vec::new(), domains: Vec::new() }
    }

    /// The addresses and domains on the list, in its spelling; empty if every sender is allowed.
    pub fn identities(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().chain(&self.domains).map(String::as_str)
    }

    /// True if a mail from `local@domain` may be sent.
    pub fn allows(&self, addr_spec: &str) -> bool {
        self.spelling(addr_spec).is_some()
    }

    /// The spelling in which `local@domain` is sent: the list's spelling if the list has it. None if it
    /// is not allowed.
    pub fn spelling<'a>(&self, addr_spec: &'a str) -> Option<Cow<'a, str>> {
        let as_it_is = Some(Cow::Borrowed(addr_spec));
        if self.everyone {
            return as_it_is;
        }
        let (local, domain) = addr_spec.rsplit_once('@')?;
        let listed_so = |list: &[String], found| list.iter().any(|listed| listed == found);
        if listed_so(&self.addresses, addr_spec) || listed_so(&self.domains, domain) {
            return as_it_is;
        }
        let address = self.addresses.iter().find(|listed| listed.eq_ignore_ascii_case(addr_spec));
        let listed = |listed: &&String| listed.eq_ignore_ascii_case(domain);
        let domain = || Some(format!("{local}@{}", self.domains.iter().find(listed)?));
        address.cloned().or_else(domain).map(Cow::Owned)
    }

    /// Checks the mail's sender and gives it the list's spelling. The senders in the header of a raw mail are checked,
    /// too, and stay as they are.
    ///
    /// # Errors
    /// [`EmailErrorKind::SenderNotAllowed`] on the field `from` (also in the short form) or `raw` if the list does not
    /// allow the sender.
    pub fn admit(&self, mut email: Email) -> Result<Email, EmailError> {
        let refused = |field: &str, problem: String, sender: &Address| {
            let error = EmailError::new(EmailErrorKind::SenderNotAllowed, field, problem);
            Err(error.with_value(sender.addr_spec()))
        };
        let is_other = |(_, sender): &(_, &Address)| !self.allows(sender.addr_spec());
        if let Some((name, sender)) = email.raw().and_then(|raw| raw.senders().find(is_other)) {
            let problem =
                format!("must have a {name} in its header that TIDEGATE_ALLOWED_SENDERS names");
            return refused("raw", problem, sender);
        }
        let Some(spelt) = self.spelling(email.from.addr_spec()) else {
            let problem = "must be a sender that TIDEGATE_ALLOWED_SENDERS names".to_owned();
            return refused("from", problem, &email.from);
        };
        if spelt != email.from.addr_spec() {
            email.from = email.from.spelt(spelt.into_owned());
        }
        Ok(email)
    }
}

impl FromStr for AllowedSenders {
    type Err = InvalidText;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "is not allowed: a comma list of addresses (news@example.org), domains \
                               (example.org, @example.org or *@example.org, without their subdomains) or * for everyone is";
        let mut senders = Self { everyone: false, addresses: Vec::new(), domains: Vec::new() };
        for entry in list.split(',').map(str::trim) {
            // `*@domain` is the form of IAM's conditions and allows every sender of the domain.
            let domain = entry.strip_prefix('*').filter(|rest| rest.starts_with('@'));
            let domain = domain.unwrap_or(entry);
            let domain = domain.strip_prefix('@').unwrap_or(domain);
            if entry == "*" {
                senders.everyone = true;
            } else if domain.contains('.') && is_host_name(domain) {
                senders.domains.push(domain.to_owned());
            } else {
                match Address::parse(entry) {
                    // `news-*@example.org` is a valid address, but its author means a pattern.
                    Ok(address) if address.addr_spec() == entry && !entry.contains('*') => {
                        senders.addresses.push(entry.to_owned());
                    }
                    _ => return Err(InvalidText::new(entry, ALLOWED)),
                }
            }
        }
        Ok(senders)
    }
}
