//! The first pass over the input: every row is rendered and parsed as the poller will parse it,
//! before anything is sent.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::Read;

use sha2::{Digest as _, Sha256};
use tidegate_core::channel::{Channel, Content};

use super::batch::Counter;
use super::draft::{CampaignDraft, DraftContent, RenderedMessage};
use super::fault::InputFault;
use super::fingerprint::hex;
use super::notes::MailNotes;
use super::rows::{InputFormat, InputRows};
use super::text::TextTally;

#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    pub format: InputFormat,
    /// The pass stops after this number of faults.
    pub max_faults: usize,
    /// Whether several rows may have the same address.
    pub allow_duplicates: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct InputSummary {
    pub channel: Channel,
    /// The rows that get a message.
    pub rows: u64,
    /// The slots of all messages.
    pub slots: u64,
    /// The parts and prices of text messages.
    pub texts: Option<TextTally>,
    pub notes: MailNotes,
    /// Rows whose recipient is excluded.
    pub excluded: u64,
    pub bytes: u64,
    pub largest: u64,
    pub sqs_calls: u64,
    /// Rows with the address of an earlier row.
    pub repeated_addresses: u64,
    /// Rows whose id is given in the input.
    pub given_ids: u64,
    /// SHA-256 of the input, in hex.
    pub sha256: String,
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
    checking: CheckOptions,
    mut on_message: impl FnMut(&RenderedMessage, &Content),
) -> Result<InputSummary, Vec<InputFault>> {
    let mut input = HashingReader { input, hash: Sha256::new() };
    let rows = InputRows::new(file, checking.format, &mut input).map_err(|fault| vec![fault])?;
    // Once, not in each row.
    let columns = rows.columns().map_or(Ok(()), |columns| draft.check_columns(file, columns));
    let shared: Vec<_> =
        [draft.check_options(), columns].into_iter().filter_map(Result::err).collect();
    if !shared.is_empty() {
        return Err(shared);
    }
    let mut pass = CheckPass::new(draft, file, checking);
    for row in rows {
        let message = row.and_then(|row| draft.message(file, &row));
        let message = message.and_then(|(message, content)| {
            pass.check_duplicates(&message, &content)?;
            Ok((message, content))
        });
        match message {
            Ok((_, content)) if draft.recipients.leaves_out(&content) => pass.summary.excluded += 1,
            Ok((message, content)) => {
                pass.count(&message, &content);
                on_message(&message, &content);
            }
            Err(fault) => pass.add_fault(fault),
        }
        if pass.faults.len() >= checking.max_faults {
            break;
        }
    }
    if pass.summary.rows == 0 && pass.faults.is_empty() {
        let problem = match pass.summary.excluded {
            0 => "must be at least one".to_owned(),
            all => format!("must be at least one that is not excluded; there are {all}"),
        };
        pass.add_fault(InputFault::bare(file, 1, "rows", problem));
    }
    if !pass.faults.is_empty() {
        return Err(pass.faults);
    }
    // The row readers may stop before the end of the input; the hash must cover all of it.
    std::io::copy(&mut input, &mut std::io::sink()).map_err(|error| {
        vec![InputFault::bare(file, 1, "file", format!("must be readable: {error}"))]
    })?;
    let (sqs_calls, sha256) = (pass.counter.charged(), hex(&input.hash.finalize()));
    Ok(InputSummary { sqs_calls, sha256, ..pass.summary })
}

struct CheckPass<'a> {
    draft: &'a CampaignDraft,
    file: &'a str,
    checking: CheckOptions,
    summary: InputSummary,
    counter: Counter,
    faults: Vec<InputFault>,
    hasher: RandomState,
    /// The first line of each address, by the address's hash.
    addresses: HashMap<u64, u64>,
    ids: HashMap<u64, u64>,
}

impl<'a> CheckPass<'a> {
    fn new(draft: &'a CampaignDraft, file: &'a str, checking: CheckOptions) -> Self {
        let channel = draft.rules.channel;
        Self {
            draft,
            file,
            checking,
            summary: InputSummary { channel, ..InputSummary::default() },
            counter: Counter::default(),
            faults: Vec::new(),
            hasher: RandomState::new(),
            addresses: HashMap::new(),
            ids: HashMap::new(),
        }
    }

    fn count(&mut self, message: &RenderedMessage, content: &Content) {
        let size = message.body.len();
        let summary = &mut self.summary;
        summary.rows += 1;
        summary.slots += u64::from(content.slots());
        summary.notes.see(content);
        if let (DraftContent::Text(draft), Content::Text(text)) = (&self.draft.content, content) {
            let texts = summary.texts.get_or_insert_default();
            texts.add(message.line, text, &draft.prices);
        }
        summary.bytes += size as u64;
        summary.largest = summary.largest.max(size as u64);
        summary.given_ids += u64::from(message.id_given);
        self.counter.add(size);
    }

    /// Adds a fault. The same fault of a template in many rows is counted as one.
    fn add_fault(&mut self, fault: InputFault) {
        match self.faults.iter_mut().find(|known| known.repeats(&fault)) {
            Some(known) => known.rows += 1,
            None => self.faults.push(fault),
        }
    }

    fn check_duplicates(
        &mut self,
        message: &RenderedMessage,
        content: &Content,
    ) -> Result<(), InputFault> {
        let line = message.line;
        if message.id_given {
            let first = *self.ids.entry(self.hasher.hash_one(&message.id)).or_insert(line);
            if first != line {
                let problem = format!("must be another one in each row; line {first} has the same");
                return Err(InputFault::new(self.file, line, "id", problem, &message.id));
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
            if !self.checking.allow_duplicates {
                let problem = format!(
                    "must stand in one row only, or with --allow-duplicates; line {first} has the \
                     same"
                );
                let field = self.draft.form().recipient;
                return Err(InputFault::new(self.file, line, field, problem, to));
            }
        }
        Ok(())
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
