//! Queues by name: found, made, and told about.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::Duration;

use crate::QueueSettings;
use tidegate_delivery::ports::{BATCH_BYTES, QueueUrl, Queues as _};

use super::Service;
use crate::sandbox::sqs::error::SqsError;
use crate::sandbox::sqs::wire::{
    AttributesAnswer, GetAttributesRequest, QueueSpec, QueueUrlAnswer,
};

/// The account number in queue URLs and ARNs.
const ACCOUNT: &str = "000000000000";
const LONGEST_NAME: usize = 80;

impl Service {
    /// The queue that a URL's last segment names.
    pub(super) fn queue(&self, url: &str) -> Result<QueueUrl, SqsError> {
        self.find(url).map(|(queue, _)| queue)
    }

    fn find(&self, url: &str) -> Result<(QueueUrl, QueueSettings), SqsError> {
        let name = url.rsplit('/').next().unwrap_or(url);
        let known = self.made.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        match known {
            Some(known) => Ok(known),
            None if self.config.create => self.make(name, self.config.queues),
            None => Err(SqsError::no_queue()),
        }
    }

    /// Makes a queue; one that is there already stays as it is.
    fn make(
        &self,
        name: &str,
        settings: QueueSettings,
    ) -> Result<(QueueUrl, QueueSettings), SqsError> {
        let stem = name.strip_suffix(".fifo").unwrap_or(name);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if stem.is_empty() || name.len() > LONGEST_NAME || !stem.chars().all(legal) {
            let reason = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length";
            return Err(SqsError::invalid("QueueName", name, reason));
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = made.entry(name.to_owned()).or_insert_with(|| {
            let queue = QueueUrl::new(name);
            self.queues.create(&queue, settings);
            tracing::info!(queue = name, "made");
            (queue, settings)
        });
        Ok(queue.clone())
    }

    pub(super) fn create_queue(&self, request: &QueueSpec) -> Result<QueueUrlAnswer, SqsError> {
        let mut settings = self.config.queues;
        if let Some(seconds) = number(&request.attributes, "VisibilityTimeout", 0, 43_200)? {
            settings.visibility = Duration::from_secs(seconds);
        }
        if let Some(bytes) =
            number(&request.attributes, "MaximumMessageSize", 1_024, BATCH_BYTES as u64)?
        {
            settings.max_message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        let (queue, _) = self.make(&request.queue_name, settings)?;
        for (name, value) in &request.tags {
            self.queues.tag(&queue, name, Some(value));
        }
        Ok(self.out(&queue))
    }

    pub(super) fn url_of(&self, request: &QueueSpec) -> Result<QueueUrlAnswer, SqsError> {
        self.queue(&request.queue_name).map(|queue| self.out(&queue))
    }

    fn out(&self, queue: &QueueUrl) -> QueueUrlAnswer {
        QueueUrlAnswer { queue_url: self.url_named(queue.as_str()) }
    }

    pub(super) fn url_named(&self, name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", self.url)
    }

    pub(super) async fn attributes(
        &self,
        request: GetAttributesRequest,
    ) -> Result<AttributesAnswer, SqsError> {
        let (queue, settings) = self.find(&request.queue_url)?;
        let depth = self.queues.depth(&queue).await?;
        let mut attributes = BTreeMap::from([
            ("ApproximateNumberOfMessages", depth.visible.to_string()),
            ("ApproximateNumberOfMessagesNotVisible", depth.in_flight.to_string()),
            ("ApproximateNumberOfMessagesDelayed", depth.delayed.to_string()),
            ("VisibilityTimeout", settings.visibility.as_secs().to_string()),
            ("MaximumMessageSize", settings.max_message_bytes.to_string()),
            ("QueueArn", format!("arn:aws:sqs:us-east-1:{ACCOUNT}:{queue}")),
        ]);
        if queue.is_fifo() {
            attributes.insert("FifoQueue", "true".to_owned());
        }
        let asked = |name: &str| request.attribute_names.iter().any(|n| n == name || n == "All");
        attributes.retain(|name, _| asked(name));
        Ok(AttributesAnswer { attributes })
    }
}

/// An attribute of a queue that is a number from `least` to `most`.
fn number(
    attributes: &BTreeMap<String, String>,
    name: &str,
    least: u64,
    most: u64,
) -> Result<Option<u64>, SqsError> {
    let Some(value) = attributes.get(name) else { return Ok(None) };
    let read = value.parse().ok().filter(|number| (least..=most).contains(number));
    let refused = || {
        let said = format!("{name}: {value} is not a whole number from {least} to {most}");
        SqsError::new("InvalidAttributeValue", said)
    };
    read.map(Some).ok_or_else(refused)
}
