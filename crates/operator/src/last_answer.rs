//! AWS's answer as it came, beside what the SDK reads of it.

use std::sync::{Arc, Mutex, PoisonError};

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::AfterDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use http::{Response, StatusCode};

/// Keeps the last answer to a call that it is an interceptor of.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastAnswer(Arc<Mutex<Option<Response<Vec<u8>>>>>);

impl LastAnswer {
    /// The answer, with headers that are text; none if none came.
    pub(crate) fn take(&self) -> Option<Response<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Intercept for LastAnswer {
    fn name(&self) -> &'static str {
        "LastAnswer"
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let told = context.response();
        let mut answer = Response::new(told.body().bytes().unwrap_or_default().to_vec());
        *answer.status_mut() = StatusCode::from_u16(told.status().as_u16())?;
        for (name, value) in told.headers() {
            answer.headers_mut().append(http::HeaderName::try_from(name)?, value.try_into()?);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        Ok(())
    }
}
