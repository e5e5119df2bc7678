//! The calls of AWS End User Messaging, in the protocol
//! [AWS JSON 1.0](https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html).

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_smithy_types::error::ErrorMetadata;
use hyper::body::Bytes;
use serde_json::Value;

use crate::aws::call::{
    CallError, Manner, ReadAnswer, ServiceCall, ServiceClient, ServiceEndpoint, configured_endpoint,
};

/// The prefix of the header that names the operation.
const TARGET: &str = "PinpointSMSVoiceV2";
/// The name that signatures and permissions have.
const SERVICE: &str = "sms-voice";
/// The name that the SDK's settings have: `AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2`.
const ID: &str = "Pinpoint SMS Voice V2";

/// The other partitions' domains, and those for dual stack, by the beginning of their regions' names
/// (<https://github.com/boto/botocore/blob/develop/botocore/data/partitions.json>).
const DOMAINS: [(&str, &str, &str); 6] = [
    ("cn-", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
    ("eusc-", "amazonaws.eu", "api.amazonwebservices.eu"),
    ("us-iso-", "c2s.ic.gov", "api.aws.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov", "api.aws.scloud"),
    ("eu-isoe-", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk"),
    ("us-isof-", "csp.hci.ic.gov", "api.aws.hci.ic.gov"),
];
/// Those of the commercial regions and of `us-gov`.
const COMMERCIAL: (&str, &str, &str) = ("", "amazonaws.com", "api.aws");

#[derive(Clone, Debug)]
pub(super) struct SmsClient(ServiceClient);

impl SmsClient {
    /// The service of `config`'s region, or at the endpoint that is configured for it or for all services.
    pub(super) fn new(config: &SdkConfig) -> Self {
        let region = config.region().cloned();
        let url = configured_endpoint(config, ID).unwrap_or_else(|| endpoint(config));
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

/// The SDK's rule set (`endpoint-rule-set-1.json` of `pinpoint-sms-voice-v2`).
fn endpoint(config: &SdkConfig) -> String {
    let region = config.region().map_or("", AsRef::as_ref);
    let found = DOMAINS.into_iter().find(|(begin, ..)| region.starts_with(begin));
    let (_, plain, dual_stack) = found.unwrap_or(COMMERCIAL);
    let domain = if config.use_dual_stack() == Some(true) { dual_stack } else { plain };
    let fips = if config.use_fips() == Some(true) { "-fips" } else { "" };
    format!("https://{SERVICE}{fips}.{region}.{domain}")
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
