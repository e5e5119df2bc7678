//! The cost of a forecast: the calls that the simulation counted, at the prices of `infra/cost`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_core::channel::Channel;
use tidegate_core::counters::Counter;
use tidegate_core::memory::Memory;
use tidegate_core::number::real;
use tidegate_core::parts::parts_for;
use tidegate_core::store::MOST_BYTES;

use super::record::{Sum, Sums, WindowRecord};
use super::scenario::Scenario;

/// AWS's published prices in us-east-1, US dollars, each with its source. Compare them before you budget: AWS
/// changes them.
const PRICES: &str = include_str!("../../../../infra/cost/prices.json");
/// An idle minute, as `make bench ONLY=idle` measures it, and assumed sizes.
const MEASURED: &str = include_str!("../../../../infra/cost/measured.json");
/// Memory of the scheduler in the template's defaults, GB.
const SCHEDULER_GB: f64 = 128.0 / 1_024.0;
/// Metrics of every stack beside those of counters, and metrics of each campaign.
const METRICS: f64 = 14.0;
const CAMPAIGN_METRICS: f64 = 4.0;
/// Beginnings of the counters of one feature alone.
const LIMIT_COUNTERS: &str = "Limit";
const FEATURE_COUNTERS: [&str; 5] = [LIMIT_COUNTERS, "Defer", "Timed", "Store", "Bucket"];
/// Alarms with the template's `Alarms` few, and those of them on SES's reputation, which a stack for texts does not
/// have.
const ALARMS: f64 = 7.0;
const SES_ALARMS: f64 = 2.0;
/// Mail that is larger crosses the queues compressed, if its producer is `tidegate send`.
const COMPRESSED_ABOVE_KB: u32 = 4;
/// SQS bills each 64 KB of a call as a request.
const REQUEST_KB: f64 = 64.0;
/// The days in the template's default for which logs are kept, as months.
const RETENTION_MONTHS: f64 = 1.0;
/// A month has 730 hours.
const MONTH_HOURS: f64 = 730.0;

/// US dollars in us-east-1, without free tiers, from the start to the end of the last mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct Cost {
    pub ses: f64,
    /// AWS's price of the texts; `None` for mails, or if the price of a part is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub texts: Option<f64>,
    /// SQS calls; each 64 KB of a call are a request. Mail above 4 KB is taken to be compressed.
    pub sqs: f64,
    /// The way of timed mail through the store: S3's requests, and SQS's.
    pub store: f64,
    /// Lambda: starts, and time on arm64. A poller with too little memory for the mail is taken to have enough.
    pub lambda: f64,
    /// The ledger: claims, reports, and deduplication's marks.
    pub dynamodb: f64,
    /// CloudWatch metrics, for each hour that has begun.
    pub metrics: f64,
    /// CloudWatch Logs, with the functions at log level `info`.
    pub logs: f64,
    /// CloudWatch alarms; only of a month.
    #[serde(skip)]
    pub alarms: f64,
    pub total: f64,
    /// Calls to SQS for each mail.
    pub sqs_calls_per_mail: f64,
    /// A month of a stack that sends nothing, with the template's defaults; not in `total`.
    pub idle_month: f64,
}

#[derive(Deserialize)]
struct Price {
    dollars: f64,
    #[cfg(test)]
    source: String,
}

#[derive(Deserialize)]
struct Measurements {
    assumed: BTreeMap<String, f64>,
    idle_minute: IdleMinutes,
}

/// The minutes that are measured, by their wake seconds.
#[derive(Deserialize)]
struct IdleMinutes {
    #[serde(rename = "1")]
    ticked: IdleMinute,
    #[serde(rename = "60")]
    asleep: IdleMinute,
}

#[derive(Clone, Copy, Deserialize)]
struct IdleMinute {
    sqs_calls: f64,
    ledger_writes: f64,
    ledger_reads: f64,
    poller: FunctionMinute,
    scheduler: FunctionMinute,
}

#[derive(Clone, Copy, Deserialize)]
struct FunctionMinute {
    invocations: f64,
    billed_ms: f64,
    log_bytes: f64,
}

/// The files of `infra/cost`.
struct Tariff {
    prices: BTreeMap<String, Price>,
    measured: Measurements,
}

