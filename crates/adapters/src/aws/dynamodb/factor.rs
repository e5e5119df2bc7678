//! Replaces the rate factor by a conditional write.

use tidegate_core::factor::RateFactor;
use tidegate_delivery::ports::PortError;

use super::table::LedgerTable;

pub(super) async fn set_factor(
    table: &LedgerTable,
    from: RateFactor,
    to: RateFactor,
) -> Result<bool, PortError> {
    let condition = if from == RateFactor::default() {
        "attribute_not_exists(factor) OR factor = :from"
    } else {
        "factor = :from"
    };
    let update = table
        .update("SET factor = :to", condition)
        .expression_attribute_values(":from", table.json(&from)?)
        .expression_attribute_values(":to", table.json(&to)?);
    Ok(table.make(update).await?.is_ok())
}
