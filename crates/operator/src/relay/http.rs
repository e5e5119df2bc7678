//! SES's API in both versions, listmonk's messenger, and the relay's health and metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream::{self, StreamExt as _};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use tidegate_adapters::aws::SystemEntropy;
use tidegate_core::outcome::{Failure, answered};
use tidegate_core::ses_request::{
    NameValue, QueryCall, SesAccount, SesAttachment, SesBody, SesBulk, SesContent, SesDestination,
    SesMails, SesProtocol, SesReply, SesRequest, SesSimple, SesText, read_send_bulk_email,
    read_send_email, write_answer,
};
use tidegate_delivery::ports::{BATCH, Clock, Entropy as _};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::logins::{KeyPair, KeyPairs, Logins};
use super::others::{HEALTH, Health, OtherCalls};
use super::refusal::{Refusal, TRY_AGAIN_SECONDS};
use super::sigv4::{Signature, named_key};
use super::submission::Submission;
use super::submit::Relay;
use crate::connections::{Connections, answer};
use crate::send::fingerprint;

/// Most bytes of a request to a stack without a store. A message of SQS has 1 MiB, and a bulk may carry many.
const MOST_WHOLE_BYTES: usize = 10 * 1024 * 1024;
/// The same with a store: a MIME message of 40 MB in base64, and what stands around it.
const MOST_LARGE_BYTES: usize = 54 * 1024 * 1024;
/// Longest time for a request's body.
const BODY: Duration = Duration::from_mins(1);
/// The path of listmonk's messenger.
pub(super) const LISTMONK: &str = "/listmonk";

/// The relay over HTTP.
pub(super) struct HttpServer<C> {
    pub(super) health: Health,
    pub(super) relay: Arc<Relay<C>>,
    /// None on loopback: everybody on this machine may send.
    pub(super) logins: Option<Arc<Logins>>,
    /// None: other calls are refused.
    pub(super) others: Option<OtherCalls>,
    /// The account's figures; none until they are known.
    pub(super) account: watch::Receiver<Option<SesAccount>>,
    /// A permit for each byte of a request that is held.
    pub(super) memory: Arc<Semaphore>,
}

impl<C> HttpServer<C> {
    /// Most bytes of a request.
    fn most_bytes(&self) -> usize {
        let has_store = self.relay.rules.borrow().messages.has_store;
        if has_store { MOST_LARGE_BYTES } else { MOST_WHOLE_BYTES }
    }
}

type Shared<C> = State<Arc<HttpServer<C>>>;
/// Permits for the bytes of a request.
type Room<'a> = SemaphorePermit<'a>;

pub(super) fn router<C: Clock + Send + Sync + 'static>(server: Arc<HttpServer<C>>) -> Router {
    let router = Router::new().route(HEALTH, get(health)).route("/metrics", get(metrics));
    router.route(LISTMONK, post(listmonk)).fallback(ses).with_state(server)
}

/// The answer to a call.
enum CallAnswer {
    Here(SesReply),
    BySes(Response),
}

