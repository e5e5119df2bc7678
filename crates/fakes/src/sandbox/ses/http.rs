//! The routes, and answers in SES's wire format (AWS restJson1).
//!
//! The sandbox's own pages: settings, mailbox, figures.
//!
//! The calls on the account's suppression list and its tenants, as the SES v2 API has them.
//!
//! Handlers of the SES v2 API's calls.
//!
//! Calls of AWS End User Messaging: one path, with the operation in a header (AWS JSON 1.0).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tidegate_core::identity::EpochMillis;
use tidegate_core::text_message::TextLength;
use tidegate_delivery::ports::{SuppressedAddress, SuppressionReason};

use super::config::SesSandboxConfig;
use super::engine::SesState;
use super::engine::{PlannedReply, Reply};
use super::request::{MOST_BYTES, parse_send_email};
use crate::sandbox::mailbox::{MailFields, MailKind, MailRecord, SesStats};
use crate::sandbox::server::DroppedConnection;
use crate::sandbox::server::with_request_id;
use crate::ses::{SesError, SesTenant};

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

pub(super) fn router(state: Arc<SesState>) -> Router {
    Router::new()
        .route("/v2/email/outbound-emails", post(send_email))
        .route("/v2/email/account", get(get_account))
        .route("/v2/email/identities/{identity}", get(get_email_identity))
        .route("/v2/email/configuration-sets/{name}", get(get_configuration_set))
        .route("/v2/email/suppression/addresses", get(suppressed).put(suppress))
        .route("/v2/email/suppression/addresses/{address}", get(find).delete(delete))
        .route("/v2/email/templates/{name}/render", post(render))
        .route("/v2/email/tenants/get", post(tenant))
        .route("/v2/email/tenants/resources/list", post(resources))
        .route("/", get(page).post(call))
        .route("/_sandbox/config", get(config).patch(change))
        .route("/_sandbox/stats", get(stats))
        .route("/_sandbox/mails", get(mails).delete(clear))
        .route("/_sandbox/mails/{seq}", get(mail))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

/// Waits as long as planned and ends the request as planned; `refusal` writes an error. A request that waits for ever ends
/// when the sandbox stops.
async fn send_reply(
    state: &SesState,
    plan: PlannedReply,
    refusal: fn(&SesError) -> Response,
) -> Response {
    log(&plan);
    match plan.wait {
        Some(wait) if wait.is_zero() => {}
        Some(wait) => tokio::time::sleep(wait).await,
        None => state.stop.asked().await,
    }
    match plan.end {
        Reply::Answer(Ok(answer)) => with_request_id(Json(answer).into_response()),
        Reply::Answer(Err(error)) => refusal(&error),
        Reply::Close => sever(DroppedConnection::Closed),
        Reply::Reset => sever(DroppedConnection::Reset),
    }
}

/// An error with its code in the header and its message in the body.
fn error_response(error: &SesError) -> Response {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(json!({ "message": error.message }))).into_response();
    if let Ok(code) = HeaderValue::from_str(&error.code) {
        response.headers_mut().insert(ERROR_TYPE, code);
    }
    with_request_id(response)
}

fn sever(severed: DroppedConnection) -> Response {
    let mut response = Response::default();
    response.extensions_mut().insert(severed);
    response
}

/// Logs one event for each outcome, without recipients.
fn log(plan: &PlannedReply) {
    let wait_ms = plan.wait.map(|wait| wait.as_millis());
    match &plan.end {
        Reply::Answer(Ok(answer)) => {
            if let Some(message_id) = answer["MessageId"].as_str() {
                tracing::debug!(message_id, wait_ms, "accepted");
            }
        }
        Reply::Answer(Err(error)) => tracing::info!(
            code = %error.code, status = error.status, reason = %error.message, wait_ms, "refused"
        ),
        Reply::Close => tracing::info!(wait_ms, "closed without an answer"),
        Reply::Reset => tracing::info!(wait_ms, "reset"),
    }
}

const PAGE: &str = include_str!("../../../assets/mailbox.html");
/// The page is this one file and loads nothing; a mail's HTML, shown in it, cannot either.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

const USUAL_LIMIT: usize = 1_000;
const MOST_MAILS: usize = 10_000;

async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, PAGE).into_response()
}

async fn config(State(state): State<Arc<SesState>>) -> Json<SesSandboxConfig> {
    Json(state.engine().config().clone())
}

