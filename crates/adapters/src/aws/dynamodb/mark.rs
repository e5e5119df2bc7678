//! Marks a mail *sending* by one conditional write.

use aws_sdk_dynamodb::types::AttributeValue;
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity, group_id};
use tidegate_delivery::ports::{MarkRequest, MarkResult, PortError};

use super::item::{ItemReader, number, text};
use super::table::LedgerTable;

const MARK: &str = "SET #state = :sending, #token = :token, pass = :pass, since = :since, \
    expires_at = :expires_at REMOVE sent_at, ses_id";
/// The condition tests the expiry, because DynamoDB deletes an expired item up to two days later.
const UNMARKED: &str = "attribute_not_exists(pk) OR expires_at <= :now";
const REPLACED: &str = "attribute_not_exists(pk) OR expires_at <= :now OR #token = :replaced";

/// The partition key of a mail's mark, as an attribute.
pub(super) fn mail(identity: &Identity) -> AttributeValue {
    text(key_of(identity))
}

/// The partition key of a mail's mark, as text.
pub(super) fn key_of(identity: &Identity) -> String {
    format!("mail#{}", group_id(identity))
}

pub(super) async fn mark(
    table: &LedgerTable,
    request: &MarkRequest,
) -> Result<MarkResult, PortError> {
    let condition = if request.replaces.is_some() { REPLACED } else { UNMARKED };
    let seconds = |at: tidegate_core::Timestamp| number(&(at.as_millis() / 1_000));
    let mut update = table
        .update_of(mail(&request.identity), MARK, condition)
        .expression_attribute_names("#state", "state")
        .expression_attribute_names("#token", "token")
        .expression_attribute_values(":sending", text(MarkState::Sending.as_str()))
        .expression_attribute_values(":token", text(&request.token))
        .expression_attribute_values(":pass", number(&request.pass))
        .expression_attribute_values(":since", number(&request.now.as_millis()))
        .expression_attribute_values(":now", seconds(request.now))
        .expression_attribute_values(":expires_at", seconds(request.now + request.kept));
    if let Some(replaced) = &request.replaces {
        update = update.expression_attribute_values(":replaced", text(replaced));
    }
    let Err(item) = table.make(update).await? else { return Ok(MarkResult::Ours) };
    let found = read(&table.reader(&item))?;
    // The condition may have failed because of an earlier attempt of this same call, whose answer was lost.
    Ok(if found.token == request.token { MarkResult::Ours } else { MarkResult::Found(found) })
}

pub(super) fn read(reader: &ItemReader<'_>) -> Result<Mark, PortError> {
    let unreadable = |name| move || reader.unreadable(name);
    let state = [MarkState::Sending, MarkState::Sent, MarkState::Parked]
        .into_iter()
        .find(|state| reader.text("state") == Some(state.as_str()));
    let since = reader.number("since")?.ok_or_else(unreadable("since"))?;
    let token = reader.text("token").map(str::to_owned);
    let accepted = reader.number("sent_at")?.zip(reader.text("ses_id"));
    Ok(Mark {
        state: state.ok_or_else(unreadable("state"))?,
        token: token.ok_or_else(unreadable("token"))?,
        pass: reader.number("pass")?.ok_or_else(unreadable("pass"))?,
        since: EpochMillis::new(since),
        accepted: accepted
            .map(|(at, id)| Acceptance { at: EpochMillis::new(at), ses_message_id: id.to_owned() }),
    })
}
