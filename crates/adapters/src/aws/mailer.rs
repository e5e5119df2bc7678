//! `Mailer` on SES v2, and on AWS End User Messaging (`sms-voice`) for text messages: one send, and the description of its
//! failure for the classification.

use std::error::Error;
use std::time::Duration;

use aws_credential_types::provider::error::CredentialsError;
use aws_runtime::auth::PayloadSigningOverride;
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::config::timeout::TimeoutConfig;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeTransmitInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use hyper::body::Bytes;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tidegate_core::channel::Content;
use tidegate_core::identity::hex;
use tidegate_core::in_full;
use tidegate_core::outcome::{Failure, Stage, unanswered};
use tidegate_delivery::ports::{Mail, Mailer, Monotonic, SendAnswer, Writer, WrittenRequest};

use crate::aws::error::find;
#[cfg(feature = "sms")]
use crate::aws::json_client::{JsonClient, Manner};
#[cfg(feature = "sms")]
use crate::aws::sms::{self, SMS};
use crate::aws::system::SystemClock;
use crate::aws::wire::{RequestKind, Ticket};
use crate::aws::{json, ses};

/// Sends mail, or text messages, each once: nothing is retried here.
///
/// On [`crate::aws::Wire`] the lateness of a send is checked when a connection takes the request, and after a
/// failure it is known whether anything was written. On any other HTTP client the lateness is checked at the
/// SDK's last hook, and any later failure counts as possibly sent.
#[derive(Clone, Debug)]
pub struct AwsMailer {
    service: SendService,
    pub(super) clock: SystemClock,
    pub(super) send_timeout: Duration,
    /// The configuration set of messages that name none.
    configuration_set: Option<String>,
}

#[derive(Clone, Debug)]
enum SendService {
    Email(Client),
    #[cfg(feature = "sms")]
    Texts(JsonClient),
}

impl AwsMailer {
    /// Sends mail through `client`, whose retries and time limits are replaced. `clock` must be the clock of the
    /// `latest` instants given to [`Mailer::send`]. `send_timeout` is the time from the call to SES's
    /// answer.
    pub fn email(client: &Client, clock: SystemClock, send_timeout: Duration) -> Self {
        let config = client.config().to_builder().retry_config(RetryConfig::disabled());
        let config = config.timeout_config(TimeoutConfig::disabled()).build();
        let service = SendService::Email(Client::from_conf(config));
        Self { service, clock, send_timeout, configuration_set: None }
    }

    /// Sends text messages with the region, credentials and HTTP client of `config`; the rest is as for
    /// [`AwsMailer::email`].
    #[cfg(feature = "sms")]
    pub fn texts(
        config: &aws_config::SdkConfig,
        clock: SystemClock,
        send_timeout: Duration,
    ) -> Self {
        let service = SendService::Texts(JsonClient::new(&SMS, config));
        Self { service, clock, send_timeout, configuration_set: None }
    }

    /// Sets the configuration set of messages that name none.
    pub fn with_configuration_set(self, configuration_set: Option<String>) -> Self {
        Self { configuration_set, ..self }
    }

    /// Makes the call that carries `ticket`, and returns SES's message id.
    async fn call(&self, mail: Mail<'_>, ticket: &Ticket) -> Result<String, Failure> {
        let kind = RequestKind::Send(ticket.clone());
        let default_set = self.configuration_set.as_deref();
        match (&self.service, mail.content) {
            (SendService::Email(client), Content::Email(email)) => {
                let ready = mail.written.and_then(|request| request.get::<HashedBody>());
                let (body, hash) = match ready {
                    Some(HashedBody(ready)) => {
                        ready.clone().map(|(body, hash)| (body, Some(hash)))?
                    }
                    None => (written(&ses::request(&mail, email, default_set))?, None),
                };
                let mut call = client.send_email().customize().interceptor(kind);
                if let Some(hash) = hash {
                    call = call.interceptor(PayloadHash(hash));
                }
                let call = call.mutate_request(move |request| json::put(&body, request));
                let answer = once(ticket, self.send_timeout, call.send()).await?;
                Ok(answer.message_id.unwrap_or_default())
            }
            #[cfg(feature = "sms")]
            (SendService::Texts(client), Content::Text(text)) => {
                let request = sms::request(&mail, text, default_set);
                let body = written(&request)?;
                let call = client.call("SendTextMessage", body, Manner::Once(kind));
                let answer = once(ticket, self.send_timeout, call).await?;
                Ok(answer["MessageId"].as_str().unwrap_or_default().to_owned())
            }
            _ => Err(unwritable(&OtherChannel)),
        }
    }
}

