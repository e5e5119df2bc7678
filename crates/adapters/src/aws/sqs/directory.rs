//! Finds queues and their tags by `ListQueues` and `ListQueueTags`.

use std::collections::BTreeMap;

use aws_sdk_sqs::Client;
use tidegate_delivery::ports::{PortError, QueueUrl};

use crate::aws::error::port_error;

/// Queues per page, SQS's maximum. SQS returns a token for the next page only if `MaxResults` is set.
const PAGE: i32 = 1_000;

pub(super) async fn queues(client: &Client, prefix: &str) -> Result<Vec<QueueUrl>, PortError> {
    let call = client.list_queues().queue_name_prefix(prefix).max_results(PAGE);
    let urls = call.into_paginator().items().send().try_collect().await;
    let urls = urls.map_err(|error| port_error("ListQueues", prefix, error))?;
    Ok(urls.into_iter().map(QueueUrl::new).collect())
}

pub(super) async fn tags(
    client: &Client,
    queue: &QueueUrl,
) -> Result<BTreeMap<String, String>, PortError> {
    let answer = client.list_queue_tags().queue_url(queue.as_str()).send().await;
    let answer = answer.map_err(|error| port_error("ListQueueTags", queue.as_str(), error))?;
    Ok(answer.tags.unwrap_or_default().into_iter().collect())
}
