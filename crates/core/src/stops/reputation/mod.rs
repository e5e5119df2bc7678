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

mod notice;
mod review;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;
use crate::limits::{DeferralLevel, RampTally};
use crate::stored::is_default;
pub use notice::{LIMIT_TAG, Notice, NoticeError, NoticeKind, dropped_identity};
pub use review::{adapt, review};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        Self { since: now, campaigns: campaigns.collect(), ..Self::default() }
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

#[cfg(test)]
mod tests;
