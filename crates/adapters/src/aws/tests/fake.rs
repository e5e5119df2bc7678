//! A fake service for unit tests: an HTTP client that gives prepared answers and records requests.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use aws_credential_types::Credentials;
use aws_sdk_sqs::config::Region;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use serde_json::Value;

/// The fake's reaction to one request.
pub(crate) enum FakeAnswer {
    /// Answers with status, headers and body.
    Http(u16, &'static [(&'static str, &'static str)], String),
    /// Answers with a status and a body computed from the request's body.
    Of(fn(&Value) -> (u16, String)),
    Break,
    Silence,
}

/// A request as the fake received it.
#[derive(Debug)]
pub(crate) struct SeenRequest {
    pub(crate) target: Option<String>,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    /// The body as JSON; null if it is none.
    pub(crate) body: Value,
}

impl SeenRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Clone, Default)]
pub(crate) struct Fake {
    answers: Arc<Mutex<VecDeque<FakeAnswer>>>,
    /// An answer that is always given to one operation, in place of `answers`.
    always: Option<(&'static str, String)>,
    seen: Arc<Mutex<Vec<SeenRequest>>>,
}

macro_rules! client {
    ($name:ident, $sdk:ident) => {
        pub(crate) fn $name(&self) -> $sdk::Client {
            let config = $sdk::Config::builder()
                .behavior_version($sdk::config::BehaviorVersion::latest())
                .region(Region::from_static("eu-west-1"))
                .credentials_provider(Credentials::new("AKID", "secret", None, None, "test"))
                .http_client(self.clone());
            $sdk::Client::from_conf(config.build())
        }
    };
}

impl Fake {
    /// A service that gives `answers` one after the other and then breaks every connection.
    pub(crate) fn new(answers: impl IntoIterator<Item = FakeAnswer>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    pub(crate) fn once(status: u16, body: &str) -> Self {
        Self::new([FakeAnswer::Http(status, &[], body.to_owned())])
    }

    /// Also answers `body` to every call of `operation`; [`Fake::seen`] does not return those calls.
    pub(crate) fn always(self, operation: &'static str, body: &Value) -> Self {
        Self { always: Some((operation, body.to_string())), ..self }
    }

    /// The configuration of a client without an SDK of its own.
    pub(crate) fn config(&self) -> aws_config::SdkConfig {
        config(self.clone())
    }

    client!(sqs, aws_sdk_sqs);
    client!(ses, aws_sdk_sesv2);
    client!(lambda, aws_sdk_lambda);
    client!(dynamodb, aws_sdk_dynamodb);
    client!(s3, aws_sdk_s3);

    /// Takes the requests received so far out of the record.
    pub(crate) fn seen(&self) -> Vec<SeenRequest> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl fmt::Debug for Fake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fake")
    }
}

impl HttpClient for Fake {
    fn http_connector(
        &self,
        _: &HttpConnectorSettings,
        _: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Fake {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        if let Some((operation, body)) = &self.always
            && request.headers().get("x-amz-target").is_some_and(|it| it.ends_with(operation))
        {
            return HttpConnectorFuture::ready(Ok(response(200, &[], body.clone())));
        }
        let body = request.body().bytes().unwrap();
        self.seen.lock().unwrap().push(SeenRequest {
            target: request.headers().get("x-amz-target").map(ToOwned::to_owned),
            path: request.uri().to_owned(),
            headers: request.headers().iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        });
        let answer = match self.answers.lock().unwrap().pop_front() {
            Some(FakeAnswer::Of(answer)) => {
                let seen = self.seen.lock().unwrap();
                let (status, body) = answer(&seen.last().unwrap().body);
                Some(FakeAnswer::Http(status, &[], body))
            }
            answer => answer,
        };
        HttpConnectorFuture::new(async move {
            match answer {
                Some(FakeAnswer::Http(status, headers, body)) => {
                    Ok(response(status, headers, body))
                }
                Some(FakeAnswer::Silence) => std::future::pending().await,
                Some(FakeAnswer::Break | FakeAnswer::Of(_)) | None => {
                    Err(ConnectorError::io("connection reset".into()))
                }
            }
        })
    }
}

/// A configuration on any HTTP client.
pub(crate) fn config(http: impl HttpClient + 'static) -> aws_config::SdkConfig {
    use aws_credential_types::provider::SharedCredentialsProvider;
    let credentials = Credentials::new("AKID", "secret", None, None, "test");
    aws_config::SdkConfig::builder()
        .behavior_version(aws_config::BehaviorVersion::latest())
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(http)
        .build()
}

fn response(status: u16, headers: &[(&'static str, &'static str)], body: String) -> HttpResponse {
    let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
    for &(name, value) in headers {
        response.headers_mut().insert(name, value);
    }
    response
}
