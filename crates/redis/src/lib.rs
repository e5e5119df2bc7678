//! Tidegate's shared bucket on a server of the Redis protocol: Valkey, or Redis from version 5.
//!
//! | port | adapter |
//! |---|---|
//! | `Bucket`, `BucketLevels` | [`RedisBucket`] |
//!
//! A take is one call of [`SCRIPT`], which is [`tidegate_core::bucket`] in Lua: on the server, by the
//! server's clock, all buckets or none. It is loaded once and called by its digest; a server that has
//! lost it is given it again. All takes go over one connection, one behind the other without waiting
//! for the answers in between.
//!
//! One that is lost is opened anew by the next take; no take waits longer than [`TIME_LIMIT`].

mod bucket;
mod connect;
mod error;
mod link;

use std::time::Duration;

pub use bucket::RedisBucket;
pub use connect::Trust;
pub use error::LinkError;
use tidegate_core::config::LAST_START;

/// What a take runs on the server. Its head says how to call it, from whatever language.
pub const SCRIPT: &str = include_str!("bucket.lua");

/// No take takes longer, be it to connect.
pub const TIME_LIMIT: Duration = Duration::from_millis(300);
const _: () = assert!(TIME_LIMIT.as_millis() <= LAST_START.as_millis());

/// The script's digest, by which `EVALSHA` calls it.
pub fn digest() -> String {
    redis::Script::new(SCRIPT).get_hash().to_owned()
}
