//! The state of a run at one moment.

use std::time::Duration;

use crate::tracker::RunProgress;

/// Number of messages on each queue, as SQS counts them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueDepths {
    /// In each campaign's queue, in the order of the campaigns; in flight and delayed ones too.
    pub campaigns: Vec<u64>,
    /// In the merge queue; none in direct mode.
    pub merge: Option<u64>,
    pub dead_letter: u64,
}

impl QueueDepths {
    /// Messages that are not sent yet: on the campaign queues and the merge queue.
    pub fn waiting(&self) -> u64 {
        self.campaigns.iter().sum::<u64>() + self.merge.unwrap_or_default()
    }
}

/// The state of a run at one moment, as it is displayed once a second.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressSnapshot {
    pub(crate) headline: String,
    pub(crate) progress: RunProgress,
    pub(crate) backlog: QueueDepths,
    pub(crate) refused: u64,
    pub(crate) elapsed: Duration,
}

/// Formats a time as minutes and seconds, such as `1:15`.
pub(super) fn clock(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
    let seconds = seconds.max(0.0).round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.1} %", share * 100.0))
}
