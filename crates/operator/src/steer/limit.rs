use tidegate_core::config::LimitsConfig;
use tidegate_core::control::Control;
use tidegate_core::limits::{Dimension, InitialLimits, Limit, LimitKey};

use super::SteerError;

/// The most limits in force: a claim reads them all.
pub(super) const MOST: usize = 50;

/// Sets or removes (`None`) a limit in the control record.
pub(super) fn apply(
    control: &mut Control,
    key: &LimitKey,
    limit: Option<&Limit>,
    LimitsConfig { channel, initial, queues, has_store, has_bucket }: &LimitsConfig,
) -> Result<(), SteerError> {
    let table = control.limit_table(initial);
    let Some(limit) = limit else {
        if !table.limits().any(|(known, _)| known == key) {
            let known = table.limits().map(|(known, _)| known.to_string()).collect();
            return Err(SteerError::NoLimit { key: key.to_string(), known });
        }
        if initial.iter().any(|(known, _)| known == key) {
            control.limits.insert(key.clone(), None);
        } else {
            control.limits.remove(key);
        }
        return Ok(());
    };
    limit.check()?;
    if !Dimension::of(*channel).any(|known| known == key.dimension) {
        let allowed: Vec<&str> = Dimension::of(*channel).map(Dimension::as_str).collect();
        let (message, allowed) = (channel.words().message, allowed.join(", "));
        return Err(SteerError::OtherChannel { key: key.to_string(), message, allowed });
    }
    let of = key.dimension;
    let overflows =
        matches!(of, Dimension::Sender | Dimension::ConfigurationSet | Dimension::Tenant);
    let other_kind = |what: String, of| Err(SteerError::OtherKind { what, of });
    if limit.adaptive && of != Dimension::Domain {
        let domains = "domains, since it is the recipients' provider that defers";
        return other_kind(format!("{key} cannot be adaptive"), domains);
    }
    if limit.overflow.is_some() && !overflows {
        let what = format!("the rest of {key} cannot go through another configuration set");
        return other_kind(what, "a sender, a set and a tenant");
    }
    if limit.defers && of != Dimension::Campaign {
        return other_kind(format!("what is left of {key} cannot be deferred"), "a campaign");
    }
    if limit.defers && !has_store {
        return Err(SteerError::NoBucket);
    }
    if of == Dimension::Recipient {
        if !has_bucket {
            return Err(SteerError::NoSharedBucket(key.to_string()));
        }
        if *limit != limit.rate.map(Limit::from).unwrap_or_default() {
            let what = format!("{key} has hours, times or a warm-up");
            return Err(SteerError::OtherKind { what, of: "other keys; a recipient has a rate" });
        }
    }
    if let Some(other) = table.conflict(key) {
        return Err(SteerError::Overlap { key: key.to_string(), other: other.to_string() });
    }
    // An initial limit needs no change, so that later changes of the deployment apply.
    let is_initial =
        initial.iter().any(|(known, rate)| known == key && *limit == Limit::from(*rate));
    if is_initial {
        control.limits.remove(key);
    } else {
        let queue = queue(control, key, limit.overflow.is_some(), initial, queues.len());
        control.limits.insert(key.clone(), Some(Limit { queue, ..limit.clone() }));
    }
    let count = control.limit_table(initial).limits().count();
    if count > MOST {
        return Err(SteerError::TooManyLimits(count));
    }
    Ok(())
}

/// The place of a queue in which the limit's mail may wait: the last one that no limit has, since a deployment
/// gives the first ones to initial limits. A campaign's mail waits in the campaign's own queue.
fn queue(
    control: &Control,
    key: &LimitKey,
    overflows: bool,
    initial: &InitialLimits,
    queues: usize,
) -> Option<usize> {
    let is_initial = initial.iter().any(|(known, _)| known == key);
    let is_of_recipient = key.dimension == Dimension::Recipient;
    if key.is_each() || key.campaign().is_some() || is_of_recipient || is_initial || overflows {
        return None;
    }
    let own = control.limits.get(key).and_then(Option::as_ref).and_then(|limit| limit.queue);
    let taken: Vec<usize> =
        control.limits.values().flatten().filter_map(|limit| limit.queue).collect();
    let mut free = (initial.len()..queues).rev().filter(|place| !taken.contains(place));
    own.filter(|place| (initial.len()..queues).contains(place)).or_else(|| free.next())
}

/// The limit of `key` in words.
pub(super) fn shown(control: &Control, key: &LimitKey, initial: &InitialLimits) -> String {
    let table = control.limit_table(initial);
    let found = table.limits().find(|(known, _)| *known == key);
    found.map_or_else(|| "none".to_owned(), |(_, limit)| limit.to_string())
}
