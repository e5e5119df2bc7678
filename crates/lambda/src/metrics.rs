use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_adapters::aws::emf::{MetricsLine, Unit, add_dimension};
use tidegate_core::Timestamp;
use tidegate_core::audit::AuditRecord;
use tidegate_core::back_pressure::{BackPressureFigures, Reading};
use tidegate_core::counters::Counter;
use tidegate_core::number::real;
use tidegate_delivery::feedback::FeedbackReport;
use tidegate_delivery::poll::{End, WindowReport};
use tidegate_delivery::schedule::ScheduleReport;
use tidegate_delivery::schedule::minute::SchedulerRunReport;
use tidegate_delivery::schedule::refill::RefillReport;

/// Counters that a window without mail has, too. Alone they are no reason for a line: a stack without mail
/// would pay for its metrics.
const WITHOUT_MAIL: [Counter; 4] =
    [Counter::Windows, Counter::TicksEarly, Counter::Unused, Counter::SqsCalls];

/// The metrics of one window: one line for the function, and one per campaign that was sent or fed. None for
/// a window in which there was no mail and nothing failed. `ledger_failed` is the number of failed calls to
/// the ledger.
pub fn poller_metrics(at: Timestamp, report: &WindowReport, ledger_failed: u64) -> Vec<Value> {
    let is = |end| f64::from(u8::from(report.end == end));
    let counted = |counter: &&Counter| report.count(**counter) > 0;
    let has_mail =
        Counter::ALL.iter().filter(counted).any(|counter| !WITHOUT_MAIL.contains(counter));
    let is_kept = matches!(report.end, End::Held | End::Blocked);
    if !has_mail && !is_kept && ledger_failed == 0 {
        return Vec::new();
    }
    let mut line = MetricsLine::new(at)
        .dimension("Function", "poller")
        .metric("HeldWindows", Unit::Count, is(End::Held))
        .metric("BlockedWindows", Unit::Count, is(End::Blocked))
        .metric("HighestReceiveCount", Unit::Count, f64::from(report.highest_receive_count))
        .metric("LedgerFailed", Unit::Count, real(ledger_failed))
        .property("window", report.window.to_string());
    for counter in Counter::ALL.iter().filter(counted) {
        let count = report.count(*counter);
        line = match counter.entry().metric {
            Some(name) => line.metric(name, Unit::Count, real(count)),
            None => line.property(counter.name(), count),
        };
    }
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Rate", Unit::None, rate.as_per_second());
    }
    if let Some(latency) = report.latency_ms {
        line = line.property("latency_ms", latency);
    }
    let (sent, fed) = (report.counts.by(Counter::Sent), report.counts.by(Counter::Fed));
    let campaigns: BTreeSet<&String> = sent.keys().chain(fed.keys()).collect();
    let by_campaign = campaigns.into_iter().filter_map(|campaign| {
        MetricsLine::new(at)
            .dimension("Campaign", campaign)
            .metric("Sent", Unit::Count, count_of(sent, campaign))
            .metric("Fed", Unit::Count, count_of(fed, campaign))
            .into_value()
    });
    line.into_value().into_iter().chain(by_campaign).collect()
}

fn count_of(counts: &BTreeMap<String, u64>, campaign: &str) -> f64 {
    real(counts.get(campaign).copied().unwrap_or(0))
}

/// The metrics of an invocation of `function` that ended without a report. For the scheduler the only reason
/// is that no quota is known.
pub fn failed_metrics(at: Timestamp, function: &str, ledger_failed: u64) -> Vec<Value> {
    let quota_unknown = f64::from(u8::from(function == "scheduler"));
    let line = MetricsLine::new(at)
        .dimension("Function", function)
        .metric("LedgerFailed", Unit::Count, real(ledger_failed))
        .metric("QuotaUnknown", Unit::Count, quota_unknown);
    line.into_value().into_iter().collect()
}

/// Adds a run's results beside the ticks (holds, back-pressure), and one line per campaign of whose mail SES told
/// something.
fn minute_metrics(at: Timestamp, minute: &SchedulerRunReport, line: MetricsLine) -> Vec<Value> {
    let line = match minute.holds() {
        Some(holds) => line.metric("Holds", Unit::Count, real(holds)),
        None => line,
    };
    let line = match &minute.back_pressure {
        Some(reading) => back_pressure_metrics(reading, line),
        None => line,
    };
    let line = match &minute.refill {
        Some(refill) => refill_metrics(refill, line),
        None => line,
    };
    let SchedulerRunReport { feedback, .. } = minute;
    let FeedbackReport { bounced, complained, suppressed, dropped, .. } = feedback;
    let told = [bounced, complained, suppressed, dropped];
    let campaigns: BTreeSet<&String> = told.into_iter().flat_map(BTreeMap::keys).collect();
    let by_campaign = campaigns.into_iter().filter_map(|campaign| {
        unsent_metrics(feedback, campaign, MetricsLine::new(at))
            .dimension("Campaign", campaign)
            .metric("Bounced", Unit::Count, count_of(bounced, campaign))
            .metric("Complained", Unit::Count, count_of(complained, campaign))
            .into_value()
    });
    line.into_value().into_iter().chain(by_campaign).collect()
}

