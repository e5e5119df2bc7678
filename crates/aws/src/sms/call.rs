//! The calls of AWS End User Messaging, in the protocol
//! [AWS JSON 1.0](https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html).

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_types::error::ErrorMetadata;
use hyper::body::Bytes;
use serde_json::Value;

use crate::call::{CallError, Manner, ReadAnswer, ServiceCall, ServiceClient, ServiceEndpoint};

/// The prefix of the header that names the operation.
const TARGET: &str = "PinpointSMSVoiceV2";
/// The name that signatures and permissions have.
const SERVICE: &str = "sms-voice";

#[derive(Clone, Debug)]
pub(super) struct SmsClient(ServiceClient);

impl SmsClient {
    /// The service as `config` reaches it: at its own endpoint, unless `AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2` (`own`)
    /// or `AWS_ENDPOINT_URL` names another one.
    pub(super) fn new(config: &SdkConfig, own: Option<String>) -> Self {
        let region = config.region().cloned();
        let name = region.as_ref().map_or("", AsRef::as_ref);
        let given = own.or_else(|| config.endpoint_url().map(str::to_owned));
        let url = given.unwrap_or_else(|| format!("https://{SERVICE}.{name}.amazonaws.com"));
        Self(ServiceClient::new(config, ServiceEndpoint { service: SERVICE, url, region }))
    }

    /// Makes one call with a JSON body, and returns the answer's. The error's code is the `Reason` of the exception, or
    /// its name if it has none.
    pub(super) async fn call(
        &self,
        operation: &'static str,
        body: Bytes,
        manner: Manner,
    ) -> Result<Value, CallError> {
        let headers = vec![
            ("content-type", "application/x-amz-json-1.0".to_owned()),
            ("x-amz-target", format!("{TARGET}.{operation}")),
        ];
        self.0.call(ServiceCall { operation, headers, body }, manner, read).await
    }
}

/// Reads an answer: JSON, or an error with `__type`, and perhaps `Message` and `Reason`.
fn read(answer: &HttpResponse) -> ReadAnswer<Value> {
    let body = answer.body().bytes().unwrap_or_default();
    let json = serde_json::from_slice::<Value>(body);
    if answer.status().is_success() {
        return json.map_err(OrchestratorError::other);
    }
    let json = json.unwrap_or_default();
    let text = |name: &str| json[name].as_str();
    let name = answer.headers().get("x-amzn-errortype").or_else(|| text("__type"));
    let bare = |name: &str| name.split(':').next()?.rsplit('#').next().map(str::to_owned);
    let name = name.and_then(bare);
    let said = text("Message").or(text("message")).unwrap_or_default();
    let message = [name.as_deref().unwrap_or_default(), said].join(": ");
    let mut error = ErrorMetadata::builder().message(message);
    if let Some(code) = text("Reason").map(str::to_owned).or(name) {
        error = error.code(code);
    }
    Err(OrchestratorError::operation(error.build()))
}
