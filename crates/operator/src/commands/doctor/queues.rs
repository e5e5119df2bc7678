//! Reads the attributes of the stack's queues.

use std::collections::HashMap;

use crate::doctor::{DeployedQueue, QueueAttributes, QueueKind, ReadResult};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::get_queue_attributes::GetQueueAttributesError;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::{Campaign, queue_key};

use super::read as told;

/// The queues, and the attributes of each.
pub(super) async fn read(stack: &Stack, campaigns: &[Campaign]) -> Vec<DeployedQueue> {
    let client = Client::new(stack.clients().sqs_config());
    let named = |name: &str, kind, url: &str| (name.to_owned(), kind, url.to_owned());
    let campaign = |c: &Campaign| -> Vec<(String, QueueKind, String)> {
        let key = |priority| queue_key(&c.name, priority);
        let queues = c.queues();
        queues.map(|(priority, url)| named(&key(priority), QueueKind::Campaign, url)).collect()
    };
    let mut all: Vec<_> = campaigns.iter().flat_map(campaign).collect();
    all.extend(stack.express().map(|url| named("express", QueueKind::Express, url.as_str())));
    all.extend(stack.merge().map(|url| named("merge", QueueKind::Merge, url.as_str())));
    let domains = stack.poller.limits.queues.iter().zip(1..);
    all.extend(
        domains.map(|(url, place)| named(&format!("domain {place}"), QueueKind::Domain, url)),
    );
    all.push(named("dead letters", QueueKind::DeadLetter, stack.dead_letter().as_str()));
    let mut queues = Vec::new();
    for (name, kind, url) in all {
        let found = attributes(&client, &url).await;
        let attributes = found.map(|found| found.as_ref().map(of));
        queues.push(DeployedQueue { name, kind, attributes });
    }
    queues
}

/// All attributes of a queue; none if it does not exist.
async fn attributes(client: &Client, url: &str) -> ReadResult<Option<HashMap<Name, String>>> {
    let call = client.get_queue_attributes().queue_url(url).attribute_names(Name::All);
    let answer = call.send().await;
    let error = answer.as_ref().err().and_then(|error| error.as_service_error());
    if error.is_some_and(GetQueueAttributesError::is_queue_does_not_exist) {
        return Ok(None);
    }
    let answer = told("GetQueueAttributes", url, answer)?;
    Ok(Some(answer.attributes().cloned().unwrap_or_default()))
}

fn of(all: &HashMap<Name, String>) -> QueueAttributes {
    let text = |name: Name| all.get(&name).map(String::as_str).unwrap_or_default();
    let number = |name: Name| text(name).parse().unwrap_or(0);
    QueueAttributes {
        visibility_s: number(Name::VisibilityTimeout),
        retention_s: number(Name::MessageRetentionPeriod),
        max_bytes: number(Name::MaximumMessageSize),
        high_throughput: text(Name::FifoThroughputLimit) == "perMessageGroupId"
            && text(Name::DeduplicationScope) == "messageGroup",
        redrive: all.get(&Name::RedrivePolicy).filter(|policy| !policy.is_empty()).cloned(),
        encrypted: text(Name::SqsManagedSseEnabled) == "true"
            || !text(Name::KmsMasterKeyId).is_empty(),
    }
}
