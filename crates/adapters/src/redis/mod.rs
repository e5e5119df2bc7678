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

mod connection;

use std::fmt;
use std::time::Duration;

pub use connection::TIME_LIMIT;
use connection::{Link, RedisConnector};
use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, RedisResult, Script};
use rustls::RootCertStore;
use tidegate_core::bucket::Terms;
use tidegate_core::config::{BucketUrl, bucket_key};
use tidegate_delivery::ports::{Answer, Bucket, PortError, TakeRequest, Taken};

use crate::aws::trust_roots;

/// The Lua script of a take. The comment at its head tells programs in any language how to call it.
pub const SCRIPT: &str = include_str!("bucket.lua");

/// The script's SHA-1 digest in hex, by which `EVALSHA` calls it.
pub fn digest() -> String {
    Script::new(SCRIPT).get_hash().to_owned()
}

/// The shared bucket on a server of the Redis protocol. It connects at its first take, so it is cheap to
/// create.
pub struct RedisBucket {
    link: Link,
    script: Script,
    prefix: String,
}

impl RedisBucket {
    /// Uses the bucket at `url` whose keys begin with `prefix`. If the scheme is `rediss`, the system's
    /// certificate authorities are read here.
    pub fn new(url: BucketUrl, prefix: String) -> Self {
        Self::trusting(url, prefix, trust_roots)
    }

    /// The same as [`RedisBucket::new`] with other certificate authorities.
    pub fn trusting(
        url: BucketUrl,
        prefix: String,
        trusted: impl FnOnce() -> RootCertStore,
    ) -> Self {
        let link = Link::new(RedisConnector::new(url, trusted));
        Self { link, script: Script::new(SCRIPT), prefix }
    }
}

/// Converts the script's four numbers to a take's answer.
fn answer(request: &TakeRequest<'_>, told: (u64, u64, usize, u64)) -> RedisResult<Taken> {
    let (granted, wait, key, at_micros) = told;
    let answer = if granted > 0 {
        let count = u32::try_from(granted).map_err(|_| {
            (ErrorKind::UnexpectedReturnType, "the script's answer", format!("{told:?}"))
        })?;
        Answer::Granted(count)
    } else {
        let by = key.checked_sub(2).and_then(|index| request.limits.get(index));
        let by = by.map(|domain| domain.name.clone());
        Answer::Refused { after: Duration::from_micros(wait), by }
    };
    Ok(Taken { answer, at_micros })
}

impl Bucket for RedisBucket {
    async fn take(&self, request: &TakeRequest<'_>) -> Result<Taken, PortError> {
        let mut call = self.script.key(bucket_key(&self.prefix, None));
        let Terms { period, tolerance } = Terms::of(request.pace);
        call.arg(request.least).arg(period).arg(tolerance).arg(request.wanted);
        for domain in request.limits {
            let Terms { period, tolerance } = domain.terms(request.pace);
            call.key(bucket_key(&self.prefix, Some(&domain.name)));
            call.arg(period).arg(tolerance).arg(domain.recipients);
        }
        let told = self.link.call("EVALSHA", async |mut connection: MultiplexedConnection| {
            answer(request, call.invoke_async(&mut connection).await?)
        });
        told.await
    }

    /// Connects and loads the script. This also detects a connection that died while it was idle.
    async fn warm(&self) {
        let load = async |mut connection: MultiplexedConnection| {
            // A cluster sends a key's command to its node; a script is loaded wherever the call comes to.
            let mut get = redis::cmd("GET");
            let get = get.arg(bucket_key(&self.prefix, None));
            get.query_async::<Option<String>>(&mut connection).await?;
            self.script.load_async(&mut connection).await
        };
        if self.link.call("SCRIPT LOAD", load).await.is_err() {
            // A failure is reported by the take that meets it.
            let _ = self.link.call("SCRIPT LOAD", load).await;
        }
    }
}

impl fmt::Debug for RedisBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBucket({}, {})", self.link.connector.url, self.prefix)
    }
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
