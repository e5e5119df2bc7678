//! The ledger's table, the client that calls it, and the attributes of its items.

use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::str::FromStr;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, KeysAndAttributes, ReturnValuesOnConditionCheckFailure,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidegate_core::Window;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{FailureKind, PortError, PreviousClaim, Standing};

use crate::aws::error::{own_error, port_error, refused};

/// How often a call is made while a transaction on the same item is under way, and the pause between two
/// calls.
pub(super) const TRIES: usize = 5;
pub(super) const PAUSE: Duration = Duration::from_millis(15);

const BATCH: &str = "BatchGetItem";
/// Keys per call, DynamoDB's maximum.
const BATCH_KEYS: usize = 100;
/// How often a call is made again for keys that `DynamoDB` left unprocessed. The pauses before are 50, 100, 200,
/// 400 and 800 ms: 1.55 s in all.
const BATCH_PAUSES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

pub(super) type Item = HashMap<String, AttributeValue>;

const UPDATE: &str = "UpdateItem";
pub(super) const KEY: &str = "pk";
pub(super) const REGULATOR: &str = "regulator";
pub(super) fn key() -> AttributeValue {
    text(REGULATOR)
}

pub(super) fn text(text: impl Into<String>) -> AttributeValue {
    AttributeValue::S(text.into())
}

pub(super) fn number(number: &impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// The attributes whose names stand in the expressions as `#NAME`, because DynamoDB reserves many words.
pub(super) fn names(expressions: &[&str]) -> Option<HashMap<String, String>> {
    let is_apart = |c: char| !(c.is_ascii_alphanumeric() || "#_".contains(c));
    let words = expressions.iter().flat_map(|text| text.split(is_apart));
    let names = words.filter_map(|word| word.strip_prefix('#'));
    let names: HashMap<_, _> = names.map(|name| (format!("#{name}"), name.to_owned())).collect();
    (!names.is_empty()).then_some(names)
}

/// The prefix of the attributes that hold the newest claim, and of those that hold the one before it.
pub(super) const NEWEST: &str = "";
pub(super) const BEFORE: &str = "prev_";

/// A table's name and the client for it.
#[derive(Clone, Debug)]
pub(super) struct LedgerTable {
    pub(super) client: Client,
    pub(super) name: String,
}

impl LedgerTable {
    /// The error of a call that failed after all retries.
    pub(super) fn failed<E>(&self, operation: &'static str, error: SdkError<E>) -> PortError
    where
        E: Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        port_error(operation, &self.name, error)
    }

    pub(super) fn timed_out(&self) -> PortError {
        own_error(BATCH, &self.name, FailureKind::TimedOut)
    }

    /// The item with this key, empty if there is none.
    pub(super) async fn item(&self, key: &str) -> Result<Item, PortError> {
        let call = self.client.get_item().table_name(&self.name).key(KEY, text(key));
        let answer = call.consistent_read(true).send().await;
        let answer = answer.map_err(|error| self.failed("GetItem", error))?;
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
        let mut tried = 0;
        while !wanted.is_empty() {
            let later = wanted.split_off(wanted.len().min(BATCH_KEYS));
            let asked = wanted.len();
            let (items, rest) = self.ask(wanted).await?;
            // A throttled table processes some keys of each call.
            tried = if rest.len() < asked { 1 } else { tried + 1 };
            let key = |item: &Item| item.get(KEY).and_then(|key| key.as_s().ok()).cloned();
            found.extend(items.into_iter().filter_map(|item| Some((key(&item)?, item))));
            if tried > BATCH_PAUSES && !rest.is_empty() {
                let why = format!("{} keys were never processed", rest.len() + later.len());
                return Err(own_error(BATCH, &self.name, FailureKind::Refused(why)));
            }
            if !rest.is_empty() {
                tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(tried - 1)).await;
            }
            wanted = [rest, later].concat();
        }
        Ok(found)
    }

    /// One call: returns the items, and the keys left unprocessed.
    async fn ask(&self, keys: Vec<Item>) -> Result<(Vec<Item>, Vec<Item>), PortError> {
        let asked = KeysAndAttributes::builder().set_keys(Some(keys)).consistent_read(true).build();
        let asked = asked
            .map_err(|error| refused(BATCH, &self.name, "a request that cannot be built", error))?;
        let answer = self.client.batch_get_item().request_items(&self.name, asked).send().await;
        let answer = answer.map_err(|error| self.failed(BATCH, error))?;
        // Only one table is asked, so all items in the answer are its items, whatever name the answer gives it.
        let items = answer.responses.unwrap_or_default().into_values().flatten().collect();
        let rest = answer.unprocessed_keys.unwrap_or_default().into_values();
        let rest = rest.flat_map(|rest| rest.keys).collect::<Vec<Item>>();
        Ok((items, rest))
    }

    /// An update of the claim's item under `condition`; if the condition fails, the answer contains the
    /// item.
    pub(super) fn update(&self, update: &str, condition: &str) -> UpdateItemFluentBuilder {
        self.update_of(key(), update, condition)
    }

    /// The same as [`LedgerTable::update`] for the item with this key.
    pub(super) fn update_of(
        &self,
        key: AttributeValue,
        update: &str,
        condition: &str,
    ) -> UpdateItemFluentBuilder {
        self.unconditional(key, update)
            .set_expression_attribute_names(names(&[update, condition]))
            .condition_expression(condition)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    /// An update of the item with this key, whatever it is.
    pub(super) fn unconditional(
        &self,
        key: AttributeValue,
        update: &str,
    ) -> UpdateItemFluentBuilder {
        let call = self.client.update_item().table_name(&self.name).key(KEY, key);
        call.update_expression(update)
    }

    /// Makes an update. Returns the item after it, or (`Err`) the item that did not meet the condition.
    pub(super) async fn make(
        &self,
        update: UpdateItemFluentBuilder,
    ) -> Result<Result<Item, Item>, PortError> {
        for tried in 1.. {
            let error = match update.clone().send().await {
                Ok(answer) => return Ok(Ok(answer.attributes.unwrap_or_default())),
                Err(error) => error,
            };
            match error.as_service_error() {
                Some(UpdateItemError::ConditionalCheckFailedException(failed)) => {
                    return Ok(Err(failed.item.clone().unwrap_or_default()));
                }
                // A change of the control record is under way on this item. The SDK does not retry this
                // error.
                Some(UpdateItemError::TransactionConflictException(_)) if tried < TRIES => {
                    tokio::time::sleep(PAUSE).await;
                }
                _ => return Err(self.failed(UPDATE, error)),
            }
        }
        Ok(Err(Item::new()))
    }

    pub(super) fn reader<'a>(&'a self, item: &'a Item) -> ItemReader<'a> {
        ItemReader { table: self, item }
    }

    pub(super) fn json(&self, value: &impl Serialize) -> Result<AttributeValue, PortError> {
        let json = serde_json::to_string(value).map(AttributeValue::S);
        json.map_err(|error| refused(UPDATE, &self.name, "a value that cannot be written", error))
    }
}

/// Describes an attribute by its type. A text's content is left out, because the control record may contain
/// addresses.
fn shown(value: Option<&AttributeValue>) -> String {
    match value {
        None => "missing".to_owned(),
        Some(AttributeValue::S(text)) => format!("a text of {} bytes", text.len()),
        Some(AttributeValue::N(number)) => format!("the number {number}"),
        Some(_) => "neither text nor number".to_owned(),
    }
}

/// Reads an item's attributes. An attribute that exists but cannot be read is an error: its meaning is
/// unknown, so nothing may be sent.
pub(super) struct ItemReader<'a> {
    table: &'a LedgerTable,
    item: &'a Item,
}

