//! The routes: the calls of SES, version 2 (AWS restJson1) and 1 (one path, AWS's query protocol), those of AWS End User
//! Messaging (the same path, with the operation in a header, AWS JSON 1.0), and the sandbox's own pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_core::identity::EpochMillis;
use tidegate_core::number::real;
use tidegate_core::outcome::Failure;
use tidegate_core::ses_request::{
    QueryCall, SesMails, SesProtocol, SesReply, read_send_bulk_email, read_send_email, write_answer,
};
use tidegate_core::text_message::TextLength;
use tidegate_delivery::ports::{SuppressedAddress, SuppressionReason};

use super::config::SesSandboxConfig;
use super::engine::{PlannedReply, Reply, SesState};
use super::request::MOST_BYTES;
use crate::sandbox::mailbox::{MailFields, MailKind, SesStats};
use crate::sandbox::server::{next_request_id, with_request_id};
use crate::ses::SesTenant;
use crate::ses::failures::answered;

const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

const PAGE: &str = include_str!("../../../assets/mailbox.html");
/// The page is this one file and loads nothing; a mail's HTML, shown in it, cannot either.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
     img-src data:; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";
const PAGE_HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_TYPE, "text/html; charset=utf-8"),
    (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
    (header::CACHE_CONTROL, "no-store"),
];

const USUAL_LIMIT: usize = 1_000;
const MOST_MAILS: usize = 10_000;
/// Addresses per page if a call names no number.
const ADDRESSES: usize = 1_000;
/// Resources per page if a call names no number: few, so that a client that reads one page lacks some.
const RESOURCES: usize = 2;

type Shared = State<Arc<SesState>>;

pub(super) fn router(state: Arc<SesState>) -> Router {
    Router::new()
        .route("/v2/email/outbound-emails", post(send_email))
        .route("/v2/email/outbound-bulk-emails", post(send_bulk_email))
        .route("/v2/email/account", get(get_account))
        .route("/v2/email/identities/{identity}", get(get_email_identity))
        .route("/v2/email/configuration-sets/{name}", get(get_configuration_set))
        .route("/v2/email/suppression/addresses", get(suppressed).put(suppress))
        .route("/v2/email/suppression/addresses/{address}", get(find).delete(delete))
        // The sandbox knows no template, and sends by all of them.
        .route("/v2/email/templates/{name}/render", post(Json(json!({ "RenderedTemplate": "" }))))
        .route("/v2/email/tenants/get", post(tenant))
        .route("/v2/email/tenants/resources/list", post(resources))
        .route("/", get((PAGE_HEADERS, PAGE)).post(call))
        .route("/_sandbox/config", get(config).patch(change))
        .route("/_sandbox/stats", get(stats))
        .route("/_sandbox/mails", get(mails).delete(clear))
        .route("/_sandbox/mails/{seq}", get(mail))
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .with_state(state)
}

/// An error as version 2 of SES answers it.
struct Refusal(Failure);

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        in_json(&Err(self.0))
    }
}

fn in_json(reply: &Result<SesReply, Failure>) -> Response {
    written(SesProtocol::Json, reply)
}

fn written(protocol: SesProtocol<'_>, reply: &Result<SesReply, Failure>) -> Response {
    let id = next_request_id();
    let answer = write_answer(protocol, reply, &id);
    let content_type = [(header::CONTENT_TYPE, answer.content_type)];
    let mut response = (status(answer.status), content_type, answer.body).into_response();
    if let Some(Ok(code)) = answer.error_type.map(HeaderValue::try_from) {
        response.headers_mut().insert(ERROR_TYPE, code);
    }
    with_request_id(response, &id)
}

fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Waits as long as planned and ends the request as planned; `write` writes an answer. A request that waits for ever
/// ends when the sandbox stops.
async fn send_reply(
    state: &SesState,
    plan: PlannedReply,
    write: impl FnOnce(&Result<SesReply, Failure>) -> Response,
) -> Response {
    log(&plan);
    match plan.wait {
        Some(wait) if wait.is_zero() => {}
        Some(wait) => tokio::time::sleep(wait).await,
        None => state.stop.cancelled().await,
    }
    match plan.end {
        Reply::Answer(answer) => write(&answer),
        Reply::Dropped(dropped) => {
            let mut response = Response::default();
            response.extensions_mut().insert(dropped);
            response
        }
    }
}

