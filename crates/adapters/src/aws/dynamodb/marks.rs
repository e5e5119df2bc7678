//! `Marks`: each change of a mark is one conditional write.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use tidegate_core::deduplication::{Acceptance, Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity, group_id};
use tidegate_delivery::ports::{MarkRequest, MarkResult, Marks, PortError};

use super::DynamoLedger;
use super::table::{ItemReader, KEY, LedgerTable, names, number, text};

const MARK: &str = "SET #state = :sending, #token = :token, pass = :pass, since = :since, \
    expires_at = :expires_at REMOVE sent_at, ses_id";
/// The condition tests the expiry, because DynamoDB deletes an expired item up to two days later.
const UNMARKED: &str = "attribute_not_exists(pk) OR expires_at <= :now";
const REPLACED: &str = "attribute_not_exists(pk) OR expires_at <= :now OR #token = :replaced";

/// The partition key of a mail's mark, as an attribute.
fn mail(identity: &Identity) -> AttributeValue {
    text(key_of(identity))
}

/// The partition key of a mail's mark, as text.
pub(super) fn key_of(identity: &Identity) -> String {
    format!("mail#{}", group_id(identity))
}

impl Marks for DynamoLedger {
    async fn mark(&self, request: &MarkRequest) -> Result<MarkResult, PortError> {
        let call = async {
            let condition = if request.replaces.is_some() { REPLACED } else { UNMARKED };
            let seconds = |at: tidegate_core::Timestamp| number(&(at.as_millis() / 1_000));
            let mut update = self
                .urgent
                .update_of(mail(&request.identity), MARK, condition)
                .expression_attribute_values(":sending", text(MarkState::Sending.as_str()))
                .expression_attribute_values(":token", text(&request.token))
                .expression_attribute_values(":pass", number(&request.pass))
                .expression_attribute_values(":since", number(&request.now.as_millis()))
                .expression_attribute_values(":now", seconds(request.now))
                .expression_attribute_values(":expires_at", seconds(request.now + request.kept));
            if let Some(replaced) = &request.replaces {
                update = update.expression_attribute_values(":replaced", text(replaced));
            }
            let Err(item) = self.urgent.make(update).await? else { return Ok(MarkResult::Ours) };
            let found = read(&self.urgent.reader(&item))?;
            // The condition may have failed because of an earlier attempt of this same call, whose answer was lost.
            Ok(if found.token == request.token {
                MarkResult::Ours
            } else {
                MarkResult::Found(found)
            })
        };
        self.failures.counted(call).await
    }

    /// Sets *sent*, regardless of the token that the mark has now.
    async fn set_sent(
        &self,
        identity: &Identity,
        accepted: &Acceptance,
    ) -> Result<bool, PortError> {
        let call = async {
            const SENT: &str = "SET #state = :sent, sent_at = :at, ses_id = :ses_id";
            let update = self
                .table
                .update_of(mail(identity), SENT, "attribute_exists(pk)")
                .expression_attribute_values(":sent", text(MarkState::Sent.as_str()))
                .expression_attribute_values(":at", number(&accepted.at.as_millis()))
                .expression_attribute_values(":ses_id", text(&accepted.ses_message_id));
            Ok(self.table.make(update).await?.is_ok())
        };
        self.failures.counted(call).await
    }

    async fn set_parked(
        &self,
        identity: &Identity,
        token: &str,
        pass: u32,
    ) -> Result<bool, PortError> {
        let call = async {
            let update = self
                .table
                .update_of(mail(identity), "SET #state = :parked, pass = :pass", "#token = :token")
                .expression_attribute_values(":parked", text(MarkState::Parked.as_str()))
                .expression_attribute_values(":pass", number(&pass))
                .expression_attribute_values(":token", text(token));
            Ok(self.table.make(update).await?.is_ok())
        };
        self.failures.counted(call).await
    }

    async fn unmark(&self, identity: &Identity, token: &str) -> Result<bool, PortError> {
        let call = async {
            const CONDITION: &str = "#token = :token AND #state = :sending";
            let LedgerTable { client, name, .. } = &self.table;
            let call = client.delete_item().table_name(name).key(KEY, mail(identity));
            let answer = call
                .condition_expression(CONDITION)
                .set_expression_attribute_names(names(&[CONDITION]))
                .expression_attribute_values(":token", text(token))
                .expression_attribute_values(":sending", text(MarkState::Sending.as_str()))
                .send()
                .await;
            match answer {
                Ok(_) => Ok(true),
                Err(error) => match error.as_service_error() {
                    Some(DeleteItemError::ConditionalCheckFailedException(_)) => Ok(false),
                    _ => Err(self.table.failed("DeleteItem", error)),
                },
            }
        };
        self.failures.counted(call).await
    }

    async fn find(&self, identities: &[Identity]) -> Result<Vec<Option<Mark>>, PortError> {
        let call = async {
            let keys: Vec<String> = identities.iter().map(key_of).collect();
            // `DynamoDB` refuses a batch that names one key twice.
            let items = self.table.items(keys.iter().collect()).await?;
            let mark = |key| items.get(key).map(|item| read(&self.table.reader(item))).transpose();
            keys.iter().map(mark).collect()
        };
        self.failures.counted(call).await
    }
}

fn read(reader: &ItemReader<'_>) -> Result<Mark, PortError> {
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
