//! Limits by recipient domain: how many recipients per second may be sent to one mailbox provider.
//!
//! A limit applies to a *group*, the domains of one provider together, or (`*`) to each other domain
//! separately. Each limit has its own slot grid beside the account's; [`DomainSlots`] explains the
//! rules.

mod limits;
mod slots;

pub use limits::{DomainGroup, DomainLimits, DomainLimitsError, Limit, MAX_GROUPS, OTHERS};
pub use slots::{DomainSlots, is_alone};

use crate::email::Email;

/// The limit that a recipient's domain falls under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainKey {
    /// A listed group, by its index in [`DomainLimits::groups`].
    Group(usize),
    /// A domain that no group lists, in lower case; only if `*` is limited.
    Other(String),
}

/// The recipients of one mail that fall under limits, counted by limit; empty for most mails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands(Vec<(DomainKey, u32)>);

impl Demands {
    /// The recipients of `email` (to, cc and bcc) under each limit of `limits`.
    pub fn of(email: &Email, limits: &DomainLimits) -> Self {
        if limits.is_empty() {
            return Self::default();
        }
        let mut demands = Self::default();
        for address in email.to().iter().chain(email.cc()).chain(email.bcc()) {
            let Some(key) = limits.key_of(address.domain()) else { continue };
            match demands.0.iter_mut().find(|(known, _)| *known == key) {
                Some((_, recipients)) => *recipients += 1,
                None => demands.0.push((key, 1)),
            }
        }
        demands
    }

    /// Whether no recipient of the mail falls under a limit.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each limit that the mail touches, with the number of its recipients under it.
    pub fn iter(&self) -> impl Iterator<Item = (&DomainKey, u32)> {
        self.0.iter().map(|(key, recipients)| (key, *recipients))
    }
}