/// Logs one event for each outcome, without recipients.
fn log(plan: &PlannedReply) {
    let wait_ms = plan.wait.map(|wait| wait.as_millis());
    match &plan.end {
        Reply::Answer(Ok(SesReply::Account(_))) => {}
        Reply::Answer(Ok(SesReply::MessageId(message_id))) => {
            tracing::debug!(message_id, wait_ms, "accepted");
        }
        Reply::Answer(Ok(SesReply::Bulk(mails))) => {
            for mail in mails {
                match mail {
                    Ok(message_id) => tracing::debug!(message_id, wait_ms, "accepted"),
                    Err(error) => log_refusal(error, wait_ms),
                }
            }
        }
        Reply::Answer(Err(error)) => log_refusal(error, wait_ms),
        Reply::Dropped(dropped) => tracing::info!(wait_ms, "{dropped}"),
    }
}

fn log_refusal(error: &Failure, wait_ms: Option<u128>) {
    let Failure { code, http_status, message, .. } = error;
    tracing::info!(code, status = http_status, reason = message, wait_ms, "refused");
}

async fn send_email(State(state): Shared, body: Result<Bytes, BytesRejection>) -> Response {
    let arrived_ns = state.now_ns();
    let plan = match whole(body).and_then(|body| read_send_email(&body).map(|mail| (body, mail))) {
        Ok((body, mail)) => state.engine().send(arrived_ns, Ok(mail.into()), &body),
        Err(error) => state.engine().send(arrived_ns, Err(error), &[]),
    };
    send_reply(&state, plan, in_json).await
}

async fn send_bulk_email(State(state): Shared, body: Result<Bytes, BytesRejection>) -> Response {
    let arrived_ns = state.now_ns();
    let read = whole(body).and_then(|body| read_send_bulk_email(&body).map(|bulk| (body, bulk)));
    let plan = match read {
        Ok((body, bulk)) => state.engine().send_bulk(arrived_ns, bulk.into_mails(), &body),
        Err(error) => state.engine().send(arrived_ns, Err(error), &[]),
    };
    send_reply(&state, plan, in_json).await
}

/// The rest of a request is there: it can be too long, and nothing else.
fn whole(body: Result<Bytes, BytesRejection>) -> Result<Bytes, Failure> {
    let message = || format!("Message length is more than {MOST_BYTES} bytes long.");
    body.map_err(|_| answered(400, "BadRequestException", message()))
}

/// A call of version 1. The mailbox keeps it as version 2 has it.
async fn query(state: &SesState, body: &[u8]) -> Response {
    let arrived_ns = state.now_ns();
    let call = match QueryCall::read(body) {
        Ok(call) => call,
        Err(error) => return written(SesProtocol::Query(""), &Err(error)),
    };
    let protocol = SesProtocol::Query(&call.action);
    let plan = match call.mails() {
        Ok(None) if call.action == "GetSendQuota" => state.engine().account(arrived_ns),
        Ok(None) => {
            let message = "This sandbox sends mail, and tells by GetSendQuota how much.";
            return written(protocol, &Err(answered(400, "InvalidAction", message)));
        }
        Ok(Some(SesMails::One(mail))) => {
            state.engine().send(arrived_ns, Ok(mail.into()), &call.body)
        }
        Ok(Some(SesMails::Bulk(bulk))) => {
            state.engine().send_bulk(arrived_ns, bulk.into_mails(), &call.body)
        }
        Err(error) => state.engine().send(arrived_ns, Err(error), &[]),
    };
    send_reply(state, plan, |reply| written(protocol, reply)).await
}

async fn get_account(State(state): Shared) -> Response {
    let plan = state.engine().account(state.now_ns());
    send_reply(&state, plan, in_json).await
}

/// The sandbox accepts every sender, so every identity is verified.
async fn get_email_identity(Path(identity): Path<String>) -> Json<Value> {
    let kind = if identity.contains('@') { "EMAIL_ADDRESS" } else { "DOMAIN" };
    Json(json!({ "IdentityType": kind, "VerifiedForSendingStatus": true }))
}

