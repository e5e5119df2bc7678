//! Writes and reads the JSON of calls that carry mail, instead of the SDK.
//!
//! The SDK handles JSON byte by byte, and each mail passes through it four times: the feed receives and
//! sends it, then the drain receives and sends it. With mails of 200 KB this took most of the poller's
//! processor time, so `sonic_rs` writes and reads these calls, many bytes at a time. (It takes half of `serde_json`'s
//! time for a newsletter of 200 KB, most of which is escaped.) Endpoint, signature, retries and errors remain the SDK's.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextMut;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use hyper::body::Bytes;
use serde::{Deserialize, Serialize};

thread_local! {
    /// `sonic_rs` makes room for six times a text before it writes it. Memory that is written to for the first time costs
    /// more than copying from memory that was.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes the members as JSON.
pub(crate) fn written(members: &impl Serialize) -> Result<Bytes, sonic_rs::Error> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        sonic_rs::to_writer(&mut *scratch, members)?;
        // A large one is not copied, and its room not kept.
        let is_large = scratch.len() > 1 << 20;
        Ok(if is_large { mem::take(scratch).into() } else { Bytes::copy_from_slice(scratch) })
    })
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
        fn a_text_is_written_as_serde_json_does_and_read_back(
            text in prop_oneof![any::<String>(), "[\"\\\\\u{0}-\u{22}\u{7e}-\u{82}a]{0,40}"]
        ) {
            let body = written(&text).unwrap();
            prop_assert_eq!(&body[..], serde_json::to_vec(&text).unwrap());
            prop_assert_eq!(sonic_rs::from_slice::<String>(&body).unwrap(), text);
        }
    }
}
