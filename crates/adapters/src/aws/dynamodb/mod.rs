//! `Ledger` and `Marks` on `DynamoDB`, in one table. All that a claim needs is in one item, whose size does
//! not depend on the number of campaigns:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `regulator` |
//! | `window`, `token`, `rate` | N S N | the newest claim: its (last) window, its token, its quota |
//! | `margin`, `claimed_factor` | N S | its rate margin, and the rate factor in force then, JSON |
//! | `opened` | N | the window it was made for; `window` is later if the claim was advanced |
//! | `prev_window`, `prev_rate`, `prev_margin`, `prev_claimed_factor` | N N N S | the claim before |
//! | `factor` | S | the rate factor, JSON |
//! | `limits`, `claimed_limits`, `prev_claimed_limits` | N N N | the digest of the control record's limits: now, and as each claim was made |
//! | `control` | S | the control record's small members, and references to the others, JSON |
//! | `control_version`, `control_token` | N S | the number of its changes; the token of the last one |
//!
//! Members of the control record that are not small are in items of their own (see
//! `tidegate_core::control::StoredControl`), written in one transaction with the references to them:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `control#`, the member's name, `#` and the number of the page, from 0 |
//! | `version` | N | the version of the record that wrote the page |
//! | `text` | S | the page's text |
//!
//! The sums of reports are in 1 to 16 parts (see `tidegate_core::parts`), one item each:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `sums#` and the number of the part, from 0 |
//! | `n.…` | N | the sums of all reports, by counter |
//! | `idle.…` | S | a queue found empty: the second that asks again, and the pause in windows |
//! | `left.…` | N | a campaign that has left the list: the second in which this was noted |
//! | `last_report` | S | the token of the last report |
//! | `parts` | N | in part 0: the number of parts |
//! | `last_find`, `last_empty` | N N | in part 0: the newest window with mail, and with every queue empty |
//! | `window_left` | S | in part 0: the slots and mails that the window of the last report left |
//! | `expires_at` | N | in all other parts: the table's time to live |
//!
//! With deduplication, also one item per mail:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `mail#` and the SHA-256 of the mail's identity, in hex |
//! | `state` | S | `sending`, `sent` or `parked` |
//! | `token`, `pass`, `since` | S N N | of the request that set the mark; milliseconds since the epoch |
//! | `sent_at`, `ses_id` | N S | of a sent mail: time of SES's answer, SES's message id |
//! | `expires_at` | N | seconds since the epoch: the table's time to live |
//!
//! The exclusion list is in 256 items:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `exclusions#` and the number of the shard, from 0 |
//! | `version` | N | the number of its writes |
//! | `keys` | B | its addresses' keys, 8 bytes each (see `tidegate_core::exclusions`) |
//!
//! Each run is an item, and the item `runs` holds their keys as the list `changes`, the newest first:
//!
//! | attribute | type | |
//! |---|---|---|
//! | `pk` | S | `run#`, the campaign, `/` and the run's name |
//! | `version` | N | the number of its writes |
//! | `run` | S | the run, JSON (see `tidegate_core::runs`) |
//! | `expires_at` | N | seconds since the epoch: the table's time to live |
//!
//! The item `history` holds `changes`: a list of operators' changes in JSON, the newest first.

mod control;
mod lists;
mod marks;
mod parts;
mod table;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::ReturnValue;
use futures_util::future::join;
use table::{BEFORE, Item, LedgerTable, NEWEST, REGULATOR, number, text};
use tidegate_core::Window;
use tidegate_core::control::Control;
use tidegate_core::factor::RateFactor;
use tidegate_core::parts::MOST_PARTS;
use tidegate_delivery::ports::{
    Claim, ClaimRequest, Ledger, LedgerFailures, LedgerReport, PortError, Standing,
};
use tokio::time::timeout;

use super::error::time_limits;
use super::wire::RequestKind;

/// The time limit of a claim with its retry. A later answer would be too late for the window.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(300);
/// The time limit of one attempt: long enough for a TLS handshake on a small share of a processor.
const CLAIM_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(150);
/// The time limit of any other call with its retries.
const TIMEOUT: Duration = Duration::from_secs(2);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// The ledger in a `DynamoDB` table with the partition key `pk` of type string.
#[derive(Clone, Debug)]
pub struct DynamoLedger {
    table: LedgerTable,
    /// The table with short time limits, for calls that delay a window.
    urgent: LedgerTable,
    /// The number of parts when they were last read; the next claim reads that many in one call.
    parts: Arc<AtomicU32>,
    /// The control record as last read or written.
    control: control::ControlCache,
    failures: LedgerFailures,
}

impl DynamoLedger {
    /// Uses the table `table` through `client`, whose retries and time limits are replaced.
    pub fn new(client: &Client, table: impl Into<String>) -> Self {
        let name = table.into();
        let reached = |retries: RetryConfig, whole: Duration, attempt: Duration| {
            let config = client.config().to_builder().retry_config(retries);
            let client =
                Client::from_conf(config.timeout_config(time_limits(attempt, whole)).build());
            LedgerTable { client, name: name.clone() }
        };
        let hurried = RetryConfig::standard()
            .with_max_attempts(3)
            .with_initial_backoff(Duration::from_millis(10))
            .with_max_backoff(Duration::from_millis(20));
        Self {
            table: reached(RetryConfig::standard(), TIMEOUT, ATTEMPT_TIMEOUT),
            urgent: reached(hurried, CLAIM_TIMEOUT, CLAIM_ATTEMPT_TIMEOUT),
            parts: Arc::new(AtomicU32::new(MOST_PARTS)),
            control: control::ControlCache::default(),
            failures: LedgerFailures::default(),
        }
    }
}

impl Ledger for DynamoLedger {
    fn failures(&self) -> LedgerFailures {
        self.failures.clone()
    }

