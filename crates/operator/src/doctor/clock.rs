//! AWS's time: the header `Date` of an answer.

use std::time::Duration;

use tidegate_adapters::aws::stack::Stack;
use tidegate_core::Timestamp;
use tidegate_delivery::ports::Clock as _;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

use super::finding::{ReadResult, answered};
use crate::last_answer::LastAnswer;

/// The time as AWS's clocks have it: this machine's, if that agrees with the `Date` of an answer, which has whole
/// seconds.
pub(crate) async fn aws_time(stack: &Stack) -> ReadResult<Timestamp> {
    let (here, there) = clocks(stack).await?;
    Ok(here.clamp(there, there + Duration::from_secs(1)))
}

/// This machine's time, half way between asking and the answer, and AWS's.
pub(super) async fn clocks(stack: &Stack) -> ReadResult<(Timestamp, Timestamp)> {
    let last = LastAnswer::default();
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let clock = stack.clock();
    let asked = clock.wall();
    let call = client.describe_time_to_live().table_name(&stack.table).customize();
    let answer = call.interceptor(last.clone()).send().await;
    let here = asked + clock.wall().saturating_since(asked) / 2;
    let told =
        last.take().and_then(|last| last.headers().get("date")?.to_str().ok().map(str::to_owned));
    let Some(told) = told else {
        answered("DescribeTimeToLive", &stack.table, answer)?;
        return Err("the answer has no Date".to_owned());
    };
    let parsed = OffsetDateTime::parse(&told, &Rfc2822);
    let seconds = parsed.ok().and_then(|date| u64::try_from(date.unix_timestamp()).ok());
    let there = seconds.ok_or_else(|| format!("Date is {told:?}"))?;
    Ok((here, Timestamp::from_millis(there * 1_000)))
}