/// A call of SES, in the version that its path tells.
async fn ses<C: Clock>(
    State(server): Shared<C>,
    Extension(peer): Extension<IpAddr>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let is_query = head.method == Method::POST && head.uri.path() == "/";
    let mut action = format!("{} {}", head.method, head.uri.path());
    let answered = async {
        let (user, body, _room) = server.caller(peer, &head, body).await?;
        let caller = Caller { user, retry_key: retry_key(&head) };
        let known = if is_query {
            server.query(&caller, &body, &mut action).await?
        } else {
            server.json(&caller, &head, &body).await?
        };
        match (known, &server.others) {
            (Some(reply), _) => Ok(CallAnswer::Here(reply)),
            (None, Some(others)) => {
                server.may_all(caller.user.as_deref())?;
                others.forward(&head, body).await.map(CallAnswer::BySes)
            }
            (None, None) => Err(unknown(&action)),
        }
    };
    let reply = match answered.await {
        Ok(CallAnswer::BySes(response)) => return response,
        Ok(CallAnswer::Here(reply)) => Ok(reply),
        Err(failure) => {
            let Failure { code, http_status, .. } = &failure;
            tracing::info!(code, http_status, "a call is refused");
            Err(failure)
        }
    };
    let protocol = if is_query { SesProtocol::Query(&action) } else { SesProtocol::Json };
    let id = SystemEntropy.token();
    let answer = write_answer(protocol, &reply, &id);
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response =
        (status, [(header::CONTENT_TYPE, answer.content_type)], answer.body).into_response();
    let error_type = answer.error_type.map(|code| ("x-amzn-errortype", code));
    let later = status == StatusCode::SERVICE_UNAVAILABLE;
    let later = later.then(|| ("retry-after", TRY_AGAIN_SECONDS.to_string()));
    for (name, value) in [("x-amzn-requestid", id)].into_iter().chain(error_type).chain(later) {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

impl<C: Clock> HttpServer<C> {
    /// Who makes a call, and its body: the access key; without credentials as the client names it.
    async fn caller(
        &self,
        peer: IpAddr,
        head: &Parts,
        body: Body,
    ) -> Result<(Option<String>, Bytes, Room<'_>), Failure> {
        let Some(logins) = &self.logins else {
            let (body, room) = self.body(head, body).await?;
            return Ok((named_key(head), body, room));
        };
        let given = Signature::read(head)?;
        let key = given.access_key;
        // A login waits for its turn, and an access key that is not there is refused, before the body takes room.
        let turn = logins.turn(peer).await.ok_or_else(too_many_logins)?;
        if let Err(refused) = given.secret(&logins.keys) {
            return turn.check(key, |_| Err(refused));
        }
        let (body, room) = self.body(head, body).await?;
        let now = self.relay.clock.wall();
        turn.check(key, |keys| given.verify(keys, head, &body, now))?;
        Ok((Some(key.to_owned()), body, room))
    }

    /// Other calls are made under the relay's own credentials: a key pair that has bounds may not make them.
    fn may_all(&self, user: Option<&str>) -> Result<(), Failure> {
        let pair = self.logins.as_ref().zip(user).and_then(|(logins, user)| logins.keys.get(user));
        if pair.is_some_and(KeyPair::is_bound) {
            let message = "a key pair with campaigns or senders may only send mail";
            return Err(answered(403, "AccessDeniedException", message));
        }
        Ok(())
    }

    /// A request's body, and the room that it takes until it is answered.
    async fn body(&self, head: &Parts, body: Body) -> Result<(Bytes, Room<'_>), Failure> {
        // Browsers always say where a page comes from when they post for it; SDKs never do.
        if head.headers.contains_key(header::ORIGIN) {
            let message = "the relay takes no mail from web pages";
            return Err(answered(403, "AccessDeniedException", message));
        }
        let most = self.most_bytes();
        let length = body.size_hint().upper().unwrap_or(most as u64);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let too_large =
            || answered(413, "MessageRejected", format!("a request has at most {most} bytes"));
        if length > most {
            return Err(too_large());
        }
        let permits = u32::try_from(length).unwrap_or(u32::MAX);
        let room = self.memory.try_acquire_many(permits).map_err(|_| {
            unavailable("the relay holds as much mail as it has room for; try again later")
        })?;
        match timeout(BODY, to_bytes(body, most)).await {
            Ok(Ok(body)) => Ok((body, room)),
            Ok(Err(_)) => Err(too_large()),
            Err(_) => Err(answered(408, "RequestTimeout", "the request's body did not come")),
        }
    }

    /// Version 2; none is another call.
    async fn json(
        &self,
        caller: &Caller,
        head: &Parts,
        body: &Bytes,
    ) -> Result<Option<SesReply>, Failure> {
        Ok(Some(match (&head.method, head.uri.path()) {
            (&Method::POST, "/v2/email/outbound-emails") => {
                SesReply::MessageId(self.send(caller, read_send_email(body)?, None).await?)
            }
            (&Method::POST, "/v2/email/outbound-bulk-emails") => {
                self.send_bulk(caller, read_send_bulk_email(body)?, body.len()).await
            }
            (&Method::GET, "/v2/email/account") => self.account()?,
            _ => return Ok(None),
        }))
    }

    /// Version 1; tells the call's action. None is another call.
    async fn query(
        &self,
        caller: &Caller,
        body: &Bytes,
        action: &mut String,
    ) -> Result<Option<SesReply>, Failure> {
        let call = QueryCall::read(body)?;
        action.clone_from(&call.action);
        Ok(Some(match call.mails()? {
            None if call.action == "GetSendQuota" => self.account()?,
            None => return Ok(None),
            Some(SesMails::One(mail)) => SesReply::MessageId(self.send(caller, mail, None).await?),
            Some(SesMails::Bulk(bulk)) => self.send_bulk(caller, bulk, body.len()).await,
        }))
    }

    fn account(&self) -> Result<SesReply, Failure> {
        let account = *self.account.borrow();
        account
            .map(SesReply::Account)
            .ok_or_else(|| unavailable("SES has not told the account's figures yet"))
    }

    /// Submits the mail of a call, or the mail at `place` of a bulk.
    async fn send(
        &self,
        caller: &Caller,
        request: SesRequest,
        place: Option<usize>,
    ) -> Result<String, Failure> {
        let Caller { user, retry_key } = caller.clone();
        let retry_key = retry_key.map(|key| match place {
            Some(place) => format!("{key}/{place}"),
            None => key,
        });
        let submission = Submission { user, retry_key, request };
        let ids = self.relay.submit(submission).await.map_err(|refusal| failure(&refusal))?;
        Ok(ids.into_iter().next().unwrap_or_default())
    }

    async fn send_bulk(&self, caller: &Caller, bulk: SesBulk, bytes: usize) -> SesReply {
        let mails = bulk.into_mails().enumerate();
        let sent =
            mails.map(|(place, mail)| async move { self.send(caller, mail?, Some(place)).await });
        // A few at a time: each has the attachments of all. Large ones go one by one.
        let beside = (MOST_WHOLE_BYTES / bytes.max(1)).clamp(1, BATCH);
        SesReply::Bulk(stream::iter(sent).buffered(beside).collect().await)
    }
}

/// Who makes a call.
#[derive(Clone)]
struct Caller {
    user: Option<String>,
    /// The same for all attempts of the call.
    retry_key: Option<String>,
}

fn too_many_logins() -> Failure {
    let message = "too many failed logins from your address; try again later";
    answered(429, "TooManyRequestsException", message)
}

/// The text that all attempts of a call have in common: the SDKs' invocation id, or a header for other clients.
fn retry_key(head: &Parts) -> Option<String> {
    let value = |name| head.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // The last one is that of the SDKs for PHP and, in their first version, Java.
    let names = ["idempotency-key", "amz-sdk-invocation-id", "aws-sdk-invocation-id"];
    names.into_iter().find_map(value).map(str::to_owned)
}

/// A mail that SES itself would take, and the stack does not, is one that is rejected: nodemailer's `verify()` asks for that
/// code.
fn failure(refusal: &Refusal) -> Failure {
    let message = refusal.to_string();
    match refusal {
        Refusal::Busy(_) => unavailable(message),
        _ => answered(400, "MessageRejected", message),
    }
}

fn unavailable(message: impl Into<String>) -> Failure {
    answered(503, "ServiceUnavailable", message)
}

fn unknown(call: &str) -> Failure {
    let message = format!(
        "{call}: the relay sends mail (SendEmail, SendBulkEmail, and those of version 1) and tells GetAccount and \
         GetSendQuota; make other calls to SES itself, or start the relay with --forward-other-calls"
    );
    answered(404, "UnknownOperationException", message)
}

/// One mail of listmonk's messenger: <https://listmonk.app/docs/messengers/>.
#[derive(Debug, Deserialize)]
struct ListmonkMail {
    subject: String,
    #[serde(default)]
    from_email: String,
    content_type: String,
    body: String,
    recipients: Vec<ListmonkRecipient>,
    campaign: Option<ListmonkCampaign>,
    attachments: Option<Vec<ListmonkFile>>,
}

#[derive(Debug, Deserialize)]
struct ListmonkRecipient {
    email: String,
}

#[derive(Debug, Deserialize)]
struct ListmonkCampaign {
    #[serde(default)]
    from_email: String,
    #[serde(default)]
    uuid: String,
    headers: Option<Vec<BTreeMap<String, String>>>,
}

#[derive(Debug, Deserialize)]
struct ListmonkFile {
    name: String,
    content: String,
    /// The fields of the part's MIME header.
    #[serde(default)]
    header: BTreeMap<String, Vec<String>>,
}

/// Takes listmonk's POST of one mail.
async fn listmonk<C: Clock>(
    State(server): Shared<C>,
    Extension(peer): Extension<IpAddr>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let taken = async {
        let user = basic_user(server.logins.as_deref(), peer, &head).await?;
        let (body, _room) = server.body(&head, body).await?;
        let mail: ListmonkMail = serde_json::from_slice(&body)
            .map_err(|error| answered(400, "BadRequestException", error.to_string()))?;
        let submission = mail.submission(user, &fingerprint(&body));
        server.relay.submit(submission).await.map_err(|refusal| failure(&refusal))
    };
    match taken.await {
        Ok(_) => StatusCode::OK.into_response(),
        Err(Failure { http_status, message, code, .. }) => {
            tracing::info!(code, http_status, "a mail of listmonk is refused");
            let status = http_status.and_then(|status| StatusCode::from_u16(status).ok());
            (status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), message).into_response()
        }
    }
}

/// The user of HTTP's basic authentication; none where nobody has to log in.
async fn basic_user(
    logins: Option<&Logins>,
    peer: IpAddr,
    head: &Parts,
) -> Result<Option<String>, Failure> {
    let Some(logins) = logins else { return Ok(None) };
    let given = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| STANDARD.decode(value.strip_prefix("Basic ")?).ok());
    let given = given.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let (user, password) = given.split_once(':').unwrap_or_default();
    let refused = || answered(401, "AccessDenied", "the user or the password is wrong");
    let turn = logins.turn(peer).await.ok_or_else(too_many_logins)?;
    let admits = |keys: &KeyPairs| keys.admits(user, password).then(|| Some(user.to_owned()));
    turn.check(user, |keys| admits(keys).ok_or_else(refused))
}