impl Tariff {
    fn read() -> Result<Self, serde_json::Error> {
        Ok(Self {
            prices: serde_json::from_str(PRICES)?,
            measured: serde_json::from_str(MEASURED)?,
        })
    }

    fn price(&self, name: &str) -> f64 {
        self.prices.get(name).map_or(0.0, |price| price.dollars)
    }

    fn assumed(&self, name: &str) -> f64 {
        self.measured.assumed.get(name).copied().unwrap_or(0.0)
    }

    /// SQS calls: those that were counted, and the producers', who send in batches of ten.
    fn sqs(&self, scenario: &Scenario, usage: &Sums) -> f64 {
        let mails = real(scenario.mails());
        let more = mails * self.more_requests(scenario.mail_kb);
        let (standard, fifo) = (self.price("sqs_standard"), self.price("sqs_fifo"));
        // A large mail is sent and received, and with a merge queue once more.
        let merged = if scenario.merge { 2.0 * more } else { 0.0 };
        (usage[Sum::SqsStandard] + mails / 10.0 + 2.0 * more) * standard
            + (usage[Sum::SqsFifo] + merged) * fifo
    }

    /// Timed mail: each ten are received, deleted and enqueued once more. An object has what a window stores: three
    /// writes and two reads, and a write more for each hundred mails ([`tidegate_core::store`]).
    fn store(&self, scenario: &Scenario) -> f64 {
        if !scenario.timed {
            return 0.0;
        }
        let mails = real(scenario.mails());
        let a_window = (10.0 * scenario.quota).clamp(100.0, 2_500.0);
        let fit = real(MOST_BYTES as u64) / (f64::from(scenario.mail_kb) * 1_024.0 + 2_048.0);
        let objects = mails / a_window.min(fit.max(1.0));
        mails * (0.3 + 2.0 * self.more_requests(scenario.mail_kb)) * self.price("sqs_standard")
            + (3.0 * objects + mails / 100.0) * self.price("s3_write")
            + 2.0 * objects * self.price("s3_read")
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
    fn dynamodb(&self, scenario: &Scenario, usage: &Sums, minutes: f64) -> f64 {
        let units = |unit| self.ledger_units(scenario.campaigns.len(), unit);
        let is_deduplicated = scenario.deployed.as_ref().is_some_and(|deployed| {
            use tidegate_core::deduplication::Deduplication::Off;
            deployed.poller.deduplication != Off
        });
        let marks = if is_deduplicated { 2.0 * usage[Sum::Mails] } else { 0.0 };
        (usage[Sum::Claims] * (1.0 + units(1_024.0)) + marks) * self.price("dynamodb_write")
            + (usage[Sum::Claims] + 2.0 * minutes) * units(4_096.0) * self.price("dynamodb_read")
    }

    /// Units of this many bytes in all parts of the ledger, each of which a report writes and a claim reads.
    fn ledger_units(&self, campaigns: usize, unit: f64) -> f64 {
        let parts = f64::from(parts_for(campaigns));
        let each = real(campaigns as u64) / parts * self.assumed("ledger_campaign_bytes");
        let first = self.assumed("ledger_totals_bytes") + each;
        (first / unit).ceil() + (parts - 1.0) * (each / unit).ceil()
    }

    fn metrics(&self, scenario: &Scenario, minutes: f64) -> f64 {
        let campaigns = real(scenario.campaigns.len() as u64);
        let is_limited = scenario.limits().is_some_and(|limits| !limits.is_empty());
        let limits =
            if is_limited { counter_metrics(|name| name.starts_with(LIMIT_COUNTERS)) } else { 0.0 };
        let every = counter_metrics(|name| !FEATURE_COUNTERS.iter().any(|of| name.starts_with(of)));
        let published = METRICS + every + limits + CAMPAIGN_METRICS * campaigns;
        published * self.price("metric") * (minutes / 60.0).ceil() / MONTH_HOURS
    }

    fn logs(&self, bytes: f64) -> f64 {
        let gb = bytes / 1e9;
        let kept = gb * self.assumed("log_compression") * RETENTION_MONTHS;
        gb * self.price("log_gb") + kept * self.price("log_gb_month")
    }

    fn lambda(&self, scenario: &Scenario, usage: &Sums, minutes: f64) -> f64 {
        let needed = Memory::needed(scenario.quota, scenario.mail_kb);
        let megabytes = scenario.memory().0.max(needed.0);
        let scheduler_ms = self.measured.idle_minute.ticked.scheduler.billed_ms * minutes;
        let gb_s = (usage[Sum::PollerMs] * f64::from(megabytes) / 1_024.0
            + scheduler_ms * SCHEDULER_GB)
            / 1e3;
        (usage[Sum::Pollers] + minutes) * self.price("lambda_request")
            + gb_s * self.price("lambda_gb_s_arm64")
    }

    /// A minute without mail in which the queues are counted once in so many seconds.
    fn idle_minute(&self, wake_seconds: u32) -> IdleMinute {
        let IdleMinutes { ticked, asleep } = self.measured.idle_minute;
        if wake_seconds == 1 {
            return ticked;
        }
        // The scheduler stays until the minute's last count, and has a fourteenth of a processor where the
        // measurement has a whole one. Each count asks three queues.
        let more = f64::from(60_u32.div_ceil(wake_seconds) - 1);
        let billed_ms = asleep.scheduler.billed_ms + 1e3 * f64::from(wake_seconds) * more;
        let billed_ms = billed_ms.max(self.assumed("scheduler_asleep_ms"));
        let scheduler = FunctionMinute { billed_ms, ..asleep.scheduler };
        IdleMinute { sqs_calls: asleep.sqs_calls + 3.0 * more, scheduler, ..asleep }
    }

    fn idle_month(&self, stack: &IdleStack) -> Cost {
        let minutes = MONTH_HOURS * 60.0;
        let minute = self.idle_minute(stack.wake_seconds);
        let IdleMinute { poller, scheduler, .. } = minute;
        let poller_gb = f64::from(Memory::default().0) / 1_024.0;
        let gb_s = (poller.billed_ms * poller_gb + scheduler.billed_ms * SCHEDULER_GB) / 1e3;
        // Two campaigns and the merge queue were asked in the minute that was measured.
        let calls = minute.sqs_calls * (real(stack.campaigns as u64) + 1.0) / 3.0;
        let fifo = self.assumed("fifo_share_of_calls");
        let call = (1.0 - fifo) * self.price("sqs_standard") + fifo * self.price("sqs_fifo");
        let units = |unit| self.ledger_units(stack.campaigns, unit);
        // A claim in each window of a poller, and a report in some.
        let claims = poller.invocations;
        let reports = (minute.ledger_writes - claims).max(0.0);
        let writes = claims + reports * units(1_024.0);
        let reads = claims * units(4_096.0) + minute.ledger_reads * (1.0 + units(4_096.0));
        let is_text = stack.channel == Channel::Sms;
        let alarms = ALARMS - if is_text { SES_ALARMS } else { 0.0 };
        Cost {
            sqs: minutes * calls * call,
            lambda: minutes
                * ((1.0 + poller.invocations) * self.price("lambda_request")
                    + gb_s * self.price("lambda_gb_s_arm64")),
            dynamodb: minutes
                * (writes * self.price("dynamodb_write") + reads * self.price("dynamodb_read")),
            logs: self.logs(minutes * (poller.log_bytes + scheduler.log_bytes)),
            alarms: alarms * self.price("alarm"),
            ..Cost::default()
        }
        .summed()
    }
}

/// The counters of these names that have a metric.
fn counter_metrics(is: impl Fn(&str) -> bool) -> f64 {
    let published = Counter::ALL.iter().filter(|counter| counter.entry().metric.is_some());
    real(published.filter(|counter| is(&format!("{counter:?}"))).count() as u64)
}

/// A stack that sends nothing, with the template's defaults beside these.
#[derive(Clone, Copy, Debug)]
pub struct IdleStack {
    pub channel: Channel,
    pub campaigns: usize,
    /// The template's `IdleWakeSeconds`.
    pub wake_seconds: u32,
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
        let mut usage = Sums::default();
        for record in records {
            usage.add(&record.sums, 1.0);
        }
        let windows: u64 = records.iter().map(|record| record.windows).sum();
        let minutes = real(windows) / 60.0;
        // `sum()` of an empty iterator is -0.0, which would be shown as such.
        let small = IdleStack { channel: scenario.channel, campaigns: 2, wake_seconds: 60 };
        let is_text = scenario.channel == Channel::Sms;
        let slots = records.iter().map(WindowRecord::total).fold(0.0, |sum, sent| sum + sent);
        let cost = Self {
            ses: if is_text { 0.0 } else { slots * scenario.ses_price.unwrap_or_else(ses_price) },
            texts: scenario.price_per_part.map(|price| slots * price),
            sqs: tariff.sqs(scenario, &usage),
            store: tariff.store(scenario),
            lambda: tariff.lambda(scenario, &usage, minutes),
            dynamodb: tariff.dynamodb(scenario, &usage, minutes),
            metrics: tariff.metrics(scenario, minutes),
            logs: tariff.logs(
                usage[Sum::Claims] * tariff.assumed("busy_window_log_bytes")
                    + usage[Sum::Mails] * tariff.assumed("log_bytes_a_mail"),
            ),
            sqs_calls_per_mail: (usage[Sum::SqsStandard] + usage[Sum::SqsFifo])
                / usage[Sum::Mails].max(1.0),
            idle_month: tariff.idle_month(&small).total,
            ..Self::default()
        };
        Ok(cost.summed())
    }

