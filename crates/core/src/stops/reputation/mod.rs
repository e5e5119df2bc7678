//! Reputation: counts bounces and complaints per campaign. A campaign with too many of them is held
//! before SES stops the whole account.
//!
//! SES puts an account under review at 5 % bounces or 0.1 % complaints, and may stop its sending at
//! 10 % or 0.5 % (SES developer guide, "Reputation metrics messages"). SES judges the account, so one bad
//! list can stop all campaigns.
//!
//! Both sides of the share cover the same time: the running period of up to 48 hours and the 48 hours
//! before it, which are the last two to four days. Most bounces arrive within minutes, complaints
//! within a day or two. A shorter time would compare them with mail that was sent after the mail they
//! concern.
//!
//! The scheduler makes the review once a minute: it counts notices and holds campaigns with too
//! many.

mod notice;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::control::{Control, Hold, HoldReason};
use crate::identity::EpochMillis;
use crate::limits::{DeferralLevel, InitialLimits, LimitTable, RampTally};
use crate::rate::Rate;
use crate::stored::is_default;
use crate::{Timestamp, Window};

pub use notice::{LIMIT_TAG, Notice, NoticeError, NoticeKind, dropped_identity};

/// Length of a period. At its end the running figures replace those of the period before.
const PERIOD: Duration = Duration::from_hours(48);
/// Number of notices that the control record remembers as counted, and most that are counted at once. Each gets
/// marks of its own in the ledger afterwards; this bridges the time until these are written.
pub const REMEMBERED: usize = 100;
/// Time for which the ledger keeps the mark of a notice that was counted: as long as the mark of any mail.
pub const MARKED: Duration = Duration::from_hours(90 * 24);
/// Least number of bounces or complaints that holds a campaign: a single one never does.
const LEAST_EVENTS: u64 = 2;
/// Least number of recipients whose mail SES dropped that holds a campaign. The minimum of sent mail does not
/// apply: what is sent on is lost.
const LEAST_DROPPED: u64 = 10;
/// Millionths in 1. Shares are whole millionths, so that no rounding of fractions decides.
const WHOLE: u128 = 1_000_000;

/// The shares of bounces and complaints that hold a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReputationPolicy {
    /// True if they hold the campaign; false if they are only counted.
    pub holds: bool,
    /// Bounces, or dropped mail, that hold a campaign, in millionths of the recipients sent to; 50,000 is 5 %.
    pub bounce_share: u64,
    /// Complaints that hold a campaign, in millionths of the recipients sent to; 1,000 is 0.1 %.
    pub complaint_share: u64,
    /// Least number of recipients sent to for which a campaign is judged.
    pub minimum: u64,
}

/// Counts of sent mail, bounces and complaints of one campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReputationFigures {
    /// Recipients that mail was sent to.
    pub sent: u64,
    /// Hard bounces of that mail, as SES reported them.
    pub bounced: u64,
    /// Spam complaints about that mail, as SES reported them.
    pub complained: u64,
    /// Recipients of that mail whom SES did not try to reach; it counts them as neither bounces nor complaints.
    pub suppressed: u64,
    /// Recipients of mail that SES accepted and then dropped.
    pub dropped: u64,
}

/// The counts of one campaign in the control record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// The campaign's total of recipients sent to at the beginning of the running period.
    pub from: u64,
    /// Notices counted in the running period; `sent` follows from `from`.
    #[serde(skip_serializing_if = "is_default")]
    pub running: ReputationFigures,
    /// The counts of the period before.
    #[serde(skip_serializing_if = "is_default")]
    pub before: ReputationFigures,
    /// True if the campaign was held for these counts. Once that hold is lifted, counting starts anew.
    #[serde(skip_serializing_if = "is_default")]
    pub held: bool,
}

/// The counts of all campaigns, a member of the control record.
///
/// It takes about 30 bytes per campaign, 90 more per campaign with bounces or complaints, and at most
/// 1,100 for the remembered messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reputation {
    /// Time at which the running period began.
    pub since: EpochMillis,
    /// Counts by campaign name; express mail has the name `express`.
    #[serde(default)]
    pub campaigns: BTreeMap<String, Tally>,
    /// Marks of the notices counted last, the newest at the end; at most [`REMEMBERED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<u32>,
    /// How much of the mail under adaptive limits was deferred of late, by the limit's tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub deferrals: BTreeMap<String, DeferralLevel>,
    /// Today's notices about mail under warm-ups, by the limit's tag.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ramps: BTreeMap<String, RampTally>,
}

