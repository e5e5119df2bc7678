//! The scheduler's look at the back-pressure, once a minute: how deep the queues are, how old mail is as it
//! goes, how much SES refuses; the level that follows, in the control record; and, once the level has
//! been clear for a while, some of the deferred mail back to its queues.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as StdError;
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _};
use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel, Reading};
use tidegate_core::config::{BackPressureConfig, Campaign, Campaigns, SchedulerConfig};
use tidegate_core::{Timestamp, Window};

use crate::ports::{
    Clock, DeferralStore, Entropy, Ledger, MERGE_QUEUE, PortError, QueueUrl, Queues, Standing,
};
use crate::replay::{Bounds, BroughtBack, DeferralReplayPorts, Destinations, bring_back};
use crate::{control, quota};

/// How long the level must have been clear until deferred mail is brought back.
pub const BACK_AFTER: Duration = Duration::from_mins(10);
/// From the look's beginning, the time that bringing back may take.
const BACK_WITHIN: Duration = Duration::from_secs(40);
/// Sums older than this say nothing about now.
const SUMS_KEPT: Duration = Duration::from_mins(10);
/// Where nothing new was deferred, the store is listed this often all the same.
const LISTED_EVERY: Duration = Duration::from_hours(1);
/// An empty look younger than this stands for every queue's depth.
const LOOKED: Duration = Duration::from_mins(2);
/// Depths asked for at once.
const AT_ONCE: usize = 8;

/// What a scheduler remembers from run to run: it may forget it, and then knows less for a minute.
#[derive(Debug, Default)]
pub struct BackPressureMemory {
    sums: RefCell<Option<(Timestamp, SendSums)>>,
    /// When nothing deferred was left, and how much had ever been deferred then.
    empty: Cell<Option<(Timestamp, i64)>>,
}

/// What a look came to.
#[derive(Clone, Debug, PartialEq)]
pub struct BackPressureReport {
    /// The level and its figures.
    pub reading: Reading,
    /// What was brought back, where that was tried.
    pub brought_back: Option<BroughtBack>,
    /// Whether bringing back failed, or left an object that needs somebody.
    pub back_failed: bool,
}

/// What the look works on.
#[derive(Clone, Copy, Debug)]
pub struct BackPressure<'a, Q, S, E> {
    /// The scheduler's settings.
    pub config: &'a SchedulerConfig,
    /// The queues.
    pub queues: &'a Q,
    /// The deferred mail; none where none is deferred.
    pub deferral: Option<&'a S>,
    /// Randomness.
    pub entropy: &'a E,
    /// What is remembered.
    pub gauge: &'a BackPressureMemory,
}

/// The ledger's sums that the figures are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SendSums {
    sent: i64,
    mails: i64,
    refused: i64,
    /// Recipients of campaign mail sent in its first pass, and the seconds they had waited.
    first: i64,
    first_waited: i64,
    deferred: i64,
}

impl SendSums {
    fn of(counters: &BTreeMap<String, i64>) -> Self {
        let of = |name: &str| counters.get(name).copied().unwrap_or(0);
        Self {
            sent: of("sent"),
            mails: of("mails"),
            refused: of("refused"),
            first: of("first"),
            first_waited: of("first_waited"),
            deferred: of("spilled"),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            mails: self.mails - before.mails,
            refused: self.refused - before.refused,
            first: self.first - before.first,
            first_waited: self.first_waited - before.first_waited,
            deferred: self.deferred - before.deferred,
        }
    }

