//! The account's suppression list as a whole.

use std::collections::BTreeMap;

use tidegate_core::email::Address;
use tidegate_delivery::ports::{PortError, SuppressedAddress, SuppressionList, SuppressionReason};

/// Reads the whole suppression list: addresses in lower case, and their entries. `read` is called with the number
/// of addresses of each page.
///
/// # Errors
/// [`PortError`] if SES does not answer or refuses.
pub async fn suppressed(
    list: &impl SuppressionList,
    read: impl Fn(u64),
) -> Result<BTreeMap<String, SuppressedAddress>, PortError> {
    let (mut all, mut after) = (BTreeMap::new(), None);
    loop {
        let page = list.page(after.as_deref()).await?;
        read(page.addresses.len() as u64);
        all.extend(page.addresses.into_iter().map(|entry| (entry.address.to_lowercase(), entry)));
        after = page.next;
        if after.is_none() {
            return Ok(all);
        }
    }
}

/// The event for which an address was put on the list, in words.
pub(crate) const fn in_words(reason: SuppressionReason) -> &'static str {
    match reason {
        SuppressionReason::Bounce => "a mail to it bounced",
        SuppressionReason::Complaint => "its recipient complained",
    }
}

/// An address without a name, in lower case.
pub(crate) fn addr_spec(address: &str) -> String {
    let parsed = Address::parse(address);
    parsed.map_or_else(|_| address.to_lowercase(), |parsed| parsed.addr_spec().to_lowercase())
}
