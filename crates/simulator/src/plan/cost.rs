//! The cost of a forecast: the calls that the simulation counted, at the prices of `infra/cost`.

use serde::Serialize;
use serde_json::Value;
use tidegate_core::channel::Channel;
use tidegate_core::memory::Memory;
use tidegate_core::parts::parts_for;

use super::record::{ServiceUsage, WindowRecord, as_f64};
use super::scenario::Scenario;

/// The prices that `infra/cost/cost.py` reads too.
const PRICES: &str = include_str!("../../../../infra/cost/prices.json");
/// Measured and assumed sizes, which `infra/cost/cost.py` reads too.
const MEASURED: &str = include_str!("../../../../infra/cost/measured.json");
/// The metrics of a stack and the costs of months, calculated by `infra/cost/cost.py --calculated`.
const CALCULATED: &str = include_str!("../../../../infra/cost/calculated.json");
/// Memory of the scheduler in the template's defaults, GB.
const SCHEDULER_GB: f64 = 128.0 / 1_024.0;
/// Mail that is larger crosses the queues compressed, if its producer is `tidegate send`.
const COMPRESSED_ABOVE_KB: u32 = 4;
/// SQS bills each 64 KB of a call as a request.
const REQUEST_KB: f64 = 64.0;
/// The days in the template's default for which logs are kept, as months.
const RETENTION_MONTHS: f64 = 1.0;
/// A month has 730 hours.
const MONTH_HOURS: f64 = 730.0;

/// US dollars in us-east-1, without free tiers, from the start to the end of the last mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Cost {
    pub ses: f64,
    /// AWS's price of the texts; `None` for mails, or if the price of a part is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<f64>,
    /// SQS calls; each 64 KB of a call are a request. Mail above 4 KB is taken to be compressed.
    pub sqs: f64,
    /// Lambda: starts, and time on arm64. A poller with too little memory for the mail is taken to have enough.
    pub lambda: f64,
    /// The ledger: claims, reports, and deduplication's marks.
    pub dynamodb: f64,
    /// CloudWatch metrics, for each hour that has begun.
    pub metrics: f64,
    /// CloudWatch Logs, with the functions at log level `info`.
    pub logs: f64,
    pub total: f64,
    /// Calls to SQS for each mail.
    pub sqs_calls_per_mail: f64,
    /// A month of a stack that sends nothing, with the template's defaults; not in `total`.
    pub idle_month: f64,
}

/// The files of `infra/cost`.
struct Tariff {
    prices: Value,
    measured: Value,
    calculated: Value,
}

impl Tariff {
    fn read() -> Result<Self, serde_json::Error> {
        Ok(Self {
            prices: serde_json::from_str(PRICES)?,
            measured: serde_json::from_str(MEASURED)?,
            calculated: serde_json::from_str(CALCULATED)?,
        })
    }

    fn price(&self, name: &str) -> f64 {
        self.prices[name]["dollars"].as_f64().unwrap_or(0.0)
    }

    fn assumed(&self, name: &str) -> f64 {
        self.measured["assumed"][name].as_f64().unwrap_or(0.0)
    }

    fn scheduler_minute_ms(&self) -> f64 {
        let minute = &self.measured["idle_minute"]["1"];
        minute["scheduler"]["billed_ms"].as_f64().unwrap_or(0.0)
    }

    /// The number of metrics that a part of the stack publishes.
    fn published(&self, of: &str) -> f64 {
        self.calculated["metrics"][of].as_f64().unwrap_or(0.0)
    }

    /// A month's dollars for all services.
    fn month(&self, name: &str) -> f64 {
        let services = self.calculated["months"][name].as_object();
        services.map_or(0.0, |services| services.values().filter_map(Value::as_f64).sum())
    }

    /// SQS calls: those that were counted, and the producers', who send in batches of ten.
    fn sqs(&self, scenario: &Scenario, usage: &ServiceUsage) -> f64 {
        let mails = as_f64(scenario.mails());
        let more = mails * self.more_requests(scenario.mail_kb);
        let (standard, fifo) = (self.price("sqs_standard"), self.price("sqs_fifo"));
        // A large mail is sent and received, and with a merge queue once more.
        let merged = if scenario.merge { 2.0 * more } else { 0.0 };
        (usage.sqs_standard + mails / 10.0 + 2.0 * more) * standard
            + (usage.sqs_fifo + merged) * fifo
    }

    /// Requests a mail beside the call's own. Ten mails of 200 KB cross as 400 KB, which are seven requests:
    /// 0.6 more each.
    fn more_requests(&self, mail_kb: u32) -> f64 {
        let is_compressed = mail_kb > COMPRESSED_ABOVE_KB;
        let by = if is_compressed { self.assumed("compression").max(1.0) } else { 1.0 };
        ((10.0 * f64::from(mail_kb) / by / REQUEST_KB).ceil().max(1.0) - 1.0) / 10.0
    }

