//! The parts: data per campaign in items of their own. A claim reads them, and reports add to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use tidegate_core::Window;
use tidegate_core::limiter::WindowLeft;
use tidegate_core::parts::{KEPT, MOST_PARTS, counters_of};
use tidegate_delivery::ports::{Idle, LedgerReport, Part, PartChange, PortError, Standing};

use super::table::{Item, ItemReader, LedgerTable, number, text};

/// Prefixes of a part's attribute names: a counter, an empty queue, a campaign that has left the list.
const COUNTER: &str = "n.";
const IDLE: &str = "idle.";
const LEFT: &str = "left.";
/// Not `found` and `empty`, because these are reserved words of DynamoDB.
const LAST_FIND: &str = "last_find";
const LAST_EMPTY: &str = "last_empty";
const LAST_DUE: &str = "last_due";
const WINDOW_LEFT: &str = "window_left";
const PARTS: &str = "parts";
const EXPIRES: &str = "expires_at";

/// The most changes in one update. DynamoDB allows 4 KB and 300 operators per expression. A report on 1,000
/// campaigns in 16 parts stays below this in each part.
const CHANGES_AT_ONCE: usize = 200;

fn key_of(place: u32) -> String {
    format!("sums#{place}")
}

pub(super) struct Parts {
    items: BTreeMap<u32, Item>,
    /// The number of parts, according to the newest report.
    count: u32,
}

/// Reads all parts: with one call if `known` is still their number, else with a second one for the rest.
pub(super) async fn read(table: &LedgerTable, known: &AtomicU32) -> Result<Parts, PortError> {
    let asked = known.load(Ordering::Relaxed);
    let mut parts = Parts { items: ask(table, 0..asked).await?, count: 1 };
    if let Some(first) = parts.items.get(&0) {
        let count = table.reader(first).number(PARTS)?.unwrap_or(1);
        parts.count = count.clamp(1, MOST_PARTS);
    }
    if parts.count > asked {
        parts.items.extend(ask(table, asked..parts.count).await?);
    }
    known.store(parts.count, Ordering::Relaxed);
    Ok(parts)
}

async fn ask(
    table: &LedgerTable,
    places: std::ops::Range<u32>,
) -> Result<BTreeMap<u32, Item>, PortError> {
    let keys: Vec<(u32, String)> = places.map(|place| (place, key_of(place))).collect();
    let wanted: BTreeSet<&String> = keys.iter().map(|(_, key)| key).collect();
    let mut found = table.items(wanted).await?;
    Ok(keys.iter().filter_map(|(place, key)| Some((*place, found.remove(key)?))).collect())
}

impl Parts {
    /// Adds the parts' content at `now` to the standing. Expired items are skipped here, because DynamoDB
    /// deletes them up to two days late.
    pub(super) fn beside(
        &self,
        table: &LedgerTable,
        mut standing: Standing,
        now: Window,
    ) -> Result<Standing, PortError> {
        let mut parts = BTreeMap::new();
        for (place, item) in &self.items {
            let reader = table.reader(item);
            let expires: Option<u64> = reader.number(EXPIRES)?;
            if expires.is_none_or(|at| at > now.epoch_second()) {
                parts.insert(*place, part(&reader, item)?);
            }
            if *place == 0 {
                let at = |name| Ok(reader.number(name)?.map(Window::from_epoch_second));
                standing.looks.found = at(LAST_FIND)?;
                standing.looks.empty = at(LAST_EMPTY)?;
                standing.looks.due = at(LAST_DUE)?;
                // Only shown: a text of another version must not keep a poller from its window.
                standing.window_left = reader.text(WINDOW_LEFT).and_then(WindowLeft::parse);
            }
        }
        Ok(standing.with_parts(parts, self.count))
    }
}

fn part(reader: &ItemReader<'_>, item: &Item) -> Result<Part, PortError> {
    let mut part = Part::default();
    for name in item.keys() {
        if let Some(counter) = name.strip_prefix(COUNTER) {
            let sum = reader.number(name)?.unwrap_or_default();
            part.counters.insert(counter.to_owned(), sum);
        } else if let Some(queue) = name.strip_prefix(IDLE) {
            let idle = reader.text(name).and_then(idle_of);
            let idle = idle.ok_or_else(|| reader.unreadable(name))?;
            part.idle.insert(queue.to_owned(), idle);
        } else if let Some(campaign) = name.strip_prefix(LEFT) {
            part.left.insert(campaign.to_owned(), reader.window(name)?);
        }
    }
    Ok(part)
}

/// Parses `1795207005 4`: the first second that asks again, and the pause in windows. The format is short
/// because one report may change hundreds.
fn idle_of(text: &str) -> Option<Idle> {
    let (until, pause) = text.split_once(' ')?;
    let until = Window::from_epoch_second(until.parse().ok()?);
    Some(Idle { until, pause: pause.parse().ok()? })
}

