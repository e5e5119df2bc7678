//! Sets the weights of campaigns that are to finish by a time, once a minute, in the scheduler.

use std::error::Error as StdError;

use tidegate_core::config::Campaign;
use tidegate_core::counters::Counter;
use tidegate_core::weight_rule::{FinishBy, Remainder, WeightRule};

use crate::back_pressure::BackPressure;
use crate::ports::{Clock, Ledger, QueueUrl, Queues, Standing};
use crate::waiting::{is_held, listed};
use crate::{control, quota};

/// Sets the weight of each campaign that is to finish, by the mail on its queue. Once its time has come, or its
/// queue is empty, the rule ends and the weight of before stands again.
pub(crate) async fn adjust<Q: Queues, S, E>(
    on: &BackPressure<'_, Q, S, E>,
    clock: &impl Clock,
    (ledger, standing): (&impl Ledger, Option<&Standing>),
) {
    let (Some(config), Some(standing)) = (&on.config.back_pressure, standing) else { return };
    let Some(rate) = quota::remembered(Some(&standing.control), &on.config.cap) else { return };
    let per_second = standing.factor.of(rate).as_per_second();
    let campaigns = listed(&config.campaigns, standing);
    for campaign in campaigns {
        let Some(WeightRule::FinishBy(finish)) = standing.control.weight_rules.get(&campaign.name)
        else {
            continue;
        };
        let depth = match on.queues.depth(&QueueUrl::new(campaign.queue_url.as_str())).await {
            Ok(depth) => depth.all(),
            Err(error) => {
                let (campaign, error) = (&*campaign.name, &error as &dyn StdError);
                tracing::warn!(campaign, error, "not known how much is left to finish");
                continue;
            }
        };
        let waiting = recipients(depth, standing);
        let others = others(campaigns, campaign, standing);
        let of = Remainder { waiting, per_second, others, now: clock.wall() };
        let weight = next(campaign, finish, of, depth);
        let version = (standing.control_version, standing.control.clone());
        let changed = control::change(ledger, version, |control| {
            // An operator may have changed the rule since it was read.
            if control.weight_rules.get(&campaign.name) == Some(&WeightRule::FinishBy(*finish)) {
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
        let (by, ends_at) = (finish.finish_by, tidegate_core::identity::EpochMillis::from(ends_at));
        tracing::warn!(campaign, %by, %ends_at, "the campaign cannot finish in time");
    }
    Some(finish.weight(of))
}

/// The weights of the other campaigns that have mail.
fn others(campaigns: &[Campaign], campaign: &Campaign, standing: &Standing) -> u64 {
    let others = campaigns.iter().filter(|other| {
        other.name != campaign.name
            && !is_held(other, standing)
            && !standing.idle.contains_key(&other.name)
    });
    others.map(|other| u64::from(standing.control.weight(&other.name, other.weight))).sum()
}

/// The recipients of so many mails, by the mean of all mails that were sent.
#[expect(clippy::cast_precision_loss, reason = "sums stay below 2^52")]
fn recipients(mails: u64, standing: &Standing) -> f64 {
    let of = |counter: Counter| counter.sum(&standing.counters).max(1) as f64;
    mails as f64 * (of(Counter::Sent) / of(Counter::Mails)).max(1.0)
}
