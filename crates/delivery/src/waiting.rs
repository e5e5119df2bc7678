//! The queues on which mail waits, and how much of it. By that it sets the weights of campaigns that are to finish by a time, once a minute, in the scheduler.

use std::error::Error as StdError;

use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tidegate_core::Window;
use tidegate_core::config::{BackPressureConfig, Campaign, Campaigns, queue_key};
use tidegate_core::counters::Counter;
use tidegate_core::identity::EpochMillis;
use tidegate_core::idle::RUN;
use tidegate_core::limits::InitialLimits;
use tidegate_core::weight_rule::{FinishBy, Remainder, WeightRule};

use crate::back_pressure::{BackPressure, mean_recipients};
use crate::poll::was_used;
use crate::ports::{Clock, Ledger, MERGE_QUEUE, PortError, QueueDepth, QueueUrl, Queues, Standing};
use crate::{control, quota};

/// Queue depths asked for at once.
const AT_ONCE: usize = 8;

/// The campaigns as a poller sees them: from the settings, or from the ledger's list.
pub(crate) fn listed<'a>(campaigns: &'a Campaigns, standing: &'a Standing) -> &'a [Campaign] {
    match campaigns {
        Campaigns::Listed(list) => list,
        Campaigns::Ledger => &standing.control.campaigns,
    }
}

/// The campaigns of which mail may be sent in `window`, or is to be deferred: neither held (but for refusals, which a
/// mail probes), nor with weight 0, nor with a limit that is closed and lets mail wait.
pub(crate) fn sending<'a>(
    config: &'a BackPressureConfig,
    standing: &'a Standing,
    window: Window,
) -> impl Iterator<Item = &'a Campaign> {
    let (control, list) = (&standing.control, listed(&config.campaigns, standing));
    let limits = control.limit_table(&InitialLimits::default());
    list.iter().filter(move |campaign| {
        let is_held = control.holds_campaign(&campaign.name);
        (!is_held || control.probed_hold(&campaign.name).is_some())
            && control.weight_at(campaign, list, &limits, window) > 0
            && (!limits.closes_campaign(&campaign.name, window)
                || config.stores_deferred && limits.defers_campaign(&campaign.name, window))
    })
}

/// Whether a campaign of which nothing may be sent in `window` may send before the scheduler's next run begins:
/// its limit opens, or it has another weight then.
pub(crate) fn opens(config: &BackPressureConfig, standing: &Standing, window: Window) -> bool {
    let now: Vec<&Campaign> = sending(config, standing, window).collect();
    sending(config, standing, window.plus(RUN)).any(|then| !now.contains(&then))
}

/// The express queue, the merge queue, and the queues of campaigns of which mail may be sent in `window`,
/// without those whose name `is_left_out` knows (by [`queue_key`], or [`MERGE_QUEUE`]).
pub(crate) fn queues(
    config: &BackPressureConfig,
    standing: &Standing,
    window: Window,
    is_left_out: impl Fn(&str) -> bool,
) -> Vec<QueueUrl> {
    let campaigns = sending(config, standing, window);
    let queues =
        campaigns.flat_map(|campaign| campaign.queues().map(move |queue| (campaign, queue)));
    let left = queues.filter(|(of, (priority, _))| !is_left_out(&queue_key(&of.name, *priority)));
    let merge = config.merge_queue_url.as_deref().filter(|_| !is_left_out(MERGE_QUEUE));
    left.map(|(_, (_, url))| url)
        .chain(merge)
        .chain(config.express_queue_url.as_deref())
        .map(QueueUrl::new)
        .collect()
}

/// The limit queues into which mail was ever moved.
fn used_limit_queues(config: &BackPressureConfig, standing: &Standing) -> Vec<QueueUrl> {
    let urls = config.limit_queues.iter().enumerate();
    let used = urls.filter(|(place, _)| was_used(&standing.counters, *place));
    used.map(|(_, url)| QueueUrl::new(url.as_str())).collect()
}

/// True if SQS counts nothing that could be sent now. In limit queues delayed messages count, too: mail
/// under a slow limit is delayed until shortly before its slot, and would miss it if nobody were there.
pub(crate) async fn is_empty(
    queues: &impl Queues,
    config: &BackPressureConfig,
    standing: &Standing,
    window: Window,
) -> Result<bool, PortError> {
    let sources = self::queues(config, standing, window, |_| false);
    let domains = used_limit_queues(config, standing);
    let (sources, domains) = try_join(depths(queues, &sources), depths(queues, &domains)).await?;
    Ok(sources.iter().all(|depth| depth.visible == 0)
        && domains.iter().all(|depth| depth.all() == 0))
}

