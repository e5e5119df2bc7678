//! The cost of a forecast: the calls that the simulation counted, at the prices of `infra/cost`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::parts::parts_for;

use super::record::{ServiceUsage, WindowRecord};
use super::scenario::Scenario;
use super::state::as_f64;

/// The prices that `infra/cost/cost.py` reads too.
const PRICES: &str = include_str!("../../../../infra/cost/prices.json");
/// Measured and assumed sizes, which `infra/cost/cost.py` reads too.
const MEASURED: &str = include_str!("../../../../infra/cost/measured.json");
/// Memory of the functions in the template's defaults, GB.
const POLLER_GB: f64 = 256.0 / 1_024.0;
const SCHEDULER_GB: f64 = 128.0 / 1_024.0;

/// US dollars in us-east-1, without free tiers, from the start to the end of the last mail. The
/// fixed cost of a stack without mail is not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    pub ses: f64,
    /// SQS calls. A call above 64 KB is billed as several, which is not modelled.
    pub sqs: f64,
    /// Lambda: starts, and time at 256 MB on arm64.
    pub lambda: f64,
    /// The ledger: claims, reports, and deduplication's marks.
    pub dynamodb: f64,
    /// CloudWatch Logs, with the functions at log level `info`.
    pub logs: f64,
    pub total: f64,
    /// Calls to SQS for each mail.
    pub sqs_calls_per_mail: f64,
}

#[derive(Deserialize)]
struct Price {
    dollars: f64,
}

#[derive(Deserialize)]
struct Measurements {
    assumed: BTreeMap<String, f64>,
    idle_minute: BTreeMap<String, IdleMinute>,
}

#[derive(Deserialize)]
struct IdleMinute {
    scheduler: SchedulerMinute,
}

#[derive(Deserialize)]
struct SchedulerMinute {
    billed_ms: f64,
}

impl Cost {
    /// The cost of the services that a run used.
    pub(super) fn of(
        scenario: &Scenario,
        records: &[WindowRecord],
    ) -> Result<Self, serde_json::Error> {
        let prices: BTreeMap<String, Price> = serde_json::from_str(PRICES)?;
        let measured: Measurements = serde_json::from_str(MEASURED)?;
        let price = |name: &str| prices.get(name).map_or(0.0, |price| price.dollars);
        let assumed = |name: &str| measured.assumed.get(name).copied().unwrap_or(0.0);
        let minute = measured.idle_minute.get("1");
        let mut usage = ServiceUsage::default();
        for record in records {
            usage.add(&record.usage, 1.0);
        }
        let windows: u64 = records.iter().map(|record| record.windows).sum();
        let minutes = as_f64(windows) / 60.0;
        // `sum()` of an empty iterator is -0.0, which would be shown as such.
        let recipients = records.iter().map(WindowRecord::total).fold(0.0, |sum, sent| sum + sent);
        let scheduler_ms = minute.map_or(0.0, |minute| minute.scheduler.billed_ms) * minutes;
        // The same formula as in `infra/cost/cost.py`, for windows that write every part.
        let parts = f64::from(parts_for(scenario.campaigns.len()));
        let campaigns = as_f64(scenario.campaigns.len() as u64);
        let each = campaigns / parts * assumed("ledger_campaign_bytes");
        let first = assumed("ledger_totals_bytes") + each;
        let units = |unit: f64| (first / unit).ceil() + (parts - 1.0) * (each / unit).ceil();
        let guarded = scenario.deployed.as_ref().is_some_and(|deployed| {
            use tidegate_core::deduplication::Deduplication::Off;
            deployed.poller.deduplication != Off
        });
        // Two writes per mail: one when its send begins, one when it is sent.
        let marks = if guarded { 2.0 * usage.mails } else { 0.0 };
        let log = usage.claims * assumed("busy_window_log_bytes");
        // Producers send in batches of ten.
        let produced = as_f64(scenario.mails()) / 10.0;
        let cost = Self {
            ses: recipients * price("ses_mail"),
            sqs: (usage.sqs_standard + produced) * price("sqs_standard")
                + usage.sqs_fifo * price("sqs_fifo"),
            lambda: (usage.pollers + minutes) * price("lambda_request")
                + (usage.poller_ms * POLLER_GB + scheduler_ms * SCHEDULER_GB) / 1e3
                    * price("lambda_gb_s_arm64"),
            dynamodb: (usage.claims * (1.0 + units(1_024.0)) + marks) * price("dynamodb_write")
                + (usage.claims + 2.0 * minutes) * units(4_096.0) * price("dynamodb_read"),
            logs: log / 1e9 * price("log_gb"),
            total: 0.0,
            sqs_calls_per_mail: (usage.sqs_standard + usage.sqs_fifo) / usage.mails.max(1.0),
        };
        let total = cost.ses + cost.sqs + cost.lambda + cost.dynamodb + cost.logs;
        Ok(Self { total, ..cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_and_every_assumption_that_is_read_is_in_the_files_of_infra_cost() {
        let prices: BTreeMap<String, Price> = serde_json::from_str(PRICES).unwrap();
        let read = ["ses_mail", "sqs_standard", "sqs_fifo", "lambda_request", "lambda_gb_s_arm64"];
        for name in read.iter().chain(&["dynamodb_write", "dynamodb_read", "log_gb"]) {
            assert!(prices[*name].dollars > 0.0, "{name}");
        }
        let measured: Measurements = serde_json::from_str(MEASURED).unwrap();
        for name in [
            "ledger_totals_bytes",
            "ledger_campaign_bytes",
            "busy_window_log_bytes",
            "mail_log_bytes",
        ] {
            assert!(measured.assumed[name] > 0.0, "{name}");
        }
        assert!(measured.idle_minute["1"].scheduler.billed_ms > 0.0);
    }
}