fn sum(sent: &BTreeMap<String, u64>, campaign: &str) -> u64 {
    sent.get(campaign).copied().unwrap_or(0)
}

impl Reputation {
    /// The counts at the first review: nothing is known of earlier mail.
    fn beginning(sent: &BTreeMap<String, u64>, now: EpochMillis) -> Self {
        let campaigns = sent.iter().map(|(name, sum)| (name.clone(), Tally::counting_from(*sum)));
        Self {
            since: now,
            campaigns: campaigns.collect(),
            remembered: Vec::new(),
            deferrals: BTreeMap::new(),
            ramps: BTreeMap::new(),
        }
    }

    /// Counts and remembers the notices that are not remembered yet; returns these.
    fn add<'a>(&mut self, heard: &'a [Notice]) -> Vec<&'a Notice> {
        let mut new = Vec::new();
        for notice in heard {
            let mark = notice.mark();
            if self.remembered.contains(&mark) {
                continue;
            }
            self.remembered.push(mark);
            let counts = &mut self.campaigns.entry(notice.campaign.clone()).or_default().running;
            match notice.kind {
                NoticeKind::Bounce => counts.bounced += notice.slots,
                NoticeKind::Complaint => counts.complained += notice.slots,
                NoticeKind::Suppressed => counts.suppressed += notice.slots,
                NoticeKind::Dropped => counts.dropped += notice.slots,
                NoticeKind::Deferral => {}
            }
            new.push(notice);
        }
        let beyond = self.remembered.len().saturating_sub(REMEMBERED);
        self.remembered.drain(..beyond);
        new
    }
}

impl Tally {
    /// Counts that start now, for a campaign whose total of recipients is `sum`.
    fn counting_from(sum: u64) -> Self {
        Self { from: sum, ..Self::default() }
    }

    /// The counts of the running period, for a campaign whose total of recipients is `sum`.
    fn running(&self, sum: u64) -> ReputationFigures {
        // A total below its earlier value was deleted meanwhile and has started at 0 again.
        let sent = sum.checked_sub(self.from).unwrap_or(sum);
        ReputationFigures { sent, ..self.running }
    }

    /// The counts of the running period and the one before together. `sum` is the campaign's total of
    /// recipients ever sent to.
    pub fn figures(&self, sum: u64) -> ReputationFigures {
        let (running, before) = (self.running(sum), &self.before);
        ReputationFigures {
            sent: running.sent.saturating_add(before.sent),
            bounced: running.bounced.saturating_add(before.bounced),
            complained: running.complained.saturating_add(before.complained),
            suppressed: running.suppressed.saturating_add(before.suppressed),
            dropped: running.dropped.saturating_add(before.dropped),
        }
    }
}

impl ReputationPolicy {
    /// The reason for which these counts hold a campaign, in words; none if they do not hold it.
    ///
    /// Example: 60 bounces of 1,000 recipients are 6 %, which is at least 5 %, so the campaign is held.
    pub fn verdict(&self, figures: &ReputationFigures) -> Option<String> {
        let ReputationFigures { sent, bounced, complained, dropped, .. } = *figures;
        let (minimum, least) = (self.minimum, LEAST_EVENTS);
        let judged = [
            ("bounces", bounced, self.bounce_share, (minimum, least)),
            ("complaints", complained, self.complaint_share, (minimum, least)),
            ("dropped by SES", dropped, self.bounce_share, (0, LEAST_DROPPED)),
        ];
        let too_many = |(_, events, share, (minimum, least)): &(&str, u64, u64, (u64, u64))| {
            let share_reached =
                u128::from(*events) * WHOLE >= u128::from(*share) * u128::from(sent);
            sent >= *minimum && events >= least && share_reached
        };
        let (what, events, share, _) = judged.into_iter().find(too_many)?;
        Some(format!(
            "{events} {what} of {sent} recipients sent to within four days are {}; {} and more hold",
            percent(u128::from(events) * WHOLE / u128::from(sent.max(1))),
            percent(u128::from(share))
        ))
    }
}

/// Writes millionths as per cent, cut off after the second decimal: 51,299 is `5.12 %`.
fn percent(millionths: u128) -> String {
    format!("{}.{:02} %", millionths / 10_000, millionths % 10_000 / 100)
}

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

#[cfg(test)]
mod tests;
