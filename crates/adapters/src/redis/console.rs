use std::fmt;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use tidegate_core::config::{BucketUrl, KeyPrefix};
use tidegate_delivery::ports::{BucketCharge, ConsoleBuckets, PortError};

use crate::redis::connect::{RedisConnector, Trust};
use crate::redis::error::LinkError;
use crate::redis::link::Link;

/// Buckets in one call of the script, which stops the server for a fraction of a millisecond.
const AT_ONCE: usize = 100;

/// The buckets that the consoles of a stack share, on a server of the Redis protocol. It connects at its first
/// charge.
pub struct RedisConsoleBuckets {
    link: Link,
    script: Script,
    prefix: KeyPrefix,
    stack: String,
}

impl RedisConsoleBuckets {
    /// Uses the server at `url`, and keys that begin with `prefix` and contain `stack`, which all consoles of the
    /// stack name in the same way, and no other stack's.
    pub fn new(url: BucketUrl, prefix: KeyPrefix, stack: String) -> Self {
        let link = Link::new(RedisConnector::new(url, Trust::System));
        Self { link, script: Script::new(include_str!("console.lua")), prefix, stack }
    }

    async fn charge_on(
        &self,
        charges: &[BucketCharge],
        mut connection: MultiplexedConnection,
    ) -> Result<Vec<Duration>, LinkError> {
        let mut answer = Vec::new();
        for some in charges.chunks(AT_ONCE) {
            let mut call = self.script.prepare_invoke();
            for BucketCharge { bucket, charged, full_in, most } in some {
                call.key(self.prefix.console_key(&self.stack, bucket));
                for time in [charged, full_in, most] {
                    call.arg(time.as_micros().to_string());
                }
            }
            let told: Vec<u64> =
                call.invoke_async(&mut connection).await.map_err(LinkError::Server)?;
            answer.extend(told.into_iter().map(Duration::from_micros));
        }
        Ok(answer)
    }
}

impl ConsoleBuckets for RedisConsoleBuckets {
    async fn charge(&self, charges: &[BucketCharge]) -> Result<Vec<Duration>, PortError> {
        let charge = async |connection| self.charge_on(charges, connection).await;
        self.link.call("EVALSHA", charge).await
    }
}

impl fmt::Debug for RedisConsoleBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisConsoleBuckets({}, {}, {})", self.link.url(), self.prefix, self.stack)
    }
}
