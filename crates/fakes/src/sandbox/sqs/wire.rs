//! Requests as they stand on the wire, the members of SQS's API that are used; and the MD5 digests that clients compare
//! with their own.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};
use serde::Deserialize;

/// One entry: alone, with its queue's URL, or in a batch, with its id.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct EntryRequest<T> {
    pub(crate) queue_url: Option<String>,
    #[serde(default)]
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) entry: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct BatchRequest<T> {
    pub(crate) queue_url: String,
    #[serde(default = "Vec::new")]
    pub(crate) entries: Vec<EntryRequest<T>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SendEntry {
    #[serde(default)]
    pub(crate) message_body: String,
    #[serde(default)]
    pub(crate) message_attributes: BTreeMap<String, AttributeIn>,
    #[serde(default)]
    pub(crate) delay_seconds: u64,
    pub(crate) message_group_id: Option<String>,
    pub(crate) message_deduplication_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AttributeIn {
    pub(crate) data_type: String,
    pub(crate) string_value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DeleteEntry {
    pub(crate) receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct VisibilityEntry {
    pub(crate) receipt_handle: String,
    pub(crate) visibility_timeout: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ReceiveRequest {
    pub(crate) queue_url: String,
    pub(crate) max_number_of_messages: Option<usize>,
    #[serde(default)]
    pub(crate) wait_time_seconds: u64,
    pub(crate) visibility_timeout: Option<u64>,
    #[serde(default)]
    pub(crate) message_attribute_names: Vec<String>,
    #[serde(default)]
    pub(crate) message_system_attribute_names: Vec<String>,
    /// The older name of the system attributes.
    #[serde(default)]
    pub(crate) attribute_names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct QueueSpec {
    pub(crate) queue_name: String,
    #[serde(default)]
    pub(crate) attributes: BTreeMap<String, String>,
    /// SQS spells this one member small.
    #[serde(default, rename = "tags")]
    pub(crate) tags: BTreeMap<String, String>,
}

/// A call on a queue that touches no message.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct QueueRequest {
    pub(crate) queue_url: String,
    #[serde(default)]
    pub(crate) attribute_names: Vec<String>,
    #[serde(default)]
    pub(crate) tags: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) tag_keys: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ListRequest {
    #[serde(default)]
    pub(crate) queue_name_prefix: String,
    pub(crate) max_results: Option<usize>,
    pub(crate) next_token: Option<String>,
}

/// The digest of a message body.
pub(crate) fn of_body(body: &str) -> String {
    hex(Md5::new_with_prefix(body))
}

/// The digest of attributes of type `String`; none without attributes. SQS hashes them by name:
/// each text after its length in four bytes, and a byte 1 (for text) before each value.
pub(crate) fn of_attributes<N: AsRef<str> + Ord>(
    attributes: &BTreeMap<N, impl AsRef<str>>,
) -> Option<String> {
    let mut md5 = Md5::new();
    let part = |md5: &mut Md5, text: &str| {
        // SQS takes no part of more than 1 MiB.
        md5.update(u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        md5.update(text);
    };
    for (name, value) in attributes {
        part(&mut md5, name.as_ref());
        part(&mut md5, "String");
        md5.update([1]);
        part(&mut md5, value.as_ref());
    }
    (!attributes.is_empty()).then(|| hex(md5))
}

fn hex(md5: Md5) -> String {
    md5.finalize().iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_the_digest_that_md5sum_tells() {
        assert_eq!(of_body("hello"), "5d41402abc4b2a76b9719d911017c592");
        assert_eq!(of_body("Grüße"), "49c5f675b49037b6044b803ac9d1a6d7");
    }

    #[test]
    fn attributes_have_the_digest_that_aws_documents() {
        // `printf '\0\0\0\x08campaign\0\0\0\x06String\x01\0\0\0\x03big' | md5sum`, and so on.
        let one = BTreeMap::from([("campaign", "big")]);
        assert_eq!(of_attributes(&one).unwrap(), "53d7cac34294bae2676e66c67874b51a");
        let two = BTreeMap::from([("pass", "0"), ("campaign", "big")]);
        assert_eq!(of_attributes(&two).unwrap(), "e8c92c57588d704f6416198cfb9b0bc6");
        assert_eq!(of_attributes(&BTreeMap::<&str, &str>::new()), None);
    }
}