impl ListmonkMail {
    fn submission(self, user: Option<String>, hash: &str) -> Submission {
        let campaign = self.campaign;
        let of_campaign = campaign.as_ref().map(|campaign| campaign.from_email.clone());
        let from = Some(self.from_email).filter(|from| !from.is_empty()).or(of_campaign);
        let headers = campaign.iter().filter_map(|campaign| campaign.headers.as_ref()).flatten();
        let headers = headers
            .flatten()
            .map(|(name, value)| NameValue { name: name.clone(), value: value.clone() });
        let attachments = self.attachments.unwrap_or_default().into_iter().map(|file| {
            // Without the parameters behind a semicolon.
            let field = |name: &str| {
                let all = file.header.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                let value = all?.1.first()?.split(';').next().unwrap_or_default();
                Some(value.trim().trim_matches(['<', '>']).to_owned())
            };
            SesAttachment {
                content_type: field("Content-Type"),
                content_id: field("Content-Id"),
                content_disposition: field("Content-Disposition"),
                raw_content: file.content,
                file_name: file.name,
            }
        });
        let is_plain = self.content_type.eq_ignore_ascii_case("plain");
        let body = Some(SesText { data: self.body });
        let (text, html) = if is_plain { (body, None) } else { (None, body) };
        // A campaign is sent to a subscriber once, and before as a test, with another content.
        let to: Vec<String> = self.recipients.into_iter().map(|to| to.email).collect();
        let retry_key = campaign.as_ref().filter(|campaign| !campaign.uuid.is_empty());
        let retry_key = retry_key.map(|campaign| format!("{} {to:?} {hash}", campaign.uuid));
        let (subject, body) = (SesText { data: self.subject }, SesBody { text, html });
        let (headers, attachments) = (headers.collect(), attachments.collect());
        let content = SesSimple { subject, body, headers, attachments };
        let destination = SesDestination { to, ..SesDestination::default() };
        let request =
            SesRequest::new(from.unwrap_or_default(), destination, SesContent::Simple(content));
        Submission { user, retry_key, request }
    }
}

