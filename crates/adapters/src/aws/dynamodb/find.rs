//! Reads many items, among them marks, by `BatchGetItem`.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use tidegate_core::deduplication::Mark;
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{FailureKind, PortError};

use super::item::{Item, KEY, text};
use super::mark::{key_of, read};
use super::table::LedgerTable;
use crate::aws::error::port_error;

const OPERATION: &str = "BatchGetItem";

/// How often a call is made for keys that `DynamoDB` left unprocessed. The pauses between are 50, 100, 200,
/// 400 and 800 ms: 1.55 s in all.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn find(
    table: &LedgerTable,
    identities: &[Identity],
) -> Result<Vec<Option<Mark>>, PortError> {
    let keys: Vec<String> = identities.iter().map(key_of).collect();
    // `DynamoDB` refuses a batch that names one key twice.
    let items = items(table, keys.iter().collect()).await?;
    let mark = |key| items.get(key).map(|item| read(&table.reader(item))).transpose();
    keys.iter().map(mark).collect()
}

/// The items that exist, by key.
pub(super) async fn items(
    table: &LedgerTable,
    keys: BTreeSet<&String>,
) -> Result<HashMap<String, Item>, PortError> {
    let key = |key: &&String| Item::from([(KEY.to_owned(), text(key.as_str()))]);
    let mut wanted: Vec<Item> = keys.iter().map(key).collect();
    let mut found = HashMap::new();
    for tried in 0..TRIES {
        let (items, rest) = ask(table, wanted).await?;
        let key = |item: &Item| item.get(KEY).and_then(|key| key.as_s().ok()).cloned();
        found.extend(items.into_iter().filter_map(|item| Some((key(&item)?, item))));
        if rest.is_empty() {
            return Ok(found);
        }
        wanted = rest;
        tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tried)).await;
    }
    Err(PortError {
        operation: OPERATION,
        resource: table.name.clone(),
        kind: FailureKind::Refused(format!("{} keys were never processed", wanted.len())),
        source: None,
    })
}

/// One call: returns the items, and the keys left unprocessed.
async fn ask(table: &LedgerTable, keys: Vec<Item>) -> Result<(Vec<Item>, Vec<Item>), PortError> {
    let asked = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
    let asked = asked.map_err(|error| PortError {
        operation: OPERATION,
        resource: table.name.clone(),
        kind: FailureKind::Refused("a request that cannot be built".to_owned()),
        source: Some(error.into()),
    })?;
    let answer = table.client.batch_get_item().request_items(&table.name, asked).send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, &table.name, error))?;
    // Only one table is asked, so all items in the answer are its items, whatever name the answer gives it.
    let items = answer.responses.unwrap_or_default().into_values().flatten().collect();
    let rest = answer.unprocessed_keys.unwrap_or_default().into_values();
    let rest = rest.flat_map(|rest| rest.keys).collect::<Vec<HashMap<String, AttributeValue>>>();
    Ok((items, rest))
}
