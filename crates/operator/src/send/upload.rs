//! `tidegate send --upload`: puts the rows of a list into the store, and the stack makes and enqueues their messages.
//!
//! The rows come first, then the run in the ledger, and last what the rows share, with which the run begins. So an
//! upload that ends before leaves nothing that would be sent.

use std::io::{self, Read};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_core::Window;
use tidegate_core::channel::Channel;
use tidegate_core::counters::{Counter, signed};
use tidegate_core::draft::CampaignDraft;
use tidegate_core::format::{bytes, counted};
use tidegate_core::identity::hex;
use tidegate_core::parts::Upkeep;
use tidegate_core::runs::{RowRanges, RunStage, THE_STACK, UploadedRows};
use tidegate_core::store::rows::{CHUNK_BYTES, ROWS, StoredDrafts, StoredRow};
use tidegate_core::store::{ObjectName, Waits, pack};
use tidegate_delivery::ports::{Clock, Ledger, LedgerReport, PortError, Runs, Store, StoredRun};

use super::check::{HashingReader, InputSummary};
use super::rows::{InputFormat, InputRows};
use super::runs::{RunError, RunKey, RunRecord, change_run};
use crate::page::{Page, Span, Tone, View};

/// Chunks that are written at once.
const AT_ONCE: usize = 8;
/// Characters of a run's token: with a chunk's number it is a token of the store.
const TOKEN: usize = 16;

/// An upload that ended; nothing of it is sent.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("the store did not take the list; nothing was sent: run the command again")]
    Store(#[source] PortError),
    #[error("{file} changed while it was uploaded; nothing was sent: run the command again")]
    Changed { file: String },
    #[error("the rows cannot be packed; nothing was sent")]
    Pack(#[source] io::Error),
}

/// A list that has been checked and confirmed.
#[derive(Debug)]
pub struct Upload<'a> {
    pub file: &'a str,
    pub format: InputFormat,
    pub checked: &'a InputSummary,
    /// A random text; the run's objects are named by its beginning.
    pub token: &'a str,
}

/// A list that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UploadReport {
    pub channel: Channel,
    pub campaign: String,
    pub run: String,
    pub rows: u64,
    /// The compressed size of the rows.
    pub bytes: u64,
}

