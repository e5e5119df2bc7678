use tidegate_core::control::Control;
use tidegate_core::limits::{InitialLimits, Limit, LimitKey, LimitTable};

use super::SteerError;

/// The most limits in force: a claim reads them all.
pub(super) const MOST: usize = 50;

/// Sets or removes (`None`) a limit in the control record.
pub(super) fn apply(
    control: &mut Control,
    key: &LimitKey,
    limit: Option<&Limit>,
    initial: &InitialLimits,
) -> Result<(), SteerError> {
    let table = LimitTable::of(initial, &control.limits);
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
    if let Some(other) = table.conflict(key) {
        return Err(SteerError::Overlap { key: key.to_string(), other: other.to_string() });
    }
    // An initial limit needs no change, so that later changes of the deployment apply.
    let is_initial =
        initial.iter().any(|(known, rate)| known == key && *limit == Limit::from(*rate));
    if is_initial {
        control.limits.remove(key);
    } else {
        control.limits.insert(key.clone(), Some(limit.clone()));
    }
    let count = LimitTable::of(initial, &control.limits).limits().count();
    if count > MOST {
        return Err(SteerError::TooManyLimits(count));
    }
    Ok(())
}

/// The limit of `key` in words.
pub(super) fn shown(control: &Control, key: &LimitKey, initial: &InitialLimits) -> String {
    let table = LimitTable::of(initial, &control.limits);
    let found = table.limits().find(|(known, _)| *known == key);
    found.map_or_else(|| "none".to_owned(), |(_, limit)| limit.to_string())
}
