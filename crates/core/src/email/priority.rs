//! The priority of a mail within its campaign.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::error::EmailError;

/// Orders the mails of one campaign that a poller has received for its window: the mail with the
/// greater priority is sent first. Mail in the queue is not reordered: a critical mail behind a backlog
/// waits until it is received, unless it is in a priority queue.
///
/// ```
/// use tidegate_core::email::Priority;
/// assert!(Priority::Critical > Priority::High);
/// assert_eq!(Priority::default(), Priority::Normal);
/// ```
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Sent after all mail of other priorities.
    Low,
    /// The priority of a mail that names none.
    #[default]
    Normal,
    /// Sent before normal and low mail.
    High,
    /// Sent before all mail of other priorities.
    Critical,
}

impl Priority {
    /// All priorities in descending order, from critical to low.
    pub const ALL: [Self; 4] = [Self::Critical, Self::High, Self::Normal, Self::Low];

    /// The priority's name in a message.
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
