//! An object's replay progress: a small object that is written under a condition on its version.

use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_types::error::metadata::ProvideErrorMetadata as _;
use tidegate_core::deferral::Progress;
use tidegate_delivery::ports::{FailureKind, PortError, Version};

use super::S3DeferralStore;
use crate::aws::error::{incomplete, port_error, refused};

/// S3's codes for a condition that does not hold, or that cannot be decided because of a concurrent write.
const OUTRUN: [&str; 2] = ["PreconditionFailed", "ConditionalRequestConflict"];

pub(super) async fn read(
    s3: &S3DeferralStore,
    key: &str,
) -> Result<Option<(Progress, Version)>, PortError> {
    let (bytes, tag) = match s3.read(key).await {
        Ok(found) => found,
        Err(PortError { kind: FailureKind::NotFound, source, .. })
            if is_no_key(source.as_deref()) =>
        {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let tag = tag.ok_or_else(|| incomplete("GetObject", &s3.url(key), "an entity tag"))?;
    let progress = serde_json::from_slice(&bytes).map_err(|error| {
        refused("GetObject", &s3.url(key), "an object that is no progress", error)
    })?;
    Ok(Some((progress, Version::new(tag))))
}

/// Whether the object is missing, as opposed to its bucket.
fn is_no_key(source: Option<&(dyn std::error::Error + Send + Sync + 'static)>) -> bool {
    use aws_sdk_s3::operation::get_object::GetObjectError;
    let error = source.and_then(|source| source.downcast_ref::<GetObjectError>());
    error.is_some_and(|error| error.code() != Some("NoSuchBucket"))
}

pub(super) async fn write(
    s3: &S3DeferralStore,
    key: &str,
    progress: &Progress,
    stands: Option<&Version>,
) -> Result<Option<Version>, PortError> {
    let body = serde_json::to_vec(progress).map_err(|error| {
        refused("PutObject", &s3.url(key), "a progress that cannot be written", error)
    })?;
    let call = s3.client.put_object().bucket(&s3.location.bucket).key(key);
    let call = call.content_type("application/json").body(ByteStream::from(body));
    let call = match stands {
        Some(version) => call.if_match(version.as_str()),
        None => call.if_none_match("*"),
    };
    match call.send().await {
        Ok(put) => {
            let tag =
                put.e_tag.ok_or_else(|| incomplete("PutObject", &s3.url(key), "an entity tag"))?;
            Ok(Some(Version::new(tag)))
        }
        // If an earlier attempt of this write took effect and its answer was lost, the condition fails; then
        // the stored progress is the one to be written.
        Err(error) if error.code().is_some_and(|code| OUTRUN.contains(&code)) => {
            let found = read(s3, key).await?;
            Ok(found.filter(|(found, _)| found == progress).map(|(_, version)| version))
        }
        Err(error) => Err(port_error("PutObject", &s3.url(key), error)),
    }
}
