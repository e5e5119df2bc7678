//! Sends messages by `SendMessageBatch`.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::error::SdkError;
use aws_sdk_sqs::types::SendMessageBatchResultEntry;
use serde::Serialize;
use tidegate_delivery::ports::{Entry, Outgoing, PortError, QueueUrl};

use super::{in_order, seconds};
use crate::aws::error::port_error;
use crate::aws::json::{self, Text};

const OPERATION: &str = "SendMessageBatch";

pub(super) async fn send(
    client: &Client,
    queue: &QueueUrl,
    messages: &[Outgoing],
    whole: Duration,
) -> Result<Vec<Entry>, PortError> {
    let failed = |error| port_error(OPERATION, queue.as_str(), error);
    let entries = messages.iter().enumerate();
    let entries = entries.map(|(index, message)| BatchEntry::of(index, message)).collect();
    let batch = SendBatchBody { queue_url: queue.as_str(), entries };
    let text = messages.iter().map(Outgoing::bytes).sum();
    let body = json::written(&batch, text);
    let body = body.map_err(|error| failed(SdkError::construction_failure(error)))?;
    // A FIFO queue recognises a message that is sent twice. To other queues an attempt that timed out is not
    // repeated, because it may have arrived.
    let mut overrides = aws_sdk_sqs::config::Config::builder();
    if !queue.is_fifo() {
        let timeouts = TimeoutConfig::builder();
        let timeouts = timeouts.operation_attempt_timeout(whole).operation_timeout(whole);
        overrides = overrides.timeout_config(timeouts.build());
    }
    let call = client.send_message_batch().queue_url(queue.as_str()).customize();
    let call = call.mutate_request(move |request| json::put(&body, request));
    let call = call.config_override(overrides);
    let answer = call.send().await.map_err(failed)?;
    let done = answer.successful().iter().map(SendMessageBatchResultEntry::id);
    Ok(in_order(messages.len(), done, answer.failed()))
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct SendBatchBody<'a> {
    queue_url: &'a str,
    entries: Vec<BatchEntry<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BatchEntry<'a> {
    id: String,
    message_body: Text<'a>,
    // A FIFO queue refuses this member, whatever its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_group_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_deduplication_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    message_attributes: BTreeMap<&'static str, AttributeBody<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AttributeBody<'a> {
    data_type: &'static str,
    string_value: &'a str,
}

impl<'a> BatchEntry<'a> {
    fn of(index: usize, message: &'a Outgoing) -> Self {
        let fifo = message.fifo.as_ref();
        let attribute = |value| AttributeBody { data_type: "String", string_value: value };
        let attributes = message.attributes.iter();
        Self {
            id: index.to_string(),
            message_body: Text(&message.body),
            delay_seconds: (!message.delay.is_zero()).then(|| seconds(message.delay)),
            message_group_id: fifo.map(|fifo| fifo.group.as_str()),
            message_deduplication_id: fifo.map(|fifo| fifo.deduplication.as_str()),
            message_attributes: attributes.map(|(name, value)| (*name, attribute(value))).collect(),
        }
    }
}
