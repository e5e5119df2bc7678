//! Calls AWS End User Messaging without its SDK, which has 10 MB of source for a hundred operations: Tidegate makes three.
//! Endpoint, signature, retries and time limits are the SDK's code, which every other client uses, too.
//!
//! The protocol is [AWS JSON 1.0](https://smithy.io/2.0/aws/protocols/aws-json-1_0-protocol.html).

use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_smithy_runtime::client::identity::IdentityCache;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{
    HttpStatusCodeClassifier, TransientErrorClassifier,
};
use aws_smithy_runtime_api::client::auth::AuthSchemeOptionResolverParams;
use aws_smithy_runtime_api::client::auth::static_resolver::StaticAuthSchemeOptionResolver;
use aws_smithy_runtime_api::client::identity::SharedIdentityCache;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{SharedRuntimePlugin, StaticRuntimePlugin};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::Layer;
use aws_smithy_types::error::ErrorMetadata;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use hyper::body::Bytes;
use serde_json::Value;

use crate::wire::RequestKind;

/// The prefix of the header that names the operation.
const TARGET: &str = "PinpointSMSVoiceV2";
/// The name that signatures and permissions have.
const SERVICE: &str = "sms-voice";

pub(super) type CallError = SdkError<ErrorMetadata, HttpResponse>;

/// The service in one region, with one client's credentials.
#[derive(Clone, Debug)]
pub(super) struct SmsClient {
    url: String,
    region: Option<Region>,
    config: Arc<SdkConfig>,
    identities: SharedIdentityCache,
}

/// How a call is made.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// Once, as the wire is told; the caller limits the time.
    Once(RequestKind),
    /// With the SDK's standard retries, each attempt within the first time, all within the second.
    Retried(Duration, Duration),
}

impl SmsClient {
    /// The service as `config` reaches it: at its own endpoint, unless `AWS_ENDPOINT_URL_PINPOINT_SMS_VOICE_V2` (`own`)
    /// or `AWS_ENDPOINT_URL` names another one.
    pub(super) fn new(config: &SdkConfig, own: Option<String>) -> Self {
        let region = config.region().cloned();
        let name = region.as_ref().map_or("", AsRef::as_ref);
        let given = own.or_else(|| config.endpoint_url().map(str::to_owned));
        let url = given.unwrap_or_else(|| format!("https://{SERVICE}.{name}.amazonaws.com"));
        let identities = config.identity_cache();
        let identities = identities.unwrap_or_else(|| IdentityCache::lazy().build());
        Self { url, region, config: Arc::new(config.clone()), identities }
    }

    /// Makes one call with a JSON body, and returns the answer's. The error's code is the `Reason` of the exception, or
    /// its name if it has none.
    pub(super) async fn call(
        &self,
        operation: &'static str,
        body: Bytes,
        manner: Manner,
    ) -> Result<Value, CallError> {
        let call = Operation::builder()
            .service_name(SERVICE)
            .operation_name(operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.url)
            .runtime_plugin(self.signing())
            .serializer(move |body: Bytes| {
                let mut request = HttpRequest::new(SdkBody::from(body));
                request.set_method("POST")?;
                request.set_uri("/")?;
                let headers = request.headers_mut();
                headers.insert("content-type", "application/x-amz-json-1.0");
                headers.insert("x-amz-target", format!("{TARGET}.{operation}"));
                Ok(request)
            })
            .deserializer(read);
        let call = match manner {
            Manner::Once(kind) => {
                call.no_retry().timeout_config(TimeoutConfig::disabled()).interceptor(kind)
            }
            Manner::Retried(attempt, all) => {
                let limits = TimeoutConfig::builder();
                let limits = limits.operation_attempt_timeout(attempt).operation_timeout(all);
                call.standard_retry(&RetryConfig::standard())
                    .retry_classifier(TransientErrorClassifier::<ErrorMetadata>::new())
                    .retry_classifier(HttpStatusCodeClassifier::default())
                    .timeout_config(limits.build())
            }
        };
        Box::pin(call.build().invoke(body)).await
    }

    /// Signature Version 4 with the configuration's credentials, on its HTTP client.
    fn signing(&self) -> SharedRuntimePlugin {
        let mut layer = Layer::new("signing");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig {
            region: self.region.clone().map(Into::into),
            name: Some(aws_types::SigningName::from_static(SERVICE)),
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
