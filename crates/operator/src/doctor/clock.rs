//! AWS's time: the `DateHeader` of an answer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::Intercept;
use aws_smithy_runtime_api::client::interceptors::context::BeforeDeserializationInterceptorContextRef;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::Clock as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::finding::{ReadResult, answered};

/// Keeps the `DateHeader` of an answer.
#[derive(Clone, Debug, Default)]
struct DateHeader(Arc<Mutex<Option<String>>>);

impl Intercept for DateHeader {
    fn name(&self) -> &'static str {
        "Date"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").map(str::to_owned);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = date;
        Ok(())
    }
}

/// The time as AWS's clocks have it: this machine's, if that agrees with the `Date` of an answer, which has whole
/// seconds.
pub(crate) async fn aws_time(stack: &Stack) -> ReadResult<Timestamp> {
    let (here, there) = clocks(stack).await?;
    Ok(here.clamp(there, there + Duration::from_secs(1)))
}

/// This machine's time, half way between asking and the answer, and AWS's.
pub(super) async fn clocks(stack: &Stack) -> ReadResult<(Timestamp, Timestamp)> {
    let date = DateHeader::default();
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let clock = stack.clock();
    let asked = clock.wall();
    let answer = client
        .describe_time_to_live()
        .table_name(&stack.table)
        .customize()
        .interceptor(date.clone())
        .send()
        .await;
    let here = asked + clock.wall().saturating_since(asked) / 2;
    let told = date.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(told) = told else {
        answered("DescribeTimeToLive", &stack.table, answer)?;
        return Err("the answer has no Date".to_owned());
    };
    let parsed = OffsetDateTime::parse(&told, &Rfc2822);
    let seconds = parsed.ok().and_then(|date| u64::try_from(date.unix_timestamp()).ok());
    let there = seconds.ok_or_else(|| format!("Date is {told:?}"))?;
    Ok((here, Timestamp::from_millis(there * 1_000)))
}
