//! The ledger, which all pollers share, with all that is kept in it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryFutureExt as _;
use serde::{Deserialize, Serialize};
use tidegate_core::control::{ChangeRecord, Control};
use tidegate_core::deduplication::{Acceptance, Mark};
use tidegate_core::exclusions::AddressKey;
use tidegate_core::factor::RateFactor;
use tidegate_core::grid::SlotGrid;
use tidegate_core::identity::Identity;
use tidegate_core::idle::QueueChecks;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::parts::{Upkeep, campaign_of, part_of};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::runs::Run;
use tidegate_core::{Timestamp, Window};

use super::PortError;

/// A poller's request to serve a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The window to claim, one second since the epoch.
    pub window: Window,
    /// The quota at which the poller would serve it, in recipients per second, before the rate factor.
    pub quota: Rate,
    /// The configured rate margin.
    pub rate_margin: RateMargin,
    /// The digest of the initial limits (`InitialLimits::digest`); 0 if there are none.
    pub limits: u64,
    /// A random text of this claim alone. If the condition fails and the ledger shows this token, an earlier
    /// attempt of this same claim was written.
    pub token: String,
}

/// The result of a claim: the window is claimed, or was taken before.
#[expect(clippy::large_enum_variant, reason = "one a window, read where it is made")]
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The poller owns the window; holds the rest of the ledger's state.
    Claimed(Standing),
    /// This window or a newer one was claimed before.
    Taken {
        /// The window of the newest claim.
        newest: Window,
        /// Whether this window belongs to a mail that needs more slots than a window has: the newest claim
        /// opened before it and was advanced over it.
        owed: bool,
    },
}

/// The claim before the current one. The poller compares its rate and limits with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousClaim {
    /// The window of that claim; the last one if it was advanced.
    pub window: Window,
    /// The quota of that claim, in recipients per second.
    pub quota: Rate,
    /// The rate margin that was configured then.
    pub rate_margin: RateMargin,
    /// The digest of the initial limits that applied to that claim; 0 if there were none.
    pub limits: u64,
    /// The digest of the control record's limits when that claim was made (`Control::limits_digest`); 0 if there
    /// were none.
    pub changed_limits: u64,
    /// The rate factor with which that window was served.
    pub factor: RateFactor,
}

impl PreviousClaim {
    /// The rate margin with which that window was served.
    pub fn margin_in_force(&self) -> RateMargin {
        self.factor.margin(self.rate_margin, self.window)
    }

    /// The slots of that window, at the quota under the operator's cap, times the rate factor.
    pub fn grid(&self) -> SlotGrid {
        SlotGrid::new(self.factor.of(self.quota), self.margin_in_force())
    }
}

/// The state of the ledger apart from the claim itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The claim before this one, or in [`Ledger::read`] the newest claim; `None` if no window was ever
    /// claimed.
    pub previous: Option<PreviousClaim>,
    /// The rate factor in force, at most 1.
    pub factor: RateFactor,
    /// The control record: holds, weights, breaker, limits.
    pub control: Control,
    /// The number of writes of the control record; 0 before the first.
    pub control_version: u64,
    /// The sums of all reports, by counter name.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty, by campaign name; the merge queue as [`MERGE_QUEUE`].
    pub idle: BTreeMap<String, Idle>,
    /// The newest window in which mail was found, and the newest in which every queue was empty.
    pub looks: QueueChecks,
    /// The number of parts that hold the sums per campaign; 0 before the first report.
    pub parts: u32,
    /// Campaigns that have left the list, and the window in which this was noted.
    pub left: BTreeMap<String, Window>,
    /// The slots and mails that the window of the newest report left; `None` before the first.
    pub window_left: Option<WindowLeft>,
}

/// The merge queue's name among the empty queues. It cannot collide, because no campaign's name contains a
/// dot.
pub const MERGE_QUEUE: &str = ".merge";

/// The state of a queue that was found empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The first window in which the queue is asked again.
    pub until: Window,
    /// The windows left out this time; doubles with each empty answer, such as 1, 2, 4.
    pub pause: u64,
}

/// A poller's report, added to the ledger at the end of its window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerReport {
    /// The window that the reporting poller served.
    pub window: Window,
    /// Amounts to add to the sums. Counter names match `[A-Za-z0-9_.:-]`, with at most 128 characters.
    pub counters: BTreeMap<String, i64>,
    /// New states of queues by name: found empty, or (`None`) no longer empty. Other queues keep theirs.
    pub idle: BTreeMap<String, Option<Idle>>,
    /// The newest window with mail and the newest without; a `None` inside leaves the stored value.
    pub looks: QueueChecks,
    /// Changes to what is kept of campaigns that were removed or added.
    pub upkeep: Upkeep,
    /// The slots and mails that the window left, in place of what the report before says; `None` leaves that.
    pub window_left: Option<WindowLeft>,
}

/// The number of ledger calls that failed after all retries. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct LedgerFailures(Arc<AtomicU64>);

