//! The control record. Small members are in the claim's item. Larger ones are in items of their own, which
//! are read only after they have changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{TransactWriteItem, Update};
use tidegate_core::control::{
    Control, ControlError, LONGEST, NOT_FOR_POLLERS, Reference, StoredControl, pages,
};
use tidegate_delivery::ports::{FailureKind, PortError, Standing};

use super::table::{Item, KEY, LedgerTable, PAUSE, REGULATOR, TRIES, key, names, number, text};
use crate::aws::error::own_error;

const PAGE: &str = "SET #version = :version, #text = :text";
const TRANSACTION: &str = "TransactWriteItems";

/// The record as last read or written. It is used only while the item shows the same token and version.
#[derive(Clone, Debug, Default)]
pub(super) struct ControlCache(Arc<Mutex<Option<Remembered>>>);

#[derive(Clone, Debug)]
struct Remembered {
    token: String,
    version: u64,
    stored: StoredControl,
    control: Control,
}

impl ControlCache {
    fn get(&self) -> Option<Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, remembered: Remembered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(remembered);
    }
}

/// Puts the control record of `item` into `standing`. For a claim (`is_claim`), members that pollers do not
/// use are not read.
pub(super) async fn read(
    table: &LedgerTable,
    memory: &ControlCache,
    item: &Item,
    is_claim: bool,
    standing: &mut Standing,
) -> Result<(), PortError> {
    let mut item = item.clone();
    for _ in 0..TRIES {
        let reader = table.reader(&item);
        let version = reader.number("control_version")?.unwrap_or_default();
        let token = reader.text("control_token").unwrap_or_default().to_owned();
        let remembered = memory.get().filter(|it| {
            (it.token.as_str(), it.version) == (token.as_str(), version)
                && (is_claim
                    || it.stored.references().all(|(name, _)| it.stored.apart.contains_key(name)))
        });
        if let Some(remembered) = remembered {
            (standing.control, standing.control_version) = (remembered.control, version);
            return Ok(());
        }
        let inline = reader.json("control")?.unwrap_or_default();
        let mut stored = StoredControl { inline, ..StoredControl::default() };
        if fill(table, memory, &mut stored, is_claim).await? {
            let control = stored.control().map_err(|error| match error {
                ControlError::Format(_) => refused(table, error.to_string()),
                // The values are not shown: a hold's detail may contain an address.
                ControlError::Member(_) => reader.unreadable("control"),
            })?;
            (standing.control, standing.control_version) = (control.clone(), version);
            memory.set(Remembered { token, version, stored, control });
            return Ok(());
        }
        // The record was changed between the two reads.
        item = table.item(REGULATOR).await?;
    }
    Err(refused(table, "the control record changed with every read".to_owned()))
}

/// Reads the members that are in items of their own. False if one has another version than the reference
/// names, because the record was changed meanwhile.
async fn fill(
    table: &LedgerTable,
    memory: &ControlCache,
    stored: &mut StoredControl,
    is_claim: bool,
) -> Result<bool, PortError> {
    let before = memory.get().map(|remembered| remembered.stored.apart).unwrap_or_default();
    let mut wanted: Vec<(String, Reference)> = Vec::new();
    let references = stored.references().map(|(name, at)| (name.to_owned(), at));
    for (name, at) in references.collect::<Vec<_>>() {
        match before.get(&name).filter(|(known, _)| *known == at) {
            Some(known) => drop(stored.apart.insert(name, known.clone())),
            None if is_claim && name == NOT_FOR_POLLERS => {}
            None => wanted.push((name, at)),
        }
    }
    if wanted.is_empty() {
        return Ok(true);
    }
    let keys: BTreeSet<String> = wanted
        .iter()
        .flat_map(|(name, at)| (0..at.pages).map(move |page| page_key(name, page)))
        .collect();
    let found = table.items(keys.iter().collect()).await?;
    for (name, at) in wanted {
        let mut whole = String::new();
        for page in 0..at.pages {
            let Some(item) = found.get(&page_key(&name, page)) else { return Ok(false) };
            let reader = table.reader(item);
            if reader.number("version")? != Some(at.version) {
                return Ok(false);
            }
            whole.push_str(reader.text("text").ok_or_else(|| reader.unreadable("text"))?);
        }
        stored.apart.insert(name, (at, whole));
    }
    Ok(true)
}

fn page_key(member: &str, page: usize) -> String {
    format!("control#{member}#{page}")
}

fn refused(table: &LedgerTable, why: String) -> PortError {
    own_error("the control record", &table.name, FailureKind::Refused(why))
}

