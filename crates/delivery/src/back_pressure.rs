//! Judges the back-pressure once a minute, in the scheduler: how much mail waits, how long mail has waited
//! when it is sent, and how much SES refuses. Writes the resulting level to the control record. Once the
//! level has been clear for [`BACK_AFTER`], some of the deferred mail may come back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::time::Duration;

use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel, Reading};
use tidegate_core::config::{BackPressureConfig, SchedulerConfig};
use tidegate_core::counters::Counter;
use tidegate_core::number::{real, whole};
use tidegate_core::{Timestamp, Window};

use crate::poll::all_limits_waiting;
use crate::ports::{Clock, Ledger, PortError, QueueDepth, Queues, Standing};
use crate::schedule::refill::Allowance;
use crate::{control, quota, waiting};

/// The level must have been clear for this long before deferred mail comes back.
pub const BACK_AFTER: Duration = Duration::from_mins(10);
/// Sums older than this say nothing about the present.
const SUMS_KEPT: Duration = Duration::from_mins(10);
/// A report of empty queues younger than this counts as a backlog of 0, without asking SQS. While the stack
/// sleeps, such reports are five minutes apart.
const LOOKED: Duration = Duration::from_mins(6);

/// The figures that a scheduler keeps in memory between runs. After a cold start they are missing, and the
/// age and the share of refusals are unknown for one minute.
#[derive(Debug, Default)]
pub struct BackPressureMemory {
    sums: RefCell<Option<(Timestamp, BTreeMap<String, i64>)>>,
}

/// The ports, settings and memory that a look needs.
#[derive(Clone, Copy, Debug)]
pub struct BackPressure<'a, Q> {
    /// The scheduler's settings, among them the thresholds of the levels.
    pub config: &'a SchedulerConfig,
    /// The queues, for their depths.
    pub queues: &'a Q,
    /// The figures remembered from earlier runs.
    pub gauge: &'a BackPressureMemory,
}

/// By how much each counter's total grew; a counter that did not grow is left out.
pub(crate) fn grown(
    before: &BTreeMap<String, i64>,
    now: &BTreeMap<String, i64>,
) -> BTreeMap<Counter, u64> {
    let by = |counter: &Counter| u64::try_from(counter.sum(now) - counter.sum(before)).ok();
    let grown = Counter::ALL.iter().filter_map(|counter| Some((*counter, by(counter)?)));
    grown.filter(|(_, by)| *by > 0).collect()
}

/// Mean recipients per mail by the sums of the counters, at least 1; 1 if no mail was sent. 3,000 recipients in 1,000
/// mails give 3.0.
pub(crate) fn mean_recipients(sum: impl Fn(Counter) -> u64) -> f64 {
    let (sent, mails) = (sum(Counter::Sent), sum(Counter::Mails));
    if mails > 0 { (real(sent) / real(mails)).max(1.0) } else { 1.0 }
}