    /// Recipients a mail; 1 where nothing was sent.
    #[expect(clippy::cast_precision_loss, reason = "sums stay below 2^52")]
    fn mean(self) -> f64 {
        if self.mails > 0 { (self.sent as f64 / self.mails as f64).max(1.0) } else { 1.0 }
    }
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

impl<Q: Queues, S: DeferralStore, E: Entropy> BackPressure<'_, Q, S, E> {
    /// Judges, writes what is news, and brings back what may be. None where there is no level,
    /// or the ledger does not answer. What is brought back stands in the report even where this is
    /// dropped on its way: `report` has it.
    pub(crate) async fn look<C: Clock, L: Ledger>(
        &self,
        clock: &C,
        ledger: &L,
        report: &RefCell<Option<BackPressureReport>>,
    ) {
        let Some(back_pressure) = &self.config.back_pressure else { return };
        let began = clock.monotonic();
        let standing = match ledger.read().await {
            Ok(standing) => standing,
            Err(error) => {
                let error = &error as &dyn StdError;
                return tracing::warn!(
                    error,
                    "the level is not judged: the ledger does not answer"
                );
            }
        };
        let now = clock.wall();
        let campaigns = listed(&back_pressure.campaigns, &standing);
        let sums = SendSums::of(&standing.counters);
        let lately = self.lately(sums, now);
        let mails = self.backlog(back_pressure, campaigns, &standing, now).await;
        let rate = quota::remembered(Some(&standing.control), &self.config.cap);
        let mails_a_second = rate.map(|rate| {
            let known = lately.filter(|lately| lately.mails > 0).unwrap_or(sums);
            standing.factor.of(rate).as_per_second() / known.mean()
        });
        let figures = figures(mails, mails_a_second, lately);
        let stood = standing.control.back_pressure;
        let reading = back_pressure.policy.judge(stood.as_ref(), figures, now.into());
        let destinations = destinations(campaigns, &standing);
        *report.borrow_mut() =
            Some(BackPressureReport { reading, brought_back: None, back_failed: false });
        log(stood.map_or(BackPressureLevel::Clear, |stood| stood.level_at(now.into())), &reading);
        if reading.is_news(stood.as_ref())
            && let Err(error) = write(back_pressure, figures, now, standing, ledger).await
        {
            tracing::error!(error = &error as &dyn StdError, "the level is not written");
        }
        let may = reading.clear_for(now.into()).is_some_and(|clear| clear >= BACK_AFTER);
        if let Some(deferral) = self.deferral.filter(|_| back_pressure.replays && may)
            && self.may_hold(sums.deferred, now)
        {
            let per_minute = mails_a_second.map_or(0, |rate| whole(rate * 60.0));
            let bounds = Bounds {
                mails: back_pressure.policy.allowance(&figures, per_minute),
                until: Some(began + BACK_WITHIN),
                campaign: None,
            };
            let me = self.entropy.token();
            let queues = self.queues;
            let site = DeferralReplayPorts {
                deferral,
                queues,
                clock,
                destinations: &destinations,
                me: &me,
            };
            self.bring_back(site, &bounds, (sums.deferred, now), report).await;
        }
    }

    /// What the sums grew by since the run before; none where that is not known.
    fn lately(&self, sums: SendSums, now: Timestamp) -> Option<SendSums> {
        let before = self.gauge.sums.replace(Some((now, sums)));
        let (at, before) = before?;
        (now.saturating_since(at) <= SUMS_KEPT && sums.sent >= before.sent)
            .then(|| sums.since(before))
    }

    /// Whether there may be deferred mail: not where none was left, and none was deferred since.
    fn may_hold(&self, deferred: i64, now: Timestamp) -> bool {
        self.gauge
            .empty
            .get()
            .is_none_or(|(at, then)| then != deferred || now.saturating_since(at) >= LISTED_EVERY)
    }

    async fn bring_back<C: Clock>(
        &self,
        site: DeferralReplayPorts<'_, S, Q, C>,
        bounds: &Bounds,
        (deferred, now): (i64, Timestamp),
        report: &RefCell<Option<BackPressureReport>>,
    ) {
        let done = RefCell::new(BroughtBack::default());
        let ended = bring_back(site, bounds, &done).await;
        let done = done.into_inner();
        for left in &done.left {
            let (object, campaign, why) = (&left.object, &left.campaign, &left.why);
            tracing::warn!(object, campaign, ?why, "deferred mail left where it is");
        }
        if let Err(error) = &ended {
            tracing::error!(error = error as &dyn StdError, "deferred mail not brought back");
        }
        if done.mails > 0 {
            tracing::info!(
                mails = done.mails,
                objects = done.objects,
                "deferred mail brought back"
            );
        }
        self.gauge.empty.set((ended.is_ok() && done.is_all()).then_some((now, deferred)));
        if let Some(report) = report.borrow_mut().as_mut() {
            report.back_failed = ended.is_err() || done.needs_somebody();
            report.brought_back = Some(done);
        }
    }

