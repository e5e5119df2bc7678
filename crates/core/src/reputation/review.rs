//! The review that the scheduler makes once a minute: it counts notices and holds campaigns with too
//! many.

use std::collections::BTreeMap;

use super::{Notice, PERIOD, Reputation, ReputationPolicy, Tally, sum};
use crate::Timestamp;
use crate::control::{Control, Hold, HoldReason};
use crate::identity::EpochMillis;

/// Updates the counts in `control` to `now`. `sent` is each campaign's total of recipients ever sent
/// to. Returns the notices of `heard` that had not been counted before.
///
/// In this order: it starts a new period if one is due, starts campaigns anew whose hold was lifted,
/// counts `heard`, and holds each campaign whose counts reach the policy's shares.
pub fn review<'a>(
    control: &mut Control,
    policy: &ReputationPolicy,
    sent: &BTreeMap<String, u64>,
    heard: &'a [Notice],
    now: EpochMillis,
) -> Vec<&'a Notice> {
    let mut reputation = up_to_date(control.reputation.take(), sent, now);
    for (name, tally) in &mut reputation.campaigns {
        let holds = control.campaign_holds.get(name);
        let stands = holds.is_some_and(|holds| holds.get(HoldReason::Reputation).is_some());
        // The hold was lifted: the figures that caused it must not hold the campaign again.
        if tally.held && !stands {
            *tally = Tally::counting_from(sum(sent, name));
        }
    }
    let new = reputation.add(heard);
    if policy.holds {
        for (name, tally) in &mut reputation.campaigns {
            let verdict = policy.verdict(&tally.figures(sum(sent, name)));
            if let Some(mut detail) = verdict.filter(|_| !tally.held) {
                tally.held = true;
                let mut own = new.iter().filter(|notice| notice.campaign == *name);
                if let Some(reason) = own.find_map(|notice| notice.reason.as_ref()) {
                    detail = format!("{detail}: {reason}");
                }
                control.hold(Some(name), HoldReason::Reputation, Hold::new(&detail, now));
            }
        }
    }
    control.reputation = Some(reputation);
    new
}

/// The counts of the running period, with an entry for every campaign that mail was ever sent to.
fn up_to_date(
    before: Option<Reputation>,
    sent: &BTreeMap<String, u64>,
    now: EpochMillis,
) -> Reputation {
    let Some(mut reputation) = before else { return Reputation::beginning(sent, now) };
    let age = Timestamp::from(now).saturating_since(reputation.since.into());
    if age >= 2 * PERIOD {
        // No review was made for a whole period, so nothing is known of the last two.
        let held = reputation.campaigns.into_iter().filter(|(_, tally)| tally.held);
        reputation = Reputation::beginning(sent, now);
        for (name, _) in held {
            reputation.campaigns.entry(name).or_default().held = true;
        }
    } else if age >= PERIOD {
        reputation.since = now;
        for (name, tally) in &mut reputation.campaigns {
            // The running figures become those of the period before.
            let (before, held) = (tally.running(sum(sent, name)), tally.held);
            *tally = Tally { before, held, ..Tally::counting_from(sum(sent, name)) };
        }
    }
    for name in sent.keys() {
        // Reviews see all campaigns every minute, so a campaign that is new here had sent nothing
        // before.
        reputation.campaigns.entry(name.clone()).or_default();
    }
    reputation
}
