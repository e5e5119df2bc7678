//! Sets a mark to *sent* or *parked*.

use tidegate_core::deduplication::{Acceptance, MarkState};
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::PortError;

use super::item::{number, text};
use super::mark::mail;
use super::table::LedgerTable;

/// Sets *sent*, regardless of the token that the mark has now.
pub(super) async fn set_sent(
    table: &LedgerTable,
    identity: &Identity,
    accepted: &Acceptance,
) -> Result<bool, PortError> {
    const SENT: &str = "SET #state = :sent, sent_at = :at, ses_id = :ses_id";
    let update = table
        .update_of(mail(identity), SENT, "attribute_exists(pk)")
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":sent", text(MarkState::Sent.as_str()))
        .expression_attribute_values(":at", number(&accepted.at.as_millis()))
        .expression_attribute_values(":ses_id", text(&accepted.ses_message_id));
    Ok(table.make(update).await?.is_ok())
}

pub(super) async fn set_parked(
    table: &LedgerTable,
    identity: &Identity,
    token: &str,
    pass: u32,
) -> Result<bool, PortError> {
    let update = table
        .update_of(mail(identity), "SET #state = :parked, pass = :pass", "#token = :token")
        .expression_attribute_names("#state", "state")
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":parked", text(MarkState::Parked.as_str()))
        .expression_attribute_values(":pass", number(&pass))
        .expression_attribute_values(":token", text(token));
    Ok(table.make(update).await?.is_ok())
}
