//! `tidegate reconcile`: checks for each campaign that enqueued = sent + waiting + retrying +
//! deferred + dead + cancelled + excluded + unknown.
//!
//! The journals of `tidegate send` contain every enqueued mail. If deduplication is on, each mail's
//! mark shows its outcome; otherwise the ledger's counters are compared with those at the begin of
//! the run. Mails that are neither sent nor dead must be on the queues, whose depths SQS reports
//! only approximately. The report names the remaining difference and its possible causes.

mod command;
mod counts;
mod inputs;
mod marks;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead};
use std::time::Duration;

use tidegate_core::config::Campaign;
use tidegate_core::control::CANCELLED;
use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::deduplication::Deduplication;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{Clock, Ledger, Marks, PortError, QueueDepth, QueueUrl, Queues};

use crate::dead::{Letter, LetterSnapshot};
use crate::send::{JournalError, JournalHeader, JournalReader};
pub use command::ReconcileArgs;
pub(crate) use command::{journals_in, run};
use inputs::{CampaignFacts, CampaignRuns, JournalRun, MailCounts, QueueCounts};
pub use report::{AccountVerdict, CampaignAccount, Method, Reconciliation, SendRun, Tolerance};

/// The stack's settings that a reconciliation needs.
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

#[derive(Clone, Copy, Debug)]
pub struct ReconcilePorts<'a, Q, L, C> {
    pub queues: &'a Q,
    pub ledger: &'a L,
    pub clock: &'a C,
}

/// The mails on the dead-letter queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetters {
    pub mails: BTreeSet<Identity>,
    /// Letters that were not read: another reader had hidden them, or there were too many.
    pub unread: u64,
    pub interrupted: bool,
}

impl From<&LetterSnapshot> for DeadLetters {
    /// Cancelled mail is no dead mail: the ledger counts it, whether it is kept or not.
    fn from(reading: &LetterSnapshot) -> Self {
        let dead = reading.letters.iter().filter(|letter| letter.code() != Some(CANCELLED));
        Self {
            mails: dead.filter_map(Letter::identity).collect(),
            unread: reading.coverage.unread(),
            interrupted: reading.coverage.interrupted,
        }
    }
}

/// A journal that can be opened several times.
pub trait JournalSource {
    fn path(&self) -> String;

    fn open(&self) -> io::Result<impl BufRead>;

    /// When it was last written.
    fn modified_at(&self) -> io::Result<EpochMillis>;
}

#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Port(#[from] PortError),
    /// The reading of the dead-letter queue was interrupted.
    #[error("interrupted")]
    Interrupted,
    #[error(
        "{journal}: it is of campaign {campaign} on {queue}, which this stack does not have; it has: {has}"
    )]
    Stranger { journal: String, campaign: String, queue: String, has: String },
}

/// Accounts for every mail in `journals`. `deferred` yields the number of deferred mails by campaign,
/// `dead` the mails on the dead-letter queue; `checked` is called with the size of each batch of mails
/// that was looked up.
///
/// Queue depths are read first, then deferred mail, then dead letters, then marks or counters. This is
/// the direction in which mails move, so a mail that moves meanwhile is found at its old or its new
/// place, never nowhere. Only deferred mail moves back; while there is any, the tolerance covers it.
pub async fn reconcile<Q: Queues, L: Ledger + Marks, C: Clock, J: JournalSource>(
    ports: ReconcilePorts<'_, Q, L, C>,
    stack: &StackSettings,
    journals: &[J],
    deferred: impl Future<Output = Result<BTreeMap<String, u64>, PortError>>,
    dead: impl Future<Output = Result<DeadLetters, PortError>>,
    checked: impl Fn(u64),
) -> Result<Reconciliation, ReconcileError> {
    let runs = runs(stack, journals)?;
    let mut queued = BTreeMap::new();
    for (campaign, runs) in &runs {
        queued.insert(campaign.clone(), queued_of(ports.queues, stack, &runs.queues).await?);
    }
    for (campaign, mails) in deferred.await? {
        if let Some(queued) = queued.get_mut(&campaign) {
            queued.deferred = mails;
        }
    }
    let counters = ports.ledger.read().await?.counters;
    let dead = dead.await?;
    if dead.interrupted {
        return Err(ReconcileError::Interrupted);
    }
    let now = EpochMillis::from(ports.clock.wall());
    let mut shared = queued.values().map(|queued| queued.shared).max().unwrap_or(0);
    let mut accounts = Vec::new();
    for (campaign, runs) in runs {
        let queued = queued.get(&campaign).copied().unwrap_or_default();
        let by_marks =
            stack.deduplication != Deduplication::Off && runs.are_marked(now, stack.mark_retention);
        let cancelled = Counter::Cancelled.sum_of(&campaign, &counters);
        let cancelled = at_least_0(cancelled.saturating_sub(runs.before().cancelled));
        let excluded = Counter::Excluded.sum_of(&campaign, &counters);
        let excluded = at_least_0(excluded.saturating_sub(runs.before().excluded));
        let mut found = MailCounts { cancelled, excluded, ..MailCounts::default() };
        for journal in &runs.journals {
            let records = open(&journals[journal.position])?;
            let found = &mut found;
            if by_marks {
                let times = journal.began..now;
                marks::tally(
                    ports.ledger,
                    &times,
                    &campaign,
                    &dead.mails,
                    records,
                    found,
                    &checked,
                )
                .await?;
            } else {
                counts::tally(&campaign, &dead.mails, records, found, &checked)?;
            }
        }
        let quota_per_second = stack.quota_per_second;
        let facts = CampaignFacts { campaign, runs, found, queued, shared, now, quota_per_second };
        let account =
            if by_marks { marks::account(facts) } else { counts::account(facts, &counters) };
        let account = account.allowing(
            dead.unread,
            "on the dead-letter queue were not read: another reader has them (try again later), or they are too many",
        );
        // What one campaign has on the shared queues is not another's.
        shared = shared.saturating_sub(account.on_shared);
        accounts.push(account.judged());
    }
    Ok(Reconciliation { at: now, accounts })
}

