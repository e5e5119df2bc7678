//! Reads the ledger without a claim, by `GetItem`.

use tidegate_delivery::ports::PortError;

use super::item::{Item, KEY, key};
use super::table::LedgerTable;
use crate::aws::error::port_error;

const OPERATION: &str = "GetItem";

pub(super) async fn item_now(table: &LedgerTable) -> Result<Item, PortError> {
    let call = table.client.get_item().table_name(&table.name).key(KEY, key());
    let answer = call.consistent_read(true).send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, &table.name, error))?;
    Ok(answer.item.unwrap_or_default())
}
