//! `tidegate bucket`: takes from the shared bucket, and shows its state.

mod levels;
mod script;
mod take;
mod view;

pub use levels::{BucketStatus, BucketsReport};
pub use script::TakeScript;
pub use take::{TakeOptions, TakeRefusal, TakeReport};

use tidegate_delivery::ports::{Bucket, BucketLevels, Clock, PortError};

/// The name of the account's bucket in reports.
const ACCOUNT: &str = "account";

/// Takes from the bucket, and waits out refusals as long as `asked.patience` allows.
///
/// # Errors
/// [`PortError`] if the bucket does not answer. It is then unknown whether the last take was granted.
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
