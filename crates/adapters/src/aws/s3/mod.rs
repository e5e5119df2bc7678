//! `DeferralStore` on S3: mail in the folder `mail`, replay progress in the folder `progress`.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use tidegate_core::deferral::{Location, ObjectName, Progress};
use tidegate_delivery::ports::{
    DeferralStore, DeferredObject, DeferredPage, FailureKind, PortError, Version,
};

use crate::aws::error::{incomplete, port_error, refused, time_limits};

const MAIL: &str = "mail";
const PROGRESS: &str = "progress";
/// S3's codes for a condition that does not hold, or that cannot be decided because of a concurrent write.
const OUTRUN: [&str; 2] = ["PreconditionFailed", "ConditionalRequestConflict"];
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
            .timeout_config(time_limits(ATTEMPT, OPERATION))
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
        format!("s3://{}/{key}", self.location.bucket)
    }

    /// Returns the object's bytes and its entity tag.
    async fn read(&self, key: &str) -> Result<(Vec<u8>, Option<String>), PortError> {
        const OPERATION: &str = "GetObject";
        let url = self.url(key);
        let call = self.client.get_object().bucket(&self.location.bucket).key(key);
        let object = call.send().await.map_err(|error| port_error(OPERATION, &url, error))?;
        let body = object.body.collect().await;
        let unread = |error| refused(OPERATION, &url, "an answer that cannot be read", error);
        Ok((body.map_err(unread)?.into_bytes().to_vec(), object.e_tag))
    }

    async fn remove(&self, key: &str) -> Result<(), PortError> {
        let call = self.client.delete_object().bucket(&self.location.bucket).key(key);
        let deleted = call.send().await.map(drop);
        deleted.map_err(|error| port_error("DeleteObject", &self.url(key), error))
    }
}

impl DeferralStore for S3DeferralStore {
    async fn put(&self, name: &ObjectName, bytes: Vec<u8>) -> Result<(), PortError> {
        let key = self.key(MAIL, name);
        let call = self.client.put_object().bucket(&self.location.bucket).key(&key);
        let call = call.content_type("application/gzip").body(ByteStream::from(bytes));
        let put = call.send().await.map(drop);
        put.map_err(|error| port_error("PutObject", &self.url(&key), error))
    }

    /// S3 orders keys by their bytes, which here is the order of their windows.
    async fn list(&self, after: Option<&str>) -> Result<DeferredPage, PortError> {
        let folder = self.location.key(MAIL, "");
        let call = self.client.list_objects_v2().bucket(&self.location.bucket).prefix(&folder);
        let call = call.max_keys(self.page);
        let call = call.set_start_after(after.map(|name| self.location.key(MAIL, name)));
        let listed = call.send().await;
        let listed =
            listed.map_err(|error| port_error("ListObjectsV2", &self.url(&folder), error))?;
        let mut page = DeferredPage::default();
        for object in listed.contents.unwrap_or_default() {
            let key = object.key.unwrap_or_default();
            let name = key.strip_prefix(&folder).unwrap_or(&key);
            page.next = Some(name.to_owned());
            let bytes = object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
            match name.parse() {
                Ok(name) => page.objects.push(DeferredObject { name, bytes }),
                Err(_) => page.strange.push(name.to_owned()),
            }
        }
        page.next = page.next.filter(|_| listed.is_truncated.unwrap_or(false));
        Ok(page)
    }

    async fn get(&self, name: &ObjectName) -> Result<Vec<u8>, PortError> {
        self.read(&self.key(MAIL, name)).await.map(|(bytes, _)| bytes)
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), PortError> {
        self.remove(&self.key(MAIL, name)).await
    }

    async fn progress(&self, name: &ObjectName) -> Result<Option<(Progress, Version)>, PortError> {
        let key = self.key(PROGRESS, name);
        let (bytes, tag) = match self.read(&key).await {
            Err(PortError { kind: FailureKind::NotFound, source: Some(source), .. })
                if is_no_key(&*source) =>
            {
                return Ok(None);
            }
            found => found?,
        };
        let url = self.url(&key);
        let tag = tag.ok_or_else(|| incomplete("GetObject", &url, "an entity tag"))?;
        let progress = serde_json::from_slice(&bytes)
            .map_err(|error| refused("GetObject", &url, "an object that is no progress", error))?;
        Ok(Some((progress, Version::new(tag))))
    }

    /// Writes a small object under a condition on its version.
    async fn set_progress(
        &self,
        name: &ObjectName,
        progress: &Progress,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        const OPERATION: &str = "PutObject";
        let key = self.key(PROGRESS, name);
        let url = self.url(&key);
        let body = serde_json::to_vec(progress).map_err(|error| {
            refused(OPERATION, &url, "a progress that cannot be written", error)
        })?;
        let call = self.client.put_object().bucket(&self.location.bucket).key(key);
        let call = call.content_type("application/json").body(ByteStream::from(body));
        let call = match stands {
            Some(version) => call.if_match(version.as_str()),
            None => call.if_none_match("*"),
        };
        match call.send().await {
            Ok(put) => {
                let tag = put.e_tag.ok_or_else(|| incomplete(OPERATION, &url, "an entity tag"))?;
                Ok(Some(Version::new(tag)))
            }
            // If an earlier attempt of this write took effect and its answer was lost, the condition fails; then
            // the stored progress is the one to be written.
            Err(error) if error.code().is_some_and(|code| OUTRUN.contains(&code)) => {
                let found = self.progress(name).await?;
                Ok(found.filter(|(found, _)| found == progress).map(|(_, version)| version))
            }
            Err(error) => Err(port_error(OPERATION, &url, error)),
        }
    }

    async fn forget_progress(&self, name: &ObjectName) -> Result<(), PortError> {
        self.remove(&self.key(PROGRESS, name)).await
    }
}

/// Whether the object is missing, as opposed to its bucket.
fn is_no_key(source: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let error = source.downcast_ref::<GetObjectError>();
    error.is_some_and(|error| error.code() != Some("NoSuchBucket"))
}

#[cfg(test)]
mod tests;
