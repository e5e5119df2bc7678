//! Deletes a *sending* mark after a send that did not happen.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use tidegate_core::deduplication::MarkState;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::PortError;

use super::item::{KEY, text};
use super::mark::mail;
use super::table::LedgerTable;
use crate::aws::error::port_error;

const OPERATION: &str = "DeleteItem";

pub(super) async fn unmark(
    table: &LedgerTable,
    identity: &Identity,
    token: &str,
) -> Result<bool, PortError> {
    let call = table.client.delete_item().table_name(&table.name).key(KEY, mail(identity));
    let answer = call
        .condition_expression("#token = :token AND #state = :sending")
        .expression_attribute_names("#token", "token")
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":token", text(token))
        .expression_attribute_values(":sending", text(MarkState::Sending.as_str()))
        .send()
        .await;
    match answer {
        Ok(_) => Ok(true),
        Err(error) => match error.as_service_error() {
            Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
            _ => Err(port_error(OPERATION, &table.name, error)),
        },
    }
}
