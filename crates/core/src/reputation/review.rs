//! A minute's review: counts what came, and holds campaigns that have too much of it.

use std::collections::BTreeMap;

use super::{Heard, Notice, PERIOD, Reputation, ReputationPolicy, Tally, sum};
use crate::Timestamp;
use crate::control::{Control, Hold, HoldReason};
use crate::identity::EpochMillis;

/// Brings the counts in `control` up to `now`: begins a period, counts anew what was lifted, adds what
/// was `heard`, and holds whatever campaign has too much of it. `sent` is each campaign's sum of
/// recipients sent to since ever. Gives those of `heard` that were not counted before.
pub fn review<'a>(
    control: &mut Control,
    policy: &ReputationPolicy,
    sent: &BTreeMap<String, u64>,
    heard: &'a [Heard],
    now: EpochMillis,
) -> Vec<&'a Notice> {
    let mut reputation = up_to_date(control.reputation.take(), sent, now);
    for (name, tally) in &mut reputation.campaigns {
        let holds = control.campaign_holds.get(name);
        let stands = holds.is_some_and(|holds| holds.get(HoldReason::Reputation).is_some());
        if tally.held && !stands {
            *tally = Tally::counting_from(sum(sent, name));
        }
    }
    let new = reputation.add(heard);
    if policy.holds {
        for (name, tally) in &mut reputation.campaigns {
            let verdict = policy.verdict(&tally.figures(sum(sent, name)));
            if let Some(detail) = verdict.filter(|_| !tally.held) {
                tally.held = true;
                control.hold(Some(name), HoldReason::Reputation, Hold::new(&detail, now));
            }
        }
    }
    control.reputation = Some(reputation);
    new
}

/// The record of the running period, with every campaign that was ever sent.
fn up_to_date(
    before: Option<Reputation>,
    sent: &BTreeMap<String, u64>,
    now: EpochMillis,
) -> Reputation {
    let Some(mut reputation) = before else { return Reputation::beginning(sent, now) };
    let age = Timestamp::from(now).saturating_since(reputation.since.into());
    if age >= 2 * PERIOD {
        // Nobody looked for a whole period: nothing is known of the last two.
        let held = reputation.campaigns.into_iter().filter(|(_, tally)| tally.held);
        reputation = Reputation::beginning(sent, now);
        for (name, _) in held {
            reputation.campaigns.entry(name).or_default().held = true;
        }
    } else if age >= PERIOD {
        reputation.since = now;
        for (name, tally) in &mut reputation.campaigns {
            let (before, held) = (tally.running(sum(sent, name)), tally.held);
            *tally = Tally { before, held, ..Tally::counting_from(sum(sent, name)) };
        }
    }
    for name in sent.keys() {
        // All are looked at every minute: one that is new here had sent nothing before.
        reputation.campaigns.entry(name.clone()).or_default();
    }
    reputation
}
