use std::cell::RefCell;

use tidegate_core::config::{Campaign, EXPRESS, LimitsConfig};
use tidegate_core::control::{ChangeRecord, Control, Hold, HoldReason, Holds};
use tidegate_core::cycle::Cycle;
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;
use tidegate_delivery::control::{ChangeOutcome, change};
use tidegate_delivery::ports::{Clock, History, Ledger};

use super::{Author, IN_FORCE_WITHIN_S, SteerAction, SteerError, SteerReport, limit};
use crate::suggest::SuggestedCommand;
use tidegate_core::format::{rate, time};

/// The campaigns and the limits of the deployment.
pub(super) type Deployed<'a> = (&'a [Campaign], &'a LimitsConfig);

/// How often a change of the cap is attempted, because a poller may change the rate factor at the
/// same time.
const TRIES: usize = 8;

/// Makes a change and records it in the history, unless there is nothing to change. `deployed` are the campaigns and
/// limits of the deployment.
///
/// # Errors
/// [`SteerError`]: nothing was changed; but after a lost answer of the ledger's it may be.
pub async fn steer(
    action: &SteerAction,
    author: &Author,
    deployed: Deployed<'_>,
    ledger: &(impl Ledger + History),
    clock: &impl Clock,
) -> Result<SteerReport, SteerError> {
    let now = EpochMillis::from(clock.wall());
    author.check()?;
    check(action, deployed.0, now)?;
    let (changed, detail, still_held) = match action {
        SteerAction::Cap(cap) => {
            let (changed, detail) = set_cap(ledger, *cap).await?;
            (changed, detail, Vec::new())
        }
        _ => set_control(action, author, deployed, ledger, now).await?,
    };
    let campaign = campaign(action).map(str::to_owned);
    let record = ChangeRecord { campaign, ..author.record(now, action.into(), detail) };
    // The change has been made. If it cannot be recorded, the report says so, but it is no failure.
    let recorded = changed && ledger.add(&record).await.is_ok();
    let in_force_within_s = IN_FORCE_WITHIN_S;
    Ok(SteerReport { changed, record, still_held, in_force_within_s, recorded })
}

fn campaign(action: &SteerAction) -> Option<&str> {
    match action {
        SteerAction::Pause { campaign, .. }
        | SteerAction::Resume { campaign }
        | SteerAction::Lift { campaign, .. } => campaign.as_deref(),
        SteerAction::Cancel { campaign, .. } => Some(campaign),
        SteerAction::Limit { key, .. } => key.campaign(),
        SteerAction::Weights(_) | SteerAction::ResetWeights | SteerAction::Cap(_) => None,
    }
}

