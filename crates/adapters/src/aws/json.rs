//! Writes and reads the JSON of calls that carry mail, instead of the SDK.
//!
//! The SDK handles JSON byte by byte, and each mail passes through it four times: the feed receives and
//! sends it, then the drain receives and sends it. With mails of 200 KB this took most of the poller's
//! processor time. These calls have few members, so `serde_json` writes them, all but long texts, and `sonic_rs` reads them.
//! (`sonic_rs` is twice as fast as `serde_json` here, because in a newsletter half of the escapes are
//! escaped themselves.) Endpoint, signature, retries and errors remain the SDK's.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::ser::Formatter;
use sonic_rs::writer::BufferedWriter;

/// Initial room in the buffer for all but the mail's text: member names, attributes, escapes.
const BESIDE: usize = 4_096;

/// Writes the members as JSON. `text` is the approximate number of bytes of mail in them; the buffer is
/// sized by it, so that it need not grow.
pub(crate) fn written(members: &impl Serialize, text: usize) -> Result<Bytes, serde_json::Error> {
    let mut body = Vec::with_capacity(text + text / 8 + BESIDE);
    members.serialize(&mut serde_json::Serializer::with_formatter(&mut body, LongText))?;
    Ok(body.into())
}

/// A text that may be long, for [`written`] only: `sonic_rs` escapes it, many bytes at a time, since `serde_json` looks
/// at each byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<'a>(pub(crate) &'a str);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Bytes are the only type that `serde_json` hands to the formatter's own code. No other member of a
        // mail is bytes.
        serializer.serialize_bytes(self.0.as_bytes())
    }
}

struct LongText;

impl Formatter for LongText {
    fn write_byte_array<W: ?Sized + Write>(&mut self, to: &mut W, text: &[u8]) -> io::Result<()> {
        let text = std::str::from_utf8(text).map_err(io::Error::other)?;
        sonic_rs::to_writer(BufferedWriter::new(to), text).map_err(io::Error::other)
    }
}

/// Replaces a request's body. Called in the SDK's `mutate_request`, which runs before the signature is made.
pub(crate) fn put(body: &Bytes, request: &mut HttpRequest) {
    request.headers_mut().insert("content-length", body.len().to_string());
    *request.body_mut() = SdkBody::from(body.clone());
}

/// Reads an operation's answer in place of the SDK, which then finds an empty one. Clones share the answer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader<T>(Arc<Mutex<Option<T>>>);

impl<T> Reader<T> {
    /// Takes the answer; `None` if no successful answer was read.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[dyn_dispatch_hint]
impl<T> Intercept for Reader<T>
where
    T: for<'de> Deserialize<'de> + std::fmt::Debug + Send,
{
    fn name(&self) -> &'static str {
        "Reader"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response_mut();
        let Some(body) = response.body().bytes().filter(|body| !body.is_empty()) else {
            return Ok(());
        };
        // The SDK reads error answers, whichever reader is used for successful ones.
        if response.status().is_success() {
            let answer = sonic_rs::from_slice(body)?;
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
            *response.body_mut() = SdkBody::from("{}");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_long_text_is_written_as_any_other(
            text in prop_oneof![any::<String>(), "[\"\\\\\u{0}-\u{22}\u{7e}-\u{82}a]{0,40}"]
        ) {
            let body = written(&Text(&text), text.len()).unwrap();
            let read: String = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(&read, &text);
            let plain = written(&text, 0).unwrap();
            prop_assert_eq!(body, plain);
        }
    }
}
