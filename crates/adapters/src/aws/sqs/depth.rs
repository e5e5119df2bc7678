//! Reads a queue's approximate numbers of messages by `GetQueueAttributes`.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use tidegate_delivery::ports::{PortError, QueueDepth, QueueUrl};

use crate::aws::error::{incomplete, port_error};

const OPERATION: &str = "GetQueueAttributes";
const VISIBLE: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessages;
const IN_FLIGHT: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
const DELAYED: QueueAttributeName = QueueAttributeName::ApproximateNumberOfMessagesDelayed;

pub(super) async fn depth(client: &Client, queue: &QueueUrl) -> Result<QueueDepth, PortError> {
    let call = client.get_queue_attributes().queue_url(queue.as_str());
    let call = call.set_attribute_names(Some(vec![VISIBLE, IN_FLIGHT, DELAYED]));
    let answer = call.send().await;
    let answer = answer.map_err(|error| port_error(OPERATION, queue.as_str(), error))?;
    let number = |name: &QueueAttributeName| {
        let value = answer.attributes().and_then(|all| all.get(name)?.parse().ok());
        value.ok_or_else(|| incomplete(OPERATION, queue.as_str(), name.as_str()))
    };
    Ok(QueueDepth {
        visible: number(&VISIBLE)?,
        in_flight: number(&IN_FLIGHT)?,
        delayed: number(&DELAYED)?,
    })
}
