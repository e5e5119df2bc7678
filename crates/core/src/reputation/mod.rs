//! Bounces and complaints: counted by campaign, and where they are too many of what was sent, the
//! campaign is held before SES holds the account.
//!
//! SES puts an account under review from 5 % bounces or 0.1 % complaints on, and may stop its sending
//! at 10 % or 0.5 % (SES developer guide, "Reputation metrics messages"). It judges the account; a
//! single bad list is enough to stop all campaigns.
//!
//! Both sides of the share are of the same span: the running period of 48 hours and the one before, so
//! of the last two to four days. Bounces mostly come within minutes, complaints within a day or two: a
//! shorter span would set them against what was sent after the mail they are about.

mod notice;
mod review;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;
use crate::parts::fnv1a;
pub use notice::{Notice, NoticeError, NoticeKind};
pub use review::review;

/// How long figures are added up before they become the ones before.
const PERIOD: Duration = Duration::from_hours(48);
/// Messages that are remembered as counted, so that one that comes again is not counted again: the
/// feedback queue gives at least once, and a reader may die between its count and its deletes.
pub const REMEMBERED: usize = 50;
/// A single bounce or complaint holds no campaign, whatever its share.
const LEAST_EVENTS: u64 = 2;
/// Shares are whole millionths, so that no rounding decides.
const WHOLE: u128 = 1_000_000;

/// When bounces and complaints hold a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReputationPolicy {
    /// Whether they hold it, or are counted only.
    pub holds: bool,
    /// Bounces from which on it is held, in millionths of the recipients sent to.
    pub bounce_share: u64,
    /// Complaints likewise.
    pub complaint_share: u64,
    /// Recipients sent to, below which nothing is judged.
    pub minimum: u64,
}

impl Default for ReputationPolicy {
    /// Where SES would review the account: 5 % bounces, 0.1 % complaints; of 1,000 and more.
    fn default() -> Self {
        Self { holds: true, bounce_share: 50_000, complaint_share: 1_000, minimum: 1_000 }
    }
}

/// What was sent to recipients and what came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReputationFigures {
    /// Recipients sent to.
    pub sent: u64,
    /// Bounces.
    pub bounced: u64,
    /// Complaints.
    pub complained: u64,
}

/// A campaign's count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tally {
    /// Where the campaign's sum of recipients sent to stood as the running period began.
    pub from: u64,
    /// Bounces of the running period.
    #[serde(skip_serializing_if = "is_zero")]
    pub bounced: u64,
    /// Complaints of the running period.
    #[serde(skip_serializing_if = "is_zero")]
    pub complained: u64,
    /// The figures of the period before.
    #[serde(skip_serializing_if = "is_empty")]
    pub before: ReputationFigures,
    /// It was held for these figures. Once that hold is gone, it counts anew.
    #[serde(skip_serializing_if = "is_not")]
    pub held: bool,
}

/// The counts of all campaigns, in the control record.
///
/// About 30 bytes a campaign, 50 bytes more where something came back, and at most 550 for the
/// messages remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reputation {
    /// When the running period began.
    pub since: EpochMillis,
    /// By campaign; express mail under the name `express`.
    #[serde(default)]
    pub campaigns: BTreeMap<String, Tally>,
    /// The messages counted last, the newest at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remembered: Vec<u32>,
}

/// A notice and the mark of the message that brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// What is remembered of the message; see [`mark`].
    pub mark: u32,
    /// What it says.
    pub notice: Notice,
}

/// What is remembered of a message: 32 bits of its id's hash. That a new message has the mark of one
/// of the 50 remembered is as likely as one in 86 million; it is then not counted.
pub fn mark(message_id: &str) -> u32 {
    fnv1a(message_id)
}

fn sum(sent: &BTreeMap<String, u64>, campaign: &str) -> u64 {
    sent.get(campaign).copied().unwrap_or(0)
}

impl Reputation {
    /// Nothing is known of what was sent before.
    fn beginning(sent: &BTreeMap<String, u64>, now: EpochMillis) -> Self {
        let campaigns = sent.iter().map(|(name, sum)| (name.clone(), Tally::counting_from(*sum)));
        Self { since: now, campaigns: campaigns.collect(), remembered: Vec::new() }
    }

    /// Adds what is not remembered, and remembers it.
    fn add<'a>(&mut self, heard: &'a [Heard]) -> Vec<&'a Notice> {
        let mut new = Vec::new();
        for Heard { mark, notice } in heard {
            if self.remembered.contains(mark) {
                continue;
            }
            self.remembered.push(*mark);
            let tally = self.campaigns.entry(notice.campaign.clone()).or_default();
            match notice.kind {
                NoticeKind::Bounce => tally.bounced += 1,
                NoticeKind::Complaint => tally.complained += 1,
            }
            new.push(notice);
        }
        let beyond = self.remembered.len().saturating_sub(REMEMBERED);
        self.remembered.drain(..beyond);
        new
    }
}

impl Tally {
    /// Nothing yet, of a campaign whose sum stands at `sum`.
    fn counting_from(sum: u64) -> Self {
        Self { from: sum, ..Self::default() }
    }

    /// The running period's figures, of a campaign whose sum stands at `sum`.
    fn running(&self, sum: u64) -> ReputationFigures {
        // A sum below where it stood was forgotten meanwhile, and counts anew.
        let sent = sum.checked_sub(self.from).unwrap_or(sum);
        ReputationFigures { sent, bounced: self.bounced, complained: self.complained }
    }

    /// The figures of the running period and the one before; `sum` is the campaign's sum of recipients
    /// sent to since ever.
    pub fn figures(&self, sum: u64) -> ReputationFigures {
        let running = self.running(sum);
        ReputationFigures {
            sent: running.sent.saturating_add(self.before.sent),
            bounced: running.bounced.saturating_add(self.before.bounced),
            complained: running.complained.saturating_add(self.before.complained),
        }
    }
}

impl ReputationPolicy {
    /// Why these figures hold a campaign, in words; none where they do not.
    pub fn verdict(&self, figures: &ReputationFigures) -> Option<String> {
        let ReputationFigures { sent, bounced, complained } = *figures;
        let judged = sent >= self.minimum;
        let too_many = |(_, events, share): &(&str, u64, u64)| {
            let share_reached =
                u128::from(*events) * WHOLE >= u128::from(*share) * u128::from(sent);
            judged && *events >= LEAST_EVENTS && share_reached
        };
        let (what, events, share) = [
            ("bounces", bounced, self.bounce_share),
            ("complaints", complained, self.complaint_share),
        ]
        .into_iter()
        .find(too_many)?;
        Some(format!(
            "{events} {what} of {sent} recipients sent to within four days are {}; {} and more hold",
            percent(u128::from(events) * WHOLE / u128::from(sent.max(1))),
            percent(u128::from(share))
        ))
    }
}

/// Millionths in words, cut off after the second decimal.
fn percent(millionths: u128) -> String {
    format!("{}.{:02} %", millionths / 10_000, millionths % 10_000 / 100)
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

fn is_empty(figures: &ReputationFigures) -> bool {
    *figures == ReputationFigures::default()
}

#[cfg(test)]
mod tests;
