//! The first pass over the input: every row is rendered and parsed as the poller will parse it,
//! before anything is sent.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::io::Read;

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_core::channel::{Channel, Content};
use tidegate_core::email::Content as MailContent;
use tidegate_core::format::counted;
use tidegate_core::identity::{EpochMillis, hex};
use tidegate_core::runs::RowRanges;

use super::address_list::RecipientFilter;
use super::deliver::Packer;
use super::rows::{InputFormat, InputRows};
use super::text::TextTally;
use crate::page::{Page, Tone, View};
use crate::redact::AddressVisibility;
use tidegate_core::draft::{CampaignDraft, DraftContent, InputFault, InputRow, RenderedMessage};

#[derive(Clone, Copy, Debug)]
pub struct CheckOptions<'a> {
    pub format: InputFormat,
    /// The pass stops after this number of faults.
    pub max_faults: usize,
    /// Whether several rows may have the same address.
    pub allow_duplicates: bool,
    /// Whether only the first of them gets a message.
    pub first_of_duplicates: bool,
    /// Whether rows with a fault are left out, and the others sent.
    pub skip_invalid: bool,
    /// The recipients that get no mail; `None` if all get theirs.
    pub recipients: Option<&'a RecipientFilter>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
// More than 12 fields: one for each figure of the dry run.
pub struct InputSummary {
    pub channel: Channel,
    /// The rows that get a message.
    pub rows: u64,
    /// The slots of all messages.
    #[serde(skip)]
    pub slots: u64,
    /// The parts and prices of text messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<TextTally>,
    pub notes: MailNotes,
    /// Rows whose recipient is excluded.
    pub excluded: u64,
    pub bytes: u64,
    pub largest_bytes: u64,
    /// Requests that SQS bills for enqueuing them.
    pub sqs_calls: u64,
    /// Rows with the address of an earlier row.
    pub repeated_addresses: u64,
    #[serde(flatten)]
    pub rest: RestOfRows,
    /// Rows whose id is given in the input.
    pub given_ids: u64,
    /// The rows that get a message, by number.
    #[serde(skip)]
    pub messages: RowRanges,
    /// SHA-256 of the input, in hex.
    #[serde(skip)]
    pub sha256: String,
}

/// The list beside the rows that get a message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestOfRows {
    /// Rows that were left out because of a fault.
    pub refused: u64,
    /// Rows that were left out because an earlier one has their address.
    pub duplicates: u64,
    /// Rows of empty cells.
    pub empty_rows: u64,
    /// Columns without a name and without values.
    pub unnamed_columns: u64,
    /// The rows with a message in which a column is empty.
    pub empty_cells: BTreeMap<String, u64>,
    /// The refused rows in the form of the list, with the reason.
    #[serde(skip)]
    pub refused_rows: String,
    /// The rows that were left out, by number.
    #[serde(skip)]
    pub(super) left_out: RowRanges,
}

impl InputSummary {
    /// The slots of the rows that are left after the first `rows`; of texts in proportion, because rows differ.
    pub fn slots_after(&self, rows: u64) -> u64 {
        let left = u128::from(self.rows.saturating_sub(rows));
        let slots = (left * u128::from(self.slots)).div_ceil(u128::from(self.rows.max(1)));
        u64::try_from(slots).unwrap_or(u64::MAX)
    }
}