    /// A month of a stack that sends nothing.
    ///
    /// # Errors
    /// The files of `infra/cost` are not as they should be.
    pub fn idle_month(stack: &IdleStack) -> Result<Self, serde_json::Error> {
        Ok(Tariff::read()?.idle_month(stack))
    }

    fn summed(self) -> Self {
        let sent = self.ses + self.texts.unwrap_or_default();
        let used = self.sqs + self.store + self.lambda + self.dynamodb + self.metrics + self.logs;
        Self { total: sent + used + self.alarms, ..self }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_figure_that_is_read_is_in_the_files_of_infra_cost() {
        let tariff = Tariff::read().unwrap();
        let read = ["ses_mail", "sqs_standard", "sqs_fifo", "lambda_request", "lambda_gb_s_arm64"];
        let more = ["dynamodb_write", "dynamodb_read", "log_gb", "log_gb_month", "metric"];
        let more = more.into_iter().chain(["s3_write", "s3_read"]);
        for name in read.into_iter().chain(more) {
            assert!(tariff.price(name) > 0.0, "{name}");
        }
        for name in [
            "ledger_totals_bytes",
            "ledger_campaign_bytes",
            "busy_window_log_bytes",
            "log_bytes_a_mail",
            "log_compression",
            "compression",
            "fifo_share_of_calls",
            "scheduler_asleep_ms",
        ] {
            assert!(tariff.assumed(name) > 0.0, "{name}");
        }
        assert!(tariff.measured.idle_minute.ticked.scheduler.billed_ms > 0.0);
        let sources = tariff.prices.values().map(|price| &price.source);
        assert!(sources.clone().all(|source| source.starts_with("https://aws.amazon.com/")));
    }

    #[test]
    fn metrics_are_as_many_as_the_functions_publish() {
        let code = include_str!("../../../lambda/src/metrics.rs");
        let published = |code: &str| -> BTreeSet<String> {
            let calls = code.split(".metric(").skip(1).filter_map(|call| {
                call.split('"').nth(1).filter(|_| call.trim_start().starts_with('"'))
            });
            calls.map(str::to_owned).collect()
        };
        let by_function: usize =
            ["poller_metrics", "minute_metrics", "back_pressure_metrics", "scheduler_metrics"]
                .map(|name| {
                    let (_, from) = code.split_once(&format!("fn {name}(")).unwrap();
                    let body = from.split("\n}\n").next().unwrap();
                    published(body.split("by_campaign").next().unwrap()).len()
                })
                .iter()
                .sum();
        let by_campaign: usize = code
            .split(".dimension(\"Campaign\"")
            .skip(1)
            .map(|line| published(line.split(".into_value").next().unwrap()).len())
            .sum();
        assert_eq!((by_function, by_campaign), (14, 4));
        assert!((METRICS - 14.0).abs() < 0.1 && (CAMPAIGN_METRICS - 4.0).abs() < 0.1);
        assert!((counter_metrics(|_| true) - 17.0).abs() < 0.1);
    }

    #[test]
    fn alarms_are_those_of_the_template() {
        let template = include_str!("../../../../infra/sam/template.yaml");
        let count =
            |rest| template.matches(&format!("Type: AWS::CloudWatch::Alarm\n    {rest}")).count();
        let (always, of_ses) = (count("Properties:"), count("Condition: IsEmail"));
        assert_eq!((always + of_ses, of_ses), (7, 2));
        assert!((ALARMS - 7.0).abs() < 0.1 && (SES_ALARMS - 2.0).abs() < 0.1);
    }

    #[test]
    fn an_idle_month_by_hand() {
        let tariff = Tariff::read().unwrap();
        let stack = IdleStack { channel: Channel::Email, campaigns: 2, wake_seconds: 60 };
        let (month, minute) = (tariff.idle_month(&stack), tariff.measured.idle_minute.asleep);
        let minutes = 730.0 * 60.0;
        // The poller has 256 MB, the scheduler 128.
        let gb_s = (minute.poller.billed_ms * 0.25 + minute.scheduler.billed_ms * 0.125) / 1e3;
        let requests = 1.0 + minute.poller.invocations;
        let lambda = minutes * (gb_s * 0.000_013_333_4 + requests * 0.20e-6);
        assert!((month.lambda - lambda).abs() < 0.005, "{month:?}");
        let calls = minutes * minute.sqs_calls;
        assert!((calls * 0.40e-6..calls * 0.50e-6).contains(&month.sqs), "{month:?}");
        // Each write is of an item below 1 KB; each claim reads one beside, and each read two.
        let reads = minute.poller.invocations + 2.0 * minute.ledger_reads;
        let ledger = minutes * (minute.ledger_writes * 0.625e-6 + reads * 0.125e-6);
        assert!((month.dynamodb - ledger).abs() < 0.005, "{month:?}");
        assert!(month.total <= 1.0, "the most that a stack without mail may cost: {month:?}");
        let text = tariff.idle_month(&IdleStack { channel: Channel::Sms, ..stack });
        assert!((month.total - text.total - 0.2).abs() < 1e-9);
    }

    #[test]
    fn a_million_timed_mails_by_hand() {
        let tariff = Tariff::read().unwrap();
        let cost = |campaign: &str, quota, mail_kb| {
            let campaigns = vec![campaign.parse().unwrap()];
            let new = Scenario::new(tidegate_core::Timestamp::from_millis(0));
            tariff.store(&Scenario { campaigns, quota, mail_kb, timed: true, ..new })
        };
        // 300,000 requests of SQS, 500 objects of 2,000 mails, and progress 10,000 times.
        let tiny = 0.12 + (1_500.0 + 10_000.0) * 5e-6 + 1_000.0 * 4e-7;
        assert!(
            (cost("news=1000k", 200.0, 2) - tiny).abs() < 1e-6,
            "{}",
            cost("news=1000k", 200.0, 2)
        );
        assert!(cost("news=1000k", 200.0, 30) > tiny && cost("news=1000k", 200.0, 30) < 0.30);
        let untimed = Scenario::new(tidegate_core::Timestamp::from_millis(0));
        assert_eq!(tariff.store(&untimed).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn the_ledger_takes_units_by_what_it_keeps_of_a_campaign() {
        let tariff = Tariff::read().unwrap();
        // 37.5 campaigns a part are 5,063 bytes, and the totals 480; 62.5 are 8,438.
        for (campaigns, written, read) in
            [(2, 1, 1), (300, 6 + 7 * 5, 8 * 2), (1_000, 9 + 15 * 9, 16 * 3)]
        {
            let units = [1_024.0, 4_096.0].map(|unit| tariff.ledger_units(campaigns, unit));
            assert_eq!(
                units.map(|units| format!("{units:.0}")),
                [written, read].map(|units: i32| units.to_string())
            );
        }
    }

    #[test]
    fn each_64_kb_of_ten_mails_are_a_request() {
        let tariff = Tariff::read().unwrap();
        let more = |mail_kb| format!("{:.1}", tariff.more_requests(mail_kb));
        assert_eq!([0, 2, 4, 30, 200].map(more), ["0.0", "0.0", "0.0", "0.0", "0.6"]);
    }
}