/// Mails may name any configuration set, so every one exists.
async fn get_configuration_set(Path(name): Path<String>) -> Json<Value> {
    Json(json!({ "ConfigurationSetName": name }))
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    let path = uri.path();
    let message = format!(
        "{method} {path}: this sandbox has POST /v2/email/outbound-emails (SendEmail), POST \
         /v2/email/outbound-bulk-emails (SendBulkEmail), GET /v2/email/account (GetAccount), POST / (version 1) and \
         its own pages under /_sandbox/."
    );
    Refusal(answered(404, "UnknownOperationException", message))
}

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

/// An entry of the list; its time in seconds since the Unix epoch, with a fraction.
fn destination(entry: &SuppressedAddress) -> Value {
    json!({
        "EmailAddress": entry.address,
        "Reason": entry.reason,
        "LastUpdateTime": real(entry.since.as_millis()) / 1_000.0,
    })
}

async fn suppressed(State(state): Shared, Query(asked): Query<ListQuery>) -> Json<Value> {
    let size = asked.page_size.unwrap_or(ADDRESSES);
    let page = state.suppressed.page_of(size, asked.next_token.as_deref());
    let listed: Vec<_> = page.addresses.iter().map(destination).collect();
    Json(json!({ "SuppressedDestinationSummaries": listed, "NextToken": page.next }))
}

async fn suppress(State(state): Shared, Json(asked): Json<PutRequest>) -> Json<Value> {
    let since = EpochMillis::new(state.now_ns() / 1_000_000);
    state.suppressed.put(&asked.email_address, asked.reason, since);
    Json(json!({}))
}

async fn find(State(state): Shared, Path(address): Path<String>) -> Result<Json<Value>, Refusal> {
    let entry = state.suppressed.entry(&address).ok_or_else(not_suppressed)?;
    Ok(Json(json!({ "SuppressedDestination": destination(&entry) })))
}

async fn delete(State(state): Shared, Path(address): Path<String>) -> Result<Json<Value>, Refusal> {
    state.suppressed.remove(&address).ok_or_else(not_suppressed)?;
    Ok(Json(json!({})))
}

