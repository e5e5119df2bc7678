use super::*;
use tidegate_core::Window;
use tidegate_delivery::schedule::refill::BroughtBack;

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
    for (counter, key, count) in [
        (Counter::Sent, "big", 12),
        (Counter::Fed, "big", 13),
        (Counter::Fed, "small", 1),
        (Counter::Failed, "transient", 2),
        (Counter::Failed, "ambiguous", 8),
    ] {
        served.counts.add_for(counter, key, count);
    }
    for (counter, count) in [
        (Counter::PossiblySent, 8),
        (Counter::DeleteFailed, 9),
        (Counter::MoveFailed, 10),
        (Counter::Skipped, 3),
        (Counter::Unused, 4),
        (Counter::Refused, 5),
        (Counter::AlreadySent, 6),
        (Counter::Parked, 7),
    ] {
        served.counts.add(counter, count);
    }
    let lines = poller_metrics(Timestamp::from_millis(1), &served, 11);
    assert_eq!(lines.len(), 3);
    for (name, expected) in [
        ("Sent", 12.0),
        ("Fed", 14.0),
        ("Failed", 10.0),
        ("PossiblySent", 8.0),
        ("SlotsSkipped", 3.0),
        ("SlotsUnused", 4.0),
        ("Refused", 5.0),
        ("LedgerFailed", 11.0),
    ] {
        assert_eq!(value(&lines[0], name).to_bits(), f64::to_bits(expected), "{name}");
    }
    assert_eq!(lines[0]["Function"], "poller");
    // Those that no alarm and no graph needs are in the log alone.
    assert_eq!((&lines[0]["delete_failed"], &lines[0]["parked"]), (&9.into(), &7.into()));
    let names: Vec<String> = declared(&lines[0]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    let campaigns: Vec<_> = lines[1..].iter().map(|line| &line["Campaign"]).collect();
    assert_eq!(campaigns, ["big", "small"]);
    assert_eq!(value(&lines[2], "Fed").to_bits(), 1_f64.to_bits());
}

#[test]
fn a_window_that_was_kept_from_sending_says_so() {
    for (end, name) in [(End::Held, "HeldWindows"), (End::Blocked, "BlockedWindows")] {
        let lines = poller_metrics(Timestamp::from_millis(1), &report(end), 0);
        assert_eq!(declared(&lines[0]), [(name.to_owned(), 1.0)]);
    }
}

#[test]
fn a_window_without_mail_publishes_nothing() {
    for end in [End::Idle, End::Duplicate, End::Expired, End::Served] {
        let mut empty = report(end);
        empty.counts.add(Counter::SqsCalls, 3);
        empty.counts.add(Counter::Unused, 14);
        empty.counts.add(Counter::Windows, 1);
        assert_eq!(poller_metrics(Timestamp::from_millis(1), &empty, 0), Vec::<Value>::new());
        let failed = poller_metrics(Timestamp::from_millis(1), &empty, 1);
        assert_eq!(value(&failed[0], "LedgerFailed").to_bits(), 1_f64.to_bits());
    }
}

fn minute_with_holds(campaigns: usize) -> SchedulerRunReport {
    use tidegate_core::control::{Hold, HoldReason};
    let mut standing = tidegate_delivery::ports::Standing::default();
    for number in 0..campaigns {
        let hold = Hold::new("", tidegate_core::identity::EpochMillis::new(1));
        standing.control.hold(Some(&format!("c{number}")), HoldReason::Paused, hold);
    }
    SchedulerRunReport { standing: Some(standing), ..SchedulerRunReport::default() }
}

#[test]
fn a_run_of_the_scheduler_tells_holds_and_feedback() {
    let run = ScheduleReport {
        first_window: None,
        rate_per_second: None,
        ticks: 64,
        ticks_failed: 1,
        ticks_late: 0,
        idle_ticks: 0,
        quota_known: true,
        campaigns: Some(3),
    };
    let mut minute = minute_with_holds(2);
    minute.feedback.bounced.insert("big".to_owned(), 3);
    minute.feedback.complained = [("big".to_owned(), 4), ("small".to_owned(), 5)].into();
    minute.feedback.suppressed = [("small".to_owned(), 6)].into();
    minute.feedback.dropped = [("big".to_owned(), 7)].into();
    let lines = scheduler_metrics(Timestamp::from_millis(1), &run, &minute, 6);
    let is = |line: usize, name: &str, expected: f64| {
        assert_eq!(value(&lines[line], name).to_bits(), expected.to_bits(), "{name}");
    };
    for (name, expected) in [("TicksFailed", 1.0), ("Holds", 2.0), ("LedgerFailed", 6.0)] {
        is(0, name, expected);
    }
    assert_eq!((&lines[0]["ticks"], &lines[0]["campaigns"]), (&64.into(), &3.into()));
    assert_eq!(lines[0]["Function"], "scheduler");
    assert_eq!((&lines[1]["Campaign"], &lines[2]["Campaign"]), (&"big".into(), &"small".into()));
    for (line, name, expected) in [
        (1, "Bounced", 3.0),
        (1, "Complained", 4.0),
        (1, "Dropped", 7.0),
        (2, "Complained", 5.0),
        (2, "Suppressed", 6.0),
    ] {
        is(line, name, expected);
    }
    let unknown =
        scheduler_metrics(Timestamp::from_millis(1), &run, &SchedulerRunReport::default(), 6);
    assert!(unknown.len() == 1 && unknown[0].get("Holds").is_none(), "a gauge nobody read");
}

