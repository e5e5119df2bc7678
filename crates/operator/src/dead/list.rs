//! Lists, counts, shows and exports dead letters.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Serialize;
use strum::IntoStaticStr;
use tidegate_core::format::{count, span, time};
use tidegate_core::identity::EpochMillis;

use super::letter::{Doubt, Letter, LetterContent, LetterFilter};
use super::raw::with_lines;
use super::read::{Coverage, LetterSnapshot};
use crate::page::{Page, Span, TextTable, Tone, View};
use crate::redact::AddressVisibility;

/// Error messages are cut to this many characters in tables.
const SAID: usize = 60;

/// All that is known of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
// More than 12 fields: one for each fact that the page of a letter shows.
pub struct LetterDetails {
    pub since: EpochMillis,
    /// How long it has been there, seconds.
    pub age_s: u64,
    /// SQS's id of the dead letter.
    pub message_id: String,
    /// The mail's `id`, or the SQS message id that replaces it; masked if it is an address.
    pub id: String,
    pub campaign: Option<String>,
    pub to: Vec<String>,
    pub code: Option<String>,
    /// The error message.
    pub said: Option<String>,
    /// The HTTP status of SES's answer; `None` without an answer.
    pub http_status: Option<u16>,
    /// How many sends of it failed.
    pub attempts: u32,
    /// Whether it may have been sent although it is dead-lettered.
    pub doubt: Doubt,
    /// For a message that Tidegate did not write: why it cannot be read as a dead letter.
    pub foreign: Option<String>,
    /// The SQS message id under which the mail was last received.
    pub mail_message_id: Option<String>,
    /// The mail's identity, masked like its id.
    pub identity: Option<String>,
    /// How often it was put back to a queue.
    pub pass: Option<u32>,
    /// When the mail came to its campaign's queue.
    pub enqueued_at: Option<EpochMillis>,
    /// When it was first sent without success.
    pub first_attempt_at: Option<EpochMillis>,
    /// When it was last sent without success.
    pub last_attempt_at: Option<EpochMillis>,
    /// The bytes of the original body.
    pub bytes: usize,
    /// The original body if it was requested, a raw mail as its lines; addresses in it are masked like all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LetterList {
    /// Which letters were asked for, in words.
    pub filter: String,
    pub coverage: Coverage,
    pub letters: Vec<LetterDetails>,
}

/// The property by which dead letters are grouped.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq, JsonSchema, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Grouping {
    /// Campaign, error code and what was said, whatever addresses and numbers were named
    Reason,
    /// Domains of the recipients of each mail
    Domain,
    /// Campaign that sent the mail
    Campaign,
}

/// Letters that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LetterGroup {
    pub key: String,
    /// The code of its letters, or of the first one; `None` of what Tidegate did not write.
    pub code: Option<String>,
    pub letters: u64,
    /// Mails among them that may have been sent.
    pub perhaps_sent: u64,
    pub oldest: EpochMillis,
    pub newest: EpochMillis,
    /// The error message of the newest.
    pub said: String,
}

/// Dead letters grouped by what they have in common.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct LetterGroups {
    pub by: Grouping,
    /// Which letters were asked for, in words.
    pub filter: String,
    pub coverage: Coverage,
    pub letters: u64,
    pub groups: Vec<LetterGroup>,
}

impl LetterDetails {
    /// The details of a letter; `body` adds the original body.
    fn of(letter: &Letter, now: EpochMillis, addresses: AddressVisibility, body: bool) -> Self {
        let (entry, envelope) = (letter.entry(), letter.envelope.as_ref());
        let (original, foreign) = match &letter.content {
            LetterContent::Entry(entry) => (&entry.message, None),
            LetterContent::Foreign { why, body } => (body, Some(addresses.within(why))),
        };
        let to = entry.map(|entry| entry.to.iter().map(|to| addresses.one(to)).collect());
        Self {
            since: letter.since,
            age_s: now.saturating_since(letter.since).as_secs(),
            message_id: letter.message_id.clone(),
            id: addresses.within(&letter.id()),
            campaign: entry.map(|entry| entry.campaign.clone()),
            to: to.unwrap_or_default(),
            code: letter.code().map(str::to_owned),
            said: entry.map(|entry| addresses.within(&entry.last_error.provider_message)),
            http_status: entry.and_then(|entry| entry.last_error.http_status),
            attempts: entry.map_or(0, |entry| entry.attempts),
            doubt: letter.doubt(),
            foreign,
            mail_message_id: entry.map(|entry| entry.message_id.clone()),
            identity: letter.identity().map(|identity| addresses.within(identity.as_str())),
            pass: envelope.map(|envelope| envelope.pass),
            enqueued_at: envelope.map(|envelope| envelope.enqueued_at),
            first_attempt_at: entry.and_then(|entry| entry.first_attempt_at),
            last_attempt_at: entry.and_then(|entry| entry.last_attempt_at),
            bytes: original.len(),
            body: body.then(|| addresses.within(&with_lines(original))),
        }
    }
}

