//! The destination of a request: scheme and authority.

use aws_smithy_types::body::SdkBody;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri};

use super::error::WireError;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    scheme: Scheme,
    authority: Authority,
}

impl Origin {
    /// The origin of `uri`; an error if scheme or authority is missing.
    pub(super) fn of(uri: &Uri) -> Result<Self, WireError> {
        match (uri.scheme(), uri.authority()) {
            (Some(scheme), Some(authority)) => {
                Ok(Self { scheme: scheme.clone(), authority: authority.clone() })
            }
            _ => Err(WireError::Address(uri.clone())),
        }
    }

    pub(super) fn uri(&self) -> Result<Uri, http::Error> {
        let builder = Uri::builder().scheme(self.scheme.clone());
        builder.authority(self.authority.clone()).path_and_query("/").build()
    }

    /// Converts an absolute request to one for this origin: path and `Host` header.
    pub(super) fn strip(&self, request: &mut Request<SdkBody>) {
        let path = request.uri().path_and_query().cloned();
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
        if !request.headers().contains_key(HOST)
            && let Ok(host) = HeaderValue::from_str(self.host())
        {
            request.headers_mut().insert(HOST, host);
        }
    }

    /// The authority without the scheme's default port, as it was signed.
    fn host(&self) -> &str {
        let is_default = match self.authority.port_u16() {
            Some(443) => self.scheme == Scheme::HTTPS,
            Some(80) => self.scheme == Scheme::HTTP,
            _ => false,
        };
        if is_default { self.authority.host() } else { self.authority.as_str() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(uri: &'static str) -> (String, String) {
        let mut request = Request::new(SdkBody::empty());
        *request.uri_mut() = Uri::from_static(uri);
        Origin::of(request.uri()).unwrap().strip(&mut request);
        (request.uri().to_string(), request.headers()[HOST].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_request_keeps_its_path_and_names_the_host_as_it_was_signed() {
        let pair = |path: &str, host: &str| (path.to_owned(), host.to_owned());
        assert_eq!(stripped("https://a.example/v2/x?y=1"), pair("/v2/x?y=1", "a.example"));
        assert_eq!(stripped("https://a.example:443"), pair("/", "a.example"));
        assert_eq!(stripped("http://127.0.0.1:4566/"), pair("/", "127.0.0.1:4566"));
        assert_eq!(stripped("http://a.example:443/"), pair("/", "a.example:443"));
    }

    #[test]
    fn an_address_without_a_host_is_refused_by_name() {
        let error = Origin::of(&Uri::from_static("/v2/email")).unwrap_err();
        assert!(error.to_string().contains("/v2/email"));
    }
}
