use tidegate_adapters::redis::RedisBucket;
use tidegate_core::config::SharedBucketConfig;
use tidegate_delivery::bucketed::Bucketed;

/// Wraps `mailer` so that it asks the shared bucket, if one is configured.
pub fn bucketed<M>(mailer: M, shared: Option<&SharedBucketConfig>) -> Bucketed<M, RedisBucket> {
    match shared {
        None => Bucketed::alone(mailer),
        Some(SharedBucketConfig { url, prefix, lost }) => {
            let bucket = RedisBucket::new(url.clone(), prefix.clone());
            Bucketed::new(mailer, bucket, *lost)
        }
    }
}
