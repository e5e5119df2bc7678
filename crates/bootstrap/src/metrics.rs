use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate_aws::emf::{Line, Unit, add_dimension};
use tidegate_core::Timestamp;
use tidegate_core::pressure::Figures;
use tidegate_delivery::minute::MinuteReport;
use tidegate_delivery::poll::{End, WindowReport};
use tidegate_delivery::pressure::PressureReport;
use tidegate_delivery::replay::BroughtBack;
use tidegate_delivery::schedule::ScheduleReport;

/// The metrics of one window: one line for the function, one a campaign that was sent or fed.
/// `ledger_failed` are the calls to the ledger that failed.
#[must_use]
pub fn poller_metrics(at: Timestamp, report: &WindowReport, ledger_failed: u64) -> Vec<Value> {
    let is = |end| f64::from(u8::from(report.end == end));
    if report.end == End::Idle && ledger_failed == 0 {
        return vec![idle_metrics(at, report)];
    }
    let failed: u64 = report.failed.values().sum();
    let mut line = Line::new(at)
        .dimension("Function", "poller")
        .metric("Sent", Unit::Count, number(report.sent_total()))
        .metric("Refused", Unit::Count, number(report.refused))
        .metric("Failed", Unit::Count, number(failed))
        .metric("PossiblySent", Unit::Count, number(report.possibly_sent()))
        .metric("DeletesFailed", Unit::Count, number(report.delete_failed))
        .metric("MovesFailed", Unit::Count, number(report.move_failed))
        .metric("DeadLettered", Unit::Count, number(report.dead))
        .metric("Retried", Unit::Count, number(report.retried))
        .metric("Fed", Unit::Count, number(report.fed_total()))
        .metric("SlotsSkipped", Unit::Count, number(report.slots_skipped))
        .metric("SlotsUnused", Unit::Count, number(report.slots_unused))
        .metric("Left", Unit::Count, number(report.left))
        .metric("SqsCalls", Unit::Count, number(report.sqs_calls))
        .metric("DuplicateWindows", Unit::Count, is(End::Duplicate))
        .metric("ExpiredWindows", Unit::Count, is(End::Expired))
        .metric("IdleWindows", Unit::Count, is(End::Idle))
        .metric("HeldWindows", Unit::Count, is(End::Held))
        .metric("BlockedWindows", Unit::Count, is(End::Blocked))
        .metric("Late", Unit::Count, number(report.late))
        .metric("AlreadySent", Unit::Count, number(report.already_sent))
        .metric("Parked", Unit::Count, number(report.parked))
        .metric("HighestReceiveCount", Unit::Count, f64::from(report.highest_receive_count))
        .metric("LedgerFailed", Unit::Count, number(ledger_failed))
        .property("window", report.window.to_string());
    line = spill_metrics(report, line);
    if let Some(rate) = report.rate_per_second {
        line = line.metric("Rate", Unit::None, rate.as_per_second());
    }
    line = domain_metrics(report, bucket_metrics(report, line));
    if let Some(latency) = report.latency_ms {
        line = line.metric("Latency", Unit::Milliseconds, latency);
    }
    let campaigns =
        report.sent.keys().chain(report.fed.keys().filter(|c| !report.sent.contains_key(*c)));
    let by_campaign = campaigns.map(|campaign| {
        let count = |of: &BTreeMap<String, u64>| number(of.get(campaign).copied().unwrap_or(0));
        Line::new(at)
            .dimension("Campaign", campaign)
            .metric("Sent", Unit::Count, count(&report.sent))
            .metric("Fed", Unit::Count, count(&report.fed))
            .into_value()
    });
    std::iter::once(line.into_value()).chain(by_campaign).collect()
}

/// What the shared bucket withheld. A metric costs: whoever shares none pays for none.
fn bucket_metrics(report: &WindowReport, mut line: Line) -> Line {
    if report.bucket_refused > 0 {
        line = line.metric("BucketRefused", Unit::Count, number(report.bucket_refused));
    }
    if report.bucket_lost > 0 {
        line = line.metric("BucketLost", Unit::Count, number(report.bucket_lost));
    }
    line
}