/// Checks the whole of `input`, which faults call `file`. `on_message` is called for every message
/// without a fault.
///
/// It needs about 40 bytes of memory per row, to find repeated addresses and ids.
///
/// # Errors
/// The faults, at most [`CheckOptions::max_faults`].
pub fn check<R: Read>(
    draft: &CampaignDraft,
    file: &str,
    input: R,
    checking: CheckOptions<'_>,
    mut on_message: impl FnMut(&RenderedMessage, &Content),
) -> Result<InputSummary, Vec<InputFault>> {
    let mut input = HashingReader { input, hash: Sha256::new() };
    let mut rows =
        InputRows::new(file, checking.format, &mut input).map_err(|fault| vec![fault])?;
    // Once, not in each row.
    let columns =
        rows.named_columns().map_or(Ok(()), |columns| draft.check_columns(file, &columns));
    let shared: Vec<_> =
        [draft.check_options(), columns].into_iter().filter_map(Result::err).collect();
    if !shared.is_empty() {
        return Err(shared);
    }
    let mut pass = CheckPass {
        draft,
        checking,
        summary: InputSummary { channel: draft.rules.channel, ..InputSummary::default() },
        packer: Packer::new(),
        faults: Vec::new(),
        hasher: RandomState::new(),
        addresses: HashMap::new(),
        ids: HashMap::new(),
    };
    while let Some(row) = rows.next() {
        let message = row.and_then(|row| {
            let (message, content) = draft.message(&row)?;
            let repeats = pass.check_duplicates(&row, &message, &content)?;
            Ok((row, repeats, message, content))
        });
        match message {
            Ok((.., content))
                if checking.recipients.is_some_and(|filter| filter.leaves_out(&content)) =>
            {
                pass.summary.excluded += 1;
            }
            Ok((_, true, ..)) if checking.first_of_duplicates => {
                pass.summary.rest.duplicates += 1;
                pass.summary.rest.left_out.insert(rows.number, rows.number);
            }
            Ok((row, _, message, content)) => {
                pass.count(&row, &message, &content);
                on_message(&message, &content);
            }
            Err(fault) if checking.skip_invalid && !rows.is_broken => {
                let reason = fault.shown(AddressVisibility::Masked).to_string();
                let rest = &mut pass.summary.rest;
                rest.refused_rows += &rows.refused(&reason, rest.refused == 0);
                rest.refused += 1;
                rest.left_out.insert(rows.number, rows.number);
            }
            Err(fault) => pass.add_fault(fault),
        }
        if pass.faults.len() >= checking.max_faults {
            break;
        }
    }
    pass.summary.rest.empty_rows = rows.empty_rows;
    pass.summary.rest.unnamed_columns =
        rows.columns.iter().filter(|name| name.is_empty()).count() as u64;
    drop(rows);
    if pass.summary.rows == 0 && pass.faults.is_empty() {
        let problem = match pass.summary.excluded {
            0 if pass.summary.rest.refused > 0 => "must be at least one without a fault".to_owned(),
            0 => "must be at least one".to_owned(),
            all => format!("must be at least one that is not excluded; there are {all}"),
        };
        pass.add_fault(InputFault::bare(file, 1, "rows", problem));
    }
    if !pass.faults.is_empty() {
        return Err(pass.faults);
    }
    // The last row was read, so the hash covers all of the input.
    let (sqs_calls, sha256) = (pass.packer.charged(), hex(&input.hash.finalize()));
    Ok(InputSummary { sqs_calls, sha256, ..pass.summary })
}

struct CheckPass<'a> {
    draft: &'a CampaignDraft,
    checking: CheckOptions<'a>,
    summary: InputSummary,
    /// Of the sizes alone.
    packer: Packer<()>,
    faults: Vec<InputFault>,
    hasher: RandomState,
    /// The first line of each address, by the address's hash.
    addresses: HashMap<u64, u64>,
    ids: HashMap<u64, u64>,
}

impl CheckPass<'_> {
    fn count(&mut self, row: &InputRow, message: &RenderedMessage, content: &Content) {
        for (name, _) in row.columns.iter().filter(|(_, cell)| cell.is_null()) {
            *self.summary.rest.empty_cells.entry(name.clone()).or_default() += 1;
        }
        let size = message.body.len();
        let summary = &mut self.summary;
        summary.rows += 1;
        summary.messages.insert(message.row, message.row);
        summary.slots += u64::from(content.slots());
        summary.notes.see(content);
        if let (DraftContent::Text(draft), Content::Text(text)) = (&self.draft.content, content) {
            let texts = summary.texts.get_or_insert_default();
            texts.add(message.line, text, &draft.prices);
        }
        summary.bytes += size as u64;
        summary.largest_bytes = summary.largest_bytes.max(size as u64);
        summary.given_ids += u64::from(message.id_given);
        self.packer.add((), size);
    }

    /// Adds a fault. The same fault of a template in many rows is counted as one.
    fn add_fault(&mut self, fault: InputFault) {
        match self.faults.iter_mut().find(|known| known.repeats(&fault)) {
            Some(known) => known.rows += 1,
            None => self.faults.push(fault),
        }
    }

    /// Whether an earlier row has an address of the message.
    fn check_duplicates(
        &mut self,
        row: &InputRow,
        message: &RenderedMessage,
        content: &Content,
    ) -> Result<bool, InputFault> {
        let (mut repeated, line) = (false, row.line);
        if message.id_given {
            let first = *self.ids.entry(self.hasher.hash_one(&message.id)).or_insert(line);
            if first != line {
                let problem = format!("must be another one in each row; line {first} has the same");
                return Err(InputFault::new(&row.file, line, "id", problem, &message.id));
            }
        }
        for to in content.to() {
            let address = to.to_ascii_lowercase();
            // Hashes instead of texts save memory. With 64 bits and a million rows a collision has
            // a probability of about 1 in 37 million.
            let first = *self.addresses.entry(self.hasher.hash_one(&address)).or_insert(line);
            if first == line {
                continue;
            }
            self.summary.repeated_addresses += 1;
            repeated = true;
            if !self.checking.allow_duplicates && !self.checking.first_of_duplicates {
                let problem = format!(
                    "must stand in one row only, or with --allow-duplicates or --first-of-duplicates; line \
                     {first} has the same"
                );
                let field = self.draft.recipient_member();
                return Err(InputFault::new(&row.file, line, field, problem, to));
            }
        }
        Ok(repeated)
    }
}

