//! How urgent a mail is within its campaign.

use std::fmt;

use super::error::EmailError;

/// Orders the mails of one campaign that a poller has received for its window; the greater one is sent
/// first. It does not search a queue: a critical mail behind a backlog waits until it is received.
///
/// ```
/// use tidegate_core::email::Priority;
/// assert!(Priority::Critical > Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// After all others.
    Low,
    /// What a mail has that names none.
    #[default]
    Normal,
    /// Before normal ones.
    High,
    /// Before all others.
    Critical,
}

impl Priority {
    /// All, the most urgent first.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The name as it stands in a message.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }

    pub(super) fn read(name: &str) -> Result<Self, EmailError> {
        Self::ALL.into_iter().find(|p| p.as_str() == name).ok_or_else(|| {
            EmailError::invalid("priority", "must be one of critical, high, normal, low")
                .with_value(name)
        })
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
