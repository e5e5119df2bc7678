use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::bucket::Pace;
use tidegate_delivery::ports::{Answer, Bucket, Clock, LimitTake, PortError, TakeRequest};

use super::ACCOUNT;

/// The recipients to take, and how long to wait for them.
#[derive(Clone, Debug)]
pub struct TakeOptions {
    pub pace: Pace,
    pub wanted: u32,
    /// The fewest recipients that are of use: all of them for a mail, 1 for a claim.
    pub least: u32,
    /// Recipients to take from domains' buckets in the same step.
    pub domains: Vec<LimitTake>,
    /// How long to retry after refusals.
    pub patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TakeReport {
    /// Recipients that may be sent now; 0 if nothing was taken.
    pub granted: u32,
    pub wanted: u32,
    /// Recipients taken from each domain's bucket, if the take was granted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, u32>,
    pub at: String,
    /// The same, in microseconds since the epoch.
    pub at_micros: u64,
    /// Time spent waiting out refusals, in milliseconds, without the calls themselves.
    pub waited_ms: u64,
    /// The refusal, if nothing was granted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<TakeRefusal>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TakeRefusal {
    /// The bucket that needs the longest wait: a domain's name, or `account`.
    pub by: String,
    /// Milliseconds until a new attempt can succeed.
    pub again_after_ms: f64,
}

pub(super) async fn take(
    bucket: &impl Bucket,
    clock: &impl Clock,
    asked: &TakeOptions,
) -> Result<TakeReport, PortError> {
    let TakeOptions { pace, wanted, least, ref domains, patience } = *asked;
    let request = TakeRequest { pace, wanted, least, limits: domains };
    let began = clock.monotonic();
    // What refusals were waited out, without the calls.
    let mut waited = Duration::ZERO;
    loop {
        let taken = bucket.take(&request).await?;
        let took = clock.monotonic().saturating_since(began);
        let report = |granted, refused| TakeReport {
            granted,
            wanted,
            domains: match granted {
                0 => BTreeMap::new(),
                _ => domains.iter().map(|d| (d.name.clone(), d.recipients)).collect(),
            },
            at: Timestamp::from_nanos(taken.at_micros.saturating_mul(1_000)).to_string(),
            at_micros: taken.at_micros,
            waited_ms: u64::try_from(waited.as_millis()).unwrap_or(u64::MAX),
            refused,
        };
        match taken.answer {
            Answer::Granted(count) => return Ok(report(count, None)),
            // The wait would exceed the patience: report the refusal now instead of waiting in
            // vain.
            Answer::Refused { after, by } if took + after > patience => {
                let by = by.unwrap_or_else(|| ACCOUNT.to_owned());
                let again_after_ms = after.as_secs_f64() * 1e3;
                return Ok(report(0, Some(TakeRefusal { by, again_after_ms })));
            }
            Answer::Refused { after, .. } => {
                clock.sleep_until(clock.monotonic() + after).await;
                waited += after;
            }
        }
    }
}
