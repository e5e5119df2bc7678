//! Verifies [AWS's Signature Version 4](https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html)
//! of a request to SES, against the key pairs of a file.
//!
//! ```json
//! {"RELAYNEWS": {"secret": "…", "campaigns": ["news"], "senders": ["news@example.org", "*@example.net"]}}
//! ```
//!
//! A key pair is the relay's own and unknown to AWS. `campaigns` and `senders` are what it may be used for; all where they
//! are left out.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use serde::{Deserialize, Deserializer, de};
use subtle::ConstantTimeEq as _;
use tidegate_core::Timestamp;
use tidegate_core::email::AllowedSenders;
use tidegate_core::outcome::{Failure, answered};
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::send::fingerprint;

/// The names that SES is signed for: that of the SDKs, and that of its host names.
const SERVICES: [&str; 2] = ["ses", "email"];
/// How far a request's date may be off, either way. AWS allows 15 minutes.
const MOST_SKEW: Duration = Duration::from_mins(5);
/// Fewest bytes of a secret. AWS's have 40.
const FEWEST_SECRET_BYTES: usize = 16;
/// Signs for an access key that is not there, which then takes as long as one that is.
const SECRET_OF_NOBODY: &str = "0000000000000000000000000000000000000000";

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT_HASH: HeaderName = HeaderName::from_static("x-amz-content-sha256");

/// Encoded are all but unreserved characters (RFC 3986, 2.3).
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const RESERVED_IN_PATHS: &AsciiSet = &RESERVED.remove(b'/');

/// The key pairs of a file, by access key. It is not shown: it has the secrets.
#[derive(Deserialize)]
pub(crate) struct KeyPairs(BTreeMap<String, KeyPair>);

/// A secret, and what it may be used for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyPair {
    #[serde(deserialize_with = "read_secret")]
    secret: String,
    /// The campaigns that it may name; none if it may name all.
    pub(crate) campaigns: Option<Vec<String>>,
    /// The senders whose mail it may hand over.
    #[serde(default = "AllowedSenders::everyone", deserialize_with = "read_senders")]
    pub(crate) senders: AllowedSenders,
}

fn read_secret<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    let secret = String::deserialize(input)?;
    if secret.len() < FEWEST_SECRET_BYTES {
        let problem = format_args!("must have at least {FEWEST_SECRET_BYTES} bytes");
        return Err(de::Error::custom(problem));
    }
    Ok(secret)
}

fn read_senders<'de, D: Deserializer<'de>>(input: D) -> Result<AllowedSenders, D::Error> {
    Vec::<String>::deserialize(input)?.join(",").parse().map_err(de::Error::custom)
}

impl KeyPairs {
    /// Reads a file's text. Errors begin with the place, such as `RELAYNEWS.secret: `.
    pub(crate) fn read(text: &str) -> Result<Self, serde_path_to_error::Error<serde_json::Error>> {
        serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text))
    }

    pub(crate) fn get(&self, access_key: &str) -> Option<&KeyPair> {
        self.0.get(access_key)
    }

    /// The secrets by access key, which are passwords by user for SMTP.
    pub(crate) fn passwords(&self) -> BTreeMap<String, String> {
        self.0.iter().map(|(name, pair)| (name.clone(), pair.secret.clone())).collect()
    }

    /// The access key that signed a request; `head` is as it was received, with path and query still encoded.
    ///
    /// # Errors
    /// In SES's codes: `MissingAuthenticationTokenException`, `IncompleteSignatureException` for what cannot be read or is
    /// not taken, `UnrecognizedClientException` for an unknown access key or a session token, `RequestExpired` for a date
    /// that is off by more than five minutes, and `InvalidSignatureException`.
    pub(crate) fn verify(
        &self,
        head: &Parts,
        body: &[u8],
        now: Timestamp,
    ) -> Result<&str, Failure> {
        let signature = Signature::read(head)?;
        let Signature { date, at, region, service, .. } = signature;
        if at.unix_timestamp_nanos().abs_diff(now.as_nanos().into()) > MOST_SKEW.as_nanos() {
            let minutes = MOST_SKEW.as_secs() / 60;
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
        let found = self.0.get_key_value(signature.access_key);
        let secret = found.map_or(SECRET_OF_NOBODY, |(_, pair)| &pair.secret);
        let key = generate_signing_key(secret, at.into(), region, service);
        let expected = calculate_signature(key, signature.text(head, &body).as_bytes());
        let is_right = bool::from(expected.as_bytes().ct_eq(signature.value.as_bytes()));
        match found {
            None => Err(unknown("The security token included in the request is invalid.")),
            Some((access_key, _)) if is_right => Ok(access_key),
            Some(_) => Err(mismatch(
                "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
                 Access Key and signing method. Consult the service documentation for details.",
            )),
        }
    }
}

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
struct Signature<'a> {
    access_key: &'a str,
    /// Day, region and service of the signing key: `20261128/eu-west-1/ses/aws4_request`.
    scope: &'a str,
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
    fn read(head: &'a Parts) -> Result<Self, Failure> {
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
        Ok(Self { access_key, scope, region, service, headers, value, date, at })
    }

    /// The text that is signed; `body` is the hash of the request's body.
    fn text(&self, head: &Parts, body: &str) -> String {
        // The path is encoded already. It is encoded once more, for every service but S3.
        let path = percent_encode(head.uri.path().as_bytes(), RESERVED_IN_PATHS);
        let query = canonical_query(head.uri.query().unwrap_or_default());
        let mut request = format!("{}\n{path}\n{query}\n", head.method).into_bytes();
        for name in &self.headers {
            let values = head.headers.get_all(*name).iter().map(|value| {
                let words = value.as_bytes().split(|byte| *byte == b' ');
                words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ')
            });
            let values = values.collect::<Vec<_>>().join(&b',');
            request.extend([name.as_bytes(), b":", &values, b"\n"].concat());
        }
        request.extend(format!("\n{}\n{body}", self.headers.join(";")).into_bytes());
        format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", self.date, self.scope, fingerprint(&request))
    }
}

/// Names and values, encoded alike and sorted.
fn canonical_query(query: &str) -> String {
    let encoded = |text: &str| {
        let bytes: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
        percent_encode(&bytes, RESERVED).to_string()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut pairs: Vec<[String; 2]> =
        pairs.map(|(name, value)| [encoded(name), encoded(value)]).collect();
    pairs.sort();
    pairs.iter().map(|pair| pair.join("=")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests;
