//! Limits hear of the notices about their mail: adaptive ones are lowered, and warm-ups lose days.

use std::collections::BTreeMap;

use super::{Notice, NoticeKind};
use crate::control::Control;
use crate::limits::{InitialLimits, LimitTable, RampTally};
use crate::rate::Rate;
use crate::timestamp::Window;

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