fn open<J: JournalSource>(journal: &J) -> Result<JournalReader<impl BufRead>, JournalError> {
    let input = journal.open().map_err(failed(journal, "opened"))?;
    JournalReader::new(&journal.path(), input)
}

fn failed<J: JournalSource>(journal: &J, what: &'static str) -> impl Fn(io::Error) -> JournalError {
    let path = journal.path();
    move |source| JournalError::Io { path: path.clone(), what, source }
}

/// Groups the journals by campaign. A journal without a header is empty and is left out.
fn runs<J: JournalSource>(
    stack: &StackSettings,
    journals: &[J],
) -> Result<BTreeMap<String, CampaignRuns>, ReconcileError> {
    let mut runs: BTreeMap<String, CampaignRuns> = BTreeMap::new();
    for (position, journal) in journals.iter().enumerate() {
        let mut records = open(journal)?;
        let Some(header) = records.contents().header.clone() else { continue };
        let known = |campaign: &&Campaign| {
            campaign.name == header.campaign
                && campaign.queues().any(|(_, url)| url == header.queue)
        };
        let Some(campaign) = stack.campaigns.iter().find(known) else {
            return Err(stranger(stack, journal.path(), &header));
        };
        while records.next_batch()?.is_some() {}
        let contents = records.contents();
        let run = SendRun {
            run: header.run.clone(),
            journal: journal.path(),
            rows: header.rows,
            enqueued: contents.acknowledged.count(),
            ended: contents.ended,
        };
        let queues = || campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect();
        let known = runs.entry(header.campaign.clone());
        let known = known.or_insert_with(|| CampaignRuns::new(queues()));
        let modified_at = journal.modified_at().map_err(failed(journal, "looked at"))?;
        known.add(JournalRun { position, run, began: header.at, modified_at }, &header);
    }
    Ok(runs)
}

fn stranger(stack: &StackSettings, journal: String, header: &JournalHeader) -> ReconcileError {
    let has: Vec<&str> = stack.campaigns.iter().map(|campaign| campaign.name.as_str()).collect();
    let (campaign, queue) = (header.campaign.clone(), header.queue.clone());
    ReconcileError::Stranger { journal, campaign, queue, has: has.join(", ") }
}

/// Depths of a campaign's queues and of the shared queues. The campaign's are read again after the
/// shared queues and the larger value counts, so that a mail that was put back in between is not
/// missed.
async fn queued_of(
    queues: &impl Queues,
    stack: &StackSettings,
    own: &[QueueUrl],
) -> Result<QueueCounts, PortError> {
    let first = depth_of(queues, own).await?;
    if stack.shared.is_empty() {
        return Ok(QueueCounts::of(first, 0));
    }
    let mut shared = 0;
    for queue in &stack.shared {
        shared += queues.depth(queue).await?.all();
    }
    let second = depth_of(queues, own).await?;
    let most = QueueDepth {
        visible: first.visible.max(second.visible),
        in_flight: first.in_flight.max(second.in_flight),
        delayed: first.delayed.max(second.delayed),
    };
    Ok(QueueCounts::of(most, shared))
}

async fn depth_of(queues: &impl Queues, all: &[QueueUrl]) -> Result<QueueDepth, PortError> {
    let mut sum = QueueDepth::default();
    for queue in all {
        let depth = queues.depth(queue).await?;
        sum.visible += depth.visible;
        sum.in_flight += depth.in_flight;
        sum.delayed += depth.delayed;
    }
    Ok(sum)
}
