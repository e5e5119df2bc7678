//! `DeferralStore` on S3: mail in the folder `mail`, replay progress in the folder `progress`.

mod list;
mod object;
mod progress;

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use tidegate_core::deferral::{Location, ObjectName, Progress};
use tidegate_delivery::ports::{DeferralStore, DeferredPage, PortError, Version};

const MAIL: &str = "mail";
const PROGRESS: &str = "progress";
/// Objects per page, S3's maximum.
const PAGE: i32 = 1_000;
/// The time limit of one attempt; an object has a few megabytes at most.
const ATTEMPT: Duration = Duration::from_secs(4);
/// The time limit of a call with up to three attempts. A poller has about 10 s left for it.
const OPERATION: Duration = Duration::from_secs(8);

/// The store of deferred mail on S3.
#[derive(Clone, Debug)]
pub struct S3DeferralStore {
    client: Client,
    location: Location,
    page: i32,
}

impl S3DeferralStore {
    /// Uses `location` through `client`, whose retries and time limits are replaced.
    pub fn new(client: &Client, location: Location) -> Self {
        let config = client
            .config()
            .to_builder()
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .timeout_config(
                TimeoutConfig::builder()
                    .operation_attempt_timeout(ATTEMPT)
                    .operation_timeout(OPERATION)
                    .build(),
            )
            .build();
        Self { client: Client::from_conf(config), location, page: PAGE }
    }

    /// Sets the number of objects per page, from 1 to 1,000.
    pub fn with_pages_of(self, page: i32) -> Self {
        Self { page: page.clamp(1, PAGE), ..self }
    }

    fn key(&self, folder: &str, name: &ObjectName) -> String {
        self.location.key(folder, &name.to_string())
    }

    /// The object's name in error messages.
    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.location.bucket())
    }
}

impl DeferralStore for S3DeferralStore {
    async fn put(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<(), PortError> {
        object::put(self, name, bytes).await
    }

    async fn list(&self, after: Option<&str>) -> Result<DeferredPage, PortError> {
        list::list(self, after).await
    }

    async fn get(&self, name: &ObjectName) -> Result<Vec<u8>, PortError> {
        object::get(self, &self.key(MAIL, name)).await.map(|(bytes, _)| bytes)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), PortError> {
        object::delete(self, &self.key(MAIL, name)).await
    }

    async fn progress(&self, name: &ObjectName) -> Result<Option<(Progress, Version)>, PortError> {
        progress::read(self, &self.key(PROGRESS, name)).await
    }

    async fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        progress::write(self, &self.key(PROGRESS, name), progress, stands).await
    }

    async fn forget_progress(&self, name: &ObjectName) -> Result<(), PortError> {
        object::delete(self, &self.key(PROGRESS, name)).await
    }
}

#[cfg(test)]
mod tests;
