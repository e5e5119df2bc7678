//! The stack in the local AWS.

use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_delivery::ports::QueueUrl;

use super::error::LocalError;

/// The region of everything in the local AWS.
pub(super) const REGION: &str = "us-east-1";

/// The stack that was deployed into the local AWS.
#[derive(Clone, Debug, Deserialize)]
pub struct DeployedStack {
    #[serde(rename = "stack")]
    pub name: String,
    /// The stack's outputs, each under its name.
    pub outputs: BTreeMap<String, String>,
    /// The deployment packages' bytes, by the functions' logical ids.
    pub package_bytes: BTreeMap<String, u64>,
}

impl DeployedStack {
    /// An output.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where there is none.
    pub fn output(&self, name: &'static str) -> Result<&str, LocalError> {
        self.outputs.get(name).map(String::as_str).ok_or(LocalError::NoOutput(name))
    }

    /// The URL of a queue.
    ///
    /// # Errors
    /// [`LocalError::NoOutput`] where there is no such queue.
    pub fn queue(&self, name: &'static str) -> Result<QueueUrl, LocalError> {
        self.output(name).map(QueueUrl::new)
    }

    /// The URLs of the two campaigns' queues.
    pub(super) fn campaigns(&self) -> Result<[QueueUrl; 2], LocalError> {
        Ok([self.queue("FirstCampaignQueueUrl")?, self.queue("SecondCampaignQueueUrl")?])
    }
}
