use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::channel::MessageRules;
use tidegate_core::config::{Campaign, EXPRESS, PollerConfig};
use tidegate_core::dead_letter::DeadLetter;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState};
use tidegate_core::format::count;
use tidegate_core::identity::{CAMPAIGN_QUEUE_BYTES, Envelope, EpochMillis, Identity};
use tidegate_core::runs::RowRanges;
use tidegate_delivery::ports::{Marks, Outgoing, PortError, QueueUrl, VISIBILITY_TIMEOUT};

use super::letter::{Doubt, Letter, LetterFilter};
use super::list::{Grouping, LetterGroups, groups};
use super::read::{Coverage, LetterSnapshot};
use super::report::LetterAction;
use crate::page::{Page, Span, TextTable, Tone, View};
use crate::redact::AddressVisibility;
use crate::send::{RunKey, cancelled_rows};

/// If a mail has several letters, only the newest is replayed. Each would get a pass of its own, so
/// the merge queue would not drop the copies.
const OLDER: &str =
    "a newer letter of the same mail is there: of several only that one is replayed";

/// Marks that one call reads, and calls at once.
const MARKS_A_CALL: usize = 100;
const CALLS_AT_ONCE: usize = 8;

#[derive(Clone, Debug)]
pub struct ReviewOptions {
    pub filter: LetterFilter,
    /// Whether mails that may have been sent are replayed too.
    pub include_unknown: bool,
    /// Whether letters of mails that are known to be sent are deleted.
    pub drop_sent: bool,
    /// The campaigns' queues, by name; express mail under its own.
    pub campaign_queues: BTreeMap<String, QueueUrl>,
    /// The rules by which pollers read a mail or a text message.
    pub rules: MessageRules,
    pub deduplication: Deduplication,
}

impl ReviewOptions {
    /// A careful review in a stack with these campaigns and this poller.
    pub fn of(filter: LetterFilter, campaigns: &[Campaign], poller: &PollerConfig) -> Self {
        let queues = campaigns.iter().map(|own| (own.name.as_str(), own.queue_url.as_str()));
        let express = poller.express_queue_url.as_deref().map(|url| (EXPRESS, url));
        let queues = queues.chain(express).map(|(name, url)| (name.to_owned(), QueueUrl::new(url)));
        let (campaign_queues, rules) = (queues.collect(), poller.rules.clone());
        let (include_unknown, drop_sent) = (false, false);
        let deduplication = poller.deduplication;
        Self { filter, include_unknown, drop_sent, campaign_queues, rules, deduplication }
    }
}

/// A mail to be sent to its campaign's queue again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMail {
    /// SQS's id of its dead letter.
    pub message_id: String,
    pub queue: QueueUrl,
    pub body: String,
    pub envelope: Envelope,
}

impl ReplayMail {
    /// The message that is sent at `now`. The mail comes to its queue anew then: a cancel of before does not concern
    /// it.
    pub fn outgoing(&self, now: EpochMillis) -> Outgoing {
        let envelope = Envelope { enqueued_at: now, ..self.envelope.clone() };
        let attributes = envelope.to_attributes();
        Outgoing { attributes, ..Outgoing::new(self.body.as_str()) }
    }
}

/// Letters of one campaign with one code, counted by what a replay would do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ReviewGroup {
    pub campaign: String,
    pub code: String,
    pub letters: u64,
    pub to_send: u64,
    /// Are known to have been sent: never replayed.
    pub sent_already: u64,
    /// May have been sent: not replayed unless asked for.
    pub perhaps_sent: u64,
    pub cannot: u64,
}

/// A reason for not sending letters, and their number.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct ReviewRefusal {
    pub why: String,
    pub letters: u64,
}

