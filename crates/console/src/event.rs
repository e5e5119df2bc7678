//! What goes over a stream: changes of state, which are never silently lost, and telemetry, of which
//! only the newest counts.

use serde::{Deserialize, Serialize};
use tidegate_core::identity::EpochMillis;

/// What a change is about, in the order of its weight: where events must wait, the first of these goes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A hold was set, changed or lifted.
    Hold,
    /// A pause began, changed or ended.
    Pause,
    /// The circuit breaker's state.
    Breaker,
    /// Whether anybody serves.
    Serving,
    /// The quota, or what lowers it.
    Quota,
    /// The level of back-pressure.
    Level,
    /// There are more dead letters.
    DeadLetter,
    /// An operator changed something: the audit.
    Change,
    /// A campaign came so far.
    Progress,
}

impl ChangeKind {
    /// Every kind, the weightiest first.
    pub const ALL: [Self; 9] = [
        Self::Hold,
        Self::Pause,
        Self::Breaker,
        Self::Serving,
        Self::Quota,
        Self::Level,
        Self::DeadLetter,
        Self::Change,
        Self::Progress,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Pause => "pause",
            Self::Breaker => "breaker",
            Self::Serving => "serving",
            Self::Quota => "quota",
            Self::Level => "level",
            Self::DeadLetter => "dead_letter",
            Self::Change => "change",
            Self::Progress => "progress",
        }
    }
}

/// How a change is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeTone {
    /// Mail does not go out as it should.
    Bad,
    /// Someone should look.
    Warn,
    /// It is as it should be again.
    Good,
    /// For whoever wants to know.
    Info,
}

/// A change of state that was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateChange {
    /// Its place among all.
    pub seq: u64,
    /// When it was seen; of an operator's change, when it was made.
    pub at: EpochMillis,
    /// What it is about.
    pub kind: ChangeKind,
    /// Of which campaign; none where it concerns all.
    pub campaign: Option<String>,
    /// In a sentence.
    pub title: String,
    /// What else is known; may be empty.
    pub detail: String,
    /// How it is to be taken.
    pub tone: ChangeTone,
}

/// What is replaced by its newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Telemetry {
    /// What stands, and how fast it goes.
    Figures,
    /// How far a replay of dead letters is.
    Replay,
    /// The dead letters.
    Dead,
    /// The forecast.
    Forecast,
}

impl Telemetry {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Figures, Self::Replay, Self::Dead, Self::Forecast];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Figures => "figures",
            Self::Replay => "replay",
            Self::Dead => "dead",
            Self::Forecast => "forecast",
        }
    }

    /// Its place in [`Telemetry::ALL`].
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_on_the_wire_is_what_is_kept_and_every_kind_is_listed() {
        for kind in ChangeKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert!(ChangeKind::ALL.is_sorted());
        for (index, telemetry) in Telemetry::ALL.into_iter().enumerate() {
            assert_eq!(telemetry.index(), index);
        }
    }
}
