//! `GetItem`: what stands in the ledger, without a claim.

use tidegate_delivery::ports::{PortError, Standing};

use super::Table;
use super::item::{KEY, NEWEST, key};
use crate::error::port_error;

const OPERATION: &str = "GetItem";

pub(super) async fn read(table: &Table) -> Result<Standing, PortError> {
    let call = table.client.get_item().table_name(&table.name).key(KEY, key());
    let answer = call.consistent_read(true).send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, &table.name, error))?;
    table.reader(&answer.item.unwrap_or_default()).standing(&NEWEST)
}