/// The letters that were reviewed, and what becomes of them once somebody says so.
#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct LetterWork {
    #[serde(skip)]
    pub action: LetterAction,
    /// Which letters were asked for, in words.
    pub filter: String,
    /// Whether deduplication was asked what was sent, and is asked again.
    pub guarded: bool,
    /// The mails to send, by the dead letter's message id.
    #[serde(skip)]
    pub mails: BTreeMap<String, ReplayMail>,
    /// The letters to delete: SQS's message ids.
    #[serde(skip)]
    pub deletions: BTreeSet<String>,
    /// The rows of cancelled mails among them: what the ledger is told before the letters go.
    #[serde(skip)]
    pub returned: BTreeMap<RunKey, RowRanges>,
}

impl LetterWork {
    /// Deletes these letters, which are among those that `filter` admits.
    pub(crate) fn discard(filter: &LetterFilter, letters: &[&Letter]) -> Self {
        Self {
            action: LetterAction::Discard,
            filter: filter.to_string(),
            deletions: letters.iter().map(|letter| letter.message_id.clone()).collect(),
            returned: cancelled_rows(letters.iter().copied()),
            ..Self::default()
        }
    }

    /// The letters to replay, or to discard.
    pub fn letters(&self) -> u64 {
        match self.action {
            LetterAction::Replay => self.mails.len() as u64,
            LetterAction::Discard => self.deletions.len() as u64,
        }
    }
}

#[derive(Clone, Debug, Default, JsonSchema, Serialize)]
pub struct Review {
    #[serde(flatten)]
    pub work: LetterWork,
    /// The part of the queue that was read, so that the operator knows what is missing.
    pub coverage: Coverage,
    /// The letters by campaign and code.
    pub groups: Vec<ReviewGroup>,
    /// Why some would not be sent.
    pub refusals: Vec<ReviewRefusal>,
    /// Letters of mails that were sent, which would be deleted.
    pub to_drop: u64,
}

/// Tells whether a replay would send one letter.
pub(crate) enum LetterVerdict {
    Send(Box<ReplayMail>),
    Sent,
    /// It may have been sent, for this reason: it is replayed only if the operator asks for it.
    Perhaps(&'static str),
    Cannot(String),
}

/// Says what a replay would do, and does nothing. Marks are asked for where deduplication is on.
///
/// # Errors
/// [`PortError`] of the marks.
pub async fn review(
    reading: &LetterSnapshot,
    options: &ReviewOptions,
    marks: &impl Marks,
    now: Timestamp,
) -> Result<Review, PortError> {
    let selected: Vec<&Letter> = reading.admitted(&options.filter).collect();
    let guarded = options.deduplication != Deduplication::Off;
    let asked = selected.iter().filter(|_| guarded).filter_map(|letter| letter.identity());
    let marked = marks_of(asked, marks).await?;
    let mut work =
        LetterWork { filter: options.filter.to_string(), guarded, ..LetterWork::default() };
    let newest = newest(reading);
    let mut groups: BTreeMap<(&str, &str), ReviewGroup> = BTreeMap::new();
    let mut refusals: BTreeMap<String, u64> = BTreeMap::new();
    for letter in selected {
        let identity = letter.identity();
        let mark = identity.as_ref().and_then(|identity| marked.get(identity));
        let is_newest =
            identity.is_none_or(|identity| newest.get(&identity) == Some(&rank(letter)));
        let verdict = match judge(letter, mark, options, now) {
            verdict @ LetterVerdict::Sent => verdict,
            verdict if is_newest => verdict,
            _ => LetterVerdict::Cannot(OLDER.to_owned()),
        };
        let campaign = letter.entry().map_or("-", |entry| entry.campaign.as_str());
        let code = letter.code().unwrap_or("-");
        let group = groups.entry((campaign, code)).or_insert_with(|| ReviewGroup {
            campaign: campaign.to_owned(),
            code: code.to_owned(),
            ..ReviewGroup::default()
        });
        group.letters += 1;
        let refused = match verdict {
            LetterVerdict::Send(order) => {
                group.to_send += 1;
                work.mails.insert(letter.message_id.clone(), *order);
                continue;
            }
            LetterVerdict::Sent => {
                group.sent_already += 1;
                if options.drop_sent {
                    work.deletions.insert(letter.message_id.clone());
                    continue;
                }
                "were sent, as deduplication knows; --drop-sent deletes them here".to_owned()
            }
            LetterVerdict::Perhaps(why) => {
                group.perhaps_sent += 1;
                format!("{why}; --include-unknown replays them")
            }
            LetterVerdict::Cannot(why) => {
                group.cannot += 1;
                why
            }
        };
        *refusals.entry(refused).or_default() += 1;
    }
    let refusals = refusals.into_iter().map(|(why, letters)| ReviewRefusal { why, letters });
    let mut refusals: Vec<ReviewRefusal> = refusals.collect();
    refusals.sort_by_key(|refusal| Reverse(refusal.letters));
    let (groups, to_drop) = (groups.into_values().collect(), work.deletions.len() as u64);
    Ok(Review { work, coverage: reading.coverage, groups, refusals, to_drop })
}

/// Orders the letters of one mail: by pass, then by time, then by message id.
type Rank<'a> = (u32, EpochMillis, &'a str);