    /// The ledger's claims and reports, and marks: two writes a mail, one when its send begins, one when it
    /// is sent.
    fn dynamodb(&self, scenario: &Scenario, usage: &ServiceUsage, minutes: f64) -> f64 {
        // The same formula as in `infra/cost/cost.py`, for windows that write every part.
        let parts = f64::from(parts_for(scenario.campaigns.len()));
        let campaigns = as_f64(scenario.campaigns.len() as u64);
        let each = campaigns / parts * self.assumed("ledger_campaign_bytes");
        let first = self.assumed("ledger_totals_bytes") + each;
        let units = |unit: f64| (first / unit).ceil() + (parts - 1.0) * (each / unit).ceil();
        let is_deduplicated = scenario.deployed.as_ref().is_some_and(|deployed| {
            use tidegate_core::deduplication::Deduplication::Off;
            deployed.poller.deduplication != Off
        });
        let marks = if is_deduplicated { 2.0 * usage.mails } else { 0.0 };
        (usage.claims * (1.0 + units(1_024.0)) + marks) * self.price("dynamodb_write")
            + (usage.claims + 2.0 * minutes) * units(4_096.0) * self.price("dynamodb_read")
    }

    fn metrics(&self, scenario: &Scenario, minutes: f64) -> f64 {
        let campaigns = as_f64(scenario.campaigns.len() as u64);
        let is_limited = scenario.limits().is_some_and(|limits| !limits.is_empty());
        let domains = if is_limited { self.published("domain") } else { 0.0 };
        let published = self.published("poller")
            + self.published("scheduler")
            + domains
            + self.published("campaign") * campaigns;
        published * self.price("metric") * (minutes / 60.0).ceil() / MONTH_HOURS
    }

    fn logs(&self, usage: &ServiceUsage) -> f64 {
        let gb = usage.claims * self.assumed("busy_window_log_bytes") / 1e9;
        let kept = gb * self.assumed("log_compression") * RETENTION_MONTHS;
        gb * self.price("log_gb") + kept * self.price("log_gb_month")
    }

    fn lambda(&self, scenario: &Scenario, usage: &ServiceUsage, minutes: f64) -> f64 {
        let needed = Memory::needed(scenario.quota, scenario.mail_kb);
        let megabytes = scenario.memory().as_megabytes().max(needed.as_megabytes());
        let scheduler_ms = self.scheduler_minute_ms() * minutes;
        let gb_s =
            (usage.poller_ms * f64::from(megabytes) / 1_024.0 + scheduler_ms * SCHEDULER_GB) / 1e3;
        (usage.pollers + minutes) * self.price("lambda_request")
            + gb_s * self.price("lambda_gb_s_arm64")
    }
}

/// SES's price for each recipient, US dollars in us-east-1, without the data of attachments.
pub fn ses_price() -> f64 {
    Tariff::read().map_or(0.0, |tariff| tariff.price("ses_mail"))
}

impl Cost {
    /// The cost of the services that a run used.
    pub(super) fn of(
        scenario: &Scenario,
        records: &[WindowRecord],
    ) -> Result<Self, serde_json::Error> {
        let tariff = Tariff::read()?;
        let mut usage = ServiceUsage::default();
        for record in records {
            usage.add(&record.usage, 1.0);
        }
        let windows: u64 = records.iter().map(|record| record.windows).sum();
        let minutes = as_f64(windows) / 60.0;
        // `sum()` of an empty iterator is -0.0, which would be shown as such.
        let is_text = scenario.channel == Channel::Sms;
        let slots = records.iter().map(WindowRecord::total).fold(0.0, |sum, sent| sum + sent);
        let cost = Self {
            ses: if is_text { 0.0 } else { slots * scenario.ses_price.unwrap_or_else(ses_price) },
            texts: scenario.price_per_part.map(|price| slots * price),
            sqs: tariff.sqs(scenario, &usage),
            lambda: tariff.lambda(scenario, &usage, minutes),
            dynamodb: tariff.dynamodb(scenario, &usage, minutes),
            metrics: tariff.metrics(scenario, minutes),
            logs: tariff.logs(&usage),
            total: 0.0,
            sqs_calls_per_mail: (usage.sqs_standard + usage.sqs_fifo) / usage.mails.max(1.0),
            idle_month: tariff.month(if is_text { "idle, texts" } else { "idle" }),
        };
        let sent = cost.ses + cost.texts.unwrap_or_default();
        let total = sent + cost.sqs + cost.lambda + cost.dynamodb + cost.metrics + cost.logs;
        Ok(Self { total, ..cost })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_is_read_is_in_the_files_of_infra_cost() {
        let tariff = Tariff::read().unwrap();
        let read = ["ses_mail", "sqs_standard", "sqs_fifo", "lambda_request", "lambda_gb_s_arm64"];
        let more = ["dynamodb_write", "dynamodb_read", "log_gb", "log_gb_month", "metric"];
        for name in read.into_iter().chain(more) {
            assert!(tariff.price(name) > 0.0, "{name}");
        }
        for name in [
            "ledger_totals_bytes",
            "ledger_campaign_bytes",
            "busy_window_log_bytes",
            "log_compression",
            "compression",
        ] {
            assert!(tariff.assumed(name) > 0.0, "{name}");
        }
        assert!(tariff.scheduler_minute_ms() > 0.0);
        for name in ["poller", "scheduler", "campaign", "domain"] {
            assert!(tariff.published(name) > 0.0, "{name}");
        }
        assert!(tariff.month("idle") > tariff.month("idle, texts"));
        assert!(tariff.month("idle, texts") > 0.0);
    }

    #[test]
    fn each_64_kb_of_ten_mails_are_a_request() {
        let tariff = Tariff::read().unwrap();
        let more = |mail_kb| format!("{:.1}", tariff.more_requests(mail_kb));
        assert_eq!([0, 2, 4, 30, 200].map(more), ["0.0", "0.0", "0.0", "0.0", "0.6"]);
    }
}
