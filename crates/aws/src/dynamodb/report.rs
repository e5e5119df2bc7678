//! Adding a report.

use std::fmt::Write as _;

use tidegate_delivery::ports::{LedgerReport, PortError};

use super::Table;
use super::item::{COUNTER, number, text};

/// An update's expression may have 4 KB and 300 operators.
const COUNTERS_AT_ONCE: usize = 100;

pub(super) async fn report(table: &Table, report: &LedgerReport) -> Result<(), PortError> {
    let counters: Vec<_> = report.counters.iter().filter(|(_, added)| **added != 0).collect();
    let mut idle = report.idle.as_ref().map(|idle| table.json(idle)).transpose()?;
    for counters in counters.chunks(COUNTERS_AT_ONCE) {
        add(table, counters, idle.take()).await?;
    }
    match idle {
        Some(idle) => add(table, &[], Some(idle)).await,
        None => Ok(()),
    }
}

/// Adds counters once, however often it is tried: a retry whose first write arrived finds its own
/// token (unless another report came between the two; then it is counted twice).
async fn add(
    table: &Table,
    counters: &[(&String, &i64)],
    idle: Option<aws_sdk_dynamodb::types::AttributeValue>,
) -> Result<(), PortError> {
    let mut update = "SET last_report = :token".to_owned();
    if idle.is_some() {
        update.push_str(", idle = :idle");
    }
    for (index, _) in counters.iter().enumerate() {
        let lead = if index == 0 { " ADD" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(update, "{lead} #{index} :{index}");
    }
    let token = format!("{:032x}", rand::random::<u128>());
    let mut call = table
        .update(&update, "attribute_not_exists(last_report) OR last_report <> :token")
        .expression_attribute_values(":token", text(token));
    for (index, (name, added)) in counters.iter().enumerate() {
        call = call
            .expression_attribute_names(format!("#{index}"), format!("{COUNTER}{name}"))
            .expression_attribute_values(format!(":{index}"), number(added));
    }
    if let Some(idle) = idle {
        call = call.expression_attribute_values(":idle", idle);
    }
    // A condition that does not hold shows our own token: it was added.
    table.make(call).await.map(drop)
}
