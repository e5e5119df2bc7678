//! Pages of the programs on loopback.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use tidegate_core::in_full;

use super::error::LocalError;

const TIMEOUT: Duration = Duration::from_secs(10);

/// One server's pages; clones share its connections.
#[derive(Clone, Debug)]
pub(super) struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
}

impl Http {
    pub(super) fn new(base: impl Into<String>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, base: base.into() }
    }

    pub(super) fn base(&self) -> &str {
        &self.base
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, LocalError> {
        let text = self.call(Method::GET, path, &[], String::new()).await?;
        serde_json::from_slice(&text).map_err(|error| self.failed(path, &error))
    }

    /// Any call that succeeds: its answer's body.
    pub(super) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<Vec<u8>, LocalError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::from(body)).map_err(|error| self.failed(path, &error))?;
        let answer = tokio::time::timeout(TIMEOUT, async {
            let answer = self.client.request(request).await.map_err(|e| self.failed(path, &e))?;
            let status = answer.status();
            let body = answer.into_body().collect().await.map_err(|e| self.failed(path, &e))?;
            Ok::<_, LocalError>((status, body.to_bytes().to_vec()))
        });
        let (status, body) = answer.await.map_err(|error| self.failed(path, &error))??;
        if status.is_success() {
            return Ok(body);
        }
        Err(LocalError::Http {
            url: format!("{}{path}", self.base),
            reason: format!("{status}: {}", String::from_utf8_lossy(&body)),
        })
    }

    fn failed(&self, path: &str, error: &(dyn std::error::Error + 'static)) -> LocalError {
        LocalError::Http { url: format!("{}{path}", self.base), reason: in_full(error) }
    }
}
