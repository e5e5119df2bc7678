//! Events on a stream. A change of state is delivered or reported as missing; of telemetry only the
//! newest value is delivered.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};
use tidegate_core::identity::EpochMillis;

/// Kinds of changes, in order of importance: when events have to wait, the first kind in this list
/// goes first. A kind as text is the name of the SSE event and of the metric's label.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum ChangeKind {
    /// A hold was set, changed or lifted.
    Hold,
    /// A pause began, changed or ended.
    Pause,
    /// The breaker changed its state.
    Breaker,
    /// Pollers began to serve windows, or stopped.
    Serving,
    /// The quota, or what lowers it.
    Quota,
    /// The back-pressure level changed.
    Level,
    /// Mail was dead-lettered.
    DeadLetter,
    /// An operator changed something: the audit.
    Change,
    /// A campaign sent another tenth of its queue, or all.
    Progress,
}

/// Severity of a change, which the page shows as a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeTone {
    /// Mail does not go out as it should.
    Bad,
    /// An operator should look at it.
    Warn,
    /// It is as it should be again.
    Good,
    /// For information; nothing is wrong.
    Info,
}

/// A change of state that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateChange {
    /// Sequence number in the change log, from 1.
    pub seq: u64,
    /// The time at which it was seen; for an operator's change, the time at which it was made.
    pub at: EpochMillis,
    pub kind: ChangeKind,
    /// The campaign that it concerns; none if it concerns all sending.
    pub campaign: Option<String>,
    /// One sentence for people.
    pub title: String,
    /// Further facts in words; may be empty.
    pub detail: String,
    pub tone: ChangeTone,
}

/// Kinds of telemetry, in the order in which they are sent, with names as [`ChangeKind`] has them. A newer value
/// replaces one that has not been sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Telemetry {
    /// State and rates of the stack.
    Figures,
    /// Progress of a replay.
    Replay,
    /// Dead letters by reason, and the newest ones.
    Dead,
    /// Forecast end of each campaign.
    Forecast,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_wire_is_what_is_kept_and_every_kind_is_listed() {
        for kind in ChangeKind::VARIANTS.iter().copied() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.into_str());
        }
        assert!(ChangeKind::VARIANTS.is_sorted() && Telemetry::VARIANTS.is_sorted());
        let names: Vec<&str> = Telemetry::VARIANTS.iter().map(Telemetry::into_str).collect();
        assert_eq!(names, ["figures", "replay", "dead", "forecast"]);
    }
}
