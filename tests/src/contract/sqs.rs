//! Queues of an SQS endpoint, whoever serves it, through the SDK's client.

use std::cell::Cell;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use tidegate_adapters::aws::SqsQueues;
use tidegate_delivery::ports::QueueUrl;

use super::directory::DirectoryRoom;
use super::queues::QueueRoom;

/// Makes queues on an SQS endpoint.
pub struct SqsRoom {
    client: Client,
    queues: SqsQueues,
    made: Cell<u32>,
}

impl SqsRoom {
    /// On the endpoint that the client calls.
    pub fn new(client: Client) -> Self {
        Self { queues: SqsQueues::new(&client), client, made: Cell::new(0) }
    }
}

impl QueueRoom for SqsRoom {
    type Queues = SqsQueues;

    fn queues(&self) -> &SqsQueues {
        &self.queues
    }

    async fn create(&self, fifo: bool) -> QueueUrl {
        let number = self.made.replace(self.made.get() + 1);
        let name = format!("contract-{number}{}", if fifo { ".fifo" } else { "" });
        let mut call = self.client.create_queue().queue_name(name);
        call = call.attributes(QueueAttributeName::VisibilityTimeout, "30");
        if fifo {
            call = call
                .attributes(QueueAttributeName::FifoQueue, "true")
                .attributes(QueueAttributeName::DeduplicationScope, "messageGroup")
                .attributes(QueueAttributeName::FifoThroughputLimit, "perMessageGroupId");
        }
        QueueUrl::new(call.send().await.unwrap().queue_url.unwrap())
    }
}

impl DirectoryRoom for SqsRoom {
    type Directory = SqsQueues;

    fn directory(&self) -> &SqsQueues {
        &self.queues
    }

    async fn create(&self, name: &str) -> QueueUrl {
        let mut call = self.client.create_queue().queue_name(name);
        if QueueUrl::new(name).is_fifo() {
            call = call.attributes(QueueAttributeName::FifoQueue, "true");
        }
        QueueUrl::new(call.send().await.unwrap().queue_url.unwrap())
    }

    async fn tag(&self, queue: &QueueUrl, name: &str, value: Option<&str>) {
        let url = queue.as_str();
        let Some(value) = value else {
            self.client.untag_queue().queue_url(url).tag_keys(name).send().await.unwrap();
            return;
        };
        self.client.tag_queue().queue_url(url).tags(name, value).send().await.unwrap();
    }

    async fn delete(&self, queue: &QueueUrl) {
        self.client.delete_queue().queue_url(queue.as_str()).send().await.unwrap();
    }
}