async fn health<C>(State(server): Shared<C>) -> Json<Health> {
    Json(server.health.clone())
}

/// Current values in the `OpenMetrics` format.
async fn metrics<C>(State(server): Shared<C>) -> impl IntoResponse {
    let mut text = "# TYPE relay_mails counter\n# HELP relay_mails Mails that SQS acknowledged, and those that were \
                    refused, by reason\n"
        .to_owned();
    for (outcome, number) in &*server.relay.counts.lock().unwrap_or_else(PoisonError::into_inner) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "relay_mails_total{{outcome=\"{outcome}\"}} {number}");
    }
    let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, content_type)], text + "# EOF\n")
}

/// Longest time for a TLS handshake, for a request's head, and between requests.
const SILENCE: Duration = Duration::from_mins(1);
/// How long requests that are under way have to end after `stop`.
const PATIENCE: Duration = Duration::from_mins(1);

/// Serves HTTP/1.1 until `stop`; requests that are under way are answered.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
    connections: &Connections,
    stop: impl Future<Output = ()>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(SILENCE);
    let acceptor = tls.map(TlsAcceptor::from);
    let connection = |stream, peer: IpAddr, stopped| {
        let (builder, acceptor) = (builder.clone(), acceptor.clone());
        let service = TowerToHyperService::new(router.clone().layer(Extension(peer)));
        async move {
            let Some(acceptor) = acceptor else {
                let connection = builder.serve_connection(TokioIo::new(stream), service);
                return answer(connection, stopped).await;
            };
            if let Ok(Ok(stream)) = timeout(SILENCE, acceptor.accept(stream)).await {
                answer(builder.serve_connection(TokioIo::new(stream), service), stopped).await;
            }
        }
    };
    connections.serve(listener, b"", stop, PATIENCE, connection).await;
}
