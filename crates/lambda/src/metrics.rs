use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_aws::emf::{MetricsLine, Unit, add_dimension};
use tidegate_core::Timestamp;
use tidegate_core::back_pressure::BackPressureFigures;
use tidegate_core::counters::{Counter, CounterMetric};
use tidegate_delivery::back_pressure::BackPressureReport;
use tidegate_delivery::poll::{End, WindowReport};
use tidegate_delivery::replay::BroughtBack;
use tidegate_delivery::schedule::ScheduleReport;
use tidegate_delivery::scheduler_run::SchedulerRunReport;

/// The metrics of one window: one line for the function, and one per campaign that was sent or fed.
/// `ledger_failed` is the number of failed calls to the ledger.
pub fn poller_metrics(at: Timestamp, report: &WindowReport, ledger_failed: u64) -> Vec<Value> {
    let is = |end| f64::from(u8::from(report.end == end));
    if report.end == End::Idle && ledger_failed == 0 {
        return vec![idle_metrics(at, report)];
    }
    let mut line = MetricsLine::new(at)
        .dimension("Function", "poller")
        .metric("DuplicateWindows", Unit::Count, is(End::Duplicate))
        .metric("ExpiredWindows", Unit::Count, is(End::Expired))
        .metric("IdleWindows", Unit::Count, is(End::Idle))
        .metric("HeldWindows", Unit::Count, is(End::Held))
        .metric("BlockedWindows", Unit::Count, is(End::Blocked))
        .metric("HighestReceiveCount", Unit::Count, f64::from(report.highest_receive_count))
        .metric("LedgerFailed", Unit::Count, number(ledger_failed))
        .property("window", report.window.to_string());
    for counter in Counter::ALL {
        let count = report.count(*counter);
        line = match counter.entry().metric {
            CounterMetric::Always(name) => line.metric(name, Unit::Count, number(count)),
            CounterMetric::IfAny { name, with } => {
                let other = with.map_or(0, |with| report.count(with));
                let is_published = count + other > 0;
                if is_published { line.metric(name, Unit::Count, number(count)) } else { line }
            }
            CounterMetric::None => line,
        };
    }
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Rate", Unit::None, rate.as_per_second());
    }
    if let Some(latency) = report.latency_ms {
        line = line.metric("Latency", Unit::Milliseconds, latency);
    }
    let (sent, fed) = (report.counts.by(Counter::Sent), report.counts.by(Counter::Fed));
    let campaigns = sent.keys().chain(fed.keys().filter(|campaign| !sent.contains_key(*campaign)));
    let by_campaign = campaigns.map(|campaign| {
        let count = |of: &BTreeMap<String, u64>| number(of.get(campaign).copied().unwrap_or(0));
        MetricsLine::new(at)
            .dimension("Campaign", campaign)
            .metric("Sent", Unit::Count, count(sent))
            .metric("Fed", Unit::Count, count(fed))
            .into_value()
    });
    std::iter::once(line.into_value()).chain(by_campaign).collect()
}

/// The line of a window that ended at once. It has one metric instead of many zeros, because CloudWatch
/// bills logs by the byte.
fn idle_metrics(at: Timestamp, report: &WindowReport) -> Value {
    let line = MetricsLine::new(at).dimension("Function", "poller").metric(
        "IdleWindows",
        Unit::Count,
        1.0,
    );
    line.property("window", report.window.to_string()).into_value()
}

/// The metrics of an invocation of `function` that ended without a report. For the scheduler the only reason
/// is that no quota is known.
pub fn failed_metrics(at: Timestamp, function: &str, ledger_failed: u64) -> Vec<Value> {
    let line = MetricsLine::new(at).dimension("Function", function).metric(
        "LedgerFailed",
        Unit::Count,
        number(ledger_failed),
    );
    let line = match function {
        "scheduler" => line.metric("QuotaUnknown", Unit::Count, 1.0),
        _ => line,
    };
    vec![line.into_value()]
}

