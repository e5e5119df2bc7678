use std::fmt;
use std::time::Duration;

use redis::Script;
use redis::aio::MultiplexedConnection;
use tidegate_core::bucket::Terms;
use tidegate_core::config::{BucketUrl, KeyPrefix};
use tidegate_delivery::ports::{Answer, Bucket, PortError, TakeRequest, Taken};

use crate::redis::SCRIPT;
use crate::redis::connect::{RedisConnector, Trust};
use crate::redis::error::LinkError;
use crate::redis::link::Link;

/// The shared bucket on a server of the Redis protocol. It connects at its first take, so it is cheap to
/// create.
pub struct RedisBucket {
    link: Link,
    script: Script,
    prefix: KeyPrefix,
}

impl RedisBucket {
    /// Uses the bucket at `url` whose keys begin with `prefix`. If the scheme is `rediss`, the system's
    /// certificate authorities are read here.
    pub fn new(url: BucketUrl, prefix: KeyPrefix) -> Self {
        Self::trusting(url, prefix, Trust::System)
    }

    /// The same as [`RedisBucket::new`] with other certificate authorities.
    pub fn trusting(url: BucketUrl, prefix: KeyPrefix, trust: Trust) -> Self {
        let link = Link::new(RedisConnector::new(url, trust));
        Self { link, script: Script::new(SCRIPT), prefix }
    }
}

/// Converts the script's four numbers to a take's answer.
fn answer(request: &TakeRequest<'_>, told: (u64, u64, usize, u64)) -> Result<Taken, LinkError> {
    let (granted, wait, key, at_micros) = told;
    let answer = if granted > 0 {
        let count = u32::try_from(granted).map_err(|_| LinkError::Answer(format!("{told:?}")))?;
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
        let mut call = self.script.key(self.prefix.key(None));
        let Terms { period, tolerance } = Terms::of(request.pace);
        call.arg(request.least).arg(period).arg(tolerance).arg(request.wanted);
        for domain in request.limits {
            let Terms { period, tolerance } = domain.terms(request.pace);
            call.key(self.prefix.key(Some(&domain.name)));
            call.arg(period).arg(tolerance).arg(domain.recipients);
        }
        let told = self.link.call("EVALSHA", async |mut connection: MultiplexedConnection| {
            let told = call.invoke_async(&mut connection).await;
            answer(request, told.map_err(LinkError::Server)?)
        });
        told.await
    }

    /// Connects and loads the script. This also detects a connection that died while it was idle.
    async fn warm(&self) {
        let load = async |mut connection: MultiplexedConnection| {
            // A cluster sends a key's command to its node; a script is loaded wherever the call comes to.
            let mut found = redis::cmd("GET");
            let found =
                found.arg(self.prefix.key(None)).query_async::<Option<String>>(&mut connection);
            found.await.map_err(LinkError::Server)?;
            self.script.load_async(&mut connection).await.map_err(LinkError::Server)
        };
        if self.link.call("SCRIPT LOAD", load).await.is_err() {
            // A failure is reported by the take that meets it.
            let _ = self.link.call("SCRIPT LOAD", load).await;
        }
    }
}

impl fmt::Debug for RedisBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisBucket({}, {})", self.link.url(), self.prefix)
    }
}