/// A reader that hashes what is read through it.
pub(super) struct HashingReader<R> {
    pub(super) input: R,
    pub(super) hash: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

/// Bytes of HTML from which Gmail shows the rest on another page only.
const CLIPPED_BYTES: usize = 102 * 1024;
/// Half an hour. The zones' hours differ by half hours, but for few that differ by a quarter.
const HALF_HOUR_MILLIS: u64 = 1_800_000;
/// Messages at one time of which a provider takes notice.
const MANY: u64 = 1_000;
/// The most bytes of a line in RFC 5322.
const LINE_BYTES: usize = 998;

/// Rows with something that is worth a word.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MailNotes {
    /// Rows whose HTML Gmail clips.
    pub clipped: u64,
    pub long_subjects: u64,
    /// Rows with a time before which they are not sent.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub times: Option<RowTimes>,
}

/// The times of the rows that have one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RowTimes {
    pub timed: u64,
    pub first_time: EpochMillis,
    pub last_time: EpochMillis,
    /// Rows for a full or half hour.
    pub on_the_half_hour: u64,
}

impl MailNotes {
    pub(super) fn see(&mut self, content: &Content) {
        if let Some(at) = content.not_before() {
            let none = RowTimes { timed: 0, first_time: at, last_time: at, on_the_half_hour: 0 };
            let times = self.times.get_or_insert(none);
            times.timed += 1;
            times.first_time = times.first_time.min(at);
            times.last_time = times.last_time.max(at);
            times.on_the_half_hour += u64::from(at.as_millis() % HALF_HOUR_MILLIS < 60_000);
        }
        let Content::Email(email) = content else { return };
        let MailContent::Simple { subject, html, .. } = &email.content else { return };
        // The literal is the longer one.
        let html = html.as_ref().filter(|html| html.literal().len() > CLIPPED_BYTES);
        self.clipped += u64::from(html.is_some_and(|html| html.decode().len() > CLIPPED_BYTES));
        self.long_subjects += u64::from(subject.len() > LINE_BYTES);
    }
}

impl View for MailNotes {
    fn view(&self, page: &mut Page) {
        if let Some(times) = &self.times {
            let RowTimes { timed, first_time, last_time, on_the_half_hour } = times;
            let messages = counted(*timed, "message");
            let said = format!("{messages} not before their time: {first_time} to {last_time}.");
            page.line(Tone::Plain, said);
            if *on_the_half_hour >= MANY && 2 * on_the_half_hour > *timed {
                page.line(Tone::Warning, "Note: a full or half hour is everybody's time, and providers delay mail then; a few minutes beside it mail arrives sooner.");
            }
        }
        let clipped =
            "HTML above 102 KB: Gmail shows its end, with the way to unsubscribe, on another page";
        let long = "a subject above 998 bytes: mail servers may cut or refuse it";
        for (rows, said) in [(self.clipped, clipped), (self.long_subjects, long)] {
            if rows > 0 {
                page.line(Tone::Warning, format!("Note: {} with {said}.", counted(rows, "mail")));
            }
        }
    }
}
