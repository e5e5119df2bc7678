//! Services that are called in an AWS JSON protocol without a client of the SDK: their SDKs have a hundred operations, and
//! Tidegate makes one or three. Signature, retries and time limits are the SDK's code, which every other client uses, too
//! (decision 52).

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
use serde_json::Value;

use super::error::time_limits;
#[cfg(feature = "sms")]
use super::wire::RequestKind;

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
    #[cfg(feature = "sms")]
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
            #[cfg(feature = "sms")]
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
