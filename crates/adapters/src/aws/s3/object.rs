//! Writes, reads and deletes objects by `PutObject`, `GetObject` and `DeleteObject`.

use aws_sdk_s3::primitives::ByteStream;
use tidegate_core::deferral::ObjectName;
use tidegate_delivery::ports::{FailureKind, PortError};

use super::{MAIL, S3DeferralStore};
use crate::aws::error::port_error;

pub(super) async fn put(
    s3: &S3DeferralStore,
    name: &ObjectName,
    bytes: Vec<u8>,
) -> Result<(), PortError> {
    let key = s3.key(MAIL, name);
    let call = s3.client.put_object().bucket(s3.location.bucket()).key(&key);
    let call = call.content_type("application/gzip").body(ByteStream::from(bytes));
    let put = call.send().await;
    put.map(drop).map_err(|error| port_error("PutObject", &s3.url(&key), error))
}

/// Returns the object's bytes and its entity tag.
pub(super) async fn get(
    s3: &S3DeferralStore,
    key: &str,
) -> Result<(Vec<u8>, Option<String>), PortError> {
    let call = s3.client.get_object().bucket(s3.location.bucket()).key(key);
    let object = call.send().await.map_err(|error| port_error("GetObject", &s3.url(key), error))?;
    let body = object.body.collect().await.map_err(|error| PortError {
        operation: "GetObject",
        resource: s3.url(key),
        kind: FailureKind::Refused("an answer that cannot be read".to_owned()),
        source: Some(error.into()),
    })?;
    Ok((body.into_bytes().to_vec(), object.e_tag))
}

pub(super) async fn delete(s3: &S3DeferralStore, key: &str) -> Result<(), PortError> {
    let call = s3.client.delete_object().bucket(s3.location.bucket()).key(key);
    match call.send().await.map_err(|error| port_error("DeleteObject", &s3.url(key), error)) {
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