/// Adds a run's results beside the ticks (holds, back-pressure), and one line per campaign with bounces or
/// complaints.
fn minute_metrics(at: Timestamp, minute: &SchedulerRunReport, line: MetricsLine) -> Vec<Value> {
    let line = match minute.holds {
        Some(holds) => line.metric("Holds", Unit::Count, number(holds)),
        None => line,
    };
    let line = match &minute.back_pressure {
        Some(back_pressure) => back_pressure_metrics(back_pressure, line),
        None => line,
    };
    let SchedulerRunReport { feedback, .. } = minute;
    let campaigns: BTreeSet<&String> =
        feedback.bounced.keys().chain(feedback.complained.keys()).collect();
    let by_campaign = campaigns.into_iter().map(|campaign| {
        let count = |of: &BTreeMap<String, u64>| number(of.get(campaign).copied().unwrap_or(0));
        MetricsLine::new(at)
            .dimension("Campaign", campaign)
            .metric("Bounced", Unit::Count, count(&feedback.bounced))
            .metric("Complained", Unit::Count, count(&feedback.complained))
            .into_value()
    });
    std::iter::once(line.into_value()).chain(by_campaign).collect()
}

/// Adds the back-pressure level and its figures. An unknown figure becomes NaN, which
/// [`MetricsLine::metric`] leaves out.
fn back_pressure_metrics(report: &BackPressureReport, line: MetricsLine) -> MetricsLine {
    let BackPressureFigures { backlog_mails, backlog_seconds, age_seconds, refused_millionths } =
        report.reading.figures;
    let known = |figure: Option<u64>| figure.map_or(f64::NAN, number);
    let line = line
        .metric("PressureLevel", Unit::None, f64::from(report.reading.level.as_number()))
        .metric("BacklogMails", Unit::Count, known(backlog_mails))
        .metric("BacklogSeconds", Unit::Seconds, known(backlog_seconds))
        .metric("MeanAgeSeconds", Unit::Seconds, known(age_seconds))
        .metric("RefusedShare", Unit::Percent, known(refused_millionths) / 1e4);
    match &report.brought_back {
        Some(back) => replay_metrics(back, report.back_failed, line),
        None => line,
    }
}

/// Adds the result of a replay; called only in a minute with a replay.
fn replay_metrics(back: &BroughtBack, failed: bool, line: MetricsLine) -> MetricsLine {
    line.metric("BroughtBack", Unit::Count, number(back.mails)).metric(
        "SpillReplayFailed",
        Unit::Count,
        f64::from(u8::from(failed)),
    )
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
        .metric("Ticks", Unit::Count, number(report.ticks))
        .metric("TicksFailed", Unit::Count, number(report.ticks_failed))
        .metric("TicksLate", Unit::Count, number(report.ticks_late))
        .metric("IdleTicks", Unit::Count, number(report.idle_ticks))
        .metric("QuotaUnknown", Unit::Count, f64::from(u8::from(!report.quota_known)))
        .metric("LedgerFailed", Unit::Count, number(ledger_failed));
    if let Some(campaigns) = report.campaigns {
        line = line.metric("CampaignsListed", Unit::Count, number(campaigns as u64));
    }
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Quota", Unit::None, rate.as_per_second());
    }
    minute_metrics(at, minute, line)
}

/// Writes metrics to standard output, one line each; CloudWatch extracts them from there.
#[expect(clippy::print_stdout, reason = "CloudWatch reads embedded metrics from standard output")]
pub fn publish(mut lines: Vec<Value>) {
    let function = crate::variable("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    for line in &mut lines {
        add_dimension(line, "Stack", stack_of(&function));
        println!("{line}");
    }
}

/// The stack's name in a function's name `STACK-poller` or `STACK-scheduler`; both infrastructure templates
/// use this form.
fn stack_of(function: &str) -> &str {
    let suffixes = ["-poller", "-scheduler"];
    suffixes.iter().find_map(|suffix| function.strip_suffix(suffix)).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts of one window or minute")]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests;
