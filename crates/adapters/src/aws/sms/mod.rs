//! Text messages on AWS End User Messaging (`sms-voice`): the body of a `SendTextMessage` request, and `Account`, with the
//! quota by `DescribePhoneNumbers` and the month's spend limit by `DescribeSpendLimits`.
//!
//! The calls are made in the protocol
//! [AWS JSON 1.0](https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html). Its SDK has a hundred operations and
//! 10 MB of source, and Tidegate makes three. Signature, retries and time limits are the SDK's code, which every other
//! client uses, too (decision 52).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{ServiceClockSkewClassifier, ServiceClockSkewInterceptor};
use aws_smithy_runtime::client::identity::IdentityCache;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{
    HttpStatusCodeClassifier, TransientErrorClassifier,
};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::identity::SharedIdentityCache;
use aws_smithy_runtime_api::client::interceptors::SharedInterceptor;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{SharedRuntimePlugin, StaticRuntimePlugin};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use aws_types::service_config::ServiceConfigKey;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tidegate_core::control::TenantStatus;
use tidegate_core::email::ses_tag_value;
use tidegate_core::rate::Rate;
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_core::text_message::{MessageType, TextMessage};
use tidegate_delivery::ports::{Account, AccountStatus, Mail, PortError};

use super::error::{incomplete, port_error, time_limits};
use super::wire::RequestKind;

/// The time limits of a call with its retries and of one attempt, as of SES's account.
const OPERATION: Duration = Duration::from_secs(2);
const ATTEMPT: Duration = Duration::from_secs(1);
const LIMIT: &str = "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT";

/// The quota of text messages and the month's spend limit.
#[derive(Clone, Debug)]
pub struct SmsAccount {
    client: JsonClient,
    quota: Option<Rate>,
    origin: Option<String>,
}

impl SmsAccount {
    /// The account of `config`'s credentials. Its rate is `quota` in parts per second; without one, that of the phone
    /// number or pool `origin`.
    pub fn new(config: &SdkConfig, quota: Option<Rate>, origin: Option<&str>) -> Self {
        let client = JsonClient::new(&SMS, config);
        Self { client, quota, origin: origin.map(str::to_owned) }
    }

    /// All records that `operation`, such as `DescribePools`, lists as its `member`, such as `Pools`.
    ///
    /// # Errors
    /// [`PortError`]; also for a record without a member that `T` needs.
    pub async fn list<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        member: &str,
    ) -> Result<Vec<T>, PortError> {
        let (mut found, mut token) = (Vec::new(), Value::Null);
        loop {
            let request = if token.is_null() { json!({}) } else { json!({ "NextToken": token }) };
            let manner = Manner::Retried(ATTEMPT, OPERATION);
            let answer = self.client.call(operation, request.to_string().into(), manner).await;
            let mut answer = answer
                .map_err(|error| port_error::<ErrorMetadata>(operation, "the account", error))?;
            let Value::Array(page) = answer[member].take() else {
                return Err(incomplete(operation, "the account", member));
            };
            let page: Result<Vec<T>, _> = page.into_iter().map(serde_json::from_value).collect();
            found.extend(page.map_err(|error| {
                incomplete(operation, member, &format!("what is needed: {error}"))
            })?);
            token = answer["NextToken"].take();
            if token.is_null() {
                return Ok(found);
            }
        }
    }

    /// The sum of the rates of all numbers that are the origin or belong to it, if it is a pool.
    async fn derived(&self) -> Result<f64, PortError> {
        const OPERATION: &str = "DescribePhoneNumbers";
        let origin = self.origin.as_deref().unwrap_or("*");
        let is_of = |number: &&Value| {
            ["PhoneNumber", "PhoneNumberId", "PhoneNumberArn", "PoolId"]
                .iter()
                .any(|name| number[*name] == origin || is_arn_of(origin, &number[*name]))
        };
        let numbers: Vec<Value> = self.list(OPERATION, "PhoneNumbers").await?;
        let rate = |number: &Value| number["MessagingLimits"]["RateLimits"]["SMS"].as_f64();
        let rates: Option<Vec<f64>> = numbers.iter().filter(is_of).map(rate).collect();
        let rate = rates.map_or(0.0, |rates| rates.iter().sum());
        let missing =
            "a rate of SMS for the first of TIDEGATE_ORIGINS (set TIDEGATE_QUOTA_PER_SECOND)";
        if rate > 0.0 { Ok(rate) } else { Err(incomplete(OPERATION, origin, missing)) }
    }
}

