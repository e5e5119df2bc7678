//! `Store` on S3.

use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use tidegate_core::store::Location;
use tidegate_delivery::ports::{FailureKind, PortError, Store, StorePage, StoredObject, Version};

use crate::aws::error::{incomplete, port_error, refused, time_limits};

/// S3's codes for a condition that does not hold, or that cannot be decided because of a concurrent write.
const OUTRUN: [&str; 2] = ["PreconditionFailed", "ConditionalRequestConflict"];
/// The time limit of one attempt from outside of AWS.
const UPLOAD: Duration = Duration::from_mins(1);
const GET: &str = "GetObject";
/// Objects per page, S3's maximum.
const PAGE: i32 = 1_000;
/// Bytes of a part of a large object: 8 MiB.
const PART: u64 = 8 * 1_048_576;
/// The time limit of one attempt; an object has a few megabytes at most.
const ATTEMPT: Duration = Duration::from_secs(4);
/// The time limit of a call with up to three attempts. A poller has about 10 s left for it.
const OPERATION: Duration = Duration::from_secs(8);

/// The store on S3.
#[derive(Clone, Debug)]
pub struct S3Store {
    client: Client,
    location: Location,
    page: i32,
}

impl S3Store {
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

    /// Waits as long as a large object takes that comes from outside of AWS: 40 MB at 5 Mbit/s.
    pub fn patient(self) -> Self {
        let limits = time_limits(UPLOAD, 2 * UPLOAD);
        let config = self.client.config().to_builder().timeout_config(limits).build();
        Self { client: Client::from_conf(config), ..self }
    }

    /// Sets the number of objects per page, from 1 to 1,000.
    pub fn with_pages_of(self, page: i32) -> Self {
        Self { page: page.clamp(1, PAGE), ..self }
    }

    /// The object's name in error messages.
    fn url(&self, key: &str) -> String {
        format!("s3://{}/{}", self.location.bucket, self.location.key(key))
    }

    /// An object's bytes in a range, and its entity tag; none if there is no such object.
    async fn read(
        &self,
        key: &str,
        range: Option<String>,
    ) -> Result<Option<(Vec<u8>, Option<String>)>, PortError> {
        let url = self.url(key);
        let call = self.client.get_object().bucket(&self.location.bucket).set_range(range);
        let object = match call.key(self.location.key(key)).send().await {
            Ok(object) => object,
            // An empty object has no first byte.
            Err(error) if error.code() == Some("InvalidRange") => {
                return Ok(Some((Vec::new(), None)));
            }
            Err(error) => {
                // Not found is the object, unless it is its bucket.
                let no_bucket = error.code() == Some("NoSuchBucket");
                let error = port_error(GET, &url, error);
                let no_key = error.kind == FailureKind::NotFound && !no_bucket;
                return if no_key { Ok(None) } else { Err(error) };
            }
        };
        let body = object.body.collect().await;
        let unread = |error| refused(GET, &url, "an answer that cannot be read", error);
        // Not copied, as large as it may be: the bytes belong to nobody else.
        Ok(Some((body.map_err(unread)?.into_bytes().into(), object.e_tag)))
    }

    /// The next bytes of an object of any size from byte `from` on, up to 8 MiB, none at its end; and its entity tag, by
    /// which a change between two parts is seen. `None` if there is no such object.
    ///
    /// # Errors
    /// [`PortError`] if S3 does not answer.
    pub async fn part(
        &self,
        key: &str,
        from: u64,
    ) -> Result<Option<(Vec<u8>, Option<String>)>, PortError> {
        self.read(key, Some(format!("bytes={from}-{}", from + PART - 1))).await
    }

    fn putting(&self, key: &str, bytes: Vec<u8>) -> PutObjectFluentBuilder {
        let call = self.client.put_object().bucket(&self.location.bucket);
        call.key(self.location.key(key)).body(ByteStream::from(bytes))
    }
}

impl Store for S3Store {
    async fn put(&self, key: &str, bytes: Vec<u8>) -> Result<(), PortError> {
        let put = self.putting(key, bytes).send().await.map(drop);
        put.map_err(|error| port_error("PutObject", &self.url(key), error))
    }

    /// S3 orders keys by their bytes, which is the order of their windows.
    async fn list(&self, folder: &str, after: Option<&str>) -> Result<StorePage, PortError> {
        let prefix = self.location.key(&format!("{folder}/"));
        let call = self.client.list_objects_v2().bucket(&self.location.bucket).prefix(&prefix);
        let call = call.max_keys(self.page);
        let call = call.set_start_after(after.map(|key| self.location.key(key)));
        let listed = call.send().await;
        let listed =
            listed.map_err(|error| port_error("ListObjectsV2", &self.url(folder), error))?;
        let objects = listed.contents.unwrap_or_default().into_iter().map(|object| {
            let key = object.key.unwrap_or_default();
            let name = key.strip_prefix(&prefix).unwrap_or(&key);
            let bytes = object.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0);
            StoredObject { key: format!("{folder}/{name}"), bytes }
        });
        let objects: Vec<StoredObject> = objects.collect();
        let last = objects.last().map(|object| object.key.clone());
        let next = last.filter(|_| listed.is_truncated.unwrap_or(false));
        Ok(StorePage { objects, next })
    }

    async fn get(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, PortError> {
        let Some((bytes, tag)) = self.read(key, None).await? else { return Ok(None) };
        let tag = tag.ok_or_else(|| incomplete(GET, &self.url(key), "an entity tag"))?;
        Ok(Some((bytes, Version::new(tag))))
    }

    async fn get_most(&self, key: &str, most: u64) -> Result<Option<Vec<u8>>, PortError> {
        let range = format!("bytes=0-{}", most.saturating_sub(1));
        Ok(self.read(key, Some(range)).await?.map(|(bytes, _)| bytes))
    }

    async fn delete(&self, key: &str) -> Result<(), PortError> {
        let call = self.client.delete_object().bucket(&self.location.bucket);
        let deleted = call.key(self.location.key(key)).send().await.map(drop);
        deleted.map_err(|error| port_error("DeleteObject", &self.url(key), error))
    }

    /// Writes a small object under a condition on its version.
    async fn replace(
        &self,
        key: &str,
        bytes: Vec<u8>,
        stands: Option<&Version>,
    ) -> Result<Option<Version>, PortError> {
        const OPERATION: &str = "PutObject";
        let call = self.putting(key, bytes.clone());
        let call = match stands {
            Some(version) => call.if_match(version.as_str()),
            None => call.if_none_match("*"),
        };
        match call.send().await {
            Ok(put) => {
                let tag = put.e_tag;
                let tag = tag.ok_or_else(|| incomplete(OPERATION, &self.url(key), "an entity tag"));
                Ok(Some(Version::new(tag?)))
            }
            // If an earlier attempt of this write took effect and its answer was lost, the condition fails; then
            // the stored object is the one to be written.
            Err(error) if error.code().is_some_and(|code| OUTRUN.contains(&code)) => {
                let found = self.get(key).await?;
                Ok(found.filter(|(found, _)| *found == bytes).map(|(_, version)| version))
            }
            Err(error) => Err(port_error(OPERATION, &self.url(key), error)),
        }
    }
}

#[cfg(test)]
mod tests;
