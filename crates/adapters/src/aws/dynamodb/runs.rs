//! The runs, one item each, and an item with their keys.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_core::runs::{RUNS_KEPT, Run};
use tidegate_delivery::ports::{PortError, Runs, StoredRun};

use super::DynamoLedger;
use super::newest_first::NewestFirst;
use super::table::{number, text};

const KEYS: NewestFirst = NewestFirst { key: "runs", kept: RUNS_KEPT };
/// Time for which a run is kept after its last write.
const KEPT: Duration = Duration::from_hours(60 * 24);

fn key(run: &Run) -> String {
    format!("run#{}/{}", run.campaign, run.name)
}

impl Runs for DynamoLedger {
    async fn runs(&self, most: usize) -> Result<Vec<StoredRun>, PortError> {
        let mut keys: Vec<String> = KEYS.read(&self.table).await?;
        // The first write of a run that was tried again has left its key twice.
        let mut known = BTreeSet::new();
        keys.retain(|key| known.insert(key.clone()));
        // DynamoDB reads 100 items in one call.
        keys.truncate(most.min(RUNS_KEPT));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.table.items(keys.iter().collect::<BTreeSet<_>>()).await?;
        let mut runs = Vec::with_capacity(keys.len());
        // A key without an item is one whose first write did not come.
        for item in keys.iter().filter_map(|key| found.get(key)) {
            let reader = self.table.reader(item);
            let version = reader.number("version")?.unwrap_or_default();
            let run = reader.json("run")?.ok_or_else(|| reader.unreadable("run"))?;
            runs.push(StoredRun { version, run });
        }
        Ok(runs)
    }

    async fn set_run(&self, stored: &StoredRun) -> Result<bool, PortError> {
        const SET: &str = "SET #run = :run, #version = :next, expires_at = :expires_at";
        const STANDS: &str = "attribute_not_exists(pk) AND :stands = :never OR #version = :stands";
        let StoredRun { version, run } = stored;
        if *version == 0 {
            KEYS.add(&self.table, &key(run)).await?;
        }
        let expires_at = run.seen.as_millis() / 1_000 + KEPT.as_secs();
        let update = self
            .table
            .update_of(text(key(run)), SET, STANDS)
            .expression_attribute_values(":run", self.table.json(run)?)
            .expression_attribute_values(":next", number(&(version + 1)))
            .expression_attribute_values(":stands", number(version))
            .expression_attribute_values(":never", number(&0))
            .expression_attribute_values(":expires_at", number(&expires_at));
        Ok(self.table.make(update).await?.is_ok())
    }
}
