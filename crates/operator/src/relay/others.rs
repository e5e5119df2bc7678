//! Calls of SES that the relay does not know, made to SES under the relay's own credentials.

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_smithy_runtime_api::http::HttpError;
use aws_smithy_types::body::SdkBody;
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{Request, header};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::in_full;
use tidegate_core::outcome::{Failure, answered};

use crate::last_answer::LastAnswer;

/// The path of a relay's [`Health`].
pub(super) const HEALTH: &str = "/health";
/// The path of `GetAccount`.
const ACCOUNT: &str = "/v2/email/account";
/// Headers of an answer by which SDKs read it.
const READ_BY_SDKS: [&str; 3] = ["content-type", "x-amzn-errortype", "x-amzn-requestid"];

/// The way to SES, by which every call can go.
pub(super) struct OtherCalls(Client);

impl OtherCalls {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }

    /// Makes a call, and hands SES's answer back as it is.
    pub(super) async fn forward(&self, head: &Parts, body: Bytes) -> Result<Response, Failure> {
        let (told, body) =
            self.call(head, body).await.map_err(|fault| unreachable(&fault))?.into_parts();
        let mut response = (told.status, body).into_response();
        for name in READ_BY_SDKS {
            if let Some(value) = told.headers.get(name) {
                response.headers_mut().insert(name, value.clone());
            }
        }
        Ok(response)
    }

    /// Makes a call once: its client tries again. The SDK has a client of one call each; `GetAccount` with another method,
    /// path and body is another call, with the SDK's endpoint and signature.
    async fn call(&self, head: &Parts, body: Bytes) -> Result<http::Response<Vec<u8>>, String> {
        let last = LastAnswer::default();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let (method, content_type) = (head.method.clone(), head.headers.get(header::CONTENT_TYPE));
        let content_type = content_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let once = aws_sdk_sesv2::Config::builder().retry_config(RetryConfig::disabled());
        let call = self.0.get_account().customize().config_override(once);
        let call = call.interceptor(last.clone()).map_request(move |mut request| {
            let endpoint = request.uri().strip_suffix(ACCOUNT).unwrap_or_default().to_owned();
            request.set_uri(endpoint + &target)?;
            request.set_method(method.as_str())?;
            if let Some(content_type) = &content_type {
                request.headers_mut().insert(header::CONTENT_TYPE.as_str(), content_type.clone());
            }
            *request.body_mut() = SdkBody::from(&body[..]);
            Ok::<_, HttpError>(request)
        });
        let told = call.send().await;
        last.take().ok_or_else(|| told.err().map(|error| in_full(&error)).unwrap_or_default())
    }
}

fn unreachable(fault: &str) -> Failure {
    answered(503, "ServiceUnavailable", format!("SES cannot be reached: {fault}"))
}

/// The answer while the relay serves.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Health {
    /// The stack's name.
    pub(super) stack: String,
}

/// The name of the stack that the relay at `url` takes mail for.
///
/// # Errors
/// A text for people: nothing answers there, or something else does.
pub(crate) async fn stack_at(stack: &Stack, url: &str) -> Result<String, String> {
    let config = aws_sdk_sesv2::config::Builder::from(stack.clients().ses_config());
    let calls = OtherCalls::new(Client::from_conf(config.endpoint_url(url).build()));
    let request = Request::get(HEALTH).body(()).map_err(|error| error.to_string())?;
    let answer = calls.call(&request.into_parts().0, Bytes::new()).await;
    let answer = answer.map_err(|fault| format!("nothing answers there: {fault}"))?;
    let health: Option<Health> = serde_json::from_slice(answer.body()).ok();
    health.map(|health| health.stack).ok_or_else(|| "what answers there is no relay".to_owned())
}
