//! `tidegate bucket`: takes from the shared bucket, and looks at it.

mod levels;
mod script;
mod take;
mod view;

pub use levels::{BucketStatus, BucketsReport};
pub use script::TakeScript;
pub use take::{TakeOptions, TakeRefusal, TakeReport};

use tidegate_delivery::ports::{Bucket, BucketLevels, Clock, PortError};

/// What the account's bucket is called in reports.
const ACCOUNT: &str = "account";

/// Takes what is asked for, waiting for it as long as `asked` says.
///
/// # Errors
/// [`PortError`] where the bucket does not answer: nobody knows then whether the last take was granted.
pub async fn take(
    bucket: &impl Bucket,
    clock: &impl Clock,
    asked: &TakeOptions,
) -> Result<TakeReport, PortError> {
    take::take(bucket, clock, asked).await
}

pub async fn levels(bucket: &impl BucketLevels) -> Result<BucketsReport, PortError> {
    let (now, levels) = bucket.levels().await?;
    Ok(BucketsReport::of(now, &levels))
}