impl LedgerFailures {
    /// The call's answer; an error is counted once, however many requests the call took.
    pub fn counted<T>(
        &self,
        call: impl Future<Output = Result<T, PortError>>,
    ) -> impl Future<Output = Result<T, PortError>> {
        Box::pin(call).inspect_err(|_| _ = self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// The number of failures since the last call of this function.
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// The ledger: the state that pollers share.
pub trait Ledger {
    /// Opens up to `connections` connections without sending a request, if the ledger is reached over a
    /// network. Errors are not returned; the first call that needs a connection reports them.
    fn warm(&self, connections: usize) -> impl Future<Output = ()> {
        let _ = connections;
        std::future::ready(())
    }

    /// The count of its failed calls; a ledger in memory has none.
    fn failures(&self) -> LedgerFailures {
        LedgerFailures::default()
    }

    /// Claims a window by one conditional write. The write succeeds only if the window is newer than the
    /// newest claimed one, or is that one with the same token.
    ///
    /// # Errors
    /// [`PortError`] within 300 ms if the ledger does not answer; then nothing may be sent.
    fn claim(&self, request: &ClaimRequest) -> impl Future<Output = Result<Claim, PortError>>;

    /// Extends the claim made with `token` up to window `through`; false if it is no longer the newest
    /// claim. The windows between then belong to a mail with more recipients than a window has slots.
    ///
    /// # Errors
    /// [`PortError`] within 300 ms if the ledger does not answer.
    fn advance(
        &self,
        token: &str,
        through: Window,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Reads the ledger's state without a claim.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn read(&self) -> impl Future<Output = Result<Standing, PortError>>;

    /// Adds a report to the sums.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; a part of the report may have been added.
    fn report(&self, report: &LedgerReport) -> impl Future<Output = Result<(), PortError>>;

    /// Replaces the rate factor `from` by `to`; false if the stored factor is not `from`.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn set_factor(
        &self,
        from: RateFactor,
        to: RateFactor,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Replaces the control record of version `version` (0: none yet) by `control`; false if another version
    /// is stored.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; the record may have been replaced all the same.
    fn set_control(
        &self,
        version: u64,
        control: &Control,
    ) -> impl Future<Output = Result<bool, PortError>>;
}

/// The content of one part of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Sums by counter name. Part 0 also holds the totals.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty, by name.
    pub idle: BTreeMap<String, Idle>,
    /// Campaigns that have left the list, and the window in which this was noted.
    pub left: BTreeMap<String, Window>,
}

/// The changes that one report makes to one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartChange {
    /// Amounts to add to the sums, by counter name.
    pub counters: BTreeMap<String, i64>,
    /// New states of queues: found empty, or (`None`) no longer empty.
    pub idle: BTreeMap<String, Option<Idle>>,
    /// Campaigns that have left the list, with the report's window; `None` for those that are back or past.
    pub left: BTreeMap<String, Option<Window>>,
    /// Campaigns of which all data is deleted.
    pub past: Vec<String>,
}

impl LedgerReport {
    /// Splits the report by part. A campaign's data belongs to the part given by a hash of its name; totals,
    /// and queues that belong to no campaign, belong to part 0. Counters of 0 are left out.
    ///
    /// Parts double in number as campaigns are added, so data of a past campaign may be in parts that
    /// applied earlier. It is deleted from all of them: with 8 parts and hash 13 these are 13 mod 8 = 5, 13
    /// mod 4 = 1 and 13 mod 2 = 1, and part 0.
    pub fn by_part(&self) -> BTreeMap<u32, PartChange> {
        let Upkeep { parts, left, back, past } = &self.upkeep;
        let place = |campaign: &str| part_of(campaign, *parts);
        let mut changes = BTreeMap::<u32, PartChange>::new();
        for (counter, added) in self.counters.iter().filter(|(_, added)| **added != 0) {
            let part = changes.entry(campaign_of(counter).map_or(0, place)).or_default();
            part.counters.insert(counter.clone(), *added);
        }
        for (queue, idle) in &self.idle {
            let part = if queue.starts_with('.') { 0 } else { place(queue) };
            changes.entry(part).or_default().idle.insert(queue.clone(), *idle);
        }
        let left = left.iter().map(|name| (name, Some(self.window)));
        let back = back.iter().chain(past).map(|name| (name, None));
        for (name, at) in left.chain(back) {
            changes.entry(place(name)).or_default().left.insert(name.clone(), at);
        }
        for name in past {
            // The campaign was in another part while there were fewer.
            let places = (0..=parts.max(&1).ilog2()).map(|fewer| part_of(name, parts >> fewer));
            for part in places.collect::<BTreeSet<u32>>() {
                changes.entry(part).or_default().past.push(name.clone());
            }
        }
        changes
    }
}

impl Standing {
    /// Adds the content of `parts` to the standing; `count` is the number of parts that applies now.
    /// Counters are summed over all parts.
    pub fn with_parts(mut self, parts: BTreeMap<u32, Part>, count: u32) -> Self {
        self.parts = parts.keys().next_back().map_or(0, |last| last + 1);
        for (place, part) in parts {
            for (counter, sum) in part.counters {
                let total = self.counters.entry(counter).or_default();
                *total = total.saturating_add(sum);
            }
            // Empty queues and campaigns that left count only in their present part: older parts may hold
            // outdated ones.
            let here = |name: &str| name.starts_with('.') || part_of(name, count) == place;
            self.idle.extend(part.idle.into_iter().filter(|(queue, _)| here(queue)));
            self.left.extend(part.left.into_iter().filter(|(name, _)| here(name)));
        }
        self
    }
}

/// A poller's request to mark a mail before it sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkRequest {
    /// The identity of the mail; the mark's key is derived from it.
    pub identity: Identity,
    /// A random text of this mark alone. If the condition fails and the ledger shows this token, an earlier
    /// attempt of this same request was written.
    pub token: String,
    /// The pass of the message that is about to be sent.
    pub pass: u32,
    /// The wall clock's time. The mark's age counts from here; a mark that has expired by now is ignored.
    pub now: Timestamp,
    /// The time until the mark expires.
    pub kept: Duration,
    /// The token of an older mark that this one may replace.
    pub replaces: Option<String>,
}

/// The result of a [`MarkRequest`]: marked, or found marked before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkResult {
    /// This request has marked the mail *sending*.
    Ours,
    /// Another mark exists; the mail must not simply be sent.
    Found(Mark),
}

