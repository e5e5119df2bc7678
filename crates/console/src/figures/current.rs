use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_operate::status::{StackFacts, Status};
use tidegate_operate::top::Dashboard;

/// What "now" means of slots, as of every other rate.
const NOW: Duration = Duration::from_secs(10);

/// A campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignFigures {
    /// Its name.
    pub name: String,
    /// Recipients a second, over the last ten seconds; none until two looks were taken.
    pub rate: Option<f64>,
    /// Its part of what campaigns were sent in the last ten seconds, 0 to 1.
    pub share: Option<f64>,
    /// How long what was sent in the last ten seconds had waited, on average, seconds.
    pub age_s: Option<u64>,
    /// When its backlog is gone at this rate, seconds from now.
    pub eta_s: Option<u64>,
    /// Recipients sent to since the ledger began.
    pub sent: u64,
    /// Messages on its queue.
    pub waiting: u64,
    /// The part of both that is sent, 0 to 1; none where there is neither.
    pub progress: Option<f64>,
}

/// Express mail of the last ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpressFigures {
    /// Recipients a second.
    pub per_second: f64,
    /// How long it had waited, on average, seconds.
    pub waited_s: f64,
}

/// Slots that brought nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SlotFigures {
    /// Passed although mail was there, since the ledger began.
    pub skipped: u64,
    /// Found no mail, since the ledger began.
    pub unused: u64,
    /// Skipped a second, over the last ten seconds.
    pub skipped_now: f64,
    /// Unused a second, over the last ten seconds.
    pub unused_now: f64,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackFigures {
    /// When the stack was looked at.
    pub at: EpochMillis,
    /// Why the newest look failed; then all else is of the one before.
    pub failed: Option<String>,
    /// Recipients a second, over the last ten seconds.
    pub rate: Option<f64>,
    /// The campaigns, in their order.
    pub rows: Vec<CampaignFigures>,
    /// Express mail; none where none was sent.
    pub express: Option<ExpressFigures>,
    /// Mails that SES refused for the rate since the console began to look.
    pub refused: u64,
    /// Slots that brought nothing.
    pub slots: SlotFigures,
    /// What stands, as `tidegate status` tells it.
    pub status: Status,
}

/// What figures of the last seconds are made of, beside the board's.
#[derive(Clone, Debug, Default)]
pub struct RecentSlots(VecDeque<(Timestamp, u64, u64)>);

impl RecentSlots {
    /// Takes a look.
    pub fn see(&mut self, facts: &StackFacts) {
        let sum = |name: &str| facts.standing.counters.get(name).copied().unwrap_or(0);
        let sum = |name: &str| u64::try_from(sum(name)).unwrap_or(0);
        self.0.push_back((facts.at, sum("skipped"), sum("unused")));
        // One that is older stays: the span is ten seconds at least.
        while self.0.get(1).is_some_and(|(at, ..)| *at + NOW <= facts.at) {
            self.0.pop_front();
        }
    }

    fn slots(&self) -> SlotFigures {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
            return SlotFigures::default();
        };
        let seconds = last.0.saturating_since(first.0).as_secs_f64();
        let each = |from: u64, to: u64| {
            if seconds > 0.0 { precise(to.saturating_sub(from)) / seconds } else { 0.0 }
        };
        SlotFigures {
            skipped: last.1,
            unused: last.2,
            skipped_now: each(first.1, last.1),
            unused_now: each(first.2, last.2),
        }
    }
}

impl StackFigures {
    /// What `board` shows.
    pub fn of(board: &Dashboard, recently: &RecentSlots) -> Self {
        let status = board.status().clone();
        let row = |row: tidegate_operate::top::CampaignRow| {
            let (sent, waiting) = (row.status.sent, row.status.backlog.all());
            let all = sent + waiting;
            CampaignFigures {
                name: row.status.name,
                rate: row.rate,
                share: row.share,
                age_s: row.age.map(|age| age.as_secs()),
                eta_s: row.eta.map(|eta| eta.as_secs()),
                sent,
                waiting,
                progress: (all > 0).then(|| precise(sent) / precise(all)),
            }
        };
        let express = board.express().map(|(per_second, waited)| ExpressFigures {
            per_second,
            waited_s: waited.as_secs_f64(),
        });
        Self {
            at: status.at,
            failed: board.error().map(str::to_owned),
            rate: board.rate(),
            rows: board.rows().into_iter().map(row).collect(),
            express,
            refused: board.refused(),
            slots: recently.slots(),
            status,
        }
    }
}

/// A small number of things, as a number that is divided by.
pub(crate) fn size(count: usize) -> f64 {
    precise(count as u64)
}

/// Seconds since 1970, to a tenth: what a chart has on its axis.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    precise(EpochMillis::from(at).as_millis() / 100) / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "counts of mails, far below 2^52")]
pub(crate) fn precise(count: u64) -> f64 {
    count as f64
}