fn rank(letter: &Letter) -> Rank<'_> {
    let pass = letter.envelope.as_ref().map_or(0, |envelope| envelope.pass);
    (pass, letter.since, &letter.message_id)
}

/// The newest letter of each mail, among all that were read: what was filtered out counts too.
fn newest(reading: &LetterSnapshot) -> BTreeMap<Identity, Rank<'_>> {
    let mut newest = BTreeMap::new();
    for letter in &reading.letters {
        if let Some(identity) = letter.identity() {
            let known = newest.entry(identity).or_insert_with(|| rank(letter));
            *known = rank(letter).max(*known);
        }
    }
    newest
}

/// The marks that there are of mails.
pub(crate) async fn marks_of(
    mails: impl IntoIterator<Item = Identity>,
    marks: &impl Marks,
) -> Result<BTreeMap<Identity, Mark>, PortError> {
    // A call may not ask twice for a mark.
    let mails: Vec<Identity> = mails.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    let calls = mails.chunks(MARKS_A_CALL).map(|some| marks.find(some));
    let found: Vec<_> = stream::iter(calls).buffered(CALLS_AT_ONCE).try_collect().await?;
    // Call by call: an answer that is too short or too long shifts no other's.
    let calls = mails.chunks(MARKS_A_CALL).zip(found);
    let found = calls.flat_map(|(some, found)| some.iter().cloned().zip(found));
    Ok(found.filter_map(|(mail, mark)| Some((mail, mark?))).collect())
}

pub(crate) fn judge(
    letter: &Letter,
    mark: Option<&Mark>,
    options: &ReviewOptions,
    now: Timestamp,
) -> LetterVerdict {
    let Some(entry) = letter.entry() else {
        return LetterVerdict::Cannot("no dead letters of Tidegate's".to_owned());
    };
    let old = |mark: &Mark| now.saturating_since(mark.since.into()) > VISIBILITY_TIMEOUT;
    let perhaps = match (mark.map(|mark| (mark.state, old(mark))), letter.doubt()) {
        (Some((MarkState::Sent, _)), _) => return LetterVerdict::Sent,
        (Some((MarkState::Sending, false)), _) => {
            let why = "a copy is perhaps just being sent; look again in 30 s";
            return LetterVerdict::Cannot(why.to_owned());
        }
        (Some(_), _) => Some("deduplication does not know whether they were sent"),
        (None, Doubt::Unknown) => Some("deduplication did not know whether they were sent"),
        (None, Doubt::Perhaps) => Some("SES did not answer their last send"),
        (None, Doubt::None) => None,
    };
    if let Some(why) = perhaps.filter(|_| !options.include_unknown) {
        return LetterVerdict::Perhaps(why);
    }
    match order(letter, entry, options) {
        Ok(order) => LetterVerdict::Send(Box::new(order)),
        Err(why) => LetterVerdict::Cannot(why),
    }
}

