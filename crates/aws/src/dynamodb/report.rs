//! Adding a report.

use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;
use tidegate_delivery::ports::{LedgerReport, PortError};

use super::Table;
use super::item::{COUNTER, LAST_EMPTY, LAST_FIND, number, text};

/// An update's expression may have 4 KB and 300 operators.
const COUNTERS_AT_ONCE: usize = 100;

/// What replaces what stands there, by attribute.
type Replaced = Vec<(&'static str, AttributeValue)>;

pub(super) async fn report(table: &Table, report: &LedgerReport) -> Result<(), PortError> {
    let counters: Vec<_> = report.counters.iter().filter(|(_, added)| **added != 0).collect();
    let mut replaced = replaced(table, report)?;
    for counters in counters.chunks(COUNTERS_AT_ONCE) {
        add(table, counters, std::mem::take(&mut replaced)).await?;
    }
    if replaced.is_empty() { Ok(()) } else { add(table, &[], replaced).await }
}

fn replaced(table: &Table, report: &LedgerReport) -> Result<Replaced, PortError> {
    let idle = report.idle.as_ref().map(|idle| table.json(idle)).transpose()?;
    let window = |window: tidegate_core::Window| number(&window.epoch_second());
    let all = [
        ("idle", idle),
        (LAST_FIND, report.looks.found.map(window)),
        (LAST_EMPTY, report.looks.empty.map(window)),
    ];
    Ok(all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect())
}

/// Adds counters once, however often it is tried: a retry whose first write arrived finds its own
/// token (unless another report came between the two; then it is counted twice).
async fn add(
    table: &Table,
    counters: &[(&String, &i64)],
    replaced: Replaced,
) -> Result<(), PortError> {
    let mut update = "SET last_report = :token".to_owned();
    for (name, _) in &replaced {
        // Writing to a string cannot fail.
        let _ = write!(update, ", {name} = :{name}");
    }
    for (index, _) in counters.iter().enumerate() {
        let lead = if index == 0 { " ADD" } else { "," };
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
    for (name, value) in replaced {
        call = call.expression_attribute_values(format!(":{name}"), value);
    }
    // A condition that does not hold shows our own token: it was added.
    table.make(call).await.map(drop)
}