pub fn list(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    addresses: AddressVisibility,
) -> LetterList {
    let details = |letter| LetterDetails::of(letter, now, addresses, false);
    let letters = reading.admitted(filter).map(details).collect();
    LetterList { filter: filter.to_string(), coverage: reading.coverage, letters }
}

/// The details of the letters with this id; `body` adds the original body.
pub fn show(
    reading: &LetterSnapshot,
    id: &str,
    now: EpochMillis,
    addresses: AddressVisibility,
    body: bool,
) -> Vec<LetterDetails> {
    let found = reading.letters.iter().filter(|letter| letter.is(id));
    found.map(|letter| LetterDetails::of(letter, now, addresses, body)).collect()
}

/// Groups the letters that match `filter`.
pub fn groups(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    by: Grouping,
    addresses: AddressVisibility,
) -> LetterGroups {
    let mut groups: BTreeMap<(String, String), LetterGroup> = BTreeMap::new();
    for letter in reading.admitted(filter) {
        let entry = letter.entry();
        let said = entry.map_or("", |entry| entry.last_error.provider_message.as_str());
        let campaign = entry.map(|entry| entry.campaign.as_str());
        let code = letter.code().unwrap_or(none(letter));
        let keys = match by {
            Grouping::Reason => {
                vec![campaign.map_or(code.to_owned(), |of| format!("{of}: {code}"))]
            }
            Grouping::Campaign => vec![campaign.unwrap_or(none(letter)).to_owned()],
            Grouping::Domain => match letter.domains() {
                domains if domains.is_empty() => vec![none(letter).to_owned()],
                domains => domains.into_iter().collect(),
            },
        };
        let reason = if by == Grouping::Reason { reason(said) } else { String::new() };
        for key in keys {
            let known = (key.clone(), reason.clone());
            let group = groups.entry(known).or_insert_with(|| LetterGroup {
                key,
                code: letter.code().map(str::to_owned),
                letters: 0,
                perhaps_sent: 0,
                oldest: letter.since,
                newest: letter.since,
                said: String::new(),
            });
            group.letters += 1;
            group.perhaps_sent += u64::from(letter.doubt() != Doubt::None);
            // They come the oldest first.
            group.newest = letter.since;
            group.said = addresses.within(said);
        }
    }
    let mut groups: Vec<LetterGroup> = groups.into_values().collect();
    groups.sort_by(|a, b| b.letters.cmp(&a.letters).then_with(|| a.key.cmp(&b.key)));
    let letters = reading.admitted(filter).count() as u64;
    LetterGroups { by, filter: filter.to_string(), coverage: reading.coverage, letters, groups }
}