impl<Q: Queues> BackPressure<'_, Q> {
    /// Judges the level by the ledger as it was `read`, and writes it if it changed or is due for renewal. Returns how
    /// much mail may come back from the store. `report` stays `None` if no level is configured.
    ///
    /// The backlog in seconds is mails / (rate / recipients per mail). Example: 1,400 mails wait, the quota
    /// is 14 recipients per second, and a mail has 2 recipients on average. Then 7 mails go per second, and
    /// the backlog is 200 s. Of deferred mail at most a quarter of what a minute can send may come back:
    /// 7 · 60 / 4 = 105 mails.
    pub(crate) async fn look(
        &self,
        clock: &impl Clock,
        ledger: &impl Ledger,
        standing: &Standing,
        report: &RefCell<Option<Reading>>,
    ) -> Allowance {
        let now = clock.wall();
        let sums = &standing.counters;
        let lately = self.lately(sums, now);
        let by = |counter| lately.as_ref().map(|grown| grown.get(&counter).copied().unwrap_or(0));
        let recipients = if by(Counter::Mails) > Some(0) {
            mean_recipients(|counter| by(counter).unwrap_or(0))
        } else {
            mean_recipients(|counter| u64::try_from(counter.sum(sums)).unwrap_or(0))
        };
        let rate = quota::remembered(Some(&standing.control), &self.config.cap);
        let mails_a_second = rate.map(|rate| standing.factor.of(rate).as_per_second() / recipients);
        let Some(back_pressure) = &self.config.back_pressure else {
            return Allowance { deferred: 0, mails_a_second: mails_a_second.unwrap_or(0.0) };
        };
        let mails = self.backlog(back_pressure, standing, recipients, now).await;
        let figures = figures(mails, mails_a_second, by);
        let stood = standing.control.back_pressure;
        let reading = back_pressure.policy.judge(stood.as_ref(), figures, now.into());
        *report.borrow_mut() = Some(reading);
        log(stood.map_or(BackPressureLevel::Clear, |stood| stood.level_at(now.into())), &reading);
        if reading.is_news(stood.as_ref())
            && let Err(error) = write(back_pressure, figures, now, standing.clone(), ledger).await
        {
            tracing::error!(error = &error as &dyn StdError, "the level is not written");
        }
        let is_clear = reading.clear_for(now.into()).is_some_and(|clear| clear >= BACK_AFTER);
        let per_minute = mails_a_second.map_or(0, |rate| whole((rate * 60.0).ceil()));
        let deferred =
            if is_clear { back_pressure.policy.allowance(&figures, per_minute) } else { 0 };
        Allowance { deferred, mails_a_second: mails_a_second.unwrap_or(0.0) }
    }

    /// The growth of the sums since the run before; `None` if that run is unknown, older than [`SUMS_KEPT`],
    /// or the counters were reset.
    fn lately(
        &self,
        sums: &BTreeMap<String, i64>,
        now: Timestamp,
    ) -> Option<BTreeMap<Counter, u64>> {
        let (at, before) = self.gauge.sums.replace(Some((now, sums.clone())))?;
        let is_known = now.saturating_since(at) <= SUMS_KEPT
            && Counter::Sent.sum(sums) >= Counter::Sent.sum(&before);
        is_known.then(|| grown(&before, sums))
    }

    /// Counts the mails in the merge queue, in the express queue, in the limit queues, and in the queues
    /// of campaigns that are not held. A queue that the pollers found empty and do not ask yet is left out.
    /// Returns `None` if a queue does not answer.
    ///
    /// Of limit queues the pollers' reports tell the recipients; `recipients` is their mean number per
    /// mail. Deferred mail does not count: it comes back only once the level is clear, so it would keep
    /// itself deferred.
    async fn backlog(
        &self,
        back_pressure: &BackPressureConfig,
        standing: &Standing,
        recipients: f64,
        now: Timestamp,
    ) -> Option<u64> {
        let looks = standing.looks;
        let young = |look: Window| now.saturating_since(look.opens()) <= LOOKED;
        if looks.empty > looks.found && looks.empty.is_some_and(young) {
            return Some(0);
        }
        let window = Window::containing(now);
        let is_empty = |name: &str| standing.idle.get(name).is_some_and(|idle| idle.until > window);
        let urls = waiting::queues(back_pressure, standing, window, is_empty);
        match waiting::depths(self.queues, &urls).await {
            Ok(depths) => {
                let limited = real(all_limits_waiting(&standing.counters));
                let domains = whole((limited / recipients).ceil());
                let all = |mails: u64, depth: &QueueDepth| mails.saturating_add(depth.all());
                Some(depths.iter().fold(domains, all))
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "the backlog is not known");
                None
            }
        }
    }
}

fn figures(
    mails: Option<u64>,
    mails_a_second: Option<f64>,
    by: impl Fn(Counter) -> Option<u64>,
) -> BackPressureFigures {
    let seconds = |mails: u64| match mails_a_second {
        _ if mails == 0 => Some(0),
        Some(rate) if rate > 0.0 => Some(whole((real(mails) / rate).ceil())),
        _ => None,
    };
    let share = |of: Counter, all: Counter| Some((by(of)?, by(all)?));
    BackPressureFigures {
        backlog_mails: mails,
        backlog_seconds: mails.and_then(seconds),
        age_seconds: share(Counter::FirstWaited, Counter::First)
            .and_then(|(waited, first)| waited.checked_div(first)),
        refused_millionths: share(Counter::Refused, Counter::Mails)
            .and_then(|(refused, mails)| BackPressureFigures::refused_share(refused, mails)),
    }
}

/// Writes the level. It is judged again on the record that stands at the write, because another run may have
/// written a newer one.
async fn write(
    back_pressure: &BackPressureConfig,
    figures: BackPressureFigures,
    now: Timestamp,
    standing: Standing,
    ledger: &impl Ledger,
) -> Result<(), PortError> {
    let (version, control) = (standing.control_version, standing.control);
    let changed = control::change(ledger, version, control, |control| {
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
