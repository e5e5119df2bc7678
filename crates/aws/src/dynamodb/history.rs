//! The changes of operators, the newest first, in an item of their own. They are not in the claim's item,
//! because that is rewritten with every claim, and DynamoDB charges for each KB.

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use tidegate_core::control::ChangeRecord;
use tidegate_delivery::ports::{CHANGES_KEPT, PortError};

use super::item::{Item, KEY, text};
use super::table::LedgerTable;
use crate::error::port_error;

const HISTORY: &str = "history";
const CHANGES: &str = "changes";

/// Puts `change` before the others, then deletes those beyond [`CHANGES_KEPT`].
pub(super) async fn add(table: &LedgerTable, change: &ChangeRecord) -> Result<(), PortError> {
    const ADD: &str = "SET changes = list_append(:new, if_not_exists(changes, :none))";
    let none = AttributeValue::L(Vec::new());
    let update = table
        .client
        .update_item()
        .table_name(&table.name)
        .key(KEY, text(HISTORY))
        .update_expression(ADD)
        .expression_attribute_values(":new", AttributeValue::L(vec![table.json(change)?]))
        .expression_attribute_values(":none", none)
        .return_values(ReturnValue::AllNew);
    let kept = match table.make(update).await? {
        Ok(item) | Err(item) => list(&item).len(),
    };
    if kept <= CHANGES_KEPT {
        return Ok(());
    }
    let beyond: Vec<String> =
        (CHANGES_KEPT..kept).map(|index| format!("{CHANGES}[{index}]")).collect();
    let update = table
        .client
        .update_item()
        .table_name(&table.name)
        .key(KEY, text(HISTORY))
        .update_expression(format!("REMOVE {}", beyond.join(", ")));
    table.make(update).await.map(drop)
}

/// The changes, the newest first. Entries that cannot be read are left out, because no decision depends on
/// them.
pub(super) async fn changes(table: &LedgerTable) -> Result<Vec<ChangeRecord>, PortError> {
    let call = table.client.get_item().table_name(&table.name).key(KEY, text(HISTORY));
    let answer = call.consistent_read(true).send().await;
    let answer = answer.map_err(|error| port_error("GetItem", &table.name, error))?;
    let item = answer.item.unwrap_or_default();
    let texts = list(&item).iter().filter_map(|change| change.as_s().ok());
    Ok(texts.filter_map(|text| serde_json::from_str(text).ok()).collect())
}

fn list(item: &Item) -> &[AttributeValue] {
    item.get(CHANGES).and_then(|changes| changes.as_l().ok()).map_or(&[], Vec::as_slice)
}