impl Upload<'_> {
    /// Uploads the rows of `input` that get a message and are not settled in the run, and begins that.
    ///
    /// # Errors
    /// [`UploadError`].
    pub async fn run(
        &self,
        draft: CampaignDraft,
        input: impl Read,
        mut stored: StoredRun,
        store: &impl Store,
        ledger: &(impl Ledger + Runs),
        clock: &impl Clock,
    ) -> Result<UploadReport, UploadError> {
        let alphanumeric = self.token.chars().filter(char::is_ascii_alphanumeric);
        let token: String = alphanumeric.take(TOKEN).collect();
        let settled = std::mem::take(&mut stored.run.settled);
        let (rows, bytes) =
            self.put_rows(&draft.campaign, &token, input, &settled, store, clock).await?;
        stored.run.settled = settled;
        let (campaign, run, channel) =
            (draft.campaign.clone(), draft.run.clone(), draft.rules.channel);
        let key = RunKey { campaign: campaign.clone(), name: run.clone() };
        // Its owner is the stack. Until the last object is written nobody enqueues it.
        THE_STACK.clone_into(&mut stored.run.sender.host);
        stored.run.stage = RunStage::Stopped;
        stored.run.uploaded =
            Some(UploadedRows { token: token.clone(), ..UploadedRows::default() });
        let cancelled_at = stored.run.before.cancelled_at;
        RunRecord::begin(ledger, stored).await?;
        let (list, format) = (self.file.to_owned(), self.format);
        let drafts = StoredDrafts { list, format, cancelled_at, drafts: vec![draft] };
        let packed = drafts.pack().map_err(UploadError::Pack)?;
        store.put(&StoredDrafts::key(&token), packed).await.map_err(UploadError::Store)?;
        change_run(ledger, &key, |run| {
            if run.stage == RunStage::Stopped {
                run.stage = RunStage::Sending;
            }
        })
        .await?;
        announce(ledger, rows, clock).await.map_err(RunError::Port)?;
        Ok(UploadReport { channel, campaign, run, rows, bytes })
    }

    /// The number of rows and of bytes that were put into the store.
    async fn put_rows(
        &self,
        campaign: &str,
        token: &str,
        input: impl Read,
        settled: &RowRanges,
        store: &impl Store,
        clock: &impl Clock,
    ) -> Result<(u64, u64), UploadError> {
        let changed = || UploadError::Changed { file: self.file.to_owned() };
        let window = Window::containing(clock.wall());
        let mut input = HashingReader { input, hash: Sha256::new() };
        let rows = InputRows::new(self.file, self.format, &mut input).map_err(|_| changed())?;
        let mut chunks = Chunks { rows, messages: &self.checked.messages, settled };
        let put = async |numbered: (usize, Option<Vec<StoredRow>>)| {
            let (number, rows) = (numbered.0, numbered.1.ok_or_else(changed)?);
            let (mails, bytes) = (rows.len() as u64, pack(&rows).map_err(UploadError::Pack)?);
            drop(rows);
            let (waits, campaign) = (Waits::Rows, campaign.to_owned());
            let name =
                ObjectName { waits, window, campaign, token: format!("{token}{number:06}"), mails };
            let size = bytes.len() as u64;
            store.put(&name.to_string(), bytes).await.map_err(UploadError::Store)?;
            Ok::<_, UploadError>((mails, size))
        };
        let put = stream::iter(chunks.by_ref().enumerate()).map(put).buffer_unordered(AT_ONCE);
        let sum = async |sum: (u64, u64), one: (u64, u64)| Ok((sum.0 + one.0, sum.1 + one.1));
        let sum = put.try_fold((0, 0), sum).await?;
        drop(chunks);
        io::copy(&mut input, &mut io::sink()).map_err(|_| changed())?;
        if hex(&input.hash.finalize()) == self.checked.sha256 { Ok(sum) } else { Err(changed()) }
    }
}

/// Tells the scheduler that there are rows.
async fn announce(ledger: &impl Ledger, rows: u64, clock: &impl Clock) -> Result<(), PortError> {
    let parts = ledger.read().await?.parts;
    let report = LedgerReport {
        window: Window::containing(clock.wall()),
        counters: [(Counter::Uploaded.name().to_owned(), signed(rows))].into(),
        upkeep: Upkeep { parts, ..Upkeep::default() },
        ..LedgerReport::default()
    };
    ledger.report(&report).await
}

/// The rows that get a message and are not settled, in chunks; `None` for one that can no longer be read.
struct Chunks<'a> {
    rows: InputRows<'a>,
    messages: &'a RowRanges,
    settled: &'a RowRanges,
}

impl Iterator for Chunks<'_> {
    type Item = Option<Vec<StoredRow>>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut chunk, mut bytes) = (Vec::new(), 0);
        while chunk.len() < ROWS && bytes < CHUNK_BYTES {
            let Some(row) = self.rows.next() else { break };
            let number = self.rows.number;
            if !self.messages.contains(number) || self.settled.contains(number) {
                continue;
            }
            bytes += self.rows.bytes();
            match row {
                Ok(row) => chunk.push(StoredRow::from(row)),
                Err(_) => return Some(None),
            }
        }
        (!chunk.is_empty()).then_some(Some(chunk))
    }
}

impl View for UploadReport {
    fn view(&self, page: &mut Page) {
        let messages = counted(self.rows, self.channel.words().message);
        page.line(Tone::Good, format!("{messages} uploaded for campaign {}", self.campaign));
        page.fields([
            ("run", Span::from(&self.run)),
            ("size", Span::from(bytes(self.bytes))),
            ("enqueued by", Span::from("the stack: this command is no longer needed")),
        ]);
        page.line(Tone::Faint, "tidegate status shows how far it is.");
    }
}
