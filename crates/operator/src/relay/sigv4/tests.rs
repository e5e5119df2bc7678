use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign,
};
use aws_sigv4::sign::v4::SigningParams;
use http::{HeaderValue, Request};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const FILE: &str = r#"{
    "RELAYNEWS": {"secret": "correct-horse-battery", "campaigns": ["news"], "senders": ["*@example.org"]},
    "RELAYALL": {"secret": "staple-correct-horse"}
}"#;
/// 2026-11-28T12:36:00Z.
const NOW_SECONDS: u64 = 1_795_869_360;

/// A request before it is signed.
#[derive(Clone, Debug)]
struct Call {
    method: String,
    /// Path and query.
    target: String,
    header: String,
    body: Vec<u8>,
}

/// How it is signed.
struct Sender {
    access_key: &'static str,
    secret: &'static str,
    token: Option<String>,
    service: &'static str,
    settings: SigningSettings,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            access_key: "RELAYNEWS",
            secret: "correct-horse-battery",
            token: None,
            service: "ses",
            settings: SigningSettings::default(),
        }
    }
}

fn call() -> Call {
    Call {
        method: "POST".to_owned(),
        target: "/v2/email/outbound-emails".to_owned(),
        header: "application/json".to_owned(),
        body: b"{\"Content\": {}}".to_vec(),
    }
}

impl Sender {
    fn sign(self, call: &Call) -> Request<Vec<u8>> {
        let mut request = Request::builder()
            .method(&*call.method)
            .uri(format!("http://localhost:2587{}", call.target))
            .header("host", "localhost:2587")
            .header("content-type", &call.header)
            .body(call.body.clone())
            .unwrap();
        let credentials =
            Credentials::new(self.access_key, self.secret, self.token, None, "a test");
        let identity = credentials.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region("eu-west-1")
            .name(self.service)
            .time(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW_SECONDS))
            .settings(self.settings)
            .build()
            .unwrap()
            .into();
        let uri = request.uri().to_string();
        let headers =
            request.headers().iter().map(|(name, it)| (name.as_str(), it.to_str().unwrap()));
        let body = SignableBody::Bytes(&call.body);
        let signable = SignableRequest::new(&call.method, uri, headers, body).unwrap();
        let (instructions, _) = sign(signable, &params).unwrap().into_parts();
        instructions.apply_to_request_http1x(&mut request);
        request
    }
}

fn verify(keys: &KeyPairs, head: &Parts, body: &[u8], now: Timestamp) -> Result<String, Failure> {
    let signature = Signature::read(head)?;
    signature.verify(keys, head, body, now).map(|()| signature.access_key.to_owned())
}