    /// Mails in the queues of campaigns that are not held, in the merge queue and in the express queue.
    /// A queue that the pollers found empty, and wait to ask again, is not asked. None where one does
    /// not say.
    async fn backlog(
        &self,
        back_pressure: &BackPressureConfig,
        campaigns: &[Campaign],
        standing: &Standing,
        now: Timestamp,
    ) -> Option<u64> {
        let looks = standing.looks;
        let young = |look: Window| now.saturating_since(look.opens()) <= LOOKED;
        if looks.empty > looks.found && looks.empty.is_some_and(young) {
            return Some(0);
        }
        let window = Window::containing(now);
        let is_empty = |name: &str| standing.idle.get(name).is_some_and(|idle| idle.until > window);
        let waits =
            |campaign: &&Campaign| !is_held(campaign, standing) && !is_empty(&campaign.name);
        let campaigns = campaigns.iter().filter(waits).map(|campaign| campaign.queue_url.as_str());
        let merge = back_pressure.merge_queue_url.as_deref().filter(|_| !is_empty(MERGE_QUEUE));
        let urls: Vec<QueueUrl> = campaigns
            .chain(merge)
            .chain(back_pressure.express_queue_url.as_deref())
            .map(QueueUrl::new)
            .collect();
        let depths =
            stream::iter(&urls).map(|url| self.queues.depth(url)).buffer_unordered(AT_ONCE);
        let depths: Vec<_> = depths.collect().await;
        let mut mails = 0_u64;
        for depth in depths {
            match depth {
                Ok(depth) => {
                    mails = mails.saturating_add(depth.visible + depth.in_flight + depth.delayed);
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn StdError, "the backlog is not known");
                    return None;
                }
            }
        }
        Some(mails)
    }
}

/// The campaigns, as a poller has them.
fn listed<'a>(campaigns: &'a Campaigns, standing: &'a Standing) -> &'a [Campaign] {
    match campaigns {
        Campaigns::Listed(list) => list,
        Campaigns::Ledger => &standing.control.campaigns,
    }
}

fn is_held(campaign: &Campaign, standing: &Standing) -> bool {
    let control = &standing.control;
    control.holds_campaign(&campaign.name) || control.weight(&campaign.name, campaign.weight) == 0
}

/// Where deferred mail may go back to, of these campaigns.
pub fn destinations(campaigns: &[Campaign], standing: &Standing) -> Destinations {
    let queue = |c: &Campaign| (c.name.clone(), QueueUrl::new(c.queue_url.as_str()));
    let held = campaigns.iter().filter(|campaign| is_held(campaign, standing));
    let held: BTreeSet<String> = held.map(|campaign| campaign.name.clone()).collect();
    Destinations { queues: campaigns.iter().map(queue).collect(), held }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; a float casts to the nearest that fits"
)]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}

#[expect(clippy::cast_precision_loss, reason = "mails stay below 2^52")]
fn figures(
    mails: Option<u64>,
    mails_a_second: Option<f64>,
    lately: Option<SendSums>,
) -> BackPressureFigures {
    let seconds = |mails: u64| match mails_a_second {
        _ if mails == 0 => Some(0),
        Some(rate) if rate > 0.0 => Some(whole(mails as f64 / rate)),
        _ => None,
    };
    let first = lately.filter(|lately| lately.first > 0);
    BackPressureFigures {
        backlog_mails: mails,
        backlog_seconds: mails.and_then(seconds),
        age_seconds: first.map(|sums| unsigned(sums.first_waited) / unsigned(sums.first)),
        refused_millionths: lately.and_then(|sums| {
            BackPressureFigures::refused_share(unsigned(sums.refused), unsigned(sums.mails))
        }),
    }
}

/// Judged anew on what stands then: another run may have come first.
async fn write(
    back_pressure: &BackPressureConfig,
    figures: BackPressureFigures,
    now: Timestamp,
    standing: Standing,
    ledger: &impl Ledger,
) -> Result<(), PortError> {
    let stands = (standing.control_version, standing.control);
    let changed = control::change(ledger, stands, |control| {
        let newer = control.back_pressure.is_some_and(|stands| stands.read_at > now.into());
        if !newer {
            let judged =
                back_pressure.policy.judge(control.back_pressure.as_ref(), figures, now.into());
            control.back_pressure = Some(judged);
        }
    });
    changed.await.map(drop)
}

fn log(before: BackPressureLevel, reading: &Reading) {
    if before == reading.level {
        return;
    }
    let BackPressureFigures { backlog_mails, backlog_seconds, age_seconds, refused_millionths } =
        reading.figures;
    let (level, before) = (reading.level.as_str(), before.as_str());
    if reading.level == BackPressureLevel::Clear {
        tracing::info!(level, before, backlog_mails, backlog_seconds, "the level changed");
    } else {
        tracing::warn!(
            level,
            before,
            backlog_mails,
            backlog_seconds,
            age_seconds,
            refused_millionths,
            "the level changed"
        );
    }
}
