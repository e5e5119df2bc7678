use std::time::Duration;

use tidegate_core::waits::WaitBound;
use tidegate_delivery::ports::Standing;

use super::*;
use crate::status::tests::{NOW, facts};

/// The facts read `seconds` later, with this many more recipients sent to by each campaign.
fn later(seconds: u64, big: i64, small: i64) -> StackFacts {
    let mut facts = facts();
    facts.at = NOW + Duration::from_secs(seconds);
    let Standing { counters, .. } = &mut facts.standing;
    // What is sent of the small one had waited for 90 seconds.
    let waited = ("waited.small", 90 * small);
    for (name, added) in [("sent", big + small), ("sent.big", big), ("sent.small", small), waited] {
        *counters.entry(name.to_owned()).or_default() += added;
    }
    facts
}

/// A view that looked once a second for 20 s at 9 and 1 recipients a second.
fn dashboard() -> LiveStatus {
    let mut dashboard = LiveStatus::new(&later(0, 0, 0));
    for second in 1..=20 {
        let sent = i64::try_from(second).unwrap();
        dashboard.update(&later(second, 9 * sent, sent));
    }
    dashboard
}

#[test]
fn a_report_that_comes_in_time_for_a_look_raises_no_rate() {
    let sent = |seconds, windows: i64| {
        let mut facts = later(seconds, 9 * windows, windows);
        facts.standing.counters.insert("windows".to_owned(), windows);
        facts
    };
    let mut dashboard = LiveStatus::new(&sent(0, 0));
    dashboard.update(&sent(10, 11));
    assert_eq!(dashboard.rate(), Some(10.0));
    // Fewer windows than seconds are served less.
    let mut dashboard = LiveStatus::new(&sent(0, 0));
    dashboard.update(&sent(10, 5));
    assert_eq!(dashboard.rate(), Some(5.0));
}

/// Regression: the curve rose to 73/s at a quota of 50.
#[test]
fn no_column_of_the_curve_has_more_windows_than_seconds() {
    let sent = |second: u64, windows: i64| {
        let mut facts = later(second, 49 * windows, 0);
        facts.standing.counters.insert("windows".to_owned(), windows);
        facts
    };
    // A report comes just before or just after a look, so a look finds none, one or two.
    let mut dashboard = LiveStatus::new(&sent(0, 0));
    for (second, windows) in [(1, 1), (2, 1), (3, 3), (4, 4), (5, 4), (6, 6), (7, 7), (8, 8)] {
        dashboard.update(&sent(second, windows));
    }
    let curve = dashboard.curve(4, Duration::from_secs(2));
    assert!(curve.iter().all(|rate| *rate <= 49.0), "{curve:?}");
    assert!(curve.contains(&49.0), "{curve:?}");
}

#[test]
fn what_is_shown_of_a_stack_that_is_gone_is_of_the_last_look_that_read_it() {
    let mut dashboard = dashboard();
    let read = dashboard.status().at;
    assert_eq!(dashboard.error(), None);
    for _ in 0..3 {
        dashboard.set_error("the ledger cannot be reached".to_owned());
        assert_eq!((dashboard.error().is_some(), dashboard.status().at), (true, read));
    }
    dashboard.update(&later(30, 180, 20));
    assert_eq!(dashboard.error(), None);
}

#[test]
fn rate_share_and_eta_are_of_the_last_ten_seconds() {
    let mut dashboard = dashboard();
    assert_eq!(dashboard.rate(), Some(10.0));
    let rows = dashboard.rows();
    assert_eq!((rows[0].rate, rows[0].share), (Some(9.0), Some(0.9)));
    // 988 wait, 14 in flight: 1,002 at one a second.
    assert_eq!(rows[1].eta_s, Some(1_002));
    assert_eq!(rows[1].age_s, Some(90));
    // For ten seconds nothing more of the big one.
    for second in 21..=30 {
        dashboard.update(&later(second, 180, i64::try_from(second).unwrap()));
    }
    let rows = dashboard.rows();
    assert_eq!((rows[0].rate, rows[0].share, rows[0].eta_s), (Some(0.0), Some(0.0), None));
    assert_eq!((dashboard.rate(), rows[1].share), (Some(1.0), Some(1.0)));
}

#[test]
fn express_mail_is_told_with_its_mean_wait_while_there_is_some() {
    let mut dashboard = dashboard();
    assert_eq!(dashboard.express(), None);
    let mut facts = later(21, 189, 21);
    facts.standing.counters.insert("sent.express".to_owned(), 20);
    facts.standing.counters.insert("waited.express".to_owned(), 14);
    facts.standing.counters.insert("express_waits.600".to_owned(), 15);
    facts.standing.counters.insert("express_waits.1000".to_owned(), 5);
    dashboard.update(&facts);
    let express = dashboard.express().unwrap();
    assert_eq!((express.per_second, express.waited_s), (2.0, 0.7));
    assert_eq!(express.p99, Some(WaitBound::AtMost(Duration::from_secs(1))));
}

#[test]
fn a_first_look_claims_no_rate() {
    let dashboard = LiveStatus::new(&facts());
    assert_eq!(dashboard.rate(), None);
    assert!(dashboard.rows().iter().all(|row| row.rate.is_none() && row.eta_s.is_none()));
    assert!(dashboard.curve(10, Duration::from_secs(1)).is_empty());
}

#[test]
fn the_curve_is_what_was_sent_in_each_span_and_goes_no_further_back_than_was_looked() {
    let mut dashboard = dashboard();
    for second in 21..=25 {
        dashboard.update(&later(second, 180, 20));
    }
    let curve = dashboard.curve(100, Duration::from_secs(5));
    assert_eq!(curve, [10.0, 10.0, 10.0, 10.0, 0.0]);
}

#[test]
fn ten_minutes_are_kept_and_no_more() {
    let mut dashboard = LiveStatus::new(&later(0, 0, 0));
    for second in 1..=1_500_u64 {
        dashboard.update(&later(second, i64::try_from(second).unwrap(), 0));
    }
    assert_eq!(dashboard.curve(10_000, Duration::from_secs(1)).len(), 600);
}