fn check(action: &SteerAction, campaigns: &[Campaign], now: EpochMillis) -> Result<(), SteerError> {
    // A campaign that was removed from the configuration can still be resumed or lifted.
    let named: Vec<&str> = match action {
        SteerAction::Pause { .. }
        | SteerAction::Cancel { .. }
        | SteerAction::Limit { limit: Some(_), .. } => {
            campaign(action).filter(|name| *name != EXPRESS).into_iter().collect()
        }
        SteerAction::Weights(weights) => weights.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let known: Vec<&str> = campaigns.iter().map(|campaign| campaign.name.as_str()).collect();
    if let Some(name) = named.into_iter().find(|name| !known.contains(name)) {
        let known = known.into_iter().map(str::to_owned).collect();
        return Err(SteerError::NoCampaign { name: name.to_owned(), known });
    }
    match action {
        SteerAction::Pause { until: Some(until), .. } if *until <= now => {
            Err(SteerError::Past(time(*until)))
        }
        _ => Ok(()),
    }
}

/// Whether anything changed, a description, and the holds that remain after a resume or lift.
type ControlChange = (bool, String, Vec<String>);

async fn set_control(
    action: &SteerAction,
    author: &Author,
    deployed: Deployed<'_>,
    ledger: &impl Ledger,
    now: EpochMillis,
) -> Result<ControlChange, SteerError> {
    let standing = ledger.read().await?;
    let mut before = standing.control;
    // `change` applies the action again to a newer record if a write conflicts. Where the action is
    // invalid on a record, nothing of it is written.
    let refused = RefCell::new(None);
    let applied = change(ledger, standing.control_version, before.clone(), |control| {
        let mut tried = control.clone();
        match apply(&mut tried, action, author, deployed, now) {
            Ok(()) => *control = tried,
            Err(error) => drop(refused.replace(Some(error))),
        }
    });
    let applied = applied.await?;
    if let (ChangeOutcome::Nothing, Some(error)) = (&applied, refused.take()) {
        return Err(error);
    }
    let (changed, after) = match applied {
        ChangeOutcome::Made { before: stood, after } => {
            before = stood;
            (true, after)
        }
        ChangeOutcome::Nothing => (false, before.clone()),
        ChangeOutcome::Outrun => return Err(SteerError::Conflict),
    };
    let still_held = match action {
        SteerAction::Resume { .. } | SteerAction::Lift { .. } => {
            remaining_holds(&after, campaign(action))
        }
        _ => Vec::new(),
    };
    Ok((changed, describe(action, deployed, &before, &after), still_held))
}

/// The holds on a campaign or on all sending; a campaign is also held by those on all.
fn remaining_holds(control: &Control, campaign: Option<&str>) -> Vec<String> {
    let own = control.holds_on(campaign).into_iter().flat_map(Holds::reasons).map(str::to_owned);
    let all = campaign.map(|_| control.holds.reasons()).into_iter().flatten();
    own.chain(all.map(|reason| format!("{reason} (all sending)"))).collect()
}

fn apply(
    control: &mut Control,
    action: &SteerAction,
    author: &Author,
    (campaigns, limits): Deployed<'_>,
    now: EpochMillis,
) -> Result<(), SteerError> {
    let detail = format!("by {}: {}", author.by, author.reason.trim());
    match action {
        SteerAction::Pause { campaign, until } => {
            let stands = control.holds_on(campaign.as_deref());
            let stands = stands.and_then(|holds| holds.get(HoldReason::Paused));
            if let (Some(open), Some(_)) = (stands.filter(|hold| hold.until.is_none()), until) {
                let resume = SuggestedCommand::Resume { campaign: campaign.clone() };
                return Err(SteerError::PausedWithoutEnd { detail: open.detail.clone(), resume });
            }
            // A pause that is changed keeps its begin.
            let since = stands.map_or(now, |hold| hold.since);
            let hold = Hold::new(&detail, since).until(*until);
            control.lift(campaign.as_deref(), HoldReason::Paused);
            control.hold(campaign.as_deref(), HoldReason::Paused, hold);
        }
        SteerAction::Resume { campaign } => {
            control.lift(campaign.as_deref(), HoldReason::Paused);
        }
        SteerAction::Lift { campaign, reason } => {
            if !control.lift_named(campaign.as_deref(), reason) {
                let lift = |(campaign, hold, _): (Option<&str>, &str, &Hold)| {
                    let campaign = campaign.map(str::to_owned);
                    SuggestedCommand::Lift { hold: hold.to_owned(), campaign }
                };
                let lifts = control.named_holds().map(lift).collect();
                let (campaign, reason) = (campaign.clone(), reason.clone());
                return Err(SteerError::NoHold { campaign, reason, lifts });
            }
        }
        SteerAction::Cancel { campaign, cancel } => control.cancel(campaign, *cancel, &detail),
        SteerAction::Weights(weights) => {
            for (name, weight) in weights {
                let configured = campaigns.iter().find(|campaign| campaign.name == *name);
                // A configured weight needs no override, so that later changes of the configuration
                // apply.
                if configured.is_some_and(|campaign| campaign.weight == *weight) {
                    control.weights.remove(name);
                } else {
                    control.weights.insert(name.clone(), *weight);
                }
            }
            let weight = |of: &Campaign| control.weight(&of.name, of.weight);
            let in_force: Vec<u32> = campaigns.iter().map(weight).collect();
            Cycle::new(&in_force).map_err(|error| SteerError::Weights(error.to_string()))?;
        }
        SteerAction::ResetWeights => control.weights.clear(),
        SteerAction::Limit { key, limit } => {
            limit::apply(control, key, limit.as_deref(), limits)?;
        }
        SteerAction::Cap(_) => {}
    }
    Ok(())
}

fn describe(
    action: &SteerAction,
    (campaigns, limits): Deployed<'_>,
    before: &Control,
    after: &Control,
) -> String {
    match action {
        SteerAction::Pause { until, .. } => until
            .map_or_else(|| "until resumed".to_owned(), |until| format!("until {}", time(until))),
        SteerAction::Resume { .. } => "not paused any more".to_owned(),
        SteerAction::Lift { reason, .. } => reason.clone(),
        SteerAction::Cancel { cancel, .. } => {
            let then = if cancel.keep { "kept as dead letters" } else { "deleted" };
            format!("mail enqueued until {} is {then}", time(cancel.at))
        }
        SteerAction::Weights(_) | SteerAction::ResetWeights => {
            let changed = campaigns.iter().filter_map(|Campaign { name, weight, .. }| {
                let [old, new] = [before, after].map(|control| control.weight(name, *weight));
                (old != new).then(|| format!("{name} {old} → {new}"))
            });
            let words: Vec<String> = changed.collect();
            if words.is_empty() { "as before".to_owned() } else { words.join(", ") }
        }
        SteerAction::Limit { key, .. } => {
            let shown = |control: &Control| limit::shown(control, key, &limits.initial);
            format!("{key} {} → {}", shown(before), shown(after))
        }
        SteerAction::Cap(_) => String::new(),
    }
}

async fn set_cap(ledger: &impl Ledger, cap: Option<Rate>) -> Result<(bool, String), SteerError> {
    let shown = |cap: Option<Rate>| cap.map_or("none".to_owned(), |cap| rate(cap.as_per_second()));
    for _ in 0..TRIES {
        let standing = ledger.read().await?;
        let from = standing.factor;
        let quota = standing.control.last_known_quota;
        let above = quota.zip(cap).filter(|(quota, cap)| cap > quota).map(|(quota, _)| {
            let quota = rate(quota.as_per_second());
            format!(", which is above the account's quota of {quota} and lowers nothing")
        });
        let above = above.unwrap_or_default();
        let detail = format!("cap {} → {}{above}", shown(from.cap), shown(cap));
        if from.cap == cap {
            return Ok((false, detail));
        }
        // Pollers change the factor too, so the write is conditional on the value read.
        if ledger.set_factor(from, from.capped(cap)).await? {
            return Ok((true, detail));
        }
    }
    Err(SteerError::Conflict)
}
