use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::channel::MessageRules;
use tidegate_core::dead_letter::DeadLetter;
use tidegate_core::deduplication::{Deduplication, Mark, MarkState};
use tidegate_core::format::count;
use tidegate_core::identity::{CAMPAIGN_QUEUE_BYTES, Envelope, EpochMillis, Identity};
use tidegate_delivery::ports::{Marks, Outgoing, PortError, QueueUrl, VISIBILITY_TIMEOUT};

use super::letter::{Doubt, Letter, LetterFilter};
use super::read::{Coverage, LetterSnapshot};
use crate::page::{Page, Span, TextTable, Tone, View};

/// If a mail has several letters, only the newest is replayed. Each would get a pass of its own, so
/// the merge queue would not drop the copies.
const OLDER: &str =
    "a newer letter of the same mail is there: of several only that one is replayed";

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

/// A mail to be sent to its campaign's queue again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayMail {
    pub identity: Identity,
    pub queue: QueueUrl,
    pub body: String,
    pub envelope: Envelope,
}

impl ReplayMail {
    /// The message that is sent at `now`. The mail comes to its queue anew then: a cancel of before does not concern
    /// it.
    pub fn outgoing(&self, now: EpochMillis) -> Outgoing {
        let envelope = Envelope { enqueued_at: now, ..self.envelope.clone() };
        Outgoing {
            body: self.body.as_str().into(),
            attributes: envelope.to_attributes(),
            delay: Duration::ZERO,
            fifo: None,
        }
    }
}

/// Letters of one campaign with one code, counted by what a replay would do with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReviewRefusal {
    pub why: String,
    pub letters: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Review {
    /// Which letters were asked for, in words.
    pub filter: String,
    /// Whether deduplication was asked what was sent.
    pub guarded: bool,
    /// The part of the queue that was read, so that the operator knows what is missing.
    pub coverage: Coverage,
    /// The letters by campaign and code.
    pub groups: Vec<ReviewGroup>,
    /// Why some would not be sent.
    pub refusals: Vec<ReviewRefusal>,
    /// Letters of mails that were sent, which would be deleted.
    pub to_drop: u64,
    /// The mails that would be sent, by the dead letter's message id.
    #[serde(skip)]
    pub mails: BTreeMap<String, ReplayMail>,
    /// The letters that would be deleted: message ids.
    #[serde(skip)]
    pub deletions: Vec<String>,
}

impl Review {
    /// How many mails would be sent.
    pub fn to_send(&self) -> u64 {
        self.mails.len() as u64
    }
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
    let marked = if guarded { find(&selected, marks).await? } else { BTreeMap::new() };
    let mut review = Review {
        filter: options.filter.to_string(),
        guarded,
        coverage: reading.coverage,
        ..Review::default()
    };
    let newest = newest(reading);
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
        review.note(letter, verdict, options.drop_sent);
    }
    review.groups.sort_by(|a, b| (&a.campaign, &a.code).cmp(&(&b.campaign, &b.code)));
    review.refusals.sort_by(|a, b| b.letters.cmp(&a.letters).then_with(|| a.why.cmp(&b.why)));
    Ok(review)
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

