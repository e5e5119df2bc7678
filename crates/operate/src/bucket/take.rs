use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::bucket::Pace;
use tidegate_delivery::ports::{Answer, Bucket, Clock, DomainTake, PortError, TakeRequest};

use super::ACCOUNT;

/// What is to be taken, and how long to wait for it.
#[derive(Clone, Debug)]
pub struct TakeOptions {
    pub pace: Pace,
    pub wanted: u32,
    /// The fewest that are of use: as many for a mail, 1 for a claim.
    pub least: u32,
    /// What is taken of domains' buckets beside it.
    pub domains: Vec<DomainTake>,
    /// How long a refusal is waited out.
    pub patience: Duration,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TakeReport {
    /// How many recipients may go now; 0: nothing was taken.
    pub granted: u32,
    pub wanted: u32,
    /// Recipients taken of each domain's bucket, where it was granted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub domains: BTreeMap<String, u32>,
    pub at: String,
    /// The same, in microseconds since the epoch.
    pub at_micros: u64,
    /// What was waited before it, milliseconds.
    pub waited_ms: u64,
    /// Why not, where it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<TakeRefusal>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TakeRefusal {
    /// Whose bucket waits longest: a domain's name, or `account`.
    pub by: String,
    /// Earlier than after this it would be refused again, milliseconds.
    pub again_after_ms: f64,
}

pub(super) async fn take(
    bucket: &impl Bucket,
    clock: &impl Clock,
    asked: &TakeOptions,
) -> Result<TakeReport, PortError> {
    let TakeOptions { pace, wanted, least, ref domains, patience } = *asked;
    let request = TakeRequest { pace, wanted, least, domains };
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