async fn change(State(state): State<Arc<SesState>>, body: Bytes) -> Response {
    let now_ns = state.now_ns();
    let mut engine = state.engine();
    match engine.config().with_json(&body) {
        Ok(config) => {
            engine.reconfigure(now_ns, config.clone());
            tracing::info!(?config, "settings changed");
            Json(config).into_response()
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error.to_string()),
    }
}

async fn stats(State(state): State<Arc<SesState>>) -> Json<SesStats> {
    Json(state.stats())
}

async fn mails(State(state): State<Arc<SesState>>, RawQuery(query): RawQuery) -> Response {
    let (after, limit) = match read_range(query.as_deref().unwrap_or_default()) {
        Ok(range) => range,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason),
    };
    let mails = state.engine().mails().after(after, limit);
    let mails: Vec<&MailRecord> = mails.iter().map(AsRef::as_ref).collect();
    Json(mails).into_response()
}

async fn mail(State(state): State<Arc<SesState>>, Path(seq): Path<String>) -> Response {
    #[derive(Serialize)]
    struct Whole<'a> {
        #[serde(flatten)]
        mail: &'a MailRecord,
        request: Option<&'a RawValue>,
    }
    let found = seq.parse().ok().and_then(|seq| state.engine().mails().get(seq));
    let Some((mail, body)) = found else {
        return refuse(StatusCode::NOT_FOUND, &format!("no mail `{seq}` is kept"));
    };
    // An accepted request was JSON; a lone surrogate in it is all that can fail here.
    let request = body.as_deref().and_then(|body| serde_json::from_slice(body).ok());
    Json(Whole { mail: &mail, request }).into_response()
}

async fn clear(State(state): State<Arc<SesState>>) -> StatusCode {
    state.engine().clear();
    StatusCode::NO_CONTENT
}

fn read_range(query: &str) -> Result<(u64, usize), String> {
    let (mut after, mut limit) = (0, USUAL_LIMIT);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "after" => {
                let wrong = |_| {
                    format!("after: must be a mail's number, or 0 for the oldest, not `{value}`")
                };
                after = value.parse().map_err(wrong)?;
            }
            "limit" => {
                let read = value.parse().ok().filter(|limit| (1..=MOST_MAILS).contains(limit));
                let wrong = || {
                    format!(
                        "limit: must be a number of mails from 1 to {MOST_MAILS}, not `{value}`"
                    )
                };
                limit = read.ok_or_else(wrong)?;
            }
            _ => return Err(format!("unknown parameter `{name}`, expected `after` or `limit`")),
        }
    }
    Ok((after, limit))
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(serde_json::json!({ "message": message }))).into_response()
}