/// What moved into recipient domains' queues, and what was received from one and got no slot; where
/// domains are limited.
fn domain_metrics(report: &WindowReport, line: Line) -> Line {
    if report.domain_fed.is_empty() && report.domain_left == 0 {
        return line;
    }
    line.metric("DomainMoved", Unit::Count, number(report.domain_fed.values().sum())).metric(
        "DomainWaiting",
        Unit::Count,
        number(report.domain_left),
    )
}

/// A window that ended at once: no line of zeros a second, which CloudWatch bills by its bytes.
fn idle_metrics(at: Timestamp, report: &WindowReport) -> Value {
    let line =
        Line::new(at).dimension("Function", "poller").metric("IdleWindows", Unit::Count, 1.0);
    line.property("window", report.window.to_string()).into_value()
}

/// The metrics of an invocation of `function` that ended without a report. A scheduler does so only
/// for want of a quota.
#[must_use]
pub fn failed_metrics(at: Timestamp, function: &str, ledger_failed: u64) -> Vec<Value> {
    let line = Line::new(at).dimension("Function", function).metric(
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

/// What `minute` says beside its ticks: a gauge and counts; one line a campaign that SES reported.
fn minute_metrics(at: Timestamp, minute: &MinuteReport, line: Line) -> Vec<Value> {
    let line = match minute.holds {
        Some(holds) => line.metric("Holds", Unit::Count, number(holds)),
        None => line,
    };
    let line = match &minute.pressure {
        Some(pressure) => pressure_metrics(pressure, line),
        None => line,
    };
    let MinuteReport { feedback, .. } = minute;
    let campaigns: BTreeSet<&String> =
        feedback.bounced.keys().chain(feedback.complained.keys()).collect();
    let by_campaign = campaigns.into_iter().map(|campaign| {
        let count = |of: &BTreeMap<String, u64>| number(of.get(campaign).copied().unwrap_or(0));
        Line::new(at)
            .dimension("Campaign", campaign)
            .metric("Bounced", Unit::Count, count(&feedback.bounced))
            .metric("Complained", Unit::Count, count(&feedback.complained))
            .into_value()
    });
    std::iter::once(line.into_value()).chain(by_campaign).collect()
}

/// The level and its figures; what is not known is no number, and left out.
fn pressure_metrics(report: &PressureReport, line: Line) -> Line {
    let Figures { backlog_mails, backlog_seconds, age_seconds, refused_millionths } =
        report.reading.figures;
    let known = |figure: Option<u64>| figure.map_or(f64::NAN, number);
    let line = line
        .metric("PressureLevel", Unit::None, f64::from(report.reading.level.as_number()))
        .metric("BacklogMails", Unit::Count, known(backlog_mails))
        .metric("BacklogSeconds", Unit::Seconds, known(backlog_seconds))
        .metric("OldestAgeSeconds", Unit::Seconds, known(age_seconds))
        .metric("RefusedShare", Unit::Percent, known(refused_millionths) / 1e4);
    match &report.brought_back {
        Some(back) => replay_metrics(back, report.back_failed, line),
        None => line,
    }
}

/// What was brought back, in a minute in which that was tried.
fn replay_metrics(back: &BroughtBack, failed: bool, line: Line) -> Line {
    line.metric("BroughtBack", Unit::Count, number(back.mails)).metric(
        "SpillReplayFailed",
        Unit::Count,
        f64::from(u8::from(failed)),
    )
}

/// What was deferred; no byte of it a second where nothing was.
fn spill_metrics(report: &WindowReport, line: Line) -> Line {
    let spilled = report.spilled.values().sum();
    if spilled == 0 && report.spill_failed == 0 {
        return line;
    }
    line.metric("Spilled", Unit::Count, number(spilled)).metric(
        "SpillFailed",
        Unit::Count,
        number(report.spill_failed),
    )
}

/// The metrics of one scheduler run, as [`poller_metrics`].
#[must_use]
pub fn scheduler_metrics(
    at: Timestamp,
    report: &ScheduleReport,
    minute: &MinuteReport,
    ledger_failed: u64,
) -> Vec<Value> {
    let mut line = Line::new(at)
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

/// Writes metrics where CloudWatch takes them from: lines of their own on standard output.
#[expect(clippy::print_stdout, reason = "CloudWatch reads embedded metrics from standard output")]
pub fn publish(mut lines: Vec<Value>) {
    let function = crate::variable("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    for line in &mut lines {
        add_dimension(line, "Stack", stack_of(&function));
        println!("{line}");
    }
}

/// The stack of a function that is named `STACK-poller` or `STACK-scheduler`, as both templates do.
fn stack_of(function: &str) -> &str {
    let suffixes = ["-poller", "-scheduler"];
    suffixes.iter().find_map(|suffix| function.strip_suffix(suffix)).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "counts of one window or minute")]
fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Window;

    #[test]
    fn a_functions_name_tells_its_stack() {
        assert_eq!(stack_of("mail-eu-poller"), "mail-eu");
        assert_eq!(stack_of("tidegate-scheduler"), "tidegate");
        assert_eq!((stack_of("poller"), stack_of("")), ("", ""));
    }

    fn report(end: End) -> WindowReport {
        WindowReport::new(Window::from_epoch_second(1_795_207_000), end)
    }

    /// The metrics that a line declares, with their values.
    fn declared(line: &Value) -> Vec<(String, f64)> {
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        let names = directive["Metrics"].as_array().unwrap().iter();
        names
            .map(|metric| metric["Name"].as_str().unwrap().to_owned())
            .map(|name| (name.clone(), line[&name].as_f64().unwrap()))
            .collect()
    }

    fn value(line: &Value, name: &str) -> f64 {
        declared(line).into_iter().find(|(declared, _)| declared == name).unwrap().1
    }

    #[test]
    fn a_served_window_tells_its_counts_for_the_function_and_for_each_campaign() {
        let mut served = report(End::Served);
        served.sent.insert("big".to_owned(), 12);
        served.fed = [("big".to_owned(), 13), ("small".to_owned(), 1)].into();
        served.failed.insert("transient", 2);
        served.failed.insert("ambiguous", 8);
        served.delete_failed = 9;
        served.move_failed = 10;
        served.slots_skipped = 3;
        served.slots_unused = 4;
        served.refused = 5;
        served.already_sent = 6;
        served.parked = 7;
        let lines = poller_metrics(Timestamp::from_millis(1), &served, 11);
        assert_eq!(lines.len(), 3);
        for (name, expected) in [
            ("Sent", 12.0),
            ("Fed", 14.0),
            ("Failed", 10.0),
            ("PossiblySent", 8.0),
            ("DeletesFailed", 9.0),
            ("MovesFailed", 10.0),
            ("SlotsSkipped", 3.0),
            ("SlotsUnused", 4.0),
            ("Refused", 5.0),
            ("AlreadySent", 6.0),
            ("Parked", 7.0),
            ("DuplicateWindows", 0.0),
            ("LedgerFailed", 11.0),
        ] {
            assert_eq!(value(&lines[0], name).to_bits(), f64::to_bits(expected), "{name}");
        }
        assert_eq!(lines[0]["Function"], "poller");
        let campaigns: Vec<_> = lines[1..].iter().map(|line| &line["Campaign"]).collect();
        assert_eq!(campaigns, ["big", "small"]);
        assert_eq!(value(&lines[2], "Fed").to_bits(), 1_f64.to_bits());
    }

    #[test]
    fn a_window_that_was_not_served_is_counted_as_what_kept_it() {
        for (end, name) in [
            (End::Duplicate, "DuplicateWindows"),
            (End::Expired, "ExpiredWindows"),
            (End::Held, "HeldWindows"),
            (End::Blocked, "BlockedWindows"),
        ] {
            let lines = poller_metrics(Timestamp::from_millis(1), &report(end), 0);
            assert_eq!(value(&lines[0], name).to_bits(), 1_f64.to_bits(), "{name}");
        }
    }

    #[test]
    fn an_idle_window_tells_that_and_nothing_else() {
        let lines = poller_metrics(Timestamp::from_millis(1), &report(End::Idle), 0);
        assert_eq!(lines.len(), 1);
        assert_eq!(declared(&lines[0]), [("IdleWindows".to_owned(), 1.0)]);
        let served = poller_metrics(Timestamp::from_millis(1), &report(End::Served), 0);
        assert_eq!(value(&served[0], "IdleWindows").to_bits(), 0_f64.to_bits());
    }

    #[test]
    fn a_run_of_the_scheduler_tells_its_ticks() {
        let run = ScheduleReport {
            first_window: None,
            rate_per_second: None,
            ticks: 64,
            ticks_failed: 1,
            ticks_late: 0,
            idle_ticks: 59,
            quota_known: true,
            campaigns: Some(3),
        };
        let mut minute = MinuteReport { holds: Some(2), ..MinuteReport::default() };
        minute.feedback.bounced.insert("big".to_owned(), 3);
        minute.feedback.complained = [("big".to_owned(), 4), ("small".to_owned(), 5)].into();
        let lines = scheduler_metrics(Timestamp::from_millis(1), &run, &minute, 6);
        let is = |line: usize, name: &str, expected: f64| {
            assert_eq!(value(&lines[line], name).to_bits(), expected.to_bits(), "{name}");
        };
        for (name, expected) in [
            ("Ticks", 64.0),
            ("TicksFailed", 1.0),
            ("IdleTicks", 59.0),
            ("Holds", 2.0),
            ("LedgerFailed", 6.0),
            ("CampaignsListed", 3.0),
        ] {
            is(0, name, expected);
        }
        assert_eq!(lines[0]["Function"], "scheduler");
        assert_eq!(
            (&lines[1]["Campaign"], &lines[2]["Campaign"]),
            (&"big".into(), &"small".into())
        );
        for (line, name, expected) in [
            (1, "Bounced", 3.0),
            (1, "Complained", 4.0),
            (2, "Bounced", 0.0),
            (2, "Complained", 5.0),
        ] {
            is(line, name, expected);
        }
        let unknown =
            scheduler_metrics(Timestamp::from_millis(1), &run, &MinuteReport::default(), 6);
        assert!(unknown.len() == 1 && unknown[0].get("Holds").is_none(), "a gauge nobody read");
    }

    #[test]
    fn the_level_is_told_with_what_is_known_of_it_and_deferred_mail_only_where_there_is_some() {
        use tidegate_core::identity::EpochMillis;
        use tidegate_core::pressure::Policy;
        let figures = Figures {
            backlog_mails: Some(700_000),
            backlog_seconds: Some(50_000),
            age_seconds: None,
            refused_millionths: Some(12_500),
        };
        let reading = Policy::default().judge(None, figures, EpochMillis::new(1));
        let line = |brought_back, back_failed| {
            let report = PressureReport { reading, brought_back, back_failed };
            pressure_metrics(&report, Line::new(Timestamp::from_millis(1))).into_value()
        };
        let told = line(None, false);
        for (name, expected) in
            [("PressureLevel", 1.0), ("BacklogSeconds", 50_000.0), ("RefusedShare", 1.25)]
        {
            assert_eq!(value(&told, name).to_bits(), f64::to_bits(expected), "{name}");
        }
        assert!(told.get("OldestAgeSeconds").is_none() && told.get("BroughtBack").is_none());
        let told = line(Some(BroughtBack { mails: 210, ..BroughtBack::default() }), true);
        assert_eq!(value(&told, "BroughtBack").to_bits(), 210_f64.to_bits());
        assert_eq!(value(&told, "SpillReplayFailed").to_bits(), 1_f64.to_bits());
        let mut served = report(End::Served);
        assert!(poller_metrics(Timestamp::from_millis(1), &served, 0)[0].get("Spilled").is_none());
        served.spilled.insert("big".to_owned(), 140);
        let lines = poller_metrics(Timestamp::from_millis(1), &served, 0);
        assert_eq!(value(&lines[0], "Spilled").to_bits(), 140_f64.to_bits());
        assert_eq!(value(&lines[0], "SpillFailed").to_bits(), 0_f64.to_bits());
    }

    #[test]
    fn an_invocation_that_fails_tells_the_ledgers_failures_all_the_same() {
        for (function, quota_unknown) in [("poller", false), ("scheduler", true)] {
            let lines = failed_metrics(Timestamp::from_millis(1), function, 2);
            assert_eq!(value(&lines[0], "LedgerFailed").to_bits(), 2_f64.to_bits());
            assert_eq!(lines[0]["Function"], function);
            assert_eq!(lines[0].get("QuotaUnknown").is_some(), quota_unknown);
        }
    }
}
