//! Tidegate's shared bucket on a server of the Redis protocol: Valkey, or Redis from version 5.
//!
//! | port | adapter |
//! |---|---|
//! | `Bucket` | [`RedisBucket`] |
//!
//! A take is one call of [`SCRIPT`], which is [`tidegate_core::bucket`] written in Lua. It runs on the
//! server, by the server's clock, and takes from all buckets or from none. The script is loaded once and
//! called by its digest; a server that has lost it receives it again. All takes use one connection and do
//! not wait for each other's answers.
//!
//! On a cluster, calls follow its answers `MOVED` and `ASK` to the node that has the keys: one for all of them,
//! because they have one hash tag.
//!
//! The take after a failure opens a new connection. No take waits longer than [`TIME_LIMIT`].

mod bucket;
mod cluster;
mod connect;
mod error;
mod link;

use std::time::Duration;

pub use bucket::RedisBucket;
pub use connect::Trust;
pub use error::LinkError;
use tidegate_core::config::LAST_START;

/// The Lua script of a take. The comment at its head tells programs in any language how to call it.
pub const SCRIPT: &str = include_str!("bucket.lua");

/// The time limit of a take, including the time to connect.
pub const TIME_LIMIT: Duration = Duration::from_millis(300);
const _: () = assert!(TIME_LIMIT.as_millis() <= LAST_START.as_millis());

/// The script's SHA-1 digest in hex, by which `EVALSHA` calls it.
pub fn digest() -> String {
    redis::Script::new(SCRIPT).get_hash().to_owned()
}

#[cfg(test)]
mod tests {
    use tidegate_core::bucket::{Pace, Terms};
    use tidegate_core::rate::{Rate, RateMargin};

    use super::*;

    #[test]
    fn the_docs_call_the_script_by_its_digest_with_the_numbers_of_their_rates() {
        let page = include_str!("../../../../docs/limits/shared-bucket.md");
        let rate = |per_second| Rate::per_second(per_second).unwrap();
        let pace = Pace { rate: rate(14.0), rate_margin: RateMargin::default() };
        let Terms { period, tolerance } = Terms::of(pace);
        let account = format!("1 {period} {tolerance} 1");
        let digest = digest();
        assert!(page.contains(&format!("EVALSHA {digest} 1 '{{tidegate}}:account' {account}\n")));
        let Terms { period, tolerance } = Terms::of_limit(rate(4.0), pace);
        assert!(page.contains(&format!("EVALSHA {digest} 2 '{{tidegate}}:account' '{{tidegate}}:domain:crm' \\\n  {account} {period} {tolerance} 1\n")));
    }
}