/// The depth of each queue, in no order. SQS's counts may lag behind by a minute.
pub(crate) async fn depths(
    queues: &impl Queues,
    urls: &[QueueUrl],
) -> Result<Vec<QueueDepth>, PortError> {
    stream::iter(urls).map(|url| queues.depth(url)).buffer_unordered(AT_ONCE).try_collect().await
}

/// Sets the weight of each campaign that is to finish, by the mail on its queues. Once its time has come, or its
/// queues are empty, the rule ends and the weight of before stands again.
pub(crate) async fn adjust<Q: Queues, S, E>(
    on: &BackPressure<'_, Q, S, E>,
    clock: &impl Clock,
    ledger: &impl Ledger,
    standing: Option<&Standing>,
) {
    let (Some(config), Some(standing)) = (&on.config.back_pressure, standing) else { return };
    let Some(rate) = quota::remembered(Some(&standing.control), &on.config.cap) else { return };
    let per_second = standing.factor.of(rate).as_per_second();
    for campaign in listed(&config.campaigns, standing) {
        let Some(WeightRule::FinishBy(finish)) = standing.control.weight_rules.get(&campaign.name)
        else {
            continue;
        };
        let queues: Vec<QueueUrl> = campaign.queues().map(|(_, url)| QueueUrl::new(url)).collect();
        let depth = match depths(on.queues, &queues).await {
            Ok(depths) => depths.iter().map(|depth| depth.all()).sum(),
            Err(error) => {
                let (campaign, error) = (&*campaign.name, &error as &dyn StdError);
                tracing::warn!(campaign, error, "not known how much is left to finish");
                continue;
            }
        };
        let (waiting, now) = (recipients(depth, standing), clock.wall());
        let others = others(sending(config, standing, Window::containing(now)), campaign, standing);
        let of = Remainder { waiting, per_second, others, now };
        let weight = next(campaign, finish, of, depth);
        let (version, control) = (standing.control_version, standing.control.clone());
        let changed = control::change(ledger, version, control, |control| {
            // An operator may have changed the rule since it was read.
            if control.weight_rules.get(&campaign.name)
                == Some(&WeightRule::FinishBy(finish.clone()))
            {
                match weight.or(finish.restore) {
                    Some(weight) => drop(control.weights.insert(campaign.name.clone(), weight)),
                    None => drop(control.weights.remove(&campaign.name)),
                }
                if weight.is_none() {
                    control.weight_rules.remove(&campaign.name);
                }
            }
        });
        if let Err(error) = changed.await {
            tracing::error!(error = &error as &dyn StdError, "the weight is not written");
        }
    }
}

/// The weight for the next minute; `None` if the rule ends.
fn next(campaign: &Campaign, finish: &FinishBy, of: Remainder, depth: u64) -> Option<u32> {
    let campaign = &*campaign.name;
    if depth == 0 || finish.finish_by <= of.now.into() {
        tracing::info!(campaign, waiting = depth, "the campaign's finish is over");
        return None;
    }
    let ends_at = finish.earliest(of);
    if ends_at > finish.finish_by.into() {
        let (by, ends_at) = (finish.finish_by, EpochMillis::from(ends_at));
        tracing::warn!(campaign, %by, %ends_at, "the campaign cannot finish in time");
    }
    Some(finish.weight(of))
}

/// The weights of the other campaigns that have mail.
fn others<'a>(
    sending: impl Iterator<Item = &'a Campaign>,
    campaign: &Campaign,
    standing: &Standing,
) -> u64 {
    let is_empty = |of: &Campaign| {
        let mut keys = of.queues().map(|(priority, _)| queue_key(&of.name, priority));
        keys.all(|key| standing.idle.contains_key(&key))
    };
    let others = sending.filter(|other| other.name != campaign.name && !is_empty(other));
    others.map(|other| u64::from(standing.control.weight(&other.name, other.weight))).sum()
}

/// The recipients of so many mails, by the mean of all mails that were sent.
#[expect(clippy::cast_precision_loss, reason = "mails stay below 2^52")]
fn recipients(mails: u64, standing: &Standing) -> f64 {
    let sum = |counter: Counter| u64::try_from(counter.sum(&standing.counters)).unwrap_or(0);
    mails as f64 * mean_recipients(sum)
}
