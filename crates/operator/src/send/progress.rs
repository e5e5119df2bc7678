//! How far a run has come, and how it ends.

use std::error::Error as StdError;

use serde::Serialize;
use tidegate_core::back_pressure::BackPressureLevel;

/// How a run ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnd {
    /// Every row has been enqueued.
    #[default]
    Done,
    /// It was interrupted; the same command continues it.
    Interrupted,
    /// It gave up for this reason; the same command continues it.
    GaveUp(String),
    /// The campaign was cancelled meanwhile.
    Cancelled,
}

/// Callbacks for the progress of a run; by default they do nothing.
pub trait SendProgress {
    /// SQS has acknowledged this many more rows.
    fn acknowledged(&self, _rows: u64) {}

    /// The run waits, because the queue has `depth` messages and at most `most` are allowed.
    fn waiting(&self, _depth: u64, _most: u64) {}

    /// The run waits, because the back-pressure level defers its mail.
    fn held_back(&self, _level: BackPressureLevel) {}

    /// The run waits, because its campaign or all sending is paused; `detail` says by whom and why.
    fn paused(&self, _detail: &str) {}

    /// A call failed and will be retried.
    fn retrying(&self, _error: &(dyn StdError + 'static)) {}
}

impl SendProgress for () {}
