use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;

/// Time for which a cancel is kept. A queue keeps mail for 14 days at most; deferred mail may come back later.
const KEPT: Duration = Duration::from_hours(60 * 24);

/// An operator's decision to take back the mail of a campaign: mail that was enqueued at `at` or before is not
/// sent.
///
/// ```
/// use tidegate_core::control::Cancel;
/// use tidegate_core::identity::EpochMillis;
/// let cancel = Cancel { at: EpochMillis::new(7_000), keep: false };
/// assert!(cancel.concerns(EpochMillis::new(7_000)));
/// assert!(!cancel.concerns(EpochMillis::new(7_001)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// Time of the cancel.
    pub at: EpochMillis,
    /// Whether cancelled mail goes to the dead-letter queue, with the code [`CANCELLED`]; else it is deleted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep: bool,
}

/// The dead letters' code of cancelled mail.
pub const CANCELLED: &str = "Cancelled";

impl Cancel {
    /// Whether mail that came to its campaign's queue at `enqueued_at` is cancelled.
    pub fn concerns(&self, enqueued_at: EpochMillis) -> bool {
        enqueued_at <= self.at
    }

    /// Whether it has been kept for 60 days at `now`.
    pub(super) fn is_over(&self, now: EpochMillis) -> bool {
        let age = now.as_millis().saturating_sub(self.at.as_millis());
        Duration::from_millis(age) > KEPT
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}