/// The mail one pass on, all its attempts before it; its identity stays.
fn order(
    letter: &Letter,
    entry: &DeadLetter,
    options: &ReviewOptions,
) -> Result<ReplayMail, String> {
    let Some(queue) = options.campaign_queues.get(&entry.campaign) else {
        return Err(format!("there is no campaign {} any more", entry.campaign));
    };
    if let Err(error) = options.rules.read(&entry.message) {
        return Err(format!("would be dead-lettered again: {}", error.redacted()));
    }
    let fresh = || Some(Envelope::fresh(&entry.campaign, letter.identity()?, letter.since));
    let envelope = letter.envelope.clone().or_else(fresh).ok_or("no identity")?;
    // A pass beyond all passes that a copy of the mail can have reached, as for parked mails, so
    // that the merge queue does not drop the replay as a repetition.
    let envelope =
        Envelope { attempt: 0, campaign: entry.campaign.clone(), ..envelope.parked().put_back() };
    let body = entry.message.clone();
    if body.len() + envelope.most_bytes() > CAMPAIGN_QUEUE_BYTES {
        return Err("too large for a campaign's queue with Tidegate's attributes".to_owned());
    }
    let message_id = letter.message_id.clone();
    Ok(ReplayMail { message_id, queue: queue.clone(), body, envelope })
}

/// The letters that a discard would delete.
#[derive(Clone, Debug, Serialize)]
pub struct DiscardReview {
    #[serde(skip)]
    pub work: LetterWork,
    /// The letters by reason.
    #[serde(flatten)]
    pub groups: LetterGroups,
}

impl DiscardReview {
    /// The letters of `reading` that `filter` admits, whether Tidegate wrote them or not.
    pub fn of(
        reading: &LetterSnapshot,
        filter: &LetterFilter,
        addresses: AddressVisibility,
    ) -> Self {
        let letters: Vec<&Letter> = reading.admitted(filter).collect();
        let work = LetterWork::discard(filter, &letters);
        Self { work, groups: groups(reading, filter, Grouping::Reason, addresses) }
    }
}

impl View for Review {
    fn view(&self, page: &mut Page) {
        page.heading(format!("Replay of dead letters ({})", self.work.filter));
        let names =
            ["campaign", "code", "letters", "to send", "sent already", "perhaps sent", "cannot"];
        let mut table = (2..7).fold(TextTable::new(names), TextTable::right);
        for group in &self.groups {
            let some = |tone, number: u64| {
                Span::new(if number > 0 { tone } else { Tone::Faint }, count(number))
            };
            table.row([
                Span::new(Tone::Strong, &group.campaign),
                Span::from(&group.code),
                Span::from(count(group.letters)),
                some(Tone::Good, group.to_send),
                some(Tone::Warning, group.sent_already),
                some(Tone::Warning, group.perhaps_sent),
                some(Tone::Bad, group.cannot),
            ]);
        }
        page.table(table);
        for ReviewRefusal { why, letters } in &self.refusals {
            page.line(Tone::Warning, format!("{} not sent: {why}", count(*letters)));
        }
        let [to_send, to_drop] = [self.work.letters(), self.to_drop].map(count);
        let said = format!("{to_send} would be sent to their campaigns' queues again");
        page.line(Tone::Strong, said);
        if self.to_drop > 0 {
            page.line(Tone::Plain, format!("{to_drop} that were sent would be deleted here"));
        }
        if !self.work.guarded && self.work.letters() > 0 {
            page.line(Tone::Faint, "deduplication is off: nothing but the code and the answer tells whether one was sent");
        }
        self.coverage.view(page);
    }
}

impl View for DiscardReview {
    fn view(&self, page: &mut Page) {
        self.groups.view(page);
        let all = count(self.work.letters());
        page.line(Tone::Strong, format!("{all} would be deleted for good ({})", self.work.filter));
    }
}