impl ItemReader<'_> {
    pub(super) fn unreadable(&self, name: &str) -> PortError {
        let why = format!("attribute {name} is {}", shown(self.item.get(name)));
        own_error("reading the item", &self.table.name, FailureKind::Refused(why))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.item.get(name)?.as_s().ok().map(String::as_str)
    }

    pub(super) fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, PortError> {
        let Some(value) = self.item.get(name) else { return Ok(None) };
        let number = value.as_n().ok().and_then(|number| number.parse().ok());
        number.map(Some).ok_or_else(|| self.unreadable(name))
    }

    pub(super) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, PortError> {
        let Some(value) = self.item.get(name) else { return Ok(None) };
        let value = value.as_s().ok().and_then(|text| serde_json::from_str(text).ok());
        value.map(Some).ok_or_else(|| self.unreadable(name))
    }

    pub(super) fn window(&self, name: &str) -> Result<Window, PortError> {
        Ok(Window::from_epoch_second(self.number(name)?.unwrap_or_default()))
    }

    /// Reads the claim whose attributes' names begin with `prefix`; `None` if none was made yet.
    fn claim(&self, prefix: &str) -> Result<Option<PreviousClaim>, PortError> {
        let name = |name: &str| format!("{prefix}{name}");
        let window = self.window(&name("window"))?;
        if window == Window::default() {
            return Ok(None);
        }
        let unreadable = |of: &str| self.unreadable(&name(of));
        let rate = self.number(&name("rate"))?.and_then(|rate| Rate::per_second(rate).ok());
        let margin = self.number(&name("margin"))?.and_then(|margin| RateMargin::new(margin).ok());
        Ok(Some(PreviousClaim {
            window,
            quota: rate.ok_or_else(|| unreadable("rate"))?,
            rate_margin: margin.ok_or_else(|| unreadable("margin"))?,
            limits: self.number(&name("initial_limits"))?.unwrap_or_default(),
            changed_limits: self.number(&name("claimed_limits"))?.unwrap_or_default(),
            factor: self.json(&name("claimed_factor"))?.unwrap_or_default(),
        }))
    }

    /// The item's content without the control record, with the claim whose attributes' names begin with `prefix`.
    pub(super) fn standing(&self, prefix: &str) -> Result<Standing, PortError> {
        let previous = self.claim(prefix)?;
        let factor = self.json("factor")?.unwrap_or_default();
        Ok(Standing { previous, factor, ..Standing::default() })
    }
}
