//! Advances a claim over the following windows, for a mail that needs more slots than a window has.

use tidegate_core::Window;
use tidegate_delivery::ports::PortError;

use super::item::{number, text};
use super::table::LedgerTable;

/// `<=` instead of `<`: if the answer to the first attempt was lost, the retry succeeds as well.
const STILL_NEWEST: &str = "#token = :token AND #window <= :through";

pub(super) async fn advance(
    table: &LedgerTable,
    token: &str,
    through: Window,
) -> Result<bool, PortError> {
    let update = table
        .update("SET #window = :through", STILL_NEWEST)
        .expression_attribute_names("#window", "window")
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":token", text(token))
        .expression_attribute_values(":through", number(&through.epoch_second()));
    Ok(table.make(update).await?.is_ok())
}
