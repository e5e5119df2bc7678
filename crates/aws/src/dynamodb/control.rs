//! Replacing the control record.

use tidegate_core::control::Control;
use tidegate_delivery::ports::PortError;

use super::Table;
use super::item::{number, text};

pub(super) async fn set_control(
    table: &Table,
    version: u64,
    control: &Control,
) -> Result<bool, PortError> {
    const REPLACE: &str = "SET control = :control, control_version = :next, control_token = :token";
    let update = match version {
        0 => table.update(REPLACE, "attribute_not_exists(control_version)"),
        version => table
            .update(REPLACE, "control_version = :version")
            .expression_attribute_values(":version", number(&version)),
    };
    let token = format!("{:032x}", rand::random::<u128>());
    let update = update
        .expression_attribute_values(":control", table.json(control)?)
        .expression_attribute_values(":token", text(&token))
        .expression_attribute_values(":next", number(&version.saturating_add(1)));
    Ok(match table.make(update).await? {
        Ok(_) => true,
        // Our own write, whose answer was lost: made twice, a change would count twice.
        Err(item) => table.reader(&item).text("control_token") == Some(&token),
    })
}
