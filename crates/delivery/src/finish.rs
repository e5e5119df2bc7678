//! Sets the weights of campaigns that are to finish by a time, once a minute, in the scheduler.

use std::error::Error as StdError;

use tidegate_core::Window;
use tidegate_core::config::{Campaign, queue_key};
use tidegate_core::identity::EpochMillis;
use tidegate_core::weight_rule::{FinishBy, Remainder, WeightRule};

use crate::back_pressure::{BackPressure, SendSums};
use crate::ports::{Clock, Ledger, QueueUrl, Queues, Standing};
use crate::waiting::{listed, sending};
use crate::{control, quota, waiting};

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
        let depth = match waiting::depths(on.queues, &queues).await {
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
    mails as f64 * SendSums::of(&standing.counters).mean()
}