impl Account for SmsAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        let max_send_rate = match self.quota {
            Some(quota) => quota.as_per_second(),
            None => self.derived().await?,
        };
        let limits: Vec<Value> = self.list("DescribeSpendLimits", "SpendLimits").await?;
        let limit = limits.iter().find(|limit| limit["Name"] == LIMIT);
        Ok(AccountStatus {
            max_send_rate,
            max_24_hour_send: -1.0,
            sent_last_24_hours: 0.0,
            sending_enabled: true,
            spend_limit: limit.and_then(|limit| limit["EnforcedLimit"].as_u64()),
        })
    }

    /// Text messages have no tenants.
    async fn tenant(&self, _: &str) -> Result<Option<TenantStatus>, PortError> {
        Ok(None)
    }
}

/// True if `origin` is the ARN of the pool with this id.
fn is_arn_of(origin: &str, id: &Value) -> bool {
    id.as_str().is_some_and(|id| origin.ends_with(&format!(":pool/{id}")))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::aws) struct Request<'a> {
    destination_phone_number: &'a str,
    message_body: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    origination_identity: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set_name: Option<&'a str>,
    /// Custom data, which the events of the message contain: Tidegate's tags and the producer's.
    context: BTreeMap<&'a str, String>,
}

/// The request for the text `text`; `configuration_set` is used if it names none.
pub(in crate::aws) fn request<'a>(
    mail: &Mail<'a>,
    text: &'a TextMessage,
    configuration_set: Option<&'a str>,
) -> Request<'a> {
    let own = [("tidegate_campaign", mail.campaign), ("tidegate_id", mail.id)];
    let own = own.into_iter().chain(mail.limits.map(|limits| (LIMIT_TAG, limits)));
    let own = own.map(|(name, value)| (name, ses_tag_value(value).into_owned()));
    let producers = text.tags.iter().map(|(name, value)| (name.as_str(), value.clone()));
    Request {
        destination_phone_number: &text.to,
        message_body: &text.text,
        origination_identity: text.origination.as_deref(),
        message_type: text.message_type.map(MessageType::as_str).map(str::to_uppercase),
        configuration_set_name: mail.configuration_set().or(configuration_set),
        context: own.chain(producers).collect(),
    }
}

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// A service that is called in one of the AWS JSON protocols, without a client of the SDK.
#[derive(Debug)]
pub(in crate::aws) struct JsonService {
    /// The prefix of the header that names the operation.
    pub(in crate::aws) target: &'static str,
    /// The name that hosts, signatures and permissions have.
    pub(in crate::aws) name: &'static str,
    /// The name that the SDK's settings have: `AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2`.
    pub(in crate::aws) id: &'static str,
    pub(in crate::aws) content_type: &'static str,
}

pub(in crate::aws) const SMS: JsonService = JsonService {
    target: "PinpointSMSVoiceV2",
    name: "sms-voice",
    id: "Pinpoint SMS Voice V2",
    content_type: "application/x-amz-json-1.0",
};

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

/// The service at one endpoint, with one configuration's credentials.
#[derive(Clone, Debug)]
pub(in crate::aws) struct JsonClient {
    service: &'static JsonService,
    url: String,
    config: Arc<SdkConfig>,
    identities: SharedIdentityCache,
    /// Corrects the time of signatures once an answer shows that this machine's clock is wrong.
    clock_skew: SharedInterceptor,
}

/// How a call is made.
#[derive(Clone, Debug)]
pub(in crate::aws) enum Manner {
    /// Once, as the wire is told; the caller limits the time.
    Once(RequestKind),
    /// With the configured retries, each attempt within the first time, all within the second.
    Retried(Duration, Duration),
}

#[derive(Debug)]
struct JsonCall {
    service: &'static JsonService,
    operation: &'static str,
    body: Bytes,
}

impl JsonClient {
    /// The service of `config`'s region, or at the endpoint that is configured for it or for all services, with the
    /// credentials and the HTTP client of `config`.
    pub(in crate::aws) fn new(service: &'static JsonService, config: &SdkConfig) -> Self {
        let url = configured_endpoint(service, config);
        let url = url.unwrap_or_else(|| regional_endpoint(service, config));
        let identities = config.identity_cache();
        let identities = identities.unwrap_or_else(|| IdentityCache::lazy().build());
        let clock_skew = SharedInterceptor::new(ServiceClockSkewInterceptor::new());
        Self { service, url, config: Arc::new(config.clone()), identities, clock_skew }
    }

