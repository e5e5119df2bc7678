//! Counts what arrived.

mod minute;

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use crate::sandbox::mailbox::{MailFields, MailRecord, rfc3339};
use crate::sliding_second::SlidingSecond;
use minute::LastMinute;
pub use minute::Second;

/// The tag whose value names a mail's campaign.
const CAMPAIGN_TAG: &str = "tidegate_campaign";
/// The tag whose value names a mail within its campaign.
const ID_TAG: &str = "tidegate_id";

/// Mails and the recipients in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct MailCount {
    pub mails: u64,
    /// Recipients in To, Cc and Bcc.
    pub recipients: u64,
}

impl MailCount {
    fn add(&mut self, recipients: u32) {
        self.mails += 1;
        self.recipients += u64::from(recipients);
    }
}

/// Counters since the start, or since the mailbox was last emptied.
#[derive(Debug, Clone, Default, Serialize)]
// More than 12 fields: one for each counter of the endpoint.
pub struct SesStats {
    /// Every `SendEmail` that arrived, whatever became of it; recipients of those that could be read.
    pub arrived: MailCount,
    /// Accepted mails, whether the answer was sent or withheld.
    pub accepted: MailCount,
    /// Refusals by error code, injected ones too.
    pub refused: BTreeMap<String, u64>,
    /// Faults by kind (`error`, `lost-answer`, `reset`, `timeout`), of `GetAccount` too.
    pub faults: BTreeMap<&'static str, u64>,
    /// Accepted mails by the value of their tag `tidegate_campaign`; untagged mails are in none.
    pub campaigns: BTreeMap<String, MailCount>,
    /// Accepted mails whose tags `tidegate_campaign` and `tidegate_id` an earlier one had.
    pub duplicates: u64,
    /// The most recipients accepted in any half-open second.
    pub worst_sliding_second: u64,
    /// The most recipients that arrived in any half-open second, refused or not.
    pub worst_sliding_second_offered: u64,
    /// The first accepted mail's arrival, RFC 3339.
    pub first_arrival: Option<String>,
    /// The same in nanoseconds since the Unix epoch.
    pub first_arrival_ns: Option<u64>,
    /// The last accepted mail's arrival, RFC 3339.
    pub last_arrival: Option<String>,
    /// The same in nanoseconds since the Unix epoch.
    pub last_arrival_ns: Option<u64>,
    /// The last accepted mail's number; 0 before the first.
    pub last_seq: u64,
    /// Mails whose metadata is no longer kept.
    pub forgotten: u64,
    /// Recipients accepted in the second before now.
    pub sent_last_second: u64,
    /// Recipients accepted in the 24 hours before now; emptying the mailbox does not lower it.
    pub sent_last_24_hours: u64,
    /// The last 60 whole seconds and the current one, oldest first.
    pub last_minute: Vec<Second>,
    /// Now, in nanoseconds since the Unix epoch.
    pub now_ns: u64,
}

/// Counts each request as it comes.
#[derive(Debug, Default)]
pub(crate) struct ArrivalCounts {
    /// The counters that only rise; the others are set when the statistics are read.
    counted: SesStats,
    seen: SeenMails,
    accepted_second: SlidingSecond,
    offered_second: SlidingSecond,
    minute: LastMinute,
}

impl ArrivalCounts {
    /// A request arrived; 0 recipients where it could not be read.
    pub(crate) fn arrive(&mut self, now_ns: u64, recipients: u32) {
        self.counted.arrived.add(recipients);
        self.offered_second.add(now_ns, recipients);
    }

    pub(crate) fn refuse(&mut self, now_ns: u64, code: &str, recipients: u32) {
        self.minute.add(now_ns, 0, recipients);
        if let Some(count) = self.counted.refused.get_mut(code) {
            *count += 1;
        } else {
            self.counted.refused.insert(code.to_owned(), 1);
        }
    }

    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.counted.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn accept(&mut self, mail: &MailRecord) {
        let recipients = mail.recipients();
        self.counted.accepted.add(recipients);
        self.accepted_second.add(mail.arrived_ns, recipients);
        self.minute.add(mail.arrived_ns, recipients, 0);
        self.counted.first_arrival_ns.get_or_insert(mail.arrived_ns);
        self.counted.last_arrival_ns = Some(mail.arrived_ns);
        if let Some(campaign) = mail.tag(CAMPAIGN_TAG) {
            if let Some(count) = self.counted.campaigns.get_mut(campaign) {
                count.add(recipients);
            } else {
                let count = MailCount { mails: 1, recipients: u64::from(recipients) };
                self.counted.campaigns.insert(campaign.to_owned(), count);
            }
        }
        if !self.seen.is_new(&mail.draft) {
            self.counted.duplicates += 1;
        }
    }

    /// The statistics as far as they follow from the requests.
    pub(crate) fn stats(&self, now_ns: u64) -> SesStats {
        SesStats {
            worst_sliding_second: self.accepted_second.worst(),
            worst_sliding_second_offered: self.offered_second.worst(),
            first_arrival: self.counted.first_arrival_ns.map(rfc3339),
            last_arrival: self.counted.last_arrival_ns.map(rfc3339),
            last_minute: self.minute.until(now_ns),
            now_ns,
            ..self.counted.clone()
        }
    }
}

/// The mails seen, by campaign and id, as 128 bits of keyed hash each: room for millions, and
/// two mails taken for one by chance about once in 10^26 runs of a million.
#[derive(Debug, Default)]
struct SeenMails {
    keys: [RandomState; 2],
    mails: HashSet<[u64; 2]>,
}

impl SeenMails {
    /// Whether no earlier mail had this campaign and id. A mail without an id always counts as new.
    fn is_new(&mut self, draft: &MailFields) -> bool {
        let Some(id) = draft.tag(ID_TAG) else { return true };
        let name = (draft.tag(CAMPAIGN_TAG), id);
        self.mails.insert([self.keys[0].hash_one(name), self.keys[1].hash_one(name)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::mailbox::MailStatus;

    fn mail(tags: &[(&str, &str)]) -> MailRecord {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let draft = MailFields {
            to: vec!["a@x".to_owned()],
            tags: tags.collect(),
            ..MailFields::default()
        };
        MailRecord { seq: 1, arrived_ns: 0, status: MailStatus::Accepted, draft }
    }

    #[test]
    fn a_mail_is_a_duplicate_when_campaign_and_id_come_again() {
        let mut tally = ArrivalCounts::default();
        for tags in [
            &[("tidegate_campaign", "a"), ("tidegate_id", "1")][..],
            &[("tidegate_campaign", "b"), ("tidegate_id", "1")],
            &[("tidegate_id", "1")],
            &[("tidegate_campaign", "a")],
            &[("tidegate_campaign", "a")],
        ] {
            tally.accept(&mail(tags));
        }
        assert_eq!(tally.counted.duplicates, 0);
        tally.accept(&mail(&[("tidegate_id", "1"), ("tidegate_campaign", "a")]));
        assert_eq!(tally.counted.duplicates, 1);
        assert_eq!(tally.counted.campaigns["a"], MailCount { mails: 4, recipients: 4 });
    }
}
