//! Runs whose rows wait in the store: which have begun, and how far they are, as the ledger is told.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tidegate_core::runs::{RUNS_KEPT, RunStage, UploadedRows};
use tidegate_core::store::rows::{RUNS, StoredDrafts, run_of, version_of};
use tidegate_core::store::{ObjectName, Progress};

use crate::control::extend_cancel;
use crate::ports::{Clock, Ledger, PortError, Runs, Store};

/// Objects that are deleted at once.
const AT_ONCE: usize = 16;

/// How far a run of the scheduler came with runs from the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunsDone {
    /// The chunks of each run that has begun, by its token.
    chunks: BTreeMap<String, usize>,
    /// The rows of chunks that were looked at, by the run's token; also those of earlier runs of the scheduler, of which
    /// the ledger may not know.
    rows: BTreeMap<String, UploadedRows>,
    /// Chunks of which every row is enqueued. They stay until the ledger knows.
    finished: Vec<ObjectName>,
    /// The chunks of cancelled runs.
    cancelled: Vec<ObjectName>,
}

impl RunsDone {
    /// Whether any run has begun, of those with these tokens.
    pub(super) fn begin(&mut self, tokens: BTreeSet<String>) -> bool {
        self.chunks = tokens.into_iter().map(|token| (token, 0)).collect();
        !self.chunks.is_empty()
    }

    /// Counts a chunk; false if its run has not begun.
    pub(super) fn see(&mut self, chunk: &ObjectName) -> bool {
        self.chunks.get_mut(run_of(&chunk.token)).map(|chunks| *chunks += 1).is_some()
    }

    pub(super) fn cancel(&mut self, chunk: ObjectName) {
        self.cancelled.push(chunk);
    }

    /// Adds those of a chunk's rows, by their numbers, that are enqueued or refused by now.
    pub(super) fn note(&mut self, chunk: &ObjectName, rows: &[u64], progress: &Progress) {
        let token = run_of(&chunk.token).to_owned();
        let of_run = self.rows.entry(token.clone()).or_default();
        of_run.token = token;
        of_run.refused.extend(&progress.refused);
        let lines = (0..).zip(rows).filter(|(line, _)| progress.has(*line));
        for row in lines.map(|(_, row)| *row).filter(|row| !progress.refused.contains(*row)) {
            if let Some(version) = version_of(&progress.versions, row) {
                of_run.versions.entry(version).or_default().insert(row, row);
            }
        }
        if progress.count() >= rows.len() {
            self.finished.push(chunk.clone());
        }
    }

    /// Writes to the ledger how far each run is, and then deletes what nobody needs any more. A run that somebody else
    /// writes meanwhile is written by the next run of the scheduler, and its chunks stay until then.
    ///
    /// # Errors
    /// [`PortError`] if the ledger or the store does not answer.
    pub(super) async fn settle(
        &self,
        store: &impl Store,
        clock: &impl Clock,
        ledger: &(impl Ledger + Runs),
    ) -> Result<(), PortError> {
        if self.chunks.is_empty() {
            return Ok(());
        }
        let cancelled: BTreeSet<&str> = self.cancelled.iter().map(|c| run_of(&c.token)).collect();
        let campaigns: BTreeSet<&str> =
            self.cancelled.iter().map(|c| c.campaign.as_str()).collect();
        for campaign in campaigns {
            // The run of the scheduler that was at work when the cancel came enqueued some more.
            extend_cancel(ledger, campaign, clock.wall().into()).await?;
        }
        // Runs of which nothing is left to do once no chunk is; one that the ledger has forgotten is over, too.
        let mut over: BTreeSet<&String> = self.chunks.keys().collect();
        let mut conflicts = BTreeSet::new();
        for mut stored in ledger.runs(RUNS_KEPT).await? {
            let Some(token) = stored.run.uploaded.as_ref().map(|of| of.token.clone()) else {
                continue;
            };
            let before = stored.run.clone();
            if let Some(rows) = self.rows.get(&token) {
                stored.run.add_uploaded(rows, clock.wall().into());
            }
            if cancelled.contains(token.as_str()) {
                stored.run.stage = RunStage::Cancelled;
            }
            let is_conflict = stored.run != before && !ledger.set_run(&stored).await?;
            if is_conflict || !matches!(stored.run.stage, RunStage::Done | RunStage::Cancelled) {
                over.remove(&token);
            }
            if is_conflict {
                conflicts.insert(token);
            }
        }
        let gone = self.finished.iter().chain(&self.cancelled);
        let gone = gone.filter(|chunk| !conflicts.contains(run_of(&chunk.token)));
        let mut left = self.chunks.clone();
        for chunk in gone.clone() {
            left.entry(run_of(&chunk.token).to_owned()).and_modify(|chunks| *chunks -= 1);
        }
        let delete = async |chunk: &ObjectName| {
            store.delete(&chunk.to_string()).await?;
            // Last, since without it the rows of the chunk would be enqueued again.
            store.delete(&chunk.progress_key()).await
        };
        stream::iter(gone).map(delete).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
        for token in over.into_iter().filter(|token| left.get(*token) == Some(&0)) {
            let key = StoredDrafts::key(token);
            if let Some((drafts, _)) = store.get(&key).await? {
                store.put(&StoredDrafts::key_once_over(token), drafts).await?;
            }
            store.delete(&key).await?;
        }
        Ok(())
    }
}

/// The tokens of the runs that have begun: their drafts are uploaded last.
pub(super) async fn begun(store: &impl Store) -> Result<BTreeSet<String>, PortError> {
    let (mut tokens, mut after) = (BTreeSet::new(), None);
    loop {
        let page = store.list(RUNS, after.as_deref()).await?;
        tokens.extend(page.objects.iter().filter_map(|object| StoredDrafts::token(&object.key)));
        after = page.next;
        if after.is_none() {
            return Ok(tokens);
        }
    }
}
