use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::PastRates;
use tidegate_delivery::ports::QueueDepth;

use super::*;
use crate::watch::tests::status;

fn figures(seconds: u64, rate: f64) -> StackFigures {
    let at = EpochMillis::new(1_795_206_967_000 + seconds * 1_000);
    let row = CampaignRow {
        name: "big".to_owned(),
        rate: Some(rate),
        share: Some(1.0),
        age_s: None,
        eta_s: None,
        sent: 100,
        waiting: 900,
        progress: Some(0.1),
    };
    let status = status();
    StackFigures {
        at,
        failed: None,
        rate: Some(rate),
        rows: vec![row],
        express: None,
        refused: 0,
        monitor: MonitorFigures::default(),
        status,
    }
}

#[test]
fn curves_go_back_half_an_hour_two_seconds_a_point() {
    let mut rate_history = RateHistory::default();
    for second in 0..4_000 {
        rate_history.add(&figures(second, 13.449));
    }
    let curves: serde_json::Value = serde_json::to_value(rate_history.curves()).unwrap();
    let points = curves["t"].as_array().unwrap();
    assert_eq!(points.len(), 901);
    assert_eq!(points[900], 1_795_206_967.0 + 3_998.0);
    assert_eq!(curves["rate"][0], 13.4);
    assert_eq!(curves["campaigns"]["big"].as_array().unwrap().len(), 901);
    assert_eq!(curves["quota"][5], 14.0);
}

#[test]
fn a_campaign_that_comes_later_has_gaps_before() {
    let mut rate_history = RateHistory::default();
    rate_history.add(&figures(0, 1.0));
    let mut later = figures(2, 2.0);
    later.rows[0].name = "late".to_owned();
    rate_history.add(&later);
    let curves: serde_json::Value = serde_json::to_value(rate_history.curves()).unwrap();
    assert_eq!(curves["campaigns"], serde_json::json!({"big": [1.0, null], "late": [null, 2.0]}));
}

#[test]
fn express_mail_has_a_curve_where_there_is_an_express_queue() {
    let with_queue = |second, sent: i64| {
        let mut figures = figures(second, 1.0);
        figures.status.queues.insert("express", QueueDepth::default());
        figures.status.counters.insert("sent.express".to_owned(), sent);
        let express = ExpressPace { per_second: 2.0, waited_s: 0.5, p99: None };
        figures.express = (sent > 0).then_some(express);
        figures
    };
    let (mut recent, mut long) = (RateHistory::default(), LongHistory::default());
    for figures in [with_queue(0, 0), with_queue(30, 60)] {
        recent.add(&figures);
        long.add(&figures);
    }
    let drawn =
        |curves| serde_json::to_value::<Curves>(curves).unwrap()["campaigns"]["express"].clone();
    assert_eq!(drawn(recent.curves()), serde_json::json!([0.0, 2.0]));
    assert_eq!(drawn(long.curves(LongSpan::Hours)), serde_json::json!([null, 2.0]));
}

/// Figures of a campaign that has sent so many recipients.
fn sent(second: u64, sent: u64) -> StackFigures {
    let mut figures = figures(second, 1.0);
    figures.rows[0].sent = sent;
    figures.status.counters.insert("sent".to_owned(), i64::try_from(sent).unwrap());
    figures
}

#[test]
fn long_curves_have_the_mean_between_their_points_however_seldom_the_stack_is_looked_at() {
    let mut history = LongHistory::default();
    // Ten a second in every other minute, looked at every 15 s.
    let sent_at = |second: u64| (second / 120) * 600 + (second % 120).min(60) * 10;
    for second in (0..7 * 3_600).step_by(15) {
        history.add(&sent(second, sent_at(second)));
    }
    let hours = serde_json::to_value(history.curves(LongSpan::Hours)).unwrap();
    let rates = hours["rate"].as_array().unwrap();
    assert_eq!(rates.len(), 6 * 120 + 1, "six hours, a point every 30 s");
    let rates: Vec<f64> = rates.iter().map(|rate| rate.as_f64().unwrap()).collect();
    assert!(
        rates.windows(4).all(|four| (four.iter().sum::<f64>() - 20.0).abs() < 1e-6),
        "{rates:?}"
    );
    assert_eq!(hours["campaigns"]["big"], hours["rate"]);
    let days = serde_json::to_value(history.curves(LongSpan::Days)).unwrap();
    let rates = days["rate"].as_array().unwrap();
    assert_eq!((rates.len(), &rates[0]), (84, &serde_json::Value::Null));
    for rate in &rates[1..] {
        let rate = rate.as_f64().unwrap();
        assert!((4.0..=6.0).contains(&rate), "{rate}");
    }
}

#[test]
fn the_past_before_the_console_fills_long_curves_only_where_they_have_no_points() {
    let mut history = LongHistory::default();
    for second in (3_600..4_200).step_by(15) {
        history.add(&sent(second, second * 5));
    }
    let own = history.curves(LongSpan::Hours);
    assert!(!history.has_past(LongSpan::Hours));
    let past = |minute: u64| PastRates {
        until: Timestamp::from(figures(minute * 60, 1.0).at),
        all: 7.0,
        quota: Some(14.0),
        campaigns: [("big".to_owned(), 6.0)].into(),
    };
    let all: Vec<PastRates> = (1..=70).map(past).collect();
    history.fill(LongSpan::Hours, &all);
    assert!(history.has_past(LongSpan::Hours) && !history.has_past(LongSpan::Days));
    let hours = serde_json::to_value(history.curves(LongSpan::Hours)).unwrap();
    let times: Vec<f64> = serde_json::from_value(hours["t"].clone()).unwrap();
    assert!(times.is_sorted());
    let of = |rate: f64| hours["rate"].as_array().unwrap().iter().filter(|&at| *at == rate).count();
    let own = serde_json::to_value(own).unwrap();
    assert_eq!(of(5.0), own["rate"].as_array().unwrap().len() - 1, "all but the gap");
    assert!((59..=60).contains(&of(7.0)), "{}", of(7.0));
    assert_eq!(hours["campaigns"]["big"][0], 6.0);
    assert_eq!(hours["quota"][0], 14.0);
}
