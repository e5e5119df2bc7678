//! The record of one change that an operator made.

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;

/// A change that an operator made. The ledger keeps these beside the control record.
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
    /// Time of the change by the operator's clock.
    pub at: EpochMillis,
    /// Name of the operator, from the environment of the command or from its argument.
    pub by: String,
    /// The action: `pause`, `resume`, `cancel`, `lift`, `weights`, `rate`, `exclude`, `include`, `replay` or `discard`.
    pub action: String,
    /// The campaign that was changed; none if the change concerns all sending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The change in words, with the values before and after it.
    pub detail: String,
    /// The operator's reason; may be empty.
    #[serde(default)]
    pub reason: String,
}