    /// Makes one call with a JSON body, and returns the answer's. The error's code is the `Reason` of the exception, or
    /// its name if it has none.
    pub(in crate::aws) async fn call(
        &self,
        operation: &'static str,
        body: Bytes,
        manner: Manner,
    ) -> Result<Value, SdkError<ErrorMetadata, HttpResponse>> {
        let call = Operation::builder()
            .service_name(self.service.name)
            .operation_name(operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.url)
            .runtime_plugin(self.signing())
            .serializer(serialize)
            .deserializer(read);
        let call = match manner {
            Manner::Once(kind) => {
                call.no_retry().timeout_config(TimeoutConfig::disabled()).interceptor(kind)
            }
            Manner::Retried(attempt, all) => {
                let retries = self.config.retry_config().cloned();
                call.standard_retry(&retries.unwrap_or_else(RetryConfig::standard))
                    .interceptor(self.clock_skew.clone())
                    .retry_classifier(ServiceClockSkewClassifier::<ErrorMetadata>::new())
                    .retry_classifier(TransientErrorClassifier::<ErrorMetadata>::new())
                    .retry_classifier(AwsErrorCodeClassifier::<ErrorMetadata>::new())
                    .retry_classifier(HttpStatusCodeClassifier::default())
                    .timeout_config(time_limits(attempt, all))
            }
        };
        Box::pin(call.build().invoke(JsonCall { service: self.service, operation, body })).await
    }

    /// Signature Version 4 with the configuration's credentials, on its HTTP client.
    fn signing(&self) -> SharedRuntimePlugin {
        let mut layer = Layer::new("signing");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig {
            region: self.config.region().cloned().map(Into::into),
            name: Some(aws_types::SigningName::from_static(self.service.name)),
            ..SigV4OperationSigningConfig::default()
        });
        let scheme = StaticAuthSchemeOptionResolver::new(vec![SCHEME_ID]);
        let mut parts = RuntimeComponentsBuilder::new("signing")
            .with_auth_scheme(SigV4AuthScheme::new())
            .with_auth_scheme_option_resolver(Some(scheme))
            .with_identity_cache(Some(self.identities.clone()))
            .with_http_client(self.config.http_client())
            .with_time_source(self.config.time_source())
            .with_sleep_impl(self.config.sleep_impl());
        if let Some(credentials) = self.config.credentials_provider() {
            parts.set_identity_resolver(SCHEME_ID, credentials);
        }
        let plugin = StaticRuntimePlugin::new().with_config(layer.freeze());
        SharedRuntimePlugin::new(plugin.with_runtime_components(parts))
    }
}

fn serialize(JsonCall { service, operation, body }: JsonCall) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("user-agent", USER_AGENT);
    request.headers_mut().insert("content-type", service.content_type);
    request.headers_mut().try_insert("x-amz-target", format!("{}.{operation}", service.target))?;
    Ok(request)
}

/// The endpoint that the code sets, else that of the service or of all services in the
/// environment or the profile: the order of the SDK's clients
/// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html>).
fn configured_endpoint(service: &JsonService, config: &SdkConfig) -> Option<String> {
    let general = config.endpoint_url().map(str::to_owned);
    if config.get_origin("endpoint_url").is_client_config() {
        return general;
    }
    let key = ServiceConfigKey::builder().service_id(service.id).env("AWS_ENDPOINT_URL");
    let key = key.profile("endpoint_url").build().ok()?;
    config.service_config().and_then(|settings| settings.load_config(key)).or(general)
}

/// The SDK's rule set (`endpoint-rule-set-1.json` of `pinpoint-sms-voice-v2`).
fn regional_endpoint(service: &JsonService, config: &SdkConfig) -> String {
    let region = config.region().map_or("", AsRef::as_ref);
    let found = DOMAINS.into_iter().find(|(begin, ..)| region.starts_with(begin));
    let (_, plain, dual_stack) = found.unwrap_or(COMMERCIAL);
    let domain = if config.use_dual_stack() == Some(true) { dual_stack } else { plain };
    let fips = if config.use_fips() == Some(true) { "-fips" } else { "" };
    format!("https://{}{fips}.{region}.{domain}", service.name)
}

/// Reads an answer: JSON, or an error with `__type`, and perhaps `Message` and `Reason`.
fn read(answer: &HttpResponse) -> Result<Value, OrchestratorError<ErrorMetadata>> {
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

#[cfg(test)]
mod tests;
