use super::*;
use crate::limits::RampDays;

fn window(text: &str) -> Window {
    text.parse().unwrap()
}

fn read(text: &str) -> Limit {
    serde_json::from_str(text).unwrap()
}

fn slots(limit: &Limit, at: &str) -> Option<LimitGrid> {
    limit.grid(window(at), Rate::per_second(100.0).unwrap(), RateMargin::default(), None)
}

#[test]
fn a_limit_reads_back_with_members_of_a_newer_version() {
    let text =
        r#"{"rate":"10/s","hours":"Mon-Fri 08:00-20:00","zone":"Europe/Berlin","weather":"fine"}"#;
    assert_eq!(serde_json::to_string(&read(text)).unwrap(), text);
    let ramp = r#"{"zone":"UTC","ramp":{"from":"2026-12-01","days":[50,100]}}"#;
    assert_eq!(serde_json::to_string(&read(ramp)).unwrap(), ramp);
    let growth =
        r#"{"ramp":{"from":"2026-12-01","days":{"start":50,"factor":1.5,"target":50000}}}"#;
    assert_eq!(serde_json::to_string(&read(growth)).unwrap(), growth);
    for wrong in [r#"{"rate":"fast"}"#, r#"{"hours":"8-20"}"#, r#"{"zone":"Berlin"}"#] {
        assert!(serde_json::from_str::<Limit>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_limit_that_cannot_be_is_refused() {
    let ramp = Ramp {
        from: jiff::civil::date(2026, 12, 1),
        days: RampDays::Table(vec![5]),
        setback: None,
    };
    let both = Limit { ramp: Some(ramp), ..read(r#"{"rate":"10/s"}"#) };
    let said = |limit: &Limit| limit.check().unwrap_err().to_string();
    assert!(said(&both).contains("has a rate and a warm-up"));
    assert!(said(&Limit::default()).contains("limits nothing"));
    let ends = read(r#"{"not_before":"2026-12-02T00:00:00Z","until":"2026-12-01T00:00:00Z"}"#);
    assert!(said(&ends).contains("ends at 2026-12-01"));
    assert_eq!(read(r#"{"until":"2026-12-01T00:00:00Z"}"#).check(), Ok(()));
    let defers = read(r#"{"rate":"10/s","defers":true}"#);
    assert!(said(&defers).contains("defers what is left at its end and has no end"));
}

#[test]
fn nothing_is_sent_before_the_begin_after_the_end_and_outside_the_hours() {
    let limit = read(
        r#"{"rate":"10/s","hours":"Mon-Fri 08:00-20:00","zone":"Europe/Berlin",
           "not_before":"2026-11-24T12:00:00Z","until":"2026-11-26T12:00:00Z"}"#,
    );
    let opens = |at: &str| Some(window(at).opens());
    for (at, expected) in [
        ("2026-11-24T11:59:59Z", LimitGrid::Closed(opens("2026-11-24T12:00:00Z"))),
        ("2026-11-24T19:00:00Z", LimitGrid::Closed(opens("2026-11-25T07:00:00Z"))),
        ("2026-11-26T12:00:00Z", LimitGrid::Closed(None)),
    ] {
        assert_eq!(slots(&limit, at), Some(expected), "{at}");
    }
    for open in ["2026-11-24T12:00:00Z", "2026-11-24T18:59:59Z", "2026-11-26T11:59:59Z"] {
        assert!(matches!(slots(&limit, open), Some(LimitGrid::Even(..))), "{open}");
    }
    assert_eq!(slots(&read(r#"{"rate":"100/s"}"#), "2026-11-24T12:00:00Z"), None);
    assert_eq!(slots(&read(r#"{"hours":"08:00-20:00"}"#), "2026-11-24T12:00:00Z"), None);
}

#[test]
fn a_warm_up_that_has_not_begun_is_closed() {
    let limit = read(r#"{"ramp":{"from":"2026-12-01","days":[50,100]}}"#);
    let begin = Some(window("2026-12-01T00:00:00Z").opens());
    assert_eq!(slots(&limit, "2026-11-30T23:59:59Z"), Some(LimitGrid::Closed(begin)));
    assert!(matches!(slots(&limit, "2026-12-01T00:00:00Z"), Some(LimitGrid::Day(_))));
}

#[test]
fn a_limit_changes_by_itself_at_its_begin_its_end_its_hours_and_a_warm_ups_midnight() {
    let changes = |limit: &str, at: &str| {
        read(limit).next_change(window(at)).map(|at| Window::containing(at).to_string())
    };
    let ends =
        r#"{"rate":"10/s","not_before":"2026-11-24T12:00:00Z","until":"2026-11-26T12:00:00Z"}"#;
    let of = |at| changes(ends, at);
    assert_eq!(of("2026-11-24T11:59:59Z").as_deref(), Some("2026-11-24T12:00:00Z"));
    assert_eq!(of("2026-11-24T12:00:00Z").as_deref(), Some("2026-11-26T12:00:00Z"));
    assert_eq!(of("2026-11-26T12:00:00Z"), None);
    let hours = r#"{"rate":"10/s","hours":"08:00-20:00"}"#;
    assert_eq!(changes(hours, "2026-11-24T19:00:00Z").as_deref(), Some("2026-11-24T20:00:00Z"));
    let ramp = r#"{"ramp":{"from":"2026-11-20","days":[30]}}"#;
    assert_eq!(changes(ramp, "2026-11-24T19:00:00Z").as_deref(), Some("2026-11-25T00:00:00Z"));
}
