//! The record of a window that the poller logs, and by which `tidegate audit` judges a run: its claim, its rate, and
//! each send that began.
//!
//! It is a line of JSON for each window, in which a send is a list of about 40 characters. For example,
//! `[137,2045,0,1,"a",0,0,7346235518712377405]` is the start of a mail of the first campaign with one recipient, 2,045 µs
//! after the window's slot 137; SES accepted it, and it came from the merge queue, where it had waited for less than a minute.

use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::grid::SlotGrid;
use crate::identity::Identity;
use crate::rate::{Rate, RateMargin};
use crate::timestamp::Window;

/// Sends on one line: less than 300 kB, of the 1 MB that CloudWatch takes as one event.
const SENDS_ON_A_LINE: usize = 4_000;

/// The record of one window, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    /// The version of this form: 1.
    pub audit: u8,
    /// The window that was claimed.
    pub window: Window,
    /// Lambda's id of the request, or the token of the claim.
    pub request: String,
    /// 0; also 1, 2, … where the sends are too many for one line.
    pub part: u32,
    /// The rate with which it was served.
    pub rate: Rate,
    /// The rate margin with which it was served.
    pub margin: RateMargin,
    /// The claim of the window.
    pub claim: ClaimRecord,
    /// Deletes, moves and writes to the store that failed for good.
    pub undone: u64,
    /// The campaigns with a share, and others that the sends name.
    pub campaigns: Vec<CampaignRecord>,
    /// In the order in which they ended.
    pub sends: Vec<SendRecord>,
}

/// The claim of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRecord {
    /// The window of the claim before.
    pub previous: Option<Window>,
    /// The windows since then that the poller counted as missed; `None` if it counts none, because it has no tick or the
    /// stack slept.
    pub missed: Option<u64>,
    /// How long before the window's opening its tick came.
    pub early_ms: u64,
    /// How long the claim took.
    pub took_ms: u64,
}

/// A campaign of a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CampaignRecord {
    /// The campaign's name.
    pub name: String,
    /// The weight in force; 0 if it had less mail than its share, or has none.
    pub weight: u64,
}

/// A send whose request was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SendRecord {
    /// The number of its slot among those of the window's grid.
    pub slot: u64,
    /// Microseconds from its slot to its start.
    pub after_us: i64,
    /// The place of its campaign in the list.
    pub campaign: u32,
    /// Recipients, or parts of a text.
    pub recipients: u32,
    /// The answer to it.
    pub outcome: SendOutcome,
    /// Whole minutes for which it had waited on the merge queue, at most 254; 255 from another queue.
    pub waited_min: u64,
    /// How often it had returned to its campaign's queue, for a retry, a hold or its time.
    pub pass: u32,
    /// The first 8 bytes of the SHA-256 of the mail's identity.
    pub identity: u64,
}

/// The answer to a send whose request was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SendOutcome {
    /// SES accepted it.
    #[serde(rename = "a")]
    Accepted,
    /// SES refused it for the rate.
    #[serde(rename = "r")]
    Refused,
    /// SES may have accepted it.
    #[serde(rename = "p")]
    Possible,
    /// SES refused it for another reason, or failed.
    #[serde(rename = "f")]
    Failed,
}

/// A list takes half of what an object with names would. One is read as if it were an object.
impl Serialize for SendRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { slot, after_us, campaign, recipients, outcome, waited_min, pass, identity } =
            self;
        (slot, after_us, campaign, recipients, outcome, waited_min, pass, identity)
            .serialize(serializer)
    }
}

/// The hash by which a record names a mail.
pub fn identity_hash(identity: &Identity) -> u64 {
    let hash: [u8; 32] = Sha256::digest(identity.as_str()).into();
    hash.first_chunk().map_or(0, |begin| u64::from_be_bytes(*begin))
}

