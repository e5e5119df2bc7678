//! An OTLP endpoint for traces: a collector, or a Lambda extension. It is called through the SDK's HTTP client, without a signature.

use std::time::Duration;

use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponentsBuilder;
use aws_smithy_runtime_api::client::runtime_plugin::{SharedRuntimePlugin, StaticRuntimePlugin};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::error::ErrorMetadata;
use serde_json::Value;
use tidegate_delivery::ports::PortError;

use super::error::{port_error, time_limits};

/// The time limit of a call, which is not repeated: spans that are lost are no mail.
const OPERATION: Duration = Duration::from_secs(1);

/// An endpoint that takes spans.
#[derive(Clone, Debug)]
pub struct TraceEndpoint {
    server: String,
    path: String,
    config: SdkConfig,
}

impl TraceEndpoint {
    /// The endpoint at `url`, with the HTTP client of `config`.
    pub fn new(config: &SdkConfig, url: impl Into<String>) -> Self {
        let mut server = url.into();
        let host = server.find("://").map_or(0, |scheme| scheme + 3);
        let path = server[host..].find('/').map(|path| server.split_off(host + path));
        Self { server, path: path.unwrap_or_default(), config: config.clone() }
    }

    /// Puts the body of a request to it.
    ///
    /// # Errors
    /// [`PortError`] if it is not known whether the spans were taken.
    pub async fn put(&self, body: Value) -> Result<(), PortError> {
        let parts = RuntimeComponentsBuilder::new("otlp")
            .with_http_client(self.config.http_client())
            .with_time_source(self.config.time_source())
            .with_sleep_impl(self.config.sleep_impl());
        let plugin = StaticRuntimePlugin::new().with_runtime_components(parts);
        let call = Operation::builder()
            .service_name("otlp")
            .operation_name("Export")
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.server)
            .no_auth()
            .no_retry()
            .timeout_config(time_limits(OPERATION, OPERATION))
            .runtime_plugin(SharedRuntimePlugin::new(plugin))
            .serializer(request)
            .deserializer(read);
        let put = Box::pin(
            call.build().invoke(Export { path: self.path.clone(), body: body.to_string() }),
        )
        .await;
        put.map_err(|error| port_error("Export", &self.server, error))
    }
}

/// A request, before it is written.
#[derive(Debug)]
struct Export {
    path: String,
    body: String,
}

fn request(Export { path, body }: Export) -> Result<HttpRequest, BoxError> {
    let mut request = HttpRequest::new(SdkBody::from(body));
    request.set_method("POST")?;
    request.set_uri(path)?;
    request.headers_mut().insert("content-type", "application/json");
    Ok(request)
}

fn read(answer: &HttpResponse) -> Result<(), OrchestratorError<ErrorMetadata>> {
    if answer.status().is_success() {
        return Ok(());
    }
    Err(OrchestratorError::operation(ErrorMetadata::builder().build()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_delivery::ports::FailureKind;

    use super::*;
    use crate::aws::Wire;
    use crate::aws::tests::fake::{Fake, FakeAnswer, config};
    use crate::aws::tests::loopback::{EndpointBehaviour, Loopback};

    #[tokio::test]
    async fn spans_go_out_by_the_functions_own_connections() {
        let server = Loopback::start(EndpointBehaviour::Answer("{}", Duration::ZERO)).await;
        let url = format!("{}/v1/traces", server.url());
        let endpoint = TraceEndpoint::new(&config(Wire::new()), url);
        for _ in 0..2 {
            endpoint.put(json!({ "resourceSpans": [] })).await.unwrap();
        }
        assert_eq!((server.requests(), server.connections()), (2, 1));
    }

    #[tokio::test]
    async fn spans_are_put_once_to_the_endpoints_own_path_without_a_signature() {
        let service = Fake::new([FakeAnswer::Http(503, &[], String::new())]);
        let endpoint = TraceEndpoint::new(&service.config(), "http://localhost:4318/v1/traces");
        let body = json!({ "resourceSpans": [] });
        let error = endpoint.put(body.clone()).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Refused("HTTP 503".to_owned()));
        let seen = service.seen();
        assert_eq!((seen.len(), seen[0].path.as_str()), (1, "http://localhost:4318/v1/traces"));
        assert_eq!(seen[0].body, body);
        assert_eq!(seen[0].header("content-type"), Some("application/json"));
        assert_eq!(seen[0].header("authorization"), None);
    }
}
