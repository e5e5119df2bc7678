//! Calls of AWS End User Messaging: one path, with the operation in a header (AWS JSON 1.0).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::text_message::TextLength;

use super::send_reply;
use crate::sandbox::mailbox::{MailFields, MailKind};
use crate::sandbox::server::with_request_id;
use crate::sandbox::ses::state::SesState;
use crate::ses::SesError;

// Members that are not read here are ignored, as the protocol wants.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct SendTextMessage {
    destination_phone_number: String,
    #[serde(default)]
    origination_identity: String,
    #[serde(default)]
    message_body: String,
    #[serde(default)]
    context: BTreeMap<String, String>,
}

pub(super) async fn call(
    State(state): State<Arc<SesState>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let arrived_ns = state.now_ns();
    let target = headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    let operation = target.and_then(|target| target.strip_prefix("PinpointSMSVoiceV2."));
    match operation.unwrap_or_default() {
        "SendTextMessage" => {
            let plan = state.engine().send(arrived_ns, read(&body), &body);
            send_reply(&state, plan, refusal).await
        }
        other => match described(&state, other) {
            Some(answer) => Json(answer).into_response(),
            None => refusal(&SesError::new(
                "UnknownOperationException",
                404,
                format!("{other:?}: this sandbox has SendTextMessage and some of Describe…."),
            )),
        },
    }
}

/// An account with one number, which has the whole rate, in one pool.
fn described(state: &SesState, operation: &str) -> Option<Value> {
    let config = state.engine().config().clone();
    Some(match operation {
        "DescribePhoneNumbers" => json!({ "PhoneNumbers": [{
            "PhoneNumber": "+12065550100", "PhoneNumberId": "phone-sandbox", "PoolId": "pool-sandbox",
            "PhoneNumberArn": "arn:aws:sms-voice:us-east-1:000000000000:phone-number/phone-sandbox",
            "Status": "ACTIVE", "IsoCountryCode": "US", "MessageType": "PROMOTIONAL", "NumberType": "SHORT_CODE",
            "NumberCapabilities": ["SMS"], "OptOutListName": "Default", "SelfManagedOptOutsEnabled": false,
            "MessagingLimits": { "RateLimits": { "SMS": config.quota.as_f64() } },
        }] }),
        "DescribeSpendLimits" => {
            let most = config.spend_limit.most();
            json!({ "SpendLimits": [{
                "Name": "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT",
                "EnforcedLimit": most.unwrap_or(1_000_000_000), "MaxLimit": 1_000_000_000, "Overridden": most.is_some(),
            }] })
        }
        "DescribeAccountAttributes" => {
            json!({ "AccountAttributes": [{ "Name": "ACCOUNT_TIER", "Value": "PRODUCTION" }] })
        }
        "DescribePools" => json!({ "Pools": [{
            "PoolId": "pool-sandbox", "PoolArn": "arn:aws:sms-voice:us-east-1:000000000000:pool/pool-sandbox",
            "Status": "ACTIVE", "OptOutListName": "Default", "SelfManagedOptOutsEnabled": false,
        }] }),
        "DescribeSenderIds" => json!({ "SenderIds": [] }),
        "DescribeConfigurationSets" => json!({ "ConfigurationSets": [] }),
        _ => return None,
    })
}

fn read(body: &[u8]) -> Result<MailFields, SesError> {
    let invalid =
        |what: &str| SesError::new("INVALID_PARAMETER", 400, format!("{what} is not valid."));
    let text: SendTextMessage = serde_json::from_slice(body)
        .map_err(|error| SesError::new("ValidationException", 400, error.to_string()))?;
    let digits = text.destination_phone_number.strip_prefix('+').unwrap_or_default();
    if !(7..=15).contains(&digits.len()) || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(invalid("DestinationPhoneNumber"));
    }
    let length = TextLength::of(&text.message_body);
    if text.message_body.is_empty() || !length.is_allowed() {
        return Err(invalid("MessageBody"));
    }
    if text.context.len() > 5 {
        return Err(invalid("Context"));
    }
    Ok(MailFields {
        from: text.origination_identity,
        to: vec![text.destination_phone_number],
        subject: text.message_body,
        tags: text.context.into_iter().collect(),
        kind: MailKind::Text,
        parts: Some(length.parts),
        ..MailFields::default()
    })
}

/// An error as the service answers it: a reason, if there is one, belongs to one of its exceptions.
fn refusal(error: &SesError) -> Response {
    let (exception, reason) = match &*error.code {
        "TooManyRequestsException" | "ThrottlingException" => ("ThrottlingException", None),
        code if code.ends_with("Exception") => (code, None),
        code if code.starts_with("MONTHLY_SPEND") => ("ServiceQuotaExceededException", Some(code)),
        code if code.ends_with("OPTED_OUT") => ("ConflictException", Some(code)),
        code => ("ValidationException", Some(code)),
    };
    let body = json!({ "__type": exception, "Message": error.message, "Reason": reason });
    let status = if exception == "ThrottlingException" { 400 } else { error.status };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    with_request_id((status, Json(body)).into_response())
}