impl AuditRecord {
    /// The lines to log; several for a window with thousands of mails.
    pub fn lines(mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let rest = self.sends.split_off(self.sends.len().min(SENDS_ON_A_LINE));
            lines.push(serde_json::to_string(&self).unwrap_or_default());
            if rest.is_empty() {
                return lines;
            }
            self.sends = rest;
            self.part += 1;
        }
    }

    /// The slots of all windows at this rate, and the latest starts in them.
    pub const fn grid(&self) -> SlotGrid {
        SlotGrid::new(self.rate, self.margin)
    }

    /// The place of a campaign in the list; one that is not on it is added without a share.
    pub fn place_of(&mut self, campaign: &str) -> u32 {
        let known = self.campaigns.iter().position(|known| known.name == campaign);
        let place = known.unwrap_or_else(|| {
            self.campaigns.push(CampaignRecord { name: campaign.to_owned(), weight: 0 });
            self.campaigns.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sends() -> impl Strategy<Value = SendRecord> {
        let outcomes = prop::sample::select(vec![
            SendOutcome::Accepted,
            SendOutcome::Refused,
            SendOutcome::Possible,
            SendOutcome::Failed,
        ]);
        let numbers = (any::<u64>(), any::<i64>(), any::<[u32; 3]>());
        (numbers, outcomes, any::<u64>(), any::<u64>()).prop_map(
            |((slot, after_us, [campaign, recipients, pass]), outcome, waited_min, identity)| {
                SendRecord {
                    slot,
                    after_us,
                    campaign,
                    recipients,
                    outcome,
                    waited_min,
                    pass,
                    identity,
                }
            },
        )
    }

    fn usual() -> SendRecord {
        let identity = identity_hash(&Identity::from_body_id("news", "7"));
        SendRecord {
            slot: 137,
            after_us: 2_045,
            campaign: 1,
            recipients: 1,
            outcome: SendOutcome::Accepted,
            waited_min: 0,
            pass: 0,
            identity,
        }
    }

    fn record(sends: Vec<SendRecord>) -> AuditRecord {
        let campaign = |name: &str, weight| CampaignRecord { name: name.to_owned(), weight };
        AuditRecord {
            audit: 1,
            window: Window::from_epoch_second(1_795_206_967),
            request: "4f1c".to_owned(),
            part: 0,
            rate: Rate::per_second(14.0).unwrap(),
            margin: RateMargin::default(),
            claim: ClaimRecord {
                previous: Some(Window::from_epoch_second(1_795_206_965)),
                missed: Some(1),
                early_ms: 330,
                took_ms: 6,
            },
            undone: 2,
            campaigns: vec![campaign("big", 90), campaign("express", 0)],
            sends,
        }
    }

    proptest! {
        #[test]
        fn a_record_reads_back_equal_from_its_line(sends in prop::collection::vec(sends(), 0..40)) {
            let record = record(sends);
            let lines = record.clone().lines();
            prop_assert_eq!(lines.len(), 1);
            let begin = lines[0].get(..11);
            prop_assert_eq!(begin, Some("{\"audit\":1,"));
            prop_assert_eq!(serde_json::from_str::<AuditRecord>(&lines[0]).unwrap(), record);
        }
    }

    #[test]
    fn a_window_of_ten_thousand_mails_is_split_into_lines_of_less_than_300_kb() {
        let send = SendRecord { slot: 9_999, after_us: -9_999_999, identity: u64::MAX, ..usual() };
        let lines = record(vec![send; 10_000]).lines();
        assert!(lines.iter().all(|line| line.len() < 300_000));
        let parts: Vec<AuditRecord> =
            lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(parts.iter().map(|part| part.part).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(parts.into_iter().flat_map(|part| part.sends).count(), 10_000);
    }

    #[test]
    fn a_usual_mail_takes_about_40_bytes() {
        let length = |sends| record(sends).lines().remove(0).len();
        let own = length(vec![usual(), usual()]) - length(vec![usual()]);
        assert!((38..=45).contains(&own), "{own}");
    }

    #[test]
    fn a_line_that_is_no_record_says_which_member_is_wrong() {
        let line = record(vec![usual()]).lines().remove(0);
        let broken = [
            (line.replace("\"a\"", "\"x\""), "unknown variant `x`"),
            (line.replace("14.0", "-1"), "-1 recipients a second is no rate"),
            (line.replace("\"part\":0,", ""), "missing field `part`"),
        ];
        for (line, said) in broken {
            let error = serde_json::from_str::<AuditRecord>(&line).unwrap_err().to_string();
            assert!(error.contains(said), "{line}: {error}");
        }
    }
}
