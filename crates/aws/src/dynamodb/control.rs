//! Replacing the control record.

use tidegate_core::control::Control;
use tidegate_delivery::ports::PortError;

use super::Table;
use super::item::number;

pub(super) async fn set_control(
    table: &Table,
    version: u64,
    control: &Control,
) -> Result<bool, PortError> {
    const REPLACE: &str = "SET control = :control, control_version = :next";
    let update = match version {
        0 => table.update(REPLACE, "attribute_not_exists(control_version)"),
        version => table
            .update(REPLACE, "control_version = :version")
            .expression_attribute_values(":version", number(&version)),
    };
    let update = update
        .expression_attribute_values(":control", table.json(control)?)
        .expression_attribute_values(":next", number(&version.saturating_add(1)));
    Ok(table.make(update).await?.is_ok())
}
