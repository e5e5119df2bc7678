//! The review that the scheduler makes once a minute: it counts notices and holds campaigns with too
//! many.

use std::collections::BTreeMap;

use super::{Notice, NoticeKind, PERIOD, Reputation, ReputationPolicy, Tally, sum};
use crate::control::{Control, Hold, HoldReason};
use crate::identity::EpochMillis;
use crate::limits::{InitialLimits, LimitTable, RampTally};
use crate::rate::Rate;
use crate::{Timestamp, Window};

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

/// Changes the limits of `control` by notices that were not counted before. `quota` is the account's rate.
pub fn adapt(control: &mut Control, notices: &[&Notice], quota: Rate, now: Window) {
    if notices.iter().all(|notice| notice.limits.is_empty()) {
        return;
    }
    let table = control.limit_table(&InitialLimits::default());
    let mut deferred = BTreeMap::<&str, Vec<Window>>::new();
    for notice in notices {
        for tag in notice.tags() {
            if notice.kind == NoticeKind::Deferral {
                let sent = notice.sent_at.map_or(now, |at| Window::containing(at.into()));
                deferred.entry(tag).or_default().push(sent);
            }
            set_back(control, &table, tag, notice.kind, now);
        }
    }
    if let Some(reputation) = control.reputation.as_mut().filter(|_| !deferred.is_empty()) {
        let levels = &mut reputation.deferrals;
        control.adapted = table.after_deferrals(levels, &deferred, quota, now);
    }
}

/// Counts a notice for the warm-up with this tag, and sets the warm-up back if its day is a bad one.
fn set_back(control: &mut Control, table: &LimitTable, tag: &str, kind: NoticeKind, now: Window) {
    let found = table.tagged(tag).and_then(|of| table.get(of.index));
    let Some((key, limit)) = found.filter(|(_, limit)| limit.ramp.is_some()) else { return };
    let (zone, hours) = (limit.zone(), limit.hours.as_ref());
    let Some(reputation) = &mut control.reputation else { return };
    let today = zone.day_of(now);
    let fresh = || RampTally::of(today);
    let tally = reputation.ramps.entry(tag.to_owned()).or_insert_with(fresh);
    if tally.day != today {
        *tally = fresh();
    }
    match kind {
        NoticeKind::Bounce => tally.bounces += 1,
        NoticeKind::Complaint => tally.complaints += 1,
        NoticeKind::Deferral => tally.deferrals += 1,
        NoticeKind::Suppressed | NoticeKind::Dropped => {}
    }
    let ramp = limit.ramp.as_ref().and_then(|ramp| ramp.after(tally, hours, &zone, now));
    if let (Some(ramp), Some(Some(stored))) = (ramp, control.limits.get_mut(key)) {
        stored.ramp = Some(ramp);
    }
}
