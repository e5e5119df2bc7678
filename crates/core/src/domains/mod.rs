//! Limits by recipient domain: how many recipients a second one mailbox provider is sent.
//!
//! A limit is of a *group*, the domains of one provider together, or of every other domain by itself
//! (`*`). Each has a slot grid of its own beside the account's: see [`DomainSlots`] for what follows.

mod limits;
mod slots;

pub use limits::{DomainGroup, DomainLimits, DomainLimitsError, Limit, MAX_GROUPS, OTHERS};
pub use slots::DomainSlots;

use crate::email::Email;

/// Which limit a recipient falls under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DomainKey {
    /// A listed group, by its place in the list.
    Group(usize),
    /// A domain that is not listed, in lower case, where `*` is limited.
    Other(String),
}

/// The recipients of one mail that fall under limits, by limit; empty for most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demands(Vec<(DomainKey, u32)>);

impl Demands {
    /// What `email` asks of the groups of `limits`.
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

    /// Whether no limit is touched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Limits, and recipients under each.
    pub fn iter(&self) -> impl Iterator<Item = (&DomainKey, u32)> {
        self.0.iter().map(|(key, recipients)| (key, *recipients))
    }
}
