use serde::Serialize;
use tidegate_core::bucket::{Pace, Terms};
use tidegate_core::config::KeyPrefix;

/// The Lua script of the bucket, with an example call for other software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakeScript {
    pub script: String,
    pub sha1: String,
    /// The key of the account's bucket.
    pub key: String,
    /// A domain's key begins with this.
    pub domain_keys: String,
    /// The cost of one recipient at the given rate, in microseconds.
    pub period_us: u64,
    /// The tolerance at the given rate margin, in microseconds.
    pub tolerance_us: u64,
    /// A call that takes one recipient.
    pub example: String,
}

impl TakeScript {
    /// `script` with its digest, called at `pace`.
    pub fn of(script: &str, sha1: String, prefix: &KeyPrefix, pace: Pace) -> Self {
        let Terms { period, tolerance } = Terms::of(pace);
        let key = prefix.key(None);
        Self {
            script: script.to_owned(),
            example: format!("EVALSHA {sha1} 1 {key} 1 {period} {tolerance} 1"),
            sha1,
            key,
            domain_keys: prefix.key(Some("")),
            period_us: period,
            tolerance_us: tolerance,
        }
    }
}