    async fn warm(&self, connections: usize) {
        let LedgerTable { client, name, .. } = &self.urgent;
        let call = client.get_item().table_name(name).key(table::KEY, table::key());
        // `Wire` ends every such request with an error, by design.
        let _ = call.customize().interceptor(RequestKind::Warm(connections)).send().await;
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claim, PortError> {
        let call = async {
            let beside = timeout(CLAIM_TIMEOUT, parts::read(&self.urgent, &self.parts));
            let (claim, parts) = join(claim(&self.urgent, request), beside).await;
            let (mut standing, item) = match claim? {
                (Claim::Claimed(standing), item) => (standing, item),
                (taken @ Claim::Taken { .. }, _) => return Ok(taken),
            };
            let parts = parts.map_err(|_| self.urgent.timed_out())??;
            // This calls DynamoDB only if the control record has changed.
            let control = control::read(&self.urgent, &self.control, &item, true, &mut standing);
            timeout(CLAIM_TIMEOUT, control).await.map_err(|_| self.urgent.timed_out())??;
            parts.beside(&self.urgent, standing, request.window).map(Claim::Claimed)
        };
        self.failures.counted(call).await
    }

    async fn advance(&self, token: &str, through: Window) -> Result<bool, PortError> {
        let call = async {
            // `<=` instead of `<`: if the answer to the first attempt was lost, the retry succeeds as well.
            let still_newest = "#token = :token AND #window <= :through";
            let update = self
                .urgent
                .update("SET #window = :through", still_newest)
                .expression_attribute_values(":token", text(token))
                .expression_attribute_values(":through", number(&through.epoch_second()));
            Ok(self.urgent.make(update).await?.is_ok())
        };
        self.failures.counted(call).await
    }

    async fn read(&self) -> Result<Standing, PortError> {
        let call = async {
            let beside = parts::read(&self.table, &self.parts);
            let (item, parts) = join(self.table.item(REGULATOR), beside).await;
            let item = item?;
            let mut standing = self.table.reader(&item).standing(NEWEST)?;
            control::read(&self.table, &self.control, &item, false, &mut standing).await?;
            let newest = standing.previous.map(|claim| claim.window).unwrap_or_default();
            parts?.beside(&self.table, standing, newest)
        };
        self.failures.counted(call).await
    }

    async fn report(&self, report: &LedgerReport) -> Result<(), PortError> {
        self.failures.counted(parts::report(&self.table, report)).await
    }

    async fn set_factor(&self, from: RateFactor, to: RateFactor) -> Result<bool, PortError> {
        let call = async {
            let condition = if from == RateFactor::default() {
                "attribute_not_exists(factor) OR factor = :from"
            } else {
                "factor = :from"
            };
            let update = self
                .table
                .update("SET factor = :to", condition)
                .expression_attribute_values(":from", self.table.json(&from)?)
                .expression_attribute_values(":to", self.table.json(&to)?);
            Ok(self.table.make(update).await?.is_ok())
        };
        self.failures.counted(call).await
    }

    async fn set_control(&self, version: u64, control: &Control) -> Result<bool, PortError> {
        let call = control::set_control(&self.table, &self.control, version, control);
        self.failures.counted(call).await
    }
}

/// In an update, the right-hand sides are the values before it. The previous claim is stored beside the new
/// one, so that the claim's answer can be read again if it was lost.
const CLAIM: &str = "SET prev_window = if_not_exists(#window, :zero), \
    prev_rate = if_not_exists(rate, :zero), \
    prev_margin = if_not_exists(margin, :zero), \
    prev_initial_limits = if_not_exists(initial_limits, :zero), \
    prev_claimed_factor = if_not_exists(claimed_factor, :full), \
    claimed_factor = if_not_exists(factor, :full), \
    prev_claimed_limits = if_not_exists(claimed_limits, :zero), \
    claimed_limits = if_not_exists(limits, :zero), \
    #window = :window, opened = :window, #token = :token, rate = :rate, margin = :margin, \
    initial_limits = :limits";
const ONLY_NEWER: &str = "attribute_not_exists(#window) OR #window < :window";

/// Returns the item after the claim, and the standing without the control record and the parts.
async fn claim(table: &LedgerTable, request: &ClaimRequest) -> Result<(Claim, Item), PortError> {
    let update = table
        .update(CLAIM, ONLY_NEWER)
        .expression_attribute_values(":window", number(&request.window.epoch_second()))
        .expression_attribute_values(":token", text(&request.token))
        .expression_attribute_values(":rate", number(&request.quota.as_per_second()))
        .expression_attribute_values(":margin", number(&f64::from(request.rate_margin)))
        .expression_attribute_values(":limits", number(&request.limits))
        .expression_attribute_values(":zero", number(&0))
        .expression_attribute_values(":full", table.json(&RateFactor::default())?)
        .return_values(ReturnValue::AllNew);
    let item = match table.make(update).await? {
        Ok(item) => return Ok((Claim::Claimed(table.reader(&item).standing(BEFORE)?), item)),
        Err(item) => item,
    };
    let reader = table.reader(&item);
    let (newest, opened) = (reader.window("window")?, reader.window("opened")?);
    if reader.text("token") == Some(&request.token) && newest == request.window {
        // The condition failed because of an earlier attempt of this same call, whose answer was lost. The
        // window is served with the factor that was in force then.
        let factor = reader.json("claimed_factor")?.unwrap_or_default();
        let standing = Standing { factor, ..reader.standing(BEFORE)? };
        return Ok((Claim::Claimed(standing), item));
    }
    let owed = opened < request.window && request.window <= newest;
    Ok((Claim::Taken { newest, owed }, item))
}

#[cfg(test)]
mod marks_tests;