/// Addresses per page if a call names no number.
const ADDRESSES: usize = 1_000;
/// Resources per page if a call names no number: few, so that a client that reads one page lacks some.
const RESOURCES: usize = 2;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ListQuery {
    next_token: Option<String>,
    page_size: Option<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PutRequest {
    email_address: String,
    reason: SuppressionReason,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TenantRequest {
    tenant_name: String,
    next_token: Option<String>,
    page_size: Option<usize>,
}

/// An entry of the list; its time in seconds since the Unix epoch, with a fraction.
#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 stay below 2^53")]
fn destination(entry: &SuppressedAddress) -> Value {
    json!({
        "EmailAddress": entry.address,
        "Reason": entry.reason,
        "LastUpdateTime": entry.since.as_millis() as f64 / 1_000.0,
    })
}

async fn suppressed(
    State(state): State<Arc<SesState>>,
    Query(asked): Query<ListQuery>,
) -> Response {
    let size = asked.page_size.unwrap_or(ADDRESSES);
    let page = state.suppressed.page_of(size, asked.next_token.as_deref());
    let listed: Vec<_> = page.addresses.iter().map(destination).collect();
    let answer = json!({ "SuppressedDestinationSummaries": listed, "NextToken": page.next });
    Json(answer).into_response()
}

async fn suppress(State(state): State<Arc<SesState>>, Json(asked): Json<PutRequest>) -> Response {
    let since = EpochMillis::new(state.now_ns() / 1_000_000);
    state.suppressed.put(&asked.email_address, asked.reason, since);
    Json(json!({})).into_response()
}

async fn find(State(state): State<Arc<SesState>>, Path(address): Path<String>) -> Response {
    match state.suppressed.entry(&address) {
        Some(entry) => {
            Json(json!({ "SuppressedDestination": destination(&entry) })).into_response()
        }
        None => not_suppressed(),
    }
}

async fn delete(State(state): State<Arc<SesState>>, Path(address): Path<String>) -> Response {
    if state.suppressed.remove(&address) {
        Json(json!({})).into_response()
    } else {
        not_suppressed()
    }
}

fn not_suppressed() -> Response {
    let message = "Email address does not exist on your suppression list.";
    error_response(&SesError::new("NotFoundException", 404, message))
}

fn tenant_of(state: &SesState, asked: &TenantRequest) -> Result<SesTenant, SesError> {
    let name = &asked.tenant_name;
    let known = state.engine().config().tenants.iter().find(|it| it.name == *name).cloned();
    let message = || format!("Tenant {name} not found.");
    known.ok_or_else(|| SesError::new("NotFoundException", 404, message()))
}

async fn tenant(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Response> {
    let tenant = tenant_of(&state, &asked).map_err(|absent| error_response(&absent))?;
    let status = if tenant.paused { "DISABLED" } else { "ENABLED" };
    Ok(Json(json!({ "Tenant": {
        "TenantName": tenant.name,
        "TenantId": "tn-0000000000000000000000000000000",
        "SendingStatus": status,
    } })))
}

async fn resources(
    State(state): State<Arc<SesState>>,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Response> {
    let tenant = tenant_of(&state, &asked).map_err(|absent| error_response(&absent))?;
    let from = asked.next_token.and_then(|token| token.parse().ok()).unwrap_or(0_usize);
    let size = asked.page_size.unwrap_or(RESOURCES).max(1);
    let all: Vec<_> = tenant.status().resources.into_iter().collect();
    let page = all.iter().skip(from).take(size);
    let listed: Vec<_> = page.map(|arn| json!({ "ResourceArn": arn })).collect();
    let next = (from + size < all.len()).then(|| (from + size).to_string());
    Ok(Json(json!({ "TenantResources": listed, "NextToken": next })))
}

async fn send_email(
    State(state): State<Arc<SesState>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let arrived_ns = state.now_ns();
    let plan = match body {
        Ok(body) => {
            let request = parse_send_email(&body);
            state.engine().send(arrived_ns, request, &body)
        }
        Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            let message = format!("Message length is more than {MOST_BYTES} bytes long.");
            state.engine().send(arrived_ns, Err(SesError::bad_request(message)), &[])
        }
        // The client disconnected while it wrote: nothing arrived, and no answer is read.
        Err(rejection) => return rejection.into_response(),
    };
    send_reply(&state, plan, error_response).await
}

async fn get_account(State(state): State<Arc<SesState>>) -> Response {
    let now_ns = state.now_ns();
    let plan = state.engine().account(now_ns);
    send_reply(&state, plan, error_response).await
}

/// The sandbox accepts every sender, so every identity is verified.
async fn get_email_identity(Path(identity): Path<String>) -> Response {
    let kind = if identity.contains('@') { "EMAIL_ADDRESS" } else { "DOMAIN" };
    Json(json!({ "IdentityType": kind, "VerifiedForSendingStatus": true })).into_response()
}

/// Renders any template: the sandbox knows none, and sends by all of them.
async fn render() -> Response {
    Json(json!({ "RenderedTemplate": "" })).into_response()
}

/// Mails may name any configuration set, so every one exists.
async fn get_configuration_set(Path(name): Path<String>) -> Response {
    Json(json!({ "ConfigurationSetName": name })).into_response()
}

async fn unknown(method: Method, uri: Uri) -> Response {
    error_response(&SesError::unknown_operation(method.as_str(), uri.path()))
}

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

async fn call(State(state): State<Arc<SesState>>, headers: HeaderMap, body: Bytes) -> Response {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_mails_is_read_with_its_limits() {
        assert_eq!(read_range(""), Ok((0, 1_000)));
        assert_eq!(read_range("after=7&limit=10000"), Ok((7, 10_000)));
        for (query, named) in [
            ("after=x", "after: must be a mail's number, or 0 for the oldest, not `x`"),
            ("limit=0", "limit: must be a number of mails from 1 to 10000, not `0`"),
            ("limit=10001", "limit: must be a number of mails from 1 to 10000, not `10001`"),
            ("from=1", "unknown parameter `from`, expected `after` or `limit`"),
        ] {
            assert_eq!(read_range(query), Err(named.to_owned()));
        }
    }
}
