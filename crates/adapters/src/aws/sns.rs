//! `Announce` on SNS.

use std::time::Duration;

use aws_sdk_sns::Client;
use tidegate_delivery::ports::{Announce, PortError};

use crate::aws::error::{port_error, time_limits};

/// The time limit of a call with its retries. The scheduler tells after its ticks, in a run of at most 90 s.
const OPERATION: Duration = Duration::from_secs(5);

/// An SNS topic.
#[derive(Clone, Debug)]
pub struct SnsTopic {
    client: Client,
    arn: String,
}

impl SnsTopic {
    /// The topic with the ARN `arn`, through `client`, whose time limit is replaced.
    pub fn new(client: &Client, arn: impl Into<String>) -> Self {
        let limits = time_limits(OPERATION, OPERATION);
        let config = client.config().to_builder().timeout_config(limits).build();
        Self { client: Client::from_conf(config), arn: arn.into() }
    }
}

impl Announce for SnsTopic {
    async fn announce(&self, subject: &str, text: &str) -> Result<(), PortError> {
        let call = self.client.publish().topic_arn(&self.arn).subject(subject).message(text);
        call.send().await.map_err(|error| port_error("Publish", &self.arn, error))?;
        Ok(())
    }
}