#[test]
fn a_run_that_finds_the_stack_asleep_publishes_nothing() {
    use tidegate_core::rate::Rate;
    let run = |ticks, idle_ticks| ScheduleReport {
        first_window: None,
        rate_per_second: Some(Rate::per_second(14.0).unwrap()),
        ticks,
        ticks_failed: 0,
        ticks_late: 0,
        idle_ticks,
        quota_known: true,
        campaigns: None,
    };
    let minute = minute_with_holds(0);
    let lines =
        |ticks, idle| scheduler_metrics(Timestamp::from_millis(1), &run(ticks, idle), &minute, 0);
    assert_eq!((lines(0, 60), lines(1, 59)), (vec![], vec![]));
    assert_eq!(declared(&lines(65, 0)[0]), [("Quota".to_owned(), 14.0)]);
}

#[test]
fn the_level_is_told_with_what_is_known_of_it_and_stored_mail_only_where_there_is_some() {
    use tidegate_core::back_pressure::{BackPressurePolicy, Reading};
    use tidegate_core::identity::EpochMillis;
    let figures = BackPressureFigures {
        backlog_mails: Some(700_000),
        backlog_seconds: Some(50_000),
        age_seconds: None,
        refused_millionths: Some(12_500),
    };
    let reading = BackPressurePolicy::default().judge(None, figures, EpochMillis::new(1));
    let line = |refill, growing_since| {
        let back_pressure = Some(Reading { growing_since, ..reading });
        let minute = SchedulerRunReport { back_pressure, refill, ..SchedulerRunReport::default() };
        let line = MetricsLine::new(Timestamp::from_millis(1));
        minute_metrics(Timestamp::from_millis(1), &minute, line).remove(0)
    };
    let told = line(None, None);
    for (name, expected) in [("BackPressureLevel", 1.0), ("BacklogSeconds", 50_000.0)] {
        assert_eq!(value(&told, name).to_bits(), f64::to_bits(expected), "{name}");
    }
    for unknown_or_zero in ["MeanAgeSeconds", "BroughtBack", "BacklogGrows"] {
        assert!(told.get(unknown_or_zero).is_none(), "{unknown_or_zero}");
    }
    let done = BroughtBack { mails: 210, ..BroughtBack::default() };
    let told = line(Some(RefillReport { done, failed: true }), Some(EpochMillis::new(1)));
    assert_eq!(value(&told, "BroughtBack").to_bits(), 210_f64.to_bits());
    for name in ["RefillFailed", "BacklogGrows"] {
        assert_eq!(value(&told, name).to_bits(), 1_f64.to_bits(), "{name}");
    }
    let mut served = report(End::Served);
    served.counts.add_for(Counter::Deferred, "big", 140);
    let lines = poller_metrics(Timestamp::from_millis(1), &served, 0);
    assert_eq!(value(&lines[0], "Deferred").to_bits(), 140_f64.to_bits());
    assert!(lines[0].get("StoreFailed").is_none());
}

#[test]
fn an_invocation_that_fails_tells_the_ledgers_failures_all_the_same() {
    assert_eq!(failed_metrics(Timestamp::from_millis(1), "poller", 0), Vec::<Value>::new());
    for (function, quota_unknown) in [("poller", false), ("scheduler", true)] {
        let lines = failed_metrics(Timestamp::from_millis(1), function, 2);
        assert_eq!(value(&lines[0], "LedgerFailed").to_bits(), 2_f64.to_bits());
        assert_eq!(lines[0]["Function"], function);
        assert_eq!(lines[0].get("QuotaUnknown").is_some(), quota_unknown);
    }
}

#[test]
fn a_missed_window_is_told_also_without_mail_and_an_early_tick_alone_is_no_reason_for_a_line() {
    let mut served = report(End::Served);
    served.counts.add(Counter::TicksEarly, 312);
    assert_eq!(poller_metrics(Timestamp::from_millis(1), &served, 0), Vec::<Value>::new());
    served.counts.add(Counter::WindowsMissed, 2);
    let lines = poller_metrics(Timestamp::from_millis(1), &served, 0);
    assert_eq!(
        lines[0]["WindowsMissed"].as_f64().map(|count| count.to_string()).as_deref(),
        Some("2")
    );
    assert_eq!(lines[0]["ticks_early"], 312);
}