async fn find(
    letters: &[&Letter],
    marks: &impl Marks,
) -> Result<BTreeMap<Identity, Mark>, PortError> {
    let mut identities: Vec<Identity> =
        letters.iter().filter_map(|letter| letter.identity()).collect();
    identities.sort();
    identities.dedup();
    let mut marked = BTreeMap::new();
    for batch in identities.chunks(100) {
        let found = marks.find(batch).await?;
        let pairs = batch.iter().zip(found).filter_map(|(who, mark)| Some((who.clone(), mark?)));
        marked.extend(pairs);
    }
    Ok(marked)
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
    match mark.map(|mark| (mark.state, old(mark))) {
        Some((MarkState::Sent, _)) => return LetterVerdict::Sent,
        Some((MarkState::Sending, false)) => {
            return LetterVerdict::Cannot(
                "a copy is perhaps just being sent; look again in 30 s".to_owned(),
            );
        }
        Some((MarkState::Sending | MarkState::Parked, _)) if !options.include_unknown => {
            return LetterVerdict::Perhaps("deduplication does not know whether they were sent");
        }
        _ => {}
    }
    match letter.doubt() {
        Doubt::Unknown if !options.include_unknown => {
            return LetterVerdict::Perhaps("deduplication did not know whether they were sent");
        }
        Doubt::Perhaps if !options.include_unknown => {
            return LetterVerdict::Perhaps("SES did not answer their last send");
        }
        _ => {}
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
    let identity = letter.identity().ok_or("no identity")?;
    let envelope = letter
        .envelope
        .clone()
        .unwrap_or_else(|| Envelope::fresh(&entry.campaign, identity.clone(), letter.since));
    // A pass beyond all passes that a copy of the mail can have reached, as for parked mails, so
    // that the merge queue does not drop the replay as a repetition.
    let envelope =
        Envelope { attempt: 0, campaign: entry.campaign.clone(), ..envelope.parked().put_back() };
    let body = entry.message.clone();
    if body.len() + envelope.most_bytes() > CAMPAIGN_QUEUE_BYTES {
        return Err("too large for a campaign's queue with Tidegate's attributes".to_owned());
    }
    Ok(ReplayMail { identity, queue: queue.clone(), body, envelope })
}

impl Review {
    fn note(&mut self, letter: &Letter, verdict: LetterVerdict, drop_sent: bool) {
        let campaign = letter.entry().map_or("-", |entry| entry.campaign.as_str()).to_owned();
        let code = letter.code().unwrap_or("-").to_owned();
        let at = self.groups.iter().position(|g| g.campaign == campaign && g.code == code);
        let at = at.unwrap_or_else(|| {
            self.groups.push(ReviewGroup { campaign, code, ..ReviewGroup::default() });
            self.groups.len() - 1
        });
        let Some(group) = self.groups.get_mut(at) else { return };
        group.letters += 1;
        match verdict {
            LetterVerdict::Send(order) => {
                group.to_send += 1;
                self.mails.insert(letter.message_id.clone(), *order);
            }
            LetterVerdict::Sent => {
                group.sent_already += 1;
                if drop_sent {
                    self.to_drop += 1;
                    self.deletions.push(letter.message_id.clone());
                } else {
                    self.refuse("were sent, as deduplication knows; --drop-sent deletes them here");
                }
            }
            LetterVerdict::Perhaps(why) => {
                group.perhaps_sent += 1;
                self.refuse(&format!("{why}; --include-unknown replays them"));
            }
            LetterVerdict::Cannot(why) => {
                group.cannot += 1;
                self.refuse(&why);
            }
        }
    }

    fn refuse(&mut self, why: &str) {
        match self.refusals.iter_mut().find(|refusal| refusal.why == why) {
            Some(refusal) => refusal.letters += 1,
            None => self.refusals.push(ReviewRefusal { why: why.to_owned(), letters: 1 }),
        }
    }
}

impl View for Review {
    fn view(&self, page: &mut Page) {
        page.heading(format!("Replay of dead letters ({})", self.filter));
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
        for refusal in &self.refusals {
            page.line(
                Tone::Warning,
                format!("{} not sent: {}", count(refusal.letters), refusal.why),
            );
        }
        let to_send = count(self.to_send());
        page.line(
            Tone::Strong,
            format!("{to_send} would be sent to their campaigns' queues again"),
        );
        if self.to_drop > 0 {
            page.line(
                Tone::Plain,
                format!("{} that were sent would be deleted here", count(self.to_drop)),
            );
        }
        if !self.guarded && self.to_send() > 0 {
            page.line(Tone::Faint, "deduplication is off: nothing but the code and the answer tells whether one was sent");
        }
        self.coverage.view(page);
    }
}