fn not_suppressed() -> Refusal {
    let message = "Email address does not exist on your suppression list.";
    Refusal(answered(404, "NotFoundException", message))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TenantRequest {
    tenant_name: String,
    next_token: Option<String>,
    page_size: Option<usize>,
}

fn tenant_of(state: &SesState, asked: &TenantRequest) -> Result<SesTenant, Refusal> {
    let name = &asked.tenant_name;
    let known = state.engine().config().tenants.iter().find(|it| it.name == *name).cloned();
    let message = || format!("Tenant {name} not found.");
    known.ok_or_else(|| Refusal(answered(404, "NotFoundException", message())))
}

async fn tenant(
    State(state): Shared,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Refusal> {
    let tenant = tenant_of(&state, &asked)?;
    Ok(Json(json!({ "Tenant": {
        "TenantName": tenant.name,
        "TenantId": "tn-0000000000000000000000000000000",
        "SendingStatus": if tenant.paused { "DISABLED" } else { "ENABLED" },
    } })))
}

async fn resources(
    State(state): Shared,
    Json(asked): Json<TenantRequest>,
) -> Result<Json<Value>, Refusal> {
    let all = tenant_of(&state, &asked)?.status().resources;
    let from = asked.next_token.and_then(|token| token.parse().ok()).unwrap_or(0_usize);
    let size = asked.page_size.unwrap_or(RESOURCES).max(1);
    let page = all.iter().skip(from).take(size);
    let listed: Vec<_> = page.map(|arn| json!({ "ResourceArn": arn })).collect();
    let next = (from + size < all.len()).then(|| (from + size).to_string());
    Ok(Json(json!({ "TenantResources": listed, "NextToken": next })))
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

/// A call of AWS End User Messaging, which names the operation in a header, or one of SES's version 1.
async fn call(State(state): Shared, headers: HeaderMap, body: Bytes) -> Response {
    let arrived_ns = state.now_ns();
    let Some(target) = headers.get("x-amz-target") else { return query(&state, &body).await };
    let target = target.to_str().unwrap_or_default();
    match target.strip_prefix("PinpointSMSVoiceV2.").unwrap_or_default() {
        "SendTextMessage" => {
            let plan = state.engine().send(arrived_ns, read(&body), &body);
            send_reply(&state, plan, |reply| match reply {
                // Both services answer a message with its id.
                Ok(_) => in_json(reply),
                Err(error) => refusal(error.clone()),
            })
            .await
        }
        other => match described(&state, other) {
            Some(answer) => Json(answer).into_response(),
            None => refusal(answered(
                404,
                "UnknownOperationException",
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
            "MessagingLimits": { "RateLimits": { "SMS": config.quota } },
        }] }),
        "DescribeSpendLimits" => {
            let most = config.spend_limit.0;
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

fn read(body: &[u8]) -> Result<MailFields, Failure> {
    let invalid = |what: &str| answered(400, "INVALID_PARAMETER", format!("{what} is not valid."));
    let text: SendTextMessage = serde_json::from_slice(body)
        .map_err(|error| answered(400, "ValidationException", error.to_string()))?;
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

/// An error as AWS End User Messaging answers it: a reason, if there is one, belongs to one of its exceptions.
fn refusal(error: Failure) -> Response {
    let status = status(error.http_status.unwrap_or(500));
    let code = error.code.unwrap_or_default();
    let (exception, reason) = match &*code {
        "TooManyRequestsException" => ("ThrottlingException", None),
        code if code.ends_with("Exception") => (code, None),
        code if code.starts_with("MONTHLY_SPEND") => ("ServiceQuotaExceededException", Some(code)),
        code if code.ends_with("OPTED_OUT") => ("ConflictException", Some(code)),
        code => ("ValidationException", Some(code)),
    };
    let body = json!({ "__type": exception, "Message": error.message, "Reason": reason });
    let throttled = exception == "ThrottlingException";
    let status = if throttled { StatusCode::BAD_REQUEST } else { status };
    with_request_id((status, Json(body)).into_response(), &next_request_id())
}

async fn config(State(state): Shared) -> Json<SesSandboxConfig> {
    Json(state.engine().config().clone())
}

async fn change(State(state): Shared, body: Bytes) -> Response {
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

async fn stats(State(state): Shared) -> Json<SesStats> {
    Json(state.engine().stats(state.now_ns()))
}

/// The mails whose number is above `after`, `limit` of them at most.
#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MailRange {
    after: u64,
    limit: usize,
}

impl Default for MailRange {
    fn default() -> Self {
        Self { after: 0, limit: USUAL_LIMIT }
    }
}

async fn mails(State(state): Shared, range: Result<Query<MailRange>, QueryRejection>) -> Response {
    let wrong = match range {
        Ok(Query(MailRange { after, limit })) if (1..=MOST_MAILS).contains(&limit) => {
            let mails = state.engine().mails.after(after, limit);
            return Json(mails.iter().map(|mail| mail.shown()).collect::<Value>()).into_response();
        }
        Ok(Query(MailRange { limit, .. })) => format!("limit: {limit}"),
        Err(rejection) => rejection.body_text(),
    };
    let allowed = format!(
        "{wrong}; `after` must be a mail's number, or 0 for the oldest, and `limit` a number of mails \
         from 1 to {MOST_MAILS}"
    );
    refuse(StatusCode::BAD_REQUEST, &allowed)
}

async fn mail(State(state): Shared, Path(seq): Path<String>) -> Response {
    let found = seq.parse().ok().and_then(|seq| state.engine().mails.get(seq));
    let Some((mail, body)) = found else {
        return refuse(StatusCode::NOT_FOUND, &format!("no mail `{seq}` is kept"));
    };
    let mut whole = mail.shown();
    // An accepted request was JSON, or is kept as JSON; a lone surrogate in it is all that can fail here.
    whole["request"] = body.and_then(|body| serde_json::from_slice(&body).ok()).unwrap_or_default();
    Json(whole).into_response()
}

async fn clear(State(state): Shared) -> StatusCode {
    state.engine().clear();
    StatusCode::NO_CONTENT
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}
