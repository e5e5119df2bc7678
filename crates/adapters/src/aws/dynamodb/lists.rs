//! Lists whose newest entry stands first and of which the oldest go, each in an item of its own: the changes of operators,
//! and the keys of the runs. They are not in the claim's item, because that is rewritten with every claim, and DynamoDB
//! charges for each KB.
//!
//! Also items that count their writes: the runs, and the shards of the exclusion list.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_core::control::ChangeRecord;
use tidegate_core::exclusions::{pack, unpack};
use tidegate_core::runs::{RUNS_KEPT, Run};
use tidegate_delivery::ports::{
    CHANGES_KEPT, ExclusionShard, Exclusions, History, PortError, Runs, StoredRun,
};

use super::DynamoLedger;
use super::table::{Item, LedgerTable, number, text};

/// A list: its item's key, and how many entries it keeps.
struct NewestFirst {
    key: &'static str,
    kept: usize,
}

const ENTRIES: &str = "changes";

impl NewestFirst {
    /// Puts `entry` before the others, then deletes those beyond the number that is kept.
    async fn add(&self, table: &LedgerTable, entry: &impl Serialize) -> Result<(), PortError> {
        const ADD: &str = "SET changes = list_append(:new, if_not_exists(changes, :none))";
        let none = AttributeValue::L(Vec::new());
        let update = table
            .unconditional(text(self.key), ADD)
            .expression_attribute_values(":new", AttributeValue::L(vec![table.json(entry)?]))
            .expression_attribute_values(":none", none)
            .return_values(ReturnValue::AllNew);
        let stand = match table.make(update).await? {
            Ok(item) | Err(item) => list(&item).len(),
        };
        if stand <= self.kept {
            return Ok(());
        }
        let beyond: Vec<String> =
            (self.kept..stand).map(|index| format!("{ENTRIES}[{index}]")).collect();
        let remove = format!("REMOVE {}", beyond.join(", "));
        table.make(table.unconditional(text(self.key), &remove)).await.map(drop)
    }

    /// The entries, the newest first. Those that cannot be read are left out, because no decision of a poller depends on
    /// them.
    async fn read<T: DeserializeOwned>(&self, table: &LedgerTable) -> Result<Vec<T>, PortError> {
        let item = table.item(self.key).await?;
        let texts = list(&item).iter().filter_map(|entry| entry.as_s().ok());
        Ok(texts.filter_map(|text| serde_json::from_str(text).ok()).collect())
    }
}

fn list(item: &Item) -> &[AttributeValue] {
    item.get(ENTRIES).and_then(|entries| entries.as_l().ok()).map_or(&[], Vec::as_slice)
}

/// The changes of operators.
const CHANGES: NewestFirst = NewestFirst { key: "history", kept: CHANGES_KEPT };

impl History for DynamoLedger {
    async fn add(&self, change: &ChangeRecord) -> Result<(), PortError> {
        CHANGES.add(&self.table, change).await
    }

    async fn changes(&self) -> Result<Vec<ChangeRecord>, PortError> {
        CHANGES.read(&self.table).await
    }
}

const KEYS: NewestFirst = NewestFirst { key: "runs", kept: RUNS_KEPT };
/// Time for which a run is kept after its last write.
const KEPT: Duration = Duration::from_hours(60 * 24);

fn run_key(run: &Run) -> String {
    format!("run#{}/{}", run.campaign, run.name)
}

impl Runs for DynamoLedger {
    async fn runs(&self, most: usize) -> Result<Vec<StoredRun>, PortError> {
        let mut keys: Vec<String> = KEYS.read(&self.table).await?;
        // The first write of a run that was tried again has left its key twice.
        let mut known = BTreeSet::new();
        keys.retain(|key| known.insert(key.clone()));
        keys.truncate(most.min(RUNS_KEPT));
        let found = self.table.items(keys.iter().collect()).await?;
        // A key without an item is one whose first write did not come.
        let items = keys.iter().filter_map(|key| found.get(key));
        let run = |item: &Item| {
            let reader = self.table.reader(item);
            let run = reader.json("run")?.ok_or_else(|| reader.unreadable("run"))?;
            Ok(StoredRun { version: reader.number("version")?.unwrap_or_default(), run })
        };
        items.map(run).collect()
    }

    async fn set_run(&self, stored: &StoredRun) -> Result<bool, PortError> {
        const SET: &str = "SET #run = :run, expires_at = :expires_at, #version = :next";
        let StoredRun { version, run } = stored;
        if *version == 0 {
            KEYS.add(&self.table, &run_key(run)).await?;
        }
        let expires_at = run.seen.as_millis() / 1_000 + KEPT.as_secs();
        let update = versioned(&self.table, run_key(run), SET, *version)
            .expression_attribute_values(":run", self.table.json(run)?)
            .expression_attribute_values(":expires_at", number(&expires_at));
        Ok(self.table.make(update).await?.is_ok())
    }
}

/// An update of an item whose `#version` becomes `:next`, unless it was written since `version`.
fn versioned(
    table: &LedgerTable,
    key: String,
    update: &str,
    version: u64,
) -> UpdateItemFluentBuilder {
    const STANDS: &str = "attribute_not_exists(pk) AND :stands = :never OR #version = :stands";
    table
        .update_of(text(key), update, STANDS)
        .expression_attribute_values(":next", number(&(version + 1)))
        .expression_attribute_values(":stands", number(&version))
        .expression_attribute_values(":never", number(&0))
}

fn shard_key(shard: u8) -> String {
    format!("exclusions#{shard}")
}

impl Exclusions for DynamoLedger {
    async fn shards(&self, numbers: &[u8]) -> Result<Vec<ExclusionShard>, PortError> {
        let call = async {
            let keys: Vec<String> = numbers.iter().map(|shard| shard_key(*shard)).collect();
            let found = self.table.items(keys.iter().collect()).await?;
            let shard = |key| {
                let Some(item) = found.get(key) else { return Ok(ExclusionShard::default()) };
                let reader = self.table.reader(item);
                let bytes = item.get("keys").and_then(|value| value.as_b().ok());
                let keys = bytes.and_then(|bytes| unpack(bytes.as_ref()));
                Ok(ExclusionShard {
                    version: reader.number("version")?.unwrap_or_default(),
                    keys: keys.ok_or_else(|| reader.unreadable("keys"))?,
                })
            };
            keys.iter().map(shard).collect()
        };
        self.failures.counted(call).await
    }

    async fn set_shard(&self, place: u8, shard: &ExclusionShard) -> Result<bool, PortError> {
        let call = async {
            const SET: &str = "SET #keys = :keys, #version = :next";
            let keys = AttributeValue::B(Blob::new(pack(&shard.keys)));
            let update = versioned(&self.table, shard_key(place), SET, shard.version);
            let update = update.expression_attribute_values(":keys", keys);
            Ok(self.table.make(update).await?.is_ok())
        };
        self.failures.counted(call).await
    }
}
