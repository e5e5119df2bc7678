//! The claim: one conditional write.

use aws_sdk_dynamodb::types::ReturnValue;
use tidegate_core::factor::RateFactor;
use tidegate_delivery::ports::{Claim, ClaimRequest, PortError, Standing};

use super::item::{BEFORE, Item, number, text};
use super::table::LedgerTable;

/// The right-hand sides are what stood before. The claim before is kept beside the new one, so that
/// the new one can be read back whole where the answer to its write was lost.
const CLAIM: &str = "SET prev_window = if_not_exists(#window, :zero), \
    prev_rate = if_not_exists(rate, :zero), \
    prev_guard = if_not_exists(guard, :zero), \
    prev_domain_limits = if_not_exists(domain_limits, :zero), \
    prev_factor = if_not_exists(claimed_factor, :full), \
    claimed_factor = if_not_exists(factor, :full), \
    #window = :window, opened = :window, #token = :token, rate = :rate, guard = :guard, \
    domain_limits = :limits";
const ONLY_NEWER: &str = "attribute_not_exists(#window) OR #window < :window";

/// The claim, without the control record and what the parts hold; and the item that it is in.
pub(super) async fn claim(
    table: &LedgerTable,
    request: &ClaimRequest,
) -> Result<(Claim, Item), PortError> {
    let update = table
        .update(CLAIM, ONLY_NEWER)
        .expression_attribute_names("#window", "window")
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":window", number(&request.window.epoch_second()))
        .expression_attribute_values(":token", text(&request.token))
        .expression_attribute_values(":rate", number(&request.rate.as_per_second()))
        .expression_attribute_values(":guard", number(&request.rate_margin.as_share()))
        .expression_attribute_values(":limits", number(&request.limits))
        .expression_attribute_values(":zero", number(&0))
        .expression_attribute_values(":full", table.json(&RateFactor::default())?)
        .return_values(ReturnValue::AllNew);
    let item = match table.make(update).await? {
        Ok(item) => return Ok((Claim::Claimed(table.reader(&item).standing(&BEFORE)?), item)),
        Err(item) => item,
    };
    let reader = table.reader(&item);
    let (newest, opened) = (reader.window("window")?, reader.window("opened")?);
    if reader.text("token") == Some(&request.token) && newest == request.window {
        // Our own write, whose answer was lost: served as it was claimed, whatever changed since.
        let factor = reader.claimed_factor()?;
        let standing = Standing { factor, ..reader.standing(&BEFORE)? };
        return Ok((Claim::Claimed(standing), item));
    }
    let owed = opened < request.window && request.window <= newest;
    Ok((Claim::Taken { newest, owed }, item))
}
