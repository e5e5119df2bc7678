//! Lists whose newest entry stands first and of which the oldest go, each in an item of its own: the changes of operators,
//! and the keys of the runs. They are not in the claim's item, because that is rewritten with every claim, and DynamoDB
//! charges for each KB.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_delivery::ports::PortError;

use super::table::{Item, LedgerTable, text};

/// A list: its item's key, and how many entries it keeps.
pub(super) struct NewestFirst {
    pub(super) key: &'static str,
    pub(super) kept: usize,
}

const ENTRIES: &str = "changes";

impl NewestFirst {
    /// Puts `entry` before the others, then deletes those beyond the number that is kept.
    pub(super) async fn add(
        &self,
        table: &LedgerTable,
        entry: &impl Serialize,
    ) -> Result<(), PortError> {
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
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        table: &LedgerTable,
    ) -> Result<Vec<T>, PortError> {
        let item = table.item(self.key).await?;
        let texts = list(&item).iter().filter_map(|entry| entry.as_s().ok());
        Ok(texts.filter_map(|text| serde_json::from_str(text).ok()).collect())
    }
}

fn list(item: &Item) -> &[AttributeValue] {
    item.get(ENTRIES).and_then(|entries| entries.as_l().ok()).map_or(&[], Vec::as_slice)
}
