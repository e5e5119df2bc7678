//! Setting how far a marked mail came.

use tidegate_core::duplicate_guard::MarkState;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::PortError;

use super::Table;
use super::item::text;
use super::mark::mail;

const SET: &str = "SET #state = :state";
const OURS: &str = "#token = :token";
/// It was sent, whoever has marked it meanwhile.
const ANYONES: &str = "attribute_exists(pk)";

pub(super) async fn set_mark(
    table: &Table,
    identity: &Identity,
    token: &str,
    state: MarkState,
) -> Result<bool, PortError> {
    let update = if state == MarkState::Sent {
        table.update_of(mail(identity), SET, ANYONES)
    } else {
        table
            .update_of(mail(identity), SET, OURS)
            .expression_attribute_names("#token", "token")
            .expression_attribute_values(":token", text(token))
    };
    let update = update
        .expression_attribute_names("#state", "state")
        .expression_attribute_values(":state", text(state.as_str()));
    Ok(table.make(update).await?.is_ok())
}
