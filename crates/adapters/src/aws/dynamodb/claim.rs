//! Claims a window by one conditional write.

use aws_sdk_dynamodb::types::ReturnValue;
use tidegate_core::factor::RateFactor;
use tidegate_delivery::ports::{Claim, ClaimRequest, PortError, Standing};

use super::table::{BEFORE, Item, LedgerTable, number, text};

/// In an update, the right-hand sides are the values before it. The previous claim is stored beside the new
/// one, so that the claim's answer can be read again if it was lost.
const CLAIM: &str = "SET prev_window = if_not_exists(#window, :zero), \
    prev_rate = if_not_exists(rate, :zero), \
    prev_margin = if_not_exists(margin, :zero), \
    prev_initial_limits = if_not_exists(initial_limits, :zero), \
    prev_factor = if_not_exists(claimed_factor, :full), \
    claimed_factor = if_not_exists(factor, :full), \
    prev_limits = if_not_exists(claimed_limits, :zero), \
    claimed_limits = if_not_exists(limits, :zero), \
    #window = :window, opened = :window, #token = :token, rate = :rate, margin = :margin, \
    initial_limits = :limits";
const ONLY_NEWER: &str = "attribute_not_exists(#window) OR #window < :window";

/// Returns the item after the claim, and the standing without the control record and the parts.
pub(super) async fn claim(
    table: &LedgerTable,
    request: &ClaimRequest,
) -> Result<(Claim, Item), PortError> {
    let update = table
        .update(CLAIM, ONLY_NEWER)
        .expression_attribute_values(":window", number(&request.window.epoch_second()))
        .expression_attribute_values(":token", text(&request.token))
        .expression_attribute_values(":rate", number(&request.rate.as_per_second()))
        .expression_attribute_values(":margin", number(&request.rate_margin.as_share()))
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
        // The condition failed because of an earlier attempt of this same call, whose answer was lost. The
        // window is served with the factor that was in force then.
        let factor = reader.claimed_factor()?;
        let standing = Standing { factor, ..reader.standing(&BEFORE)? };
        return Ok((Claim::Claimed(standing), item));
    }
    let owed = opened < request.window && request.window <= newest;
    Ok((Claim::Taken { newest, owed }, item))
}