/// Adds what SES accepted and did not send; most campaigns have none of it.
fn unsent_metrics(feedback: &FeedbackReport, campaign: &str, line: MetricsLine) -> MetricsLine {
    let count = |of| count_of(of, campaign);
    line.metric("Suppressed", Unit::Count, count(&feedback.suppressed)).metric(
        "Dropped",
        Unit::Count,
        count(&feedback.dropped),
    )
}

/// Adds the back-pressure level and its figures. An unknown figure becomes NaN, which
/// [`MetricsLine::metric`] leaves out.
fn back_pressure_metrics(report: &Reading, line: MetricsLine) -> MetricsLine {
    let BackPressureFigures { backlog_mails, backlog_seconds, age_seconds, refused_millionths } =
        report.figures;
    let known = |figure: Option<u64>| figure.map_or(f64::NAN, real);
    let grows = report.growing_since.is_some();
    line.metric("BackPressureLevel", Unit::None, f64::from(report.level as u8))
        .metric("BacklogSeconds", Unit::Seconds, known(backlog_seconds))
        .metric("BacklogGrows", Unit::None, f64::from(u8::from(grows)))
        .metric("MeanAgeSeconds", Unit::Seconds, known(age_seconds))
        .property("backlog_mails", backlog_mails)
        .property("refused_millionths", refused_millionths)
}

/// Adds what came back from the store; called only in a minute in which something was due.
fn refill_metrics(report: &RefillReport, line: MetricsLine) -> MetricsLine {
    let failed = f64::from(u8::from(report.failed));
    let line = line.metric("BroughtBack", Unit::Count, real(report.done.mails));
    line.metric("RefillFailed", Unit::Count, failed)
}

/// The metrics of one scheduler run, in the form of [`poller_metrics`].
pub fn scheduler_metrics(
    at: Timestamp,
    report: &ScheduleReport,
    minute: &SchedulerRunReport,
    ledger_failed: u64,
) -> Vec<Value> {
    let mut line = MetricsLine::new(at)
        .dimension("Function", "scheduler")
        .metric("TicksFailed", Unit::Count, real(report.ticks_failed))
        .metric("QuotaUnknown", Unit::Count, f64::from(u8::from(!report.quota_known)))
        .metric("LedgerFailed", Unit::Count, real(ledger_failed))
        .property("ticks", report.ticks)
        .property("ticks_late", report.ticks_late)
        .property("idle_ticks", report.idle_ticks)
        .property("campaigns", report.campaigns);
    // A stack that sleeps does not pay for a metric that says nothing new.
    if let Some(rate) = report.rate_per_second.filter(|_| !report.is_asleep()) {
        line = line.metric("Quota", Unit::None, rate.as_per_second());
    }
    minute_metrics(at, minute, line)
}

/// Writes metrics to standard output, one line each; CloudWatch extracts them from there.
#[expect(clippy::print_stdout, reason = "CloudWatch reads embedded metrics from standard output")]
pub fn publish(mut lines: Vec<Value>) {
    let stack = stack_name();
    for line in &mut lines {
        add_dimension(line, "Stack", &stack);
        println!("{line}");
    }
}

/// Writes the record of a window to standard output, beside its metrics: it is read as it stands, not as a message of
/// the log.
#[expect(clippy::print_stdout, reason = "the record is a line of its own")]
pub fn log_record(record: AuditRecord) {
    for line in record.lines() {
        println!("{line}");
    }
}

/// The name of the stack to which this function belongs.
pub fn stack_name() -> String {
    stack_of(&crate::variable("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default()).to_owned()
}

/// The stack's name in a function's name `STACK-poller` or `STACK-scheduler`; both infrastructure templates
/// use this form.
pub(crate) fn stack_of(function: &str) -> &str {
    let suffixes = ["-poller", "-scheduler"];
    suffixes.iter().find_map(|suffix| function.strip_suffix(suffix)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
