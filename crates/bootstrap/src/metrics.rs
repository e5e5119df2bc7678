use serde_json::Value;
use tidegate_aws::emf::{Line, Unit};
use tidegate_core::Timestamp;
use tidegate_delivery::poll::{End, WindowReport};
use tidegate_delivery::schedule::ScheduleReport;

/// The metrics of one window: one line for the function, one a campaign that was sent or fed.
#[must_use]
pub fn poller_metrics(at: Timestamp, report: &WindowReport) -> Vec<Value> {
    let is = |end| f64::from(u8::from(report.end == end));
    let failed: u64 = report.failed.values().sum();
    let mut line = Line::new(at)
        .dimension("Function", "poller")
        .metric("Sent", Unit::Count, number(report.sent_total()))
        .metric("Refused", Unit::Count, number(report.refused))
        .metric("Failed", Unit::Count, number(failed))
        .metric("DeadLettered", Unit::Count, number(report.dead))
        .metric("Retried", Unit::Count, number(report.retried))
        .metric("Fed", Unit::Count, number(report.fed_total()))
        .metric("SlotsSkipped", Unit::Count, number(report.slots_skipped))
        .metric("SlotsUnused", Unit::Count, number(report.slots_unused))
        .metric("Left", Unit::Count, number(report.left))
        .metric("SqsCalls", Unit::Count, number(report.sqs_calls))
        .metric("DuplicateWindows", Unit::Count, is(End::Duplicate))
        .metric("ExpiredWindows", Unit::Count, is(End::Expired))
        .metric("HeldWindows", Unit::Count, is(End::Held))
        .metric("HighestReceiveCount", Unit::Count, f64::from(report.highest_receive_count))
        .property("window", report.window.to_string());
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Rate", Unit::None, rate.as_per_second());
    }
    if let Some(latency) = report.latency_ms {
        line = line.metric("Latency", Unit::Milliseconds, latency);
    }
    let campaigns =
        report.sent.keys().chain(report.fed.keys().filter(|c| !report.sent.contains_key(*c)));
    let by_campaign = campaigns.map(|campaign| {
        let count = |of: &std::collections::BTreeMap<String, u64>| {
            number(of.get(campaign).copied().unwrap_or(0))
        };
        Line::new(at)
            .dimension("Campaign", campaign)
            .metric("Sent", Unit::Count, count(&report.sent))
            .metric("Fed", Unit::Count, count(&report.fed))
            .into_value()
    });
    std::iter::once(line.into_value()).chain(by_campaign).collect()
}

/// The metrics of one scheduler run.
#[must_use]
pub fn scheduler_metrics(at: Timestamp, report: &ScheduleReport) -> Vec<Value> {
    let mut line = Line::new(at)
        .dimension("Function", "scheduler")
        .metric("Ticks", Unit::Count, number(report.ticks))
        .metric("TicksFailed", Unit::Count, number(report.ticks_failed))
        .metric("TicksLate", Unit::Count, number(report.ticks_late))
        .metric("QuotaUnknown", Unit::Count, f64::from(u8::from(!report.quota_known)));
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Quota", Unit::None, rate.as_per_second());
    }
    vec![line.into_value()]
}

/// Writes metrics where CloudWatch takes them from: lines of their own on standard output.
#[expect(clippy::print_stdout, reason = "CloudWatch reads embedded metrics from standard output")]
pub fn publish(lines: &[Value]) {
    for line in lines {
        println!("{line}");
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of one window or minute")]
fn number(value: u64) -> f64 {
    value as f64
}
