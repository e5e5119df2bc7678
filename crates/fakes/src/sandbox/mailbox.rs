//! The mailbox: every accepted mail's metadata, and the last mails whole.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use axum::body::Bytes;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::sliding_count::{SECOND_NS, SlidingCount};

/// The form in which a mail's content was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MailKind {
    /// Subject and bodies, put together by SES.
    #[default]
    Simple,
    /// A whole MIME message in base64.
    Raw,
    /// Name or text of a template, with its data.
    Template,
    /// A text message; the subject is its text.
    Text,
}

/// The answer that the sender received about an accepted mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailStatus {
    /// The answer reached the sender.
    Accepted,
    /// The mail was accepted and the answer withheld (the fault `lost-answer`).
    AnswerLost,
}

/// The members of a request that the mailbox keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub(crate) struct MailFields {
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) cc: Vec<String>,
    pub(crate) bcc: Vec<String>,
    pub(crate) subject: String,
    #[serde(serialize_with = "by_name")]
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) kind: MailKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<String>,
    /// The resources that a mail for a tenant uses beside its sender, such as `configuration-set/news`.
    #[serde(skip)]
    pub(crate) used: Vec<String>,
    /// The parts of a text message, which count as a mail's recipients do; none for a mail.
    #[serde(skip)]
    pub(crate) parts: Option<u32>,
}

impl MailFields {
    pub(crate) fn all_recipients(&self) -> impl Iterator<Item = &str> {
        self.to.iter().chain(&self.cc).chain(&self.bcc).map(String::as_str)
    }

    pub(crate) fn recipients(&self) -> u32 {
        let recipients = self.to.len() + self.cc.len() + self.bcc.len();
        self.parts.unwrap_or_else(|| u32::try_from(recipients).unwrap_or(u32::MAX))
    }

    pub(crate) fn tag(&self, name: &str) -> Option<&str> {
        self.tags.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Shows tags as an object.
fn by_name<S: Serializer>(tags: &[(String, String)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(tags.iter().map(|(name, value)| (name, value)))
}

/// Metadata of one accepted mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailRecord {
    /// The mail's number; numbers rise by one and never start again, not even when the mailbox
    /// is emptied.
    pub seq: u64,
    /// Time at which the request was fully read, in nanoseconds since the epoch.
    pub arrived_ns: u64,
    pub status: MailStatus,
    pub(crate) draft: MailFields,
}

impl MailRecord {
    /// Recipients in To, Cc and Bcc, or a text message's parts.
    pub fn recipients(&self) -> u32 {
        self.draft.recipients()
    }

    /// The value of one of its tags.
    pub fn tag(&self, name: &str) -> Option<&str> {
        self.draft.tag(name)
    }

    /// SES's tenant for which it was sent.
    pub fn tenant(&self) -> Option<&str> {
        self.draft.tenant.as_deref()
    }

    /// The mail as the sandbox's pages give it.
    pub(crate) fn shown(&self) -> Value {
        let mut shown = json!(self.draft);
        shown["seq"] = self.seq.into();
        shown["arrived_ns"] = self.arrived_ns.into();
        shown["recipients"] = self.recipients().into();
        shown["message_id"] = self.message_id().into();
        shown["status"] = json!(self.status);
        shown
    }

    /// The id that SES would give it: the millisecond of its arrival, and its number.
    pub fn message_id(&self) -> String {
        let (millis, seq) = (self.arrived_ns / 1_000_000, self.seq);
        let (low, high) = (seq & 0xffff_ffff_ffff, seq >> 48);
        format!("{millis:016x}-5e5a4d00-0000-4000-{:04x}-{low:012x}-000000", 0x8000 | high)
    }
}

/// Limits of the mailbox; the oldest mails go first. The metadata of an ordinary mail is some 0.7 KB.
pub(crate) const KEEP: MailboxLimits =
    MailboxLimits { mails: 1_000_000, bodies: 200, body_bytes: 64 * 1024 * 1024 };

#[derive(Debug, Clone, Copy)]
pub(crate) struct MailboxLimits {
    pub(crate) mails: usize,
    pub(crate) bodies: usize,
    pub(crate) body_bytes: usize,
}

/// Accepted mails in order of arrival, the oldest dropped first.
#[derive(Debug, Default)]
pub(crate) struct MailStore {
    mails: VecDeque<Arc<MailRecord>>,
    bodies: VecDeque<(u64, Bytes)>,
    body_bytes: usize,
    /// Number of mails that were dropped since the mailbox was last emptied.
    pub(crate) forgotten: u64,
}

impl MailStore {
    /// Keeps a mail, and the request that brought it, within what may be kept.
    pub(crate) fn push(&mut self, mail: Arc<MailRecord>, body: Bytes, keep: MailboxLimits) {
        self.body_bytes += body.len();
        self.bodies.push_back((mail.seq, body));
        self.mails.push_back(mail);
        while self.mails.len() > keep.mails {
            self.mails.pop_front();
            self.forgotten += 1;
        }
        while self.bodies.len() > keep.bodies || self.body_bytes > keep.body_bytes {
            let Some((_, body)) = self.bodies.pop_front() else { break };
            self.body_bytes -= body.len();
        }
    }

    /// At most `limit` mails whose number is above `seq`, the oldest first.
    pub(crate) fn after(&self, seq: u64, limit: usize) -> Vec<Arc<MailRecord>> {
        let start = self.mails.partition_point(|mail| mail.seq <= seq);
        self.mails.range(start..).take(limit).cloned().collect()
    }

    /// A mail, and its request while that is kept.
    pub(crate) fn get(&self, seq: u64) -> Option<(Arc<MailRecord>, Option<Bytes>)> {
        let at = self.mails.binary_search_by_key(&seq, |mail| mail.seq).ok()?;
        let body = self.bodies.binary_search_by_key(&seq, |(seq, _)| *seq).ok();
        Some((Arc::clone(&self.mails[at]), body.map(|at| self.bodies[at].1.clone())))
    }
}

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
    /// The first accepted mail's arrival, in nanoseconds since the Unix epoch.
    pub first_arrival_ns: Option<u64>,
    /// The same of the last accepted mail.
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
    accepted_second: SlidingCount,
    offered_second: SlidingCount,
    minute: LastMinute,
}

impl ArrivalCounts {
    /// A request arrived; 0 recipients where it could not be read.
    pub(crate) fn arrive(&mut self, now_ns: u64, recipients: u32) {
        self.counted.arrived.add(recipients);
        self.offered_second.add(now_ns, recipients.into());
    }

