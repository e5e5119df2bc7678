//! Reading what a run's rows are judged by.
//!
//! Queues are read before the store, this before dead letters, and these before marks and counters: in this direction
//! mail moves, so a mail that moves meanwhile is found at its old or its new place, never nowhere.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::Campaign;
use tidegate_core::control::Cancel;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::exclusions::ExclusionList;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{
    Ledger, PortError, QueueDepth, QueueUrl, Queues, SuppressedAddress,
};

use super::{ResultsError, RunJournal};
use crate::dead::{Letter, LetterSnapshot};
use crate::send::depth_of;

/// SQS's counts lag by up to a minute, and the pollers' reports by their window.
pub(super) const LAG: Duration = Duration::from_secs(65);

/// The growth of the ledger's counters since the run began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountsSince {
    /// The campaign's recipients that were sent to, whoever enqueued their mail.
    pub sent: u64,
    /// The campaign's cancelled mails.
    pub cancelled: u64,
    /// The campaign's mails to excluded recipients.
    pub excluded: u64,
    /// Mails without an answer of SES, of all campaigns.
    pub possibly_sent: u64,
}

/// Mails where the campaign's mail may wait; approximate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingMail {
    /// On the campaign's queues.
    pub own: u64,
    /// On the merge queue and the limit queues, of all campaigns; and in the store, of this one.
    pub elsewhere: u64,
}

impl WaitingMail {
    pub const fn all(self) -> u64 {
        self.own + self.elsewhere
    }
}

/// Everything by which the rows of a run are judged.
#[derive(Clone, Debug)]
pub struct RunFacts {
    pub now: EpochMillis,
    /// When the journal was last written.
    pub written_at: EpochMillis,
    /// Whether marks exist of all mails of the run: deduplication is on, and none has expired.
    pub has_marks: bool,
    /// How long marks are kept; `None` if deduplication is off.
    pub marks_kept: Option<Duration>,
    /// The last cancel of the campaign.
    pub cancel: Option<Cancel>,
    pub since: CountsSince,
    pub dead: BTreeMap<Identity, Letter>,
    /// Dead letters that were not read.
    pub unread: u64,
    pub waiting: WaitingMail,
    /// The quota in force, in recipients per second; `None` if it is unknown.
    pub quota_per_second: Option<f64>,
    /// The exclusion list.
    pub excluded: ExclusionList,
    /// SES's suppression list, by address in lower case; empty of a stack for texts.
    pub suppressed: BTreeMap<String, SuppressedAddress>,
}

/// The stack's settings by which a run is judged.
#[derive(Clone, Debug)]
pub struct StackSettings {
    pub campaigns: Vec<Campaign>,
    /// The queues on which mails of all campaigns wait: the merge queue and the limit queues.
    pub shared: Vec<QueueUrl>,
    /// How long marks are kept; `None` if deduplication is off.
    pub marks_kept: Option<Duration>,
    /// The quota in force in recipients per second; `None` if it is unknown.
    pub quota_per_second: Option<f64>,
}

impl StackSettings {
    /// The queues of the run's campaign.
    fn queues_of(&self, journal: &RunJournal) -> Result<Vec<QueueUrl>, ResultsError> {
        let header = &journal.header;
        let is_its = |campaign: &&Campaign| {
            campaign.name == header.campaign
                && campaign.queues().any(|(_, url)| url == header.queue)
        };
        if let Some(campaign) = self.campaigns.iter().find(is_its) {
            return Ok(campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect());
        }
        let has: Vec<&str> = self.campaigns.iter().map(|campaign| campaign.name.as_str()).collect();
        Err(ResultsError::Stranger {
            journal: journal.path.clone(),
            campaign: header.campaign.clone(),
            queue: header.queue.clone(),
            has: has.join(", "),
        })
    }
}

/// Counts the mail on the queues that the run's mail may be on.
///
/// The campaign's queues are read again after those that all campaigns share, and the larger value counts, so that a mail
/// that was put back in between is not missed.
///
/// # Errors
/// [`ResultsError`] where a queue does not answer, or the journal is of another stack.
pub async fn waiting(
    queues: &impl Queues,
    stack: &StackSettings,
    journal: &RunJournal,
) -> Result<WaitingMail, ResultsError> {
    let own = stack.queues_of(journal)?;
    let first = depth_of(queues, &own).await?;
    let elsewhere = depth_of(queues, &stack.shared).await?.all();
    let second = if stack.shared.is_empty() { first } else { depth_of(queues, &own).await? };
    let most = QueueDepth {
        visible: first.visible.max(second.visible),
        in_flight: first.in_flight.max(second.in_flight),
        delayed: first.delayed.max(second.delayed),
    };
    Ok(WaitingMail { own: most.all(), elsewhere })
}

/// Reads the ledger and puts together what is known of a run; exclusions and the suppression list are still empty.
/// `written_at` is when its journal was last written.
///
/// # Errors
/// [`PortError`] where the ledger does not answer.
pub async fn facts(
    ledger: &impl Ledger,
    stack: &StackSettings,
    journal: &RunJournal,
    waiting: WaitingMail,
    reading: &LetterSnapshot,
    written_at: EpochMillis,
    now: EpochMillis,
) -> Result<RunFacts, PortError> {
    let standing = ledger.read().await?;
    let (header, counters) = (&journal.header, &standing.counters);
    let before = &header.before;
    let since =
        |counter: Counter, before: i64| grown(counter.sum_of(&header.campaign, counters), before);
    let letter = |letter: &Letter| Some((letter.identity()?, letter.clone()));
    Ok(RunFacts {
        now,
        written_at,
        has_marks: stack.marks_kept.is_some_and(|kept| now.saturating_since(header.at) < kept),
        marks_kept: stack.marks_kept,
        cancel: standing.control.cancels.get(&header.campaign).copied(),
        since: CountsSince {
            sent: since(Counter::Sent, before.sent),
            cancelled: since(Counter::Cancelled, before.cancelled),
            excluded: since(Counter::Excluded, before.excluded),
            possibly_sent: grown(Counter::PossiblySent.sum(counters), before.possibly_sent),
        },
        dead: reading.letters.iter().filter_map(letter).collect(),
        unread: reading.coverage.unread(),
        waiting,
        quota_per_second: stack.quota_per_second,
        excluded: ExclusionList::default(),
        suppressed: BTreeMap::new(),
    })
}

/// The growth of a counter.
fn grown(now: i64, before: i64) -> u64 {
    at_least_0(now.saturating_sub(before))
}