impl Mailer for AwsMailer {
    async fn send(&self, mail: Mail<'_>, latest: Monotonic) -> SendAnswer {
        let ticket = Ticket::new(self.clock, latest);
        let result = self.call(mail, &ticket).await;
        SendAnswer { start: ticket.start(), result }
    }

    fn writer(&self) -> Writer {
        let default_set = self.configuration_set.clone();
        Box::new(move |mail| {
            let body = match mail.content {
                Content::Email(email) => {
                    written(&ses::request(&mail, email, default_set.as_deref()))
                }
                Content::Text(_) => Err(unwritable(&OtherChannel)),
            };
            let hashed = body.map(|body| (body.clone(), hex(&Sha256::digest(&body))));
            WrittenRequest::new(HashedBody(hashed))
        })
    }

    /// Opens connections to the endpoint that the SDK would call, by a request that is not sent.
    async fn warm(&self, connections: usize) {
        let (limit, kind) = (self.send_timeout, RequestKind::Warm(connections));
        // `Wire` ends every such request with an error, by design.
        match &self.service {
            SendService::Email(client) => {
                let call = client.get_account().customize().interceptor(kind);
                let _ = tokio::time::timeout(limit, call.send()).await;
            }
            #[cfg(feature = "sms")]
            SendService::Texts(client) => {
                let call = client.call("SendTextMessage", "{}".into(), Manner::Once(kind));
                let _ = tokio::time::timeout(limit, call).await;
            }
        }
    }
}

/// A body, and its SHA-256 in hex; or why it cannot be written.
#[derive(Debug)]
struct HashedBody(Result<(Bytes, String), Failure>);

/// Signs a request by the hash of its body that was made before, in place of one that the SDK makes.
#[derive(Debug)]
struct PayloadHash(String);

#[dyn_dispatch_hint]
impl Intercept for PayloadHash {
    fn name(&self) -> &'static str {
        "PayloadHash"
    }

    fn modify_before_signing(
        &self,
        _: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let hash = PayloadSigningOverride::Precomputed(self.0.clone());
        config.interceptor_state().store_put(hash);
        Ok(())
    }
}

/// A message of a channel that this mailer does not send; a poller's settings choose both.
#[derive(Debug, thiserror::Error)]
#[error("a message of another channel than TIDEGATE_CHANNEL says")]
struct OtherChannel;

fn written(request: &impl Serialize) -> Result<Bytes, Failure> {
    json::written(request).map_err(|error| unwritable(&error))
}

/// Makes a call that carries `ticket`, within the time limit. The call must not be retried by the SDK.
async fn once<T, E>(
    ticket: &Ticket,
    limit: Duration,
    call: impl Future<Output = Result<T, SdkError<E, HttpResponse>>>,
) -> Result<T, Failure>
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer.map_err(|error| failure(&error, ticket)),
        Err(_) => Err(unanswered(ticket.stage(), format!("no answer within {limit:?}"))),
    }
}

fn failure<E>(error: &SdkError<E, HttpResponse>, ticket: &Ticket) -> Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => Failure {
            http_status: Some(answer.raw().status().as_u16()),
            code: answer.err().code().map(str::to_owned),
            message: message(answer.err()),
            stage: Stage::Answered,
        },
        SdkError::ResponseError(answer) => Failure {
            http_status: Some(answer.raw().status().as_u16()),
            code: None,
            message: in_full(error),
            stage: Stage::Answered,
        },
        // The services' own code for a request without credentials. The cause is never the mail.
        _ if lacks_credentials(error) => verdict("MissingAuthenticationToken", error),
        SdkError::ConstructionFailure(_) => unwritable(error),
        _ => unanswered(ticket.stage(), in_full(error)),
    }
}

/// The service's explanation. If the answer has no code, the SDK keeps the explanation in the error's causes.
fn message<E: ProvideErrorMetadata + Error + 'static>(error: &E) -> String {
    let said = error.message().or_else(|| find::<ErrorMetadata>(error)?.message());
    said.map_or_else(|| in_full(error), str::to_owned)
}

fn lacks_credentials(error: &(dyn Error + 'static)) -> bool {
    // A credentials provider that timed out may answer the next time, so it counts as an endpoint that timed
    // out.
    find::<CredentialsError>(error)
        .is_some_and(|error| !matches!(error, CredentialsError::ProviderTimedOut(_)))
}

/// A request that cannot be built would be refused in any case, so it gets the services' code for that.
fn unwritable(error: &(dyn Error + 'static)) -> Failure {
    verdict("ValidationException", error)
}

/// A failure with the code that the service would have answered.
fn verdict(code: &str, error: &(dyn Error + 'static)) -> Failure {
    let code = Some(code.to_owned());
    Failure { code, ..unanswered(Stage::Answered, in_full(error)) }
}

#[cfg(test)]
mod tests;
