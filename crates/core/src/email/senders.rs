//! Who may send: `TIDEGATE_ALLOWED_SENDERS`.

use std::str::FromStr;

use super::Email;
use super::address::{Address, is_host_name};
use super::error::{EmailError, EmailErrorKind};
use super::text::shorten;

/// An entry of the list that is no sender.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{value:?} is not allowed: a comma list of addresses (news@example.org), domains \
     (example.org or @example.org, without their subdomains) or * for everyone is"
)]
pub struct AllowedSendersError {
    value: String,
}

/// The senders that mail may come from.
///
/// A domain allows that very domain, **not** its subdomains: who may send as `example.org` need
/// not be who may send as `billing.example.org`. Upper and lower case are the same.
///
/// ```
/// use tidegate_core::email::AllowedSenders;
/// let senders: AllowedSenders = "news@example.org, @example.net".parse().unwrap();
/// assert!(senders.allows("News@Example.org") && senders.allows("any@example.net"));
/// assert!(!senders.allows("any@mail.example.net"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedSenders {
    everyone: bool,
    addresses: Vec<String>,
    domains: Vec<String>,
}

impl AllowedSenders {
    /// No limit: what `*` says.
    #[must_use]
    pub const fn everyone() -> Self {
        Self { everyone: true, addresses: Vec::new(), domains: Vec::new() }
    }

    /// Whether `local@domain` may send.
    #[must_use]
    pub fn allows(&self, addr_spec: &str) -> bool {
        let same = |allowed: &String, found: &str| allowed.eq_ignore_ascii_case(found);
        let domain = addr_spec.rsplit_once('@').map(|(_, domain)| domain);
        self.everyone
            || self.addresses.iter().any(|allowed| same(allowed, addr_spec))
            || domain.is_some_and(|found| self.domains.iter().any(|allowed| same(allowed, found)))
    }

    /// Refuses a mail whose sender is not on the list.
    ///
    /// # Errors
    /// [`EmailErrorKind::SenderNotAllowed`] on the field `from` (the short form's `from_address`).
    pub fn check(&self, email: &Email) -> Result<(), EmailError> {
        let sender = email.from().addr_spec();
        if self.allows(sender) {
            return Ok(());
        }
        let problem = "must be a sender that TIDEGATE_ALLOWED_SENDERS names";
        Err(EmailError::new(EmailErrorKind::SenderNotAllowed, "from", problem).with_value(sender))
    }
}

impl FromStr for AllowedSenders {
    type Err = AllowedSendersError;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        let mut senders = Self { everyone: false, addresses: Vec::new(), domains: Vec::new() };
        for entry in list.split(',').map(str::trim) {
            let domain = entry.strip_prefix('@').unwrap_or(entry);
            if entry == "*" {
                senders.everyone = true;
            } else if domain.contains('.') && is_host_name(domain) {
                senders.domains.push(domain.to_owned());
            } else {
                match Address::parse(entry) {
                    // `*@example.org` is a legal address, but not what its writer means.
                    Ok(address) if address.addr_spec() == entry && !entry.contains('*') => {
                        senders.addresses.push(entry.to_owned());
                    }
                    _ => return Err(AllowedSendersError { value: shorten(entry) }),
                }
            }
        }
        Ok(senders)
    }
}
