use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::identity::EpochMillis;

use super::filter::{LetterFilter, domains};
use super::letter::{Doubt, Letter, LetterContent};
use super::read::{Coverage, LetterSnapshot};
use crate::redact::AddressVisibility;

/// A dead letter as one row of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LetterSummary {
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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LetterList {
    /// Which letters were asked for, in words.
    pub filter: String,
    pub coverage: Coverage,
    pub letters: Vec<LetterSummary>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LetterDetails {
    /// The row that the list shows.
    #[serde(flatten)]
    pub row: LetterSummary,
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
    /// The original body if it was requested; addresses in it are masked like all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Campaign, code and the error message, whatever addresses and numbers it names.
    Reason,
    /// The domains of their recipients: a letter to several counts in each.
    Domain,
    Campaign,
}

/// Letters that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LetterGroups {
    pub by: Grouping,
    /// Which letters were asked for, in words.
    pub filter: String,
    pub coverage: Coverage,
    pub letters: u64,
    pub groups: Vec<LetterGroup>,
}

fn row(letter: &Letter, now: EpochMillis, addresses: AddressVisibility) -> LetterSummary {
    let entry = letter.entry();
    let to = entry.map(|entry| entry.to.iter().map(|to| addresses.one(to)).collect());
    let foreign = match &letter.content {
        LetterContent::Foreign { why, .. } => Some(addresses.within(why)),
        LetterContent::Entry(_) => None,
    };
    let age = Duration::from_millis(now.as_millis().saturating_sub(letter.since.as_millis()));
    LetterSummary {
        message_id: letter.message_id.clone(),
        since: letter.since,
        age_s: age.as_secs(),
        id: addresses.within(&letter.id()),
        campaign: entry.map(|entry| entry.campaign.clone()),
        to: to.unwrap_or_default(),
        code: letter.code().map(str::to_owned),
        said: entry.map(|entry| addresses.within(&entry.last_error.provider_message)),
        http_status: entry.and_then(|entry| entry.last_error.http_status),
        attempts: entry.map_or(0, |entry| entry.attempts),
        doubt: letter.doubt(),
        foreign,
    }
}

pub fn list(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    now: EpochMillis,
    addresses: AddressVisibility,
) -> LetterList {
    let selected = reading.letters.iter().filter(|letter| filter.admits(letter));
    LetterList {
        filter: filter.to_string(),
        coverage: reading.coverage,
        letters: selected.map(|letter| row(letter, now, addresses)).collect(),
    }
}

/// The details of the letters with this id; `body` adds the original body.
pub fn show(
    reading: &LetterSnapshot,
    id: &str,
    now: EpochMillis,
    addresses: AddressVisibility,
    body: bool,
) -> Vec<LetterDetails> {
    let whole = |letter: &Letter| {
        let (entry, envelope) = (letter.entry(), letter.envelope.as_ref());
        let original = match &letter.content {
            LetterContent::Entry(entry) => &entry.message,
            LetterContent::Foreign { body, .. } => body,
        };
        LetterDetails {
            row: row(letter, now, addresses),
            mail_message_id: entry.map(|entry| entry.message_id.clone()),
            identity: letter.identity().map(|identity| addresses.within(identity.as_str())),
            pass: envelope.map(|envelope| envelope.pass),
            enqueued_at: envelope.map(|envelope| envelope.enqueued_at),
            first_attempt_at: entry.and_then(|entry| entry.first_attempt_at),
            last_attempt_at: entry.and_then(|entry| entry.last_attempt_at),
            bytes: original.len(),
            body: body.then(|| addresses.within(original)),
        }
    };
    reading.letters.iter().filter(|letter| letter.is(id)).map(whole).collect()
}

/// Groups the letters that match `filter`.
pub fn groups(
    reading: &LetterSnapshot,
    filter: &LetterFilter,
    by: Grouping,
    addresses: AddressVisibility,
) -> LetterGroups {
    let mut groups: BTreeMap<(String, String), LetterGroup> = BTreeMap::new();
    let mut letters = 0;
    for letter in reading.letters.iter().filter(|letter| filter.admits(letter)) {
        letters += 1;
        let entry = letter.entry();
        let said = entry.map_or("", |entry| entry.last_error.provider_message.as_str());
        let code = letter.code().unwrap_or(none(letter));
        let keys = match by {
            Grouping::Reason => {
                vec![entry.map_or(code.to_owned(), |entry| format!("{}: {code}", entry.campaign))]
            }
            Grouping::Campaign => {
                vec![entry.map_or(none(letter), |entry| entry.campaign.as_str()).to_owned()]
            }
            Grouping::Domain => match domains(letter) {
                domains if domains.is_empty() => vec![none(letter).to_owned()],
                domains => domains,
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