fn keys() -> KeyPairs {
    KeyPairs::read(FILE).unwrap()
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn verified(request: Request<Vec<u8>>) -> Result<String, Failure> {
    let (head, body) = request.into_parts();
    verify(&keys(), &head, &body, at(NOW_SECONDS))
}

fn refused(request: Request<Vec<u8>>) -> (u16, String, String) {
    let Failure { http_status, code, message, .. } = verified(request).expect_err("refused");
    (http_status.unwrap(), code.unwrap(), message)
}

#[test]
fn what_the_sdk_signs_is_taken() {
    assert_eq!(verified(Sender::default().sign(&call())).as_deref(), Ok("RELAYNEWS"));
    let own = Sender { service: "email", access_key: "RELAYALL", ..Sender::default() };
    let own = Sender { secret: "staple-correct-horse", ..own };
    assert_eq!(verified(own.sign(&call())).as_deref(), Ok("RELAYALL"));
    let mut hashed = Sender::default();
    hashed.settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    assert!(verified(hashed.sign(&call())).is_ok());
    let escaped =
        Call { target: "/v2/email/identities/a%40x?b=2&a=%20+%C3%A4&a=".to_owned(), ..call() };
    assert!(verified(Sender::default().sign(&escaped)).is_ok());
    let spaced = Call { header: "  text/plain;   charset=utf-8 ".to_owned(), ..call() };
    assert!(verified(Sender::default().sign(&spaced)).is_ok());
}

#[test]
fn a_date_may_be_off_by_five_minutes() {
    for (seconds, is_taken) in [
        (NOW_SECONDS - 300, true),
        (NOW_SECONDS + 300, true),
        (NOW_SECONDS - 301, false),
        (NOW_SECONDS + 301, false),
        (0, false),
    ] {
        let (head, body) = Sender::default().sign(&call()).into_parts();
        let answer = verify(&keys(), &head, &body, at(seconds)).map(|_| ());
        assert_eq!(answer.is_ok(), is_taken, "{seconds}");
        if let Err(failure) = answer {
            assert_eq!(failure.code.as_deref(), Some("RequestExpired"));
            assert!(failure.message.contains("20261128T123600Z"), "{}", failure.message);
        }
    }
}

#[test]
fn an_unknown_key_and_a_wrong_secret_are_refused_in_ses_codes() {
    let signer = Sender { access_key: "RELAYNOBODY", ..Sender::default() };
    let (status, code, _) = refused(signer.sign(&call()));
    assert_eq!((status, code.as_str()), (403, "UnrecognizedClientException"));
    // Whoever knows the secret that stands for absent ones gets no further.
    let signer =
        Sender { access_key: "RELAYNOBODY", secret: "correct-horse-battery", ..Sender::default() };
    assert_eq!(refused(signer.sign(&call())).1, "UnrecognizedClientException");
    let signer = Sender { secret: "wrong-horse-battery", ..Sender::default() };
    let (status, code, message) = refused(signer.sign(&call()));
    assert_eq!((status, code.as_str()), (403, "InvalidSignatureException"));
    assert!(message.starts_with("The request signature we calculated does not match"));
}

#[test]
fn forms_of_signing_that_are_not_taken_are_named() {
    let mut presigned = Sender::default();
    presigned.settings.signature_location = SignatureLocation::QueryParams;
    presigned.settings.expires_in = Some(Duration::from_mins(1));
    let (_, code, message) = refused(presigned.sign(&call()));
    assert_eq!(code, "IncompleteSignatureException");
    assert!(message.contains("presigned requests are not taken"), "{message}");
    let session = Sender { token: Some("token".to_owned()), ..Sender::default() };
    let (_, code, message) = refused(session.sign(&call()));
    assert_eq!(code, "UnrecognizedClientException");
    assert!(message.starts_with("X-Amz-Security-Token: session tokens are not taken"));
    let other = Sender { service: "sqs", ..Sender::default() };
    assert!(refused(other.sign(&call())).2.contains("correct service: 'ses'"));
    for given in ["UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"] {
        let mut request = Sender::default().sign(&call());
        request.headers_mut().insert(CONTENT_HASH, HeaderValue::from_static(given));
        assert!(refused(request).2.contains("UNSIGNED-PAYLOAD and streams are not taken"));
    }
    let mut without_host = Sender::default();
    without_host.settings.excluded_headers = Some(vec!["host".into()]);
    assert_eq!(refused(without_host.sign(&call())).2, "host must be one of SignedHeaders.");
}

#[test]
fn a_header_that_is_no_signature_is_refused_with_the_form_that_it_must_have() {
    let good = Sender::default().sign(&call());
    let authorization = good.headers()[AUTHORIZATION].to_str().unwrap().to_owned();
    let mut without = good.clone();
    without.headers_mut().remove(AUTHORIZATION);
    let (status, code, message) = refused(without);
    assert_eq!((status, code.as_str()), (403, "MissingAuthenticationTokenException"));
    assert_eq!(message, "Request is missing Authentication Token");
    let mut twice = good.clone();
    twice.headers_mut().append(AUTHORIZATION, authorization.parse().unwrap());
    assert!(refused(twice).2.contains("authorization must stand once"));
    for changed in [
        "Basic YTpi".to_owned(),
        "AWS4-HMAC-SHA256".to_owned(),
        authorization.replace("AWS4-HMAC-SHA256", "AWS4-HMAC-SHA1"),
        authorization.replace("Credential=", "Key="),
        authorization.replace("SignedHeaders=", "Headers="),
        authorization.replace("Signature=", "Sign="),
        authorization.replace("/aws4_request", "/aws5_request"),
        authorization.replace("/aws4_request", "/x/aws4_request"),
    ] {
        let mut request = good.clone();
        request.headers_mut().insert(AUTHORIZATION, changed.parse().unwrap());
        let (status, code, message) = refused(request);
        assert_eq!((status, code.as_str()), (400, "IncompleteSignatureException"));
        assert!(message.contains("Credential=KEY/DATE/REGION/ses/aws4_request"), "{changed}");
    }
    for (old, new) in
        [("20261128/", "20261127/"), ("host;", "host;x-absent;"), ("eu-west-1", "us-east-1")]
    {
        let mut request = good.clone();
        request
            .headers_mut()
            .insert(AUTHORIZATION, authorization.replace(old, new).parse().unwrap());
        assert!(verified(request).is_err(), "{new}");
    }
    let mut dateless = good.clone();
    dateless.headers_mut().insert(DATE, HeaderValue::from_static("yesterday"));
    assert!(refused(dateless).2.contains("must be a time like 20261128T123600Z"));
}

/// The text with its character at an index replaced by another one.
fn changed(text: &str, at: Index) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let place = at.index(bytes.len());
    bytes[place] = if bytes[place] == b'a' { b'b' } else { b'a' };
    String::from_utf8(bytes).unwrap()
}

proptest! {
    #[test]
    fn any_change_of_a_byte_is_refused(
        path in "(/([a-zA-Z0-9_~-]|%40){1,6}){1,3}",
        query in "([a-c]{1,2}=([a-zA-Z0-9+]|%2B|%C3%A4){0,4}&){0,3}[a-c]=",
        header in "[!-~]([ -~]{0,20}[!-~])?",
        body in proptest::collection::vec(any::<u8>(), 1..40),
        part in 0..7,
        place: Index,
    ) {
        let call = Call { method: "POST".to_owned(), target: format!("{path}?{query}"), header, body };
        let request = Sender::default().sign(&call);
        prop_assert!(verified(request.clone()).is_ok(), "{:?}", verified(request));
        let (mut head, mut body) = request.into_parts();
        let set = |head: &mut Parts, name: &str| {
            let name = HeaderName::try_from(name).unwrap();
            let value = changed(head.headers[&name].to_str().unwrap(), place);
            head.headers.insert(name, value.parse().unwrap());
        };
        match part {
            0 => head.method = changed("POST", place).parse().unwrap(),
            1 => head.uri = format!("/{}?{query}", changed(&path[1..], place)).parse().unwrap(),
            2 => {
                let other = changed(&query, place);
                // %A4 and %a4 are the same.
                prop_assume!(!other.eq_ignore_ascii_case(&query));
                head.uri = format!("{path}?{other}").parse().unwrap();
            }
            3 => set(&mut head, "content-type"),
            4 => set(&mut head, "host"),
            5 => set(&mut head, "authorization"),
            _ => {
                let place = place.index(body.len());
                body[place] ^= 1;
            }
        }
        prop_assert!(verify(&keys(), &head, &body, at(NOW_SECONDS)).is_err());
    }
}