/// An error message without the words that tell one mail from another: addresses, and what has digits.
fn reason(said: &str) -> String {
    let differs = |word: &str| word.contains(|c: char| c == '@' || c.is_ascii_digit());
    let words = said.split_whitespace().map(|word| if differs(word) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// The group's name for letters without a key.
fn none(letter: &Letter) -> &'static str {
    match letter.content {
        LetterContent::Entry(_) => "(none)",
        LetterContent::Foreign { .. } => "(no dead letter of Tidegate's)",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ExportReport {
    pub letters: u64,
    /// Of these, mails that may have been sent although they are dead-lettered.
    pub perhaps_sent: u64,
    /// Of these, messages that Tidegate did not write.
    pub foreign: u64,
    /// Whether recipients' addresses and original bodies were exported.
    pub whole: bool,
    /// The part of the queue that was read.
    pub coverage: Coverage,
}

/// Writes the letters that match `filter` as JSON Lines. With `whole` they include recipients and
/// original bodies; without it recipients are masked and bodies are left out.
///
/// # Errors
/// The writer's.
pub fn export(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    whole: bool,
    to: &mut impl Write,
) -> io::Result<ExportReport> {
    let addresses = if whole { AddressVisibility::Shown } else { AddressVisibility::Masked };
    let mut exported =
        ExportReport { letters: 0, perhaps_sent: 0, foreign: 0, whole, coverage: reading.coverage };
    for letter in reading.admitted(filter) {
        serde_json::to_writer(&mut *to, &LetterDetails::of(letter, now, addresses, whole))?;
        to.write_all(b"\n")?;
        exported.letters += 1;
        exported.perhaps_sent += u64::from(letter.doubt() != Doubt::None);
        exported.foreign += u64::from(letter.entry().is_none());
    }
    to.flush()?;
    Ok(exported)
}

impl View for ExportReport {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Good, format!("{} letters exported", self.letters));
        if self.whole {
            page.line(Tone::Warning, "the file holds recipients' addresses and whole mails");
        } else {
            page.line(Tone::Faint, "recipients are masked, and the mails' bodies are left out");
        }
        self.coverage.view(page);
    }
}

impl View for LetterList {
    fn view(&self, page: &mut Page) {
        let of = if self.filter == "all" { String::new() } else { format!(" ({})", self.filter) };
        page.heading(format!("Dead letters: {}{of}", count(self.letters.len() as u64)));
        if !self.letters.is_empty() {
            let names =
                ["when", "campaign", "id", "to", "code", "status", "attempts", "age", "said", ""];
            let mut table = TextTable::new(names).right(5).right(6);
            self.letters.iter().for_each(|letter| table.row(cells(letter)));
            page.table(table);
        }
        self.coverage.view(page);
    }
}

fn cells(letter: &LetterDetails) -> [Span; 10] {
    let others = letter.to.len().saturating_sub(1);
    let to = letter.to.first().map_or("-", String::as_str);
    let to = if others > 0 { format!("{to} +{others}") } else { to.to_owned() };
    let dash = || "-".to_owned();
    [
        Span::from(time(letter.since)),
        Span::new(Tone::Strong, letter.campaign.clone().unwrap_or_else(dash)),
        Span::from(&letter.id),
        Span::from(to),
        Span::new(Tone::Bad, letter.code.clone().unwrap_or_else(dash)),
        Span::from(letter.http_status.map_or_else(dash, |status| status.to_string())),
        Span::from(letter.attempts),
        Span::from(span(Duration::from_secs(letter.age_s))),
        Span::from(letter.said.as_deref().map(short).unwrap_or_default()),
        remark(letter),
    ]
}

fn remark(letter: &LetterDetails) -> Span {
    match letter.doubt {
        _ if letter.foreign.is_some() => Span::new(Tone::Warning, "no dead letter of Tidegate's"),
        Doubt::Unknown => Span::new(Tone::Warning, "nobody knows whether it was sent"),
        Doubt::Perhaps => Span::new(Tone::Warning, "perhaps sent"),
        Doubt::None => Span::default(),
    }
}

impl View for LetterDetails {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{} of {}", self.id, self.campaign.as_deref().unwrap_or("-")));
        let ago = span(Duration::from_secs(self.age_s));
        let ids = match &self.mail_message_id {
            Some(mail) => format!("{mail} (the mail's), {} (here)", self.message_id),
            None => self.message_id.clone(),
        };
        let fields = [
            ("dead-lettered", Some(format!("{}, {ago} ago", time(self.since)))),
            ("code", self.code.clone()),
            ("status", self.http_status.map(|status| status.to_string())),
            ("said", self.said.clone()),
            ("to", (!self.to.is_empty()).then(|| self.to.join(", "))),
            ("attempts", Some(self.attempts.to_string())),
            ("enqueued", self.enqueued_at.map(time)),
            ("first attempt", self.first_attempt_at.map(time)),
            ("last attempt", self.last_attempt_at.map(time)),
            ("identity", self.identity.clone()),
            ("pass", self.pass.map(|pass| pass.to_string())),
            ("message ids", Some(ids)),
            ("body", Some(format!("{} bytes", count(self.bytes as u64)))),
            ("no dead letter", self.foreign.clone()),
        ];
        let known = fields.into_iter().filter_map(|(name, value)| Some((name, value?.into())));
        page.fields(known);
        if self.doubt != Doubt::None {
            page.spans([remark(self)]);
        }
        for line in self.body.iter().flat_map(|body| body.lines()) {
            page.line(Tone::Plain, line);
        }
    }
}

impl View for Vec<LetterDetails> {
    fn view(&self, page: &mut Page) {
        for letter in self {
            letter.view(page);
        }
    }
}

impl View for LetterGroups {
    fn view(&self, page: &mut Page) {
        let by = self.by.into_str();
        page.heading(format!("Dead letters by {by}: {}", count(self.letters)));
        if !self.groups.is_empty() {
            let names = [by, "letters", "perhaps sent", "oldest", "newest", "said of the newest"];
            let mut table = TextTable::new(names).right(1).right(2);
            for group in &self.groups {
                table.row([
                    Span::new(Tone::Strong, &group.key),
                    Span::from(count(group.letters)),
                    Span::from(count(group.perhaps_sent)),
                    Span::from(time(group.oldest)),
                    Span::from(time(group.newest)),
                    Span::from(short(&group.said)),
                ]);
            }
            page.table(table);
        }
        self.coverage.view(page);
    }
}

fn short(text: &str) -> String {
    let mut kept: String = text.chars().take(SAID).collect();
    if text.chars().nth(SAID).is_some() {
        kept.push('…');
    }
    kept
}
