//! Lists deferred mail by `ListObjectsV2`. S3 orders keys by their bytes, which here is the order of their
//! windows.

use tidegate_delivery::ports::{DeferredObject, DeferredPage, PortError};

use super::{MAIL, S3DeferralStore};
use crate::aws::error::port_error;

pub(super) async fn list(
    s3: &S3DeferralStore,
    after: Option<&str>,
) -> Result<DeferredPage, PortError> {
    let folder = s3.location.key(MAIL, "");
    let call = s3.client.list_objects_v2().bucket(s3.location.bucket()).prefix(&folder);
    let call = call.max_keys(s3.page);
    let call = call.set_start_after(after.map(|name| s3.location.key(MAIL, name)));
    let listed = call.send().await;
    let listed = listed.map_err(|error| port_error("ListObjectsV2", &s3.url(&folder), error))?;
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