    /// A request was refused with this error code.
    pub(crate) fn refuse(&mut self, now_ns: u64, code: Option<&str>, recipients: u32) {
        self.minute.add(now_ns, 0, recipients);
        *self.counted.refused.entry(code.unwrap_or_default().to_owned()).or_default() += 1;
    }

    pub(crate) fn fault(&mut self, kind: &'static str) {
        *self.counted.faults.entry(kind).or_default() += 1;
    }

    pub(crate) fn accept(&mut self, mail: &MailRecord) {
        let recipients = mail.recipients();
        self.counted.accepted.add(recipients);
        self.accepted_second.add(mail.arrived_ns, recipients.into());
        self.minute.add(mail.arrived_ns, recipients, 0);
        self.counted.first_arrival_ns.get_or_insert(mail.arrived_ns);
        self.counted.last_arrival_ns = Some(mail.arrived_ns);
        if let Some(campaign) = mail.tag(CAMPAIGN_TAG) {
            self.counted.campaigns.entry(campaign.to_owned()).or_default().add(recipients);
        }
        if !self.seen.is_new(&mail.draft) {
            self.counted.duplicates += 1;
        }
    }

    /// The statistics as far as they follow from the requests.
    pub(crate) fn stats(&self, now_ns: u64) -> SesStats {
        SesStats {
            worst_sliding_second: self.accepted_second.worst,
            worst_sliding_second_offered: self.offered_second.worst,
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

const SECONDS: u64 = 60;

/// Recipients that arrived in one whole second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Second {
    /// The second, since the Unix epoch.
    pub second: u64,
    pub accepted: u64,
    pub refused: u64,
}

#[derive(Debug, Default)]
struct LastMinute {
    seconds: VecDeque<Second>,
}

impl LastMinute {
    fn add(&mut self, now_ns: u64, accepted: u32, refused: u32) {
        let (accepted, refused) = (u64::from(accepted), u64::from(refused));
        let second = now_ns / SECOND_NS;
        match self.seconds.back_mut() {
            Some(last) if last.second >= second => {
                last.accepted += accepted;
                last.refused += refused;
            }
            _ => self.seconds.push_back(Second { second, accepted, refused }),
        }
        while self.seconds.front().is_some_and(|first| first.second + SECONDS < second) {
            self.seconds.pop_front();
        }
    }

    /// The 60 whole seconds before now and the current one, empty ones too.
    fn until(&self, now_ns: u64) -> Vec<Second> {
        let now = now_ns / SECOND_NS;
        let mut known = self.seconds.iter().copied().peekable();
        (now.saturating_sub(SECONDS)..=now)
            .map(|second| {
                while known.next_if(|known| known.second < second).is_some() {}
                let empty = Second { second, accepted: 0, refused: 0 };
                known.next_if(|known| known.second == second).unwrap_or(empty)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_differ_by_number_and_by_time() {
        let mail = |seq, arrived_ns| MailRecord {
            seq,
            arrived_ns,
            status: MailStatus::Accepted,
            draft: MailFields::default(),
        };
        assert_ne!(mail(1, 0).message_id(), mail(2, 0).message_id());
        assert_ne!(mail(1, 0).message_id(), mail(1, 1_000_000).message_id());
        assert_eq!(
            mail(1, 0).message_id().len(),
            "0100018c2f0a1b2c-5e5a4d00-0000-4000-8000-000000000001-000000".len()
        );
    }
}

#[cfg(test)]
mod store_tests {
    use super::*;
    use crate::sandbox::mailbox::{MailFields, MailStatus};

    const KEEP: MailboxLimits = MailboxLimits { mails: 4, bodies: 2, body_bytes: 10 };

    fn store(bodies: &[&'static str]) -> MailStore {
        let mut store = MailStore::default();
        for (seq, body) in (1..).zip(bodies) {
            let status = MailStatus::Accepted;
            let mail = MailRecord { seq, arrived_ns: seq, status, draft: MailFields::default() };
            store.push(Arc::new(mail), Bytes::from_static(body.as_bytes()), KEEP);
        }
        store
    }

    fn numbers(mails: &[Arc<MailRecord>]) -> Vec<u64> {
        mails.iter().map(|mail| mail.seq).collect()
    }

    #[test]
    fn the_oldest_mails_are_dropped_and_counted() {
        let store = store(&["a"; 6]);
        assert_eq!(numbers(&store.after(0, 10)), [3, 4, 5, 6]);
        assert_eq!(numbers(&store.after(4, 10)), [5, 6]);
        assert_eq!(numbers(&store.after(3, 1)), [4]);
        assert_eq!(store.forgotten, 2);
        assert!(store.get(2).is_none());
    }

    #[test]
    fn bodies_are_kept_by_count_and_by_size() {
        let by_count = store(&["a", "b", "c"]);
        let body = |store: &MailStore, seq| store.get(seq).and_then(|(_, body)| body);
        assert_eq!(body(&by_count, 1), None);
        assert_eq!(body(&by_count, 3), Some(Bytes::from_static(b"c")));
        let by_size = store(&["123456", "123456"]);
        assert_eq!(body(&by_size, 1), None);
        assert!(body(&by_size, 2).is_some());
        let too_large = store(&["12345678901"]);
        assert!(too_large.get(1).is_some_and(|(_, body)| body.is_none()));
    }
}

#[cfg(test)]
mod stats_tests {
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

#[cfg(test)]
mod minute_tests {
    use super::*;

    #[test]
    fn the_last_minute_shows_every_second_with_gaps_as_zeros() {
        let mut minute = LastMinute::default();
        minute.add(10 * SECOND_NS, 1, 0);
        minute.add(100 * SECOND_NS, 2, 0);
        minute.add(100 * SECOND_NS + 5, 1, 4);
        let shown = minute.until(102 * SECOND_NS);
        assert_eq!(shown.len(), 61);
        assert_eq!(shown[58], Second { second: 100, accepted: 3, refused: 4 });
        assert_eq!(shown[60], Second { second: 102, accepted: 0, refused: 0 });
        assert_eq!(shown.iter().map(|second| second.accepted).sum::<u64>(), 3);
        assert_eq!(minute.seconds.len(), 1, "older seconds are dropped");
    }
}
