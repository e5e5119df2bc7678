use std::collections::BTreeMap;
use std::future::Future;

use serde::{Deserialize, Serialize};
use tidegate_core::Window;
use tidegate_core::control::Control;
use tidegate_core::factor::RateFactor;
use tidegate_core::idle::QueueChecks;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::parts::Upkeep;
use tidegate_core::rate::{Rate, RateMargin};

use super::PortError;

/// A poller's request to serve a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The window to claim, one second since the epoch.
    pub window: Window,
    /// The quota at which the poller would serve it, in recipients per second, before the rate factor.
    pub rate: Rate,
    /// The rate margin with which the poller spaces its slots.
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
    pub rate: Rate,
    /// The rate margin of that claim.
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
    /// The rate at which that window was served: quota times rate factor, in recipients per second.
    pub fn rate_in_force(&self) -> Rate {
        self.factor.of(self.rate)
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
    /// The control record: holds, weights, caps, breaker, limits.
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

/// The ledger: the state that pollers share.
pub trait Ledger {
    /// Opens up to `connections` connections without sending a request, if the ledger is reached over a
    /// network. Errors are not returned; the first call that needs a connection reports them.
    fn warm(&self, connections: usize) -> impl Future<Output = ()> {
        let _ = connections;
        std::future::ready(())
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