/// Marks in the ledger: deduplication's, at most one per mail, and those of SES's notices that were counted.
pub trait Marks {
    /// Marks a mail *sending* by one conditional write. It succeeds if no mark exists, or the existing one
    /// has expired or is the one to replace.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; then the mail must not be sent.
    fn mark(&self, request: &MarkRequest) -> impl Future<Output = Result<MarkResult, PortError>>;

    /// Marks a mail *sent*, regardless of which poller had marked it. False if no mark exists.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn set_sent(
        &self,
        identity: &Identity,
        accepted: &Acceptance,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Marks a mail *parked*: it goes to the dead-letter queue with this pass, and it is unknown whether it
    /// was sent. False if the mark does not have this token.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Deletes the *sending* mark with this token, because the mail was not sent. False if the mark is
    /// another one.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn unmark(
        &self,
        identity: &Identity,
        token: &str,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Reads the marks of 1 to 100 mails, in the order of `identities`. An expired mark that is not yet
    /// deleted is returned, because it still tells what became of the mail; [`Marks::mark`] ignores it.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; a partial answer is never returned.
    fn find(
        &self,
        identities: &[Identity],
    ) -> impl Future<Output = Result<Vec<Option<Mark>>, PortError>>;
}

/// A run as the ledger has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    /// Number of its writes; 0 of one that was never written.
    pub version: u64,
    /// The run itself.
    pub run: Run,
}

/// The runs of the stack: who enqueues which list, and how far that has come.
pub trait Runs {
    /// Reads the newest `most` runs, at most `RUNS_KEPT`, the newest first.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or a run cannot be read.
    fn runs(&self, most: usize) -> impl Future<Output = Result<Vec<StoredRun>, PortError>>;

    /// Writes a run if its version is still that of `stored`, and adds 1 to it. False if another write came first. A
    /// write that took effect and whose answer was lost may give false.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or the run has more than DynamoDB's 400 KB; it may have been
    /// written all the same.
    fn set_run(&self, stored: &StoredRun) -> impl Future<Output = Result<bool, PortError>>;
}

/// One shard of the exclusion list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExclusionShard {
    /// Number of its writes; 0 if it was never written.
    pub version: u64,
    /// The keys of its addresses.
    pub keys: BTreeSet<AddressKey>,
}

/// The exclusion list, in shards.
pub trait Exclusions {
    /// Reads shards, in the order of `numbers`.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer, or a shard cannot be read.
    fn shards(
        &self,
        numbers: &[u8],
    ) -> impl Future<Output = Result<Vec<ExclusionShard>, PortError>>;

    /// Writes a shard if its version is still that of `shard`, and adds 1 to it. False if another write came
    /// first. A write that took effect and whose answer was lost may give false.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; the shard may have been written all the same.
    fn set_shard(
        &self,
        number: u8,
        shard: &ExclusionShard,
    ) -> impl Future<Output = Result<bool, PortError>>;
}

/// The number of changes that are kept; older ones are deleted.
pub const CHANGES_KEPT: usize = 200;

/// The record of operators' and policies' changes: who changed what, when and why.
pub trait History {
    /// Adds a change. Beyond [`CHANGES_KEPT`] the oldest are deleted.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer; the change may have been added all the same, even twice.
    fn add(&self, change: &ChangeRecord) -> impl Future<Output = Result<(), PortError>>;

    /// Reads the changes that are kept, the newest first.
    ///
    /// # Errors
    /// [`PortError`] if the ledger does not answer.
    fn changes(&self) -> impl Future<Output = Result<Vec<ChangeRecord>, PortError>>;
}
