//! Calls a service without its SDK, where the SDK has a hundred operations and Tidegate makes one to three: End User
//! Messaging has 10 MB of source, and IAM takes longer to build than S3. Signature, retries and time limits are the
//! SDK's code, which every other client uses, too (decision 52).

use std::sync::Arc;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_runtime::auth::SigV4OperationSigningConfig;
use aws_runtime::auth::sigv4::{SCHEME_ID, SigV4AuthScheme};
use aws_runtime::retries::classifiers::AwsErrorCodeClassifier;
use aws_runtime::service_clock_skew::{ServiceClockSkewClassifier, ServiceClockSkewInterceptor};
use aws_smithy_runtime::client::identity::IdentityCache;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{
    HttpStatusCodeClassifier, TransientErrorClassifier,
};
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

use crate::aws::wire::RequestKind;

const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

pub type CallError = SdkError<ErrorMetadata, HttpResponse>;

/// Where a service is.
#[derive(Clone, Debug)]
pub(crate) struct ServiceEndpoint {
    /// The name that signatures and permissions have, such as `sms-voice`.
    pub(crate) service: &'static str,
    pub(crate) url: String,
    /// The region of the signature.
    pub(crate) region: Option<Region>,
}

/// The endpoint that the code sets, else that of the service, called `id` by the SDK, or of all services in the
/// environment or the profile: the order of the SDK's clients
/// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html>).
pub(crate) fn configured_endpoint(config: &SdkConfig, id: &str) -> Option<String> {
    let general = config.endpoint_url().map(str::to_owned);
    if config.get_origin("endpoint_url").is_client_config() {
        return general;
    }
    let key = ServiceConfigKey::builder().service_id(id).env("AWS_ENDPOINT_URL");
    let key = key.profile("endpoint_url").build().ok()?;
    config.service_config().and_then(|settings| settings.load_config(key)).or(general)
}

/// A service at one endpoint, with one configuration's credentials.
#[derive(Clone, Debug)]
pub(crate) struct ServiceClient {
    pub(crate) endpoint: ServiceEndpoint,
    config: Arc<SdkConfig>,
    identities: SharedIdentityCache,
    /// Corrects the time of signatures once an answer shows that this machine's clock is wrong.
    clock_skew: SharedInterceptor,
}

/// How a call is made.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// Once, as the wire is told; the caller limits the time.
    #[cfg_attr(not(feature = "sms"), expect(dead_code, reason = "IAM's calls are retried"))]
    Once(RequestKind),
    /// With the configured retries, each attempt within the first time, all within the second.
    Retried(Duration, Duration),
}

/// A call's operation, the headers of its protocol and its body.
#[derive(Debug)]
pub(crate) struct ServiceCall {
    pub(crate) operation: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

/// An answer's value, or the service's error.
pub(crate) type ReadAnswer<T> = Result<T, OrchestratorError<ErrorMetadata>>;

impl ServiceClient {
    /// The service at `endpoint`, with the credentials and the HTTP client of `config`.
    pub(crate) fn new(config: &SdkConfig, endpoint: ServiceEndpoint) -> Self {
        let identities = config.identity_cache();
        let identities = identities.unwrap_or_else(|| IdentityCache::lazy().build());
        let clock_skew = SharedInterceptor::new(ServiceClockSkewInterceptor::new());
        Self { endpoint, config: Arc::new(config.clone()), identities, clock_skew }
    }

    pub(crate) async fn call<T: std::fmt::Debug + Send + Sync + 'static>(
        &self,
        request: ServiceCall,
        manner: Manner,
        read: impl Fn(&HttpResponse) -> ReadAnswer<T> + Send + Sync + 'static,
    ) -> Result<T, CallError> {
        let call = Operation::builder()
            .service_name(self.endpoint.service)
            .operation_name(request.operation)
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.endpoint.url)
            .runtime_plugin(self.signing())
            .serializer(serialize)
            .deserializer(read);
        let call = match manner {
            Manner::Once(kind) => {
                call.no_retry().timeout_config(TimeoutConfig::disabled()).interceptor(kind)
            }
            Manner::Retried(attempt, all) => {
                let limits = TimeoutConfig::builder();
                let limits = limits.operation_attempt_timeout(attempt).operation_timeout(all);
                let retries = self.config.retry_config().cloned();
                call.standard_retry(&retries.unwrap_or_else(RetryConfig::standard))
                    .interceptor(self.clock_skew.clone())
                    .retry_classifier(ServiceClockSkewClassifier::<ErrorMetadata>::new())
                    .retry_classifier(TransientErrorClassifier::<ErrorMetadata>::new())
                    .retry_classifier(AwsErrorCodeClassifier::<ErrorMetadata>::new())
                    .retry_classifier(HttpStatusCodeClassifier::default())
                    .timeout_config(limits.build())
            }
        };
        Box::pin(call.build().invoke(request)).await
    }

    /// Signature Version 4 with the configuration's credentials, on its HTTP client.
    fn signing(&self) -> SharedRuntimePlugin {
        let mut layer = Layer::new("signing");
        layer.store_put(AuthSchemeOptionResolverParams::new(()));
        layer.store_put(SigV4OperationSigningConfig {
            region: self.endpoint.region.clone().map(Into::into),
            name: Some(aws_types::SigningName::from_static(self.endpoint.service)),
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

fn serialize(
    call: ServiceCall,
) -> Result<HttpRequest, aws_smithy_runtime_api::box_error::BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(call.body));
    request.set_method("POST")?;
    request.set_uri("/")?;
    request.headers_mut().insert("user-agent", USER_AGENT);
    for (name, value) in call.headers {
        request.headers_mut().try_insert(name, value)?;
    }
    Ok(request)
}
