//! Requests and answers as they stand on the wire: the members of SQS's API that are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_delivery::ports::EntryError;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct One<T> {
    pub(crate) queue_url: String,
    #[serde(flatten)]
    pub(crate) entry: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct Batch<T> {
    pub(crate) queue_url: String,
    #[serde(default = "Vec::new")]
    pub(crate) entries: Vec<T>,
}

/// An entry of a batch; alone, its id is empty.
pub(crate) trait Entry {
    fn id(&self) -> &str;
}

macro_rules! entries {
    ($($entry:ty),+) => {$(
        impl Entry for $entry {
            fn id(&self) -> &str {
                &self.id
            }
        }
    )+};
}
entries!(Send, Delete, SetVisibility);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Send {
    #[serde(default)]
    pub(crate) id: String,
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
pub(crate) struct Delete {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) receipt_handle: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SetVisibility {
    #[serde(default)]
    pub(crate) id: String,
    pub(crate) receipt_handle: String,
    pub(crate) visibility_timeout: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Receive {
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
pub(crate) struct AttributesOf {
    pub(crate) queue_url: String,
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

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct QueueOnly {
    pub(crate) queue_url: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct List {
    #[serde(default)]
    pub(crate) queue_name_prefix: String,
    pub(crate) max_results: Option<usize>,
    pub(crate) next_token: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Listed {
    pub(crate) queue_urls: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next_token: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Tag {
    pub(crate) queue_url: String,
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Untag {
    pub(crate) queue_url: String,
    pub(crate) tag_keys: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct TagsOut {
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct QueueUrlOut {
    pub(crate) queue_url: String,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Attributes {
    pub(crate) attributes: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
pub(crate) struct Nothing {}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Sent {
    pub(crate) message_id: String,
    #[serde(rename = "MD5OfMessageBody")]
    pub(crate) md5_of_body: String,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    pub(crate) md5_of_attributes: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Received {
    pub(crate) messages: Vec<Delivered>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Delivered {
    pub(crate) message_id: String,
    pub(crate) receipt_handle: String,
    #[serde(rename = "MD5OfBody")]
    pub(crate) md5_of_body: String,
    pub(crate) body: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) attributes: BTreeMap<&'static str, String>,
    #[serde(rename = "MD5OfMessageAttributes", skip_serializing_if = "Option::is_none")]
    pub(crate) md5_of_attributes: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) message_attributes: BTreeMap<String, AttributeOut>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct AttributeOut {
    pub(crate) data_type: &'static str,
    pub(crate) string_value: String,
}

/// What became of a batch.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Done<T> {
    successful: Vec<Success<T>>,
    failed: Vec<Failure>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Success<T> {
    id: String,
    #[serde(flatten)]
    answer: T,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    id: String,
    code: String,
    message: String,
    sender_fault: bool,
}

impl<T> Done<T> {
    /// The answers to the entries of these ids, in their order.
    pub(crate) fn new(ids: Vec<String>, answers: Vec<Result<T, EntryError>>) -> Self {
        let mut done = Self { successful: Vec::new(), failed: Vec::new() };
        for (id, answer) in ids.into_iter().zip(answers) {
            match answer {
                Ok(answer) => done.successful.push(Success { id, answer }),
                Err(EntryError { code, message }) => {
                    let sender_fault = code != "InternalError";
                    done.failed.push(Failure { id, code, message, sender_fault });
                }
            }
        }
        done
    }
}
