//! Verifies [AWS's Signature Version 4](https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html)
//! of a request to SES: it is signed again, with the secret of the relay's own key pair.

use std::time::Duration;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use aws_smithy_runtime_api::box_error::BoxError;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use subtle::ConstantTimeEq as _;
use tidegate_core::outcome::{Failure, answered};
use tidegate_core::{Timestamp, in_full};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use super::logins::KeyPairs;
use crate::send::fingerprint;

/// The names that SES is signed for: that of the SDKs, and that of its host names.
const SERVICES: [&str; 2] = ["ses", "email"];
/// How far a request's date may be off, either way. AWS allows 15 minutes.
const MOST_SKEW: Duration = Duration::from_mins(5);

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// The access key that a request names, whether it signed it or not.
pub(crate) fn named_key(head: &Parts) -> Option<String> {
    let given = head.headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (_, credential) = given.split_once("Credential=")?;
    credential.split_once('/').map(|(access_key, _)| access_key.to_owned())
}

fn incomplete(message: impl Into<String>) -> Failure {
    answered(400, "IncompleteSignatureException", message)
}

fn mismatch(message: impl Into<String>) -> Failure {
    answered(403, "InvalidSignatureException", message)
}

fn unknown(message: &str) -> Failure {
    answered(403, "UnrecognizedClientException", message)
}

/// A header that may stand once.
fn header<'a>(head: &'a Parts, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut all = head.headers.get_all(name).iter();
    match (all.next().map(HeaderValue::to_str), all.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value)),
        _ => Err(incomplete(format!("Header {name} must stand once, in ASCII."))),
    }
}

/// The signature of a request, in its parts.
///
/// Failures have SES's codes: `MissingAuthenticationTokenException`, `IncompleteSignatureException` for what cannot be
/// read or is not taken, `UnrecognizedClientException` for an unknown access key or a session token, `RequestExpired` for
/// a date that is off by more than five minutes, and `InvalidSignatureException`.
pub(crate) struct Signature<'a> {
    pub(crate) access_key: &'a str,
    region: &'a str,
    service: &'a str,
    /// Names of the headers that are signed.
    headers: Vec<&'a str>,
    value: &'a str,
    /// The request's date as it is written, `20261128T123600Z`, and read.
    date: &'a str,
    at: OffsetDateTime,
}

impl<'a> Signature<'a> {
    /// Reads it; `head` is as it was received, with path and query still encoded.
    pub(crate) fn read(head: &'a Parts) -> Result<Self, Failure> {
        let query = head.uri.query().unwrap_or_default().to_ascii_lowercase();
        if query.split('&').any(|parameter| parameter.starts_with("x-amz-")) {
            let message = "X-Amz-… in the query: presigned requests are not taken, sign in the header Authorization.";
            return Err(incomplete(message));
        }
        if head.headers.contains_key("x-amz-security-token") {
            let message = "X-Amz-Security-Token: session tokens are not taken, sign with a key pair of the relay's file.";
            return Err(unknown(message));
        }
        let Some(authorization) = header(head, &AUTHORIZATION)? else {
            let message = "Request is missing Authentication Token";
            return Err(answered(403, "MissingAuthenticationTokenException", message));
        };
        let needed = || {
            incomplete(
                "Authorization must be 'AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/ses/aws4_request, \
                 SignedHeaders=host;x-amz-date, Signature=HEX'.",
            )
        };
        let fields = authorization.strip_prefix("AWS4-HMAC-SHA256 ").ok_or_else(needed)?;
        let field = |name| {
            let mut fields = fields.split(',');
            fields.find_map(|field| field.trim().strip_prefix(name)).ok_or_else(needed)
        };
        let (access_key, scope) = field("Credential=")?.split_once('/').ok_or_else(needed)?;
        let parts: Vec<&str> = scope.split('/').collect();
        let [day, region, service, "aws4_request"] = parts[..] else { return Err(needed()) };
        if !SERVICES.contains(&service) {
            return Err(mismatch("Credential should be scoped to correct service: 'ses'."));
        }
        let headers: Vec<&str> = field("SignedHeaders=")?.split(';').collect();
        if let Some(name) = [HOST, DATE].iter().find(|name| !headers.contains(&name.as_str())) {
            return Err(mismatch(format!("{name} must be one of SignedHeaders.")));
        }
        if let Some(absent) = headers.iter().find(|name| !head.headers.contains_key(**name)) {
            return Err(mismatch(format!(
                "SignedHeaders has {absent:?}, and the request has not."
            )));
        }
        let date = header(head, &DATE)?.unwrap_or_default();
        let form = format_description!("[year][month][day]T[hour][minute][second]Z");
        let at = PrimitiveDateTime::parse(date, form).map(PrimitiveDateTime::assume_utc);
        let (Ok(at), true) = (at, date.split('T').next() == Some(day)) else {
            let message =
                "X-Amz-Date must be a time like 20261128T123600Z, on the day of the credential.";
            return Err(incomplete(message));
        };
        let value = field("Signature=")?;
        Ok(Self { access_key, region, service, headers, value, date, at })
    }

    /// The secret of its access key.
    pub(crate) fn secret<'b>(&self, keys: &'b KeyPairs) -> Result<&'b str, Failure> {
        let pair = keys.get(self.access_key).map(|pair| pair.secret.as_str());
        pair.ok_or_else(|| unknown("The security token included in the request is invalid."))
    }

    /// Checks that the request was signed with the secret of its access key.
    pub(crate) fn verify(
        &self,
        keys: &KeyPairs,
        head: &Parts,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), Failure> {
        if self.at.unix_timestamp_nanos().abs_diff(now.as_nanos().into()) > MOST_SKEW.as_nanos() {
            let (date, minutes) = (self.date, MOST_SKEW.as_secs() / 60);
            let message = format!(
                "Signature expired: X-Amz-Date {date} is more than {minutes} minutes off the relay's clock."
            );
            return Err(answered(400, "RequestExpired", message));
        }
        let body = fingerprint(body);
        if header(head, &CONTENT_HASH)?.is_some_and(|given| given != body) {
            let message = "X-Amz-Content-Sha256 must be the body's SHA-256 in hex: UNSIGNED-PAYLOAD and streams are \
                           not taken.";
            return Err(mismatch(message));
        }
        let right = self.expected(head, body, self.secret(keys)?);
        let right = right.map_err(|error| mismatch(in_full(&*error)))?;
        if bool::from(right.as_bytes().ct_eq(self.value.as_bytes())) {
            return Ok(());
        }
        Err(mismatch(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
             Access Key and signing method. Consult the service documentation for details.",
        ))
    }

    /// The signature that the request has if it was signed with `secret`; `body` is the hash of its body.
    fn expected(&self, head: &Parts, body: String, secret: &str) -> Result<String, BoxError> {
        let identity = Credentials::new(self.access_key, secret, None, None, "relay").into();
        let mut settings = SigningSettings::default();
        // Signed is what the client says, as it was sent.
        settings.excluded_headers = None;
        settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
        let params = SigningParams::builder().identity(&identity).settings(settings);
        let params = params.region(self.region).name(self.service).time(self.at.into()).build()?;
        let mut headers = Vec::new();
        for name in &self.headers {
            for value in head.headers.get_all(*name) {
                headers.push((*name, value.to_str()?));
            }
        }
        let body = SignableBody::Precomputed(body);
        let (method, uri) = (head.method.as_str(), head.uri.to_string());
        let request = SignableRequest::new(method, uri, headers.into_iter(), body)?;
        Ok(sign(request, &params.into())?.signature().to_owned())
    }
}

#[cfg(test)]
mod tests;
