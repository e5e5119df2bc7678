//! What an operator changed, and why.

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;

/// A change that an operator made, as it is kept beside the control record.
///
/// ```
/// use tidegate_core::control::ChangeRecord;
/// use tidegate_core::identity::EpochMillis;
/// let record = ChangeRecord {
///     at: EpochMillis::new(1_795_206_967_042),
///     by: "ada".into(),
///     action: "pause".into(),
///     campaign: Some("big".into()),
///     detail: "until resumed".into(),
///     reason: "typo in the subject".into(),
/// };
/// let text = serde_json::to_string(&record)?;
/// assert_eq!(serde_json::from_str::<ChangeRecord>(&text)?, record);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// When.
    pub at: EpochMillis,
    /// Who, as the command found it or was told.
    pub by: String,
    /// What was done: `pause`, `resume`, `lift`, `weights`, `rate`, `replay`.
    pub action: String,
    /// The campaign it was done to; none where it concerns all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// What exactly, in words: what stood before and what stands now.
    pub detail: String,
    /// Why, in the operator's words; may be empty.
    #[serde(default)]
    pub reason: String,
}
