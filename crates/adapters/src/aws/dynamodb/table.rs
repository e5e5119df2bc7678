//! The ledger's table, and the client that calls it.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::KeysAndAttributes;
use tidegate_delivery::ports::{FailureKind, PortError};

use super::item::{Item, KEY, text};
use crate::aws::error::{port_error, refused};

const BATCH: &str = "BatchGetItem";
/// How often a call is made for keys that `DynamoDB` left unprocessed. The pauses between are 50, 100, 200,
/// 400 and 800 ms: 1.55 s in all.
const TRIES: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A table's name and the client for it.
#[derive(Clone, Debug)]
pub(super) struct LedgerTable {
    pub(super) client: Client,
    pub(super) name: String,
}

impl LedgerTable {
    pub(super) fn timed_out(&self) -> PortError {
        PortError {
            operation: BATCH,
            resource: self.name.clone(),
            kind: FailureKind::TimedOut,
            source: None,
        }
    }

    /// The item with this key, empty if there is none.
    pub(super) async fn item(&self, key: &str) -> Result<Item, PortError> {
        let call = self.client.get_item().table_name(&self.name).key(KEY, text(key));
        let answer = call.consistent_read(true).send().await;
        let answer = answer.map_err(|error| port_error("GetItem", &self.name, error))?;
        Ok(answer.item.unwrap_or_default())
    }

    /// The items that exist, by key.
    pub(super) async fn items(
        &self,
        keys: BTreeSet<&String>,
    ) -> Result<HashMap<String, Item>, PortError> {
        let key = |key: &&String| Item::from([(KEY.to_owned(), text(key.as_str()))]);
        let mut wanted: Vec<Item> = keys.iter().map(key).collect();
        let mut found = HashMap::new();
        for tried in 0..TRIES {
            let (items, rest) = self.ask(wanted).await?;
            let key = |item: &Item| item.get(KEY).and_then(|key| key.as_s().ok()).cloned();
            found.extend(items.into_iter().filter_map(|item| Some((key(&item)?, item))));
            if rest.is_empty() {
                return Ok(found);
            }
            wanted = rest;
            tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tried)).await;
        }
        Err(PortError {
            operation: BATCH,
            resource: self.name.clone(),
            kind: FailureKind::Refused(format!("{} keys were never processed", wanted.len())),
            source: None,
        })
    }

    /// One call: returns the items, and the keys left unprocessed.
    async fn ask(&self, keys: Vec<Item>) -> Result<(Vec<Item>, Vec<Item>), PortError> {
        let asked = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let asked = asked
            .map_err(|error| refused(BATCH, &self.name, "a request that cannot be built", error))?;
        let answer = self.client.batch_get_item().request_items(&self.name, asked).send().await;
        let answer = answer.map_err(|error| port_error(BATCH, &self.name, error))?;
        // Only one table is asked, so all items in the answer are its items, whatever name the answer gives it.
        let items = answer.responses.unwrap_or_default().into_values().flatten().collect();
        let rest = answer.unprocessed_keys.unwrap_or_default().into_values();
        let rest = rest.flat_map(|rest| rest.keys).collect::<Vec<Item>>();
        Ok((items, rest))
    }
}