pub(super) async fn set_control(
    table: &LedgerTable,
    memory: &ControlCache,
    version: u64,
    control: &Control,
) -> Result<bool, PortError> {
    let next = version.saturating_add(1);
    let stands = memory.get().filter(|remembered| remembered.version == version);
    let stands = stands.map(|remembered| remembered.stored.apart).unwrap_or_default();
    let stored = StoredControl::of(control, next, &stands)
        .map_err(|error| refused(table, format!("a value that cannot be written: {error}")))?;
    if let Some((name, (_, text))) = stored.apart.iter().find(|(_, (_, text))| text.len() > LONGEST)
    {
        let bytes = text.len();
        let why = format!("member {name} would have {bytes} bytes; allowed are at most {LONGEST}");
        return Err(refused(table, why));
    }
    let token = format!("{:032x}", rand::random::<u128>());
    let record = Remembered { token, version: next, stored, control: control.clone() };
    let made = replace(table, version, &record).await?;
    if made {
        memory.set(record);
    }
    Ok(made)
}

/// Writes the record in place of that of `version`: by one update, or, if members are in items of their own, by one transaction.
async fn replace(
    table: &LedgerTable,
    version: u64,
    record: &Remembered,
) -> Result<bool, PortError> {
    const REPLACE: &str = "SET control = :control, control_version = :next, control_token = :token, \
        limits = :limits";
    let Remembered { token, version: next, stored, control } = record;
    let condition = match version {
        0 => "attribute_not_exists(control_version)",
        _ => "control_version = :version",
    };
    let mut values = Item::from([
        (":control".to_owned(), table.json(&stored.inline)?),
        (":token".to_owned(), text(token.as_str())),
        (":next".to_owned(), number(next)),
        (":limits".to_owned(), number(&control.limits_digest())),
    ]);
    if version > 0 {
        values.insert(":version".to_owned(), number(&version));
    }
    let pages = written(stored, *next);
    if pages.is_empty() {
        let update = table.update(REPLACE, condition);
        let update = update.set_expression_attribute_values(Some(values));
        return Ok(match table.make(update).await? {
            Ok(_) => true,
            // An earlier attempt of this same write took effect, and its answer was lost. Making it again
            // would apply the change twice.
            Err(item) => table.reader(&item).text("control_token") == Some(token.as_str()),
        });
    }
    let record = Update::builder()
        .table_name(&table.name)
        .key(KEY, key())
        .update_expression(REPLACE)
        .condition_expression(condition)
        .set_expression_attribute_values(Some(values));
    let pages = pages.into_iter().map(|(key, page)| {
        Update::builder()
            .table_name(&table.name)
            .key(KEY, text(key))
            .update_expression(PAGE)
            .set_expression_attribute_names(names(&[PAGE]))
            .expression_attribute_values(":version", number(next))
            .expression_attribute_values(":text", text(page))
    });
    let updates = std::iter::once(record).chain(pages);
    let updates = updates
        .map(|update| Ok(TransactWriteItem::builder().update(update.build()?).build()))
        .collect::<Result<_, BuildError>>()
        .map_err(|error| refused(table, format!("a request that cannot be built: {error}")))?;
    transact(table, token, updates).await
}

/// The pages that version `next` writes, by key.
fn written(stored: &StoredControl, next: u64) -> BTreeMap<String, &str> {
    let new = stored.apart.iter().filter(|(_, (at, _))| at.version == next);
    new.flat_map(|(name, (_, text))| {
        pages(text).into_iter().enumerate().map(move |(page, text)| (page_key(name, page), text))
    })
    .collect()
}

/// Makes all updates or none; false if the condition of the first one does not hold. The token makes a retry
/// succeed if the first attempt took effect and its answer was lost.
async fn transact(
    table: &LedgerTable,
    token: &str,
    updates: Vec<TransactWriteItem>,
) -> Result<bool, PortError> {
    let call = table.client.transact_write_items().client_request_token(token);
    let call = call.set_transact_items(Some(updates));
    for tried in 1.. {
        let Err(error) = call.clone().send().await else { return Ok(true) };
        let reasons = match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                cancelled.cancellation_reasons()
            }
            _ => &[],
        };
        let is = |code| reasons.iter().any(|reason| reason.code() == Some(code));
        if is("ConditionalCheckFailed") {
            return Ok(false);
        }
        // A claim wrote the same item at this moment.
        if !is("TransactionConflict") || tried >= TRIES {
            return Err(table.failed(TRANSACTION, error));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(false)
}
