use std::collections::BTreeMap;
use std::future::Future;

use serde::{Deserialize, Serialize};
use tidegate_core::Window;
use tidegate_core::control::Control;
use tidegate_core::factor::RateFactor;
use tidegate_core::idle::QueueChecks;
use tidegate_core::parts::Upkeep;
use tidegate_core::rate::{Rate, RateMargin};

use super::PortError;

/// A poller's wish to serve a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The window.
    pub window: Window,
    /// The quota it would serve it at, before the rate factor.
    pub rate: Rate,
    /// Its rate margin.
    pub rate_margin: RateMargin,
    /// Which limits of recipient domains it goes by (`DomainLimits::digest`); 0 for none.
    pub limits: u64,
    /// Random, of this claim alone: a failed condition that shows it is our own write, answered late.
    pub token: String,
}

/// What became of a claim.
#[expect(clippy::large_enum_variant, reason = "one a window, read where it is made")]
#[derive(Clone, Debug, PartialEq)]
pub enum Claim {
    /// The window is this poller's.
    Claimed(Standing),
    /// This window, or a newer one, was claimed before.
    Taken {
        /// The newest claim's window.
        newest: Window,
        /// Whether this very window is owed to a large mail: the newest claim opened before it and
        /// advanced over it.
        owed: bool,
    },
}

/// The claim before this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviousClaim {
    /// Its window (the last of them, where it advanced).
    pub window: Window,
    /// Its quota.
    pub rate: Rate,
    /// Its rate margin.
    pub rate_margin: RateMargin,
    /// Which limits of recipient domains it went by; 0 for none.
    pub limits: u64,
    /// The rate factor it was served with.
    pub factor: RateFactor,
}

impl PreviousClaim {
    /// The rate it was served at.
    pub fn rate_in_force(&self) -> Rate {
        self.factor.of(self.rate)
    }
}

/// What the ledger says beside the claim.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// The claim before, in [`Ledger::read`] the newest; `None` before the first ever.
    pub previous: Option<PreviousClaim>,
    /// The rate factor in force.
    pub factor: RateFactor,
    /// The control record.
    pub control: Control,
    /// The control record's version: 0 before the first.
    pub control_version: u64,
    /// The sums of all reports, by counter.
    pub counters: BTreeMap<String, i64>,
    /// Queues found empty: campaigns by name, the merge queue as [`MERGE_QUEUE`].
    pub idle: BTreeMap<String, Idle>,
    /// When mail was found, and when none anywhere.
    pub looks: QueueChecks,
    /// How many parts hold what is kept by campaign; 0 before the first report.
    pub parts: u32,
    /// Campaigns that have left the list, and when that was noted.
    pub left: BTreeMap<String, Window>,
}

/// The merge queue among the queues found empty: no campaign's name has a dot.
pub const MERGE_QUEUE: &str = ".merge";

/// A queue found empty: when to ask it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    /// The first window that asks again.
    pub until: Window,
    /// How many windows were left out this time (doubles).
    pub pause: u64,
}

/// What a poller adds at its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LedgerReport {
    /// The window that it is of.
    pub window: Window,
    /// Added to the sums; names of `[A-Za-z0-9_.:-]`, at most 128 characters.
    pub counters: BTreeMap<String, i64>,
    /// Each replaces what stands there of this queue: found empty, or (`None`) no longer.
    pub idle: BTreeMap<String, Option<Idle>>,
    /// Each replaces what stands there; `None` leaves it.
    pub looks: QueueChecks,
    /// What becomes of campaigns that come and go.
    pub upkeep: Upkeep,
}

/// What the pollers share: claim, control record, reports.
pub trait Ledger {
    /// Claims a window, by one conditional write: only a newer window than the newest claimed, or
    /// the newest again with the same token.
    ///
    /// # Errors
    /// [`PortError`] within 300 ms when the ledger is out of reach: then nothing may be sent.
    fn claim(&self, request: &ClaimRequest) -> impl Future<Output = Result<Claim, PortError>>;

    /// Advances the claim made with `token` to `through`, if it is still the newest: true. The
    /// windows between are owed to a mail of more recipients than a window has slots.
    ///
    /// # Errors
    /// [`PortError`] within 300 ms.
    fn advance(
        &self,
        token: &str,
        through: Window,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// What stands in the ledger, without a claim.
    ///
    /// # Errors
    /// [`PortError`].
    fn read(&self) -> impl Future<Output = Result<Standing, PortError>>;

    /// Adds a report.
    ///
    /// # Errors
    /// [`PortError`].
    fn report(&self, report: &LedgerReport) -> impl Future<Output = Result<(), PortError>>;

    /// Replaces the rate factor `from` by `to`: false where another stands there.
    ///
    /// # Errors
    /// [`PortError`].
    fn set_factor(
        &self,
        from: RateFactor,
        to: RateFactor,
    ) -> impl Future<Output = Result<bool, PortError>>;

    /// Replaces the control record of `version` (0: none yet): false where another version stands.
    ///
    /// # Errors
    /// [`PortError`].
    fn set_control(
        &self,
        version: u64,
        control: &Control,
    ) -> impl Future<Output = Result<bool, PortError>>;
}
