//! Reading what a run's rows are judged by.
//!
//! Queues are read before deferred mail, this before dead letters, and these before marks and counters: in this direction
//! mail moves, so a mail that moves meanwhile is found at its old or its new place, never nowhere.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::config::Campaign;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::Deduplication;
use tidegate_core::exclusions::ExclusionList;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Ledger, PortError, QueueDepth, QueueUrl, Queues};

use super::account::{CountsSince, WaitingMail, age, grown};
use super::{ResultsError, RunFacts, RunJournal};
use crate::dead::{Letter, LetterSnapshot};

/// The stack's settings by which a run is judged.
#[derive(Clone, Debug)]
pub struct StackSettings {
    pub campaigns: Vec<Campaign>,
    /// The queues on which mails of all campaigns wait: the merge queue and the limit queues.
    pub shared: Vec<QueueUrl>,
    pub deduplication: Deduplication,
    /// How long a mark is kept.
    pub mark_retention: Duration,
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
    let first = depth(queues, &own).await?;
    let elsewhere = depth(queues, &stack.shared).await?.all();
    let second = if stack.shared.is_empty() { first } else { depth(queues, &own).await? };
    let most = QueueDepth {
        visible: first.visible.max(second.visible),
        in_flight: first.in_flight.max(second.in_flight),
        delayed: first.delayed.max(second.delayed),
    };
    Ok(WaitingMail { own: most.all(), elsewhere })
}

async fn depth(queues: &impl Queues, all: &[QueueUrl]) -> Result<QueueDepth, PortError> {
    let mut sum = QueueDepth::default();
    for queue in all {
        let depth = queues.depth(queue).await?;
        sum.visible += depth.visible;
        sum.in_flight += depth.in_flight;
        sum.delayed += depth.delayed;
    }
    Ok(sum)
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
    let since = |counter: Counter, before: i64| grown(counter.sum_of(&header.campaign, counters), before);
    let letter = |letter: &Letter| Some((letter.identity()?, letter.clone()));
    let marks_kept = (stack.deduplication != Deduplication::Off).then_some(stack.mark_retention);
    Ok(RunFacts {
        now,
        written_at,
        has_marks: marks_kept.is_some_and(|kept| age(header.at, now) < kept),
        marks_kept,
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