enum AttributeChange {
    Add(String, i64),
    Set(String, AttributeValue),
    Remove(String),
}

/// Adds a report: one write per part, all at once.
pub(super) async fn report(table: &LedgerTable, report: &LedgerReport) -> Result<(), PortError> {
    let mut parts = report.by_part();
    if report.looks != tidegate_core::idle::QueueChecks::default()
        || report.window_left.is_some()
        || parts.keys().any(|part| *part > 0)
    {
        parts.entry(0).or_default();
    }
    let writes = parts.into_iter().map(async |(place, change)| {
        let mut changes = changes(change);
        changes.extend(beside(report, place));
        for changes in changes.chunks(CHANGES_AT_ONCE) {
            write(table, place, changes).await?;
        }
        Ok(())
    });
    join_all(writes).await.into_iter().collect()
}

fn changes(change: PartChange) -> Vec<AttributeChange> {
    let counters = change.counters.into_iter();
    let counters =
        counters.map(|(name, added)| AttributeChange::Add(format!("{COUNTER}{name}"), added));
    let set = |name: String, value: Option<AttributeValue>| match value {
        Some(value) => AttributeChange::Set(name, value),
        None => AttributeChange::Remove(name),
    };
    let idle = change.idle.into_iter().map(|(queue, idle)| {
        let shown = |Idle { until, pause }| text(format!("{} {pause}", until.epoch_second()));
        set(format!("{IDLE}{queue}"), idle.map(shown))
    });
    let left = change.left.into_iter().map(|(campaign, at)| {
        set(format!("{LEFT}{campaign}"), at.map(|at| number(&at.epoch_second())))
    });
    let past = change.past.iter().flat_map(|campaign| {
        let counters = counters_of(campaign).map(|counter| format!("{COUNTER}{counter}"));
        counters.chain([format!("{IDLE}{campaign}")]).map(AttributeChange::Remove)
    });
    counters.chain(idle).chain(left).chain(past).collect()
}

/// Changes that every write to this part contains: part 0 records the state of the queues, the others set
/// their expiry.
fn beside(report: &LedgerReport, place: u32) -> Vec<AttributeChange> {
    if place > 0 {
        let expires = report.window.epoch_second() + KEPT.as_secs();
        return vec![AttributeChange::Set(EXPIRES.to_owned(), number(&expires))];
    }
    let parts = u64::from(report.upkeep.parts);
    let window = |window: Option<Window>| window.map(Window::epoch_second);
    let all = [
        (PARTS, Some(parts).filter(|parts| *parts > 0)),
        (LAST_FIND, window(report.looks.found)),
        (LAST_EMPTY, window(report.looks.empty)),
        (LAST_DUE, window(report.looks.due)),
    ];
    let set = |(name, value): (&str, Option<u64>)| {
        Some(AttributeChange::Set(name.to_owned(), number(&value?)))
    };
    let left = report.window_left.map(|left| text(left.to_string()));
    let left = left.map(|left| AttributeChange::Set(WINDOW_LEFT.to_owned(), left));
    all.into_iter().filter_map(set).chain(left).collect()
}

/// Applies the changes once, even if the call is retried: a retry that finds its own token in `last_report`
/// knows that the first attempt took effect. If another report was written between the two attempts, the
/// changes are counted twice.
async fn write(
    table: &LedgerTable,
    place: u32,
    changes: &[AttributeChange],
) -> Result<(), PortError> {
    let token = format!("{:032x}", rand::random::<u128>());
    let condition = "attribute_not_exists(last_report) OR last_report <> :token";
    let mut call = table
        .update_of(text(key_of(place)), "", condition)
        .expression_attribute_values(":token", text(token));
    let (mut set, mut remove, mut add) =
        (vec!["last_report = :token".to_owned()], Vec::new(), Vec::new());
    for (index, change) in changes.iter().enumerate() {
        let (name, value) = match change {
            AttributeChange::Set(name, value) => {
                set.push(format!("#{index} = :{index}"));
                (name, Some(value.clone()))
            }
            AttributeChange::Remove(name) => {
                remove.push(format!("#{index}"));
                (name, None)
            }
            AttributeChange::Add(name, added) => {
                add.push(format!("#{index} :{index}"));
                (name, Some(number(added)))
            }
        };
        call = call.expression_attribute_names(format!("#{index}"), name);
        if let Some(value) = value {
            call = call.expression_attribute_values(format!(":{index}"), value);
        }
    }
    let actions = [("SET", set), ("REMOVE", remove), ("ADD", add)];
    let actions = actions.iter().filter(|(_, of)| !of.is_empty());
    let actions: Vec<_> =
        actions.map(|(action, of)| format!("{action} {}", of.join(", "))).collect();
    let call = call.update_expression(actions.join(" "));
    // If the condition fails, the item shows this call's token, so the changes were made.
    table.make(call).await.map(drop)
}
