use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_delivery::ports::Standing;

use super::*;
use crate::status::StackFacts;
use crate::status::tests::{NOW, facts};
use crate::steer::SteerAction;

/// What is read `seconds` later, with so many recipients sent to of each campaign since.
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

/// A board that looked once a second for 20 s at 9 and 1 recipients a second.
fn board() -> Dashboard {
    let mut board = Dashboard::new(&later(0, 0, 0));
    for second in 1..=20 {
        let sent = i64::try_from(second).unwrap();
        board.see(&later(second, 9 * sent, sent));
    }
    board
}

fn type_in(board: &mut Dashboard, text: &str) {
    for letter in text.chars() {
        assert_eq!(board.press(Key::Char(letter)), KeyRequest::Nothing);
    }
}

#[test]
fn a_report_that_comes_in_time_for_a_look_raises_no_rate() {
    let sent = |seconds, windows: i64| {
        let mut facts = later(seconds, 9 * windows, windows);
        facts.standing.counters.insert("windows".to_owned(), windows);
        facts
    };
    let mut board = Dashboard::new(&sent(0, 0));
    board.see(&sent(10, 11));
    assert_eq!(board.rate(), Some(10.0));
    // Fewer windows than seconds are served less.
    let mut board = Dashboard::new(&sent(0, 0));
    board.see(&sent(10, 5));
    assert_eq!(board.rate(), Some(5.0));
}

#[test]
fn rate_share_and_eta_are_of_the_last_ten_seconds() {
    let mut board = board();
    assert_eq!(board.rate(), Some(10.0));
    let rows = board.rows();
    assert_eq!((rows[0].rate, rows[0].share), (Some(9.0), Some(0.9)));
    // 988 wait, 14 in flight: 1,002 at one a second.
    assert_eq!(rows[1].eta, Some(Duration::from_secs(1_002)));
    assert_eq!(rows[1].age, Some(Duration::from_secs(90)));
    // For ten seconds nothing more of the big one.
    for second in 21..=30 {
        board.see(&later(second, 180, i64::try_from(second).unwrap()));
    }
    let rows = board.rows();
    assert_eq!((rows[0].rate, rows[0].share, rows[0].eta), (Some(0.0), Some(0.0), None));
    assert_eq!((board.rate(), rows[1].share), (Some(1.0), Some(1.0)));
}

#[test]
fn express_mail_is_told_with_its_mean_wait_while_there_is_some() {
    let mut board = board();
    assert_eq!(board.express(), None);
    let mut facts = later(21, 189, 21);
    facts.standing.counters.insert("sent.express".to_owned(), 20);
    facts.standing.counters.insert("waited.express".to_owned(), 14);
    board.see(&facts);
    assert_eq!(board.express(), Some((2.0, Duration::from_millis(700))));
}

#[test]
fn a_first_look_claims_no_rate() {
    let board = Dashboard::new(&facts());
    assert_eq!(board.rate(), None);
    assert!(board.rows().iter().all(|row| row.rate.is_none() && row.eta.is_none()));
    assert!(board.curve(10, Duration::from_secs(1)).is_empty());
}

#[test]
fn the_curve_is_what_was_sent_in_each_span_and_goes_no_further_back_than_was_looked() {
    let mut board = board();
    for second in 21..=25 {
        board.see(&later(second, 180, 20));
    }
    let curve = board.curve(100, Duration::from_secs(5));
    assert_eq!(curve, [10.0, 10.0, 10.0, 10.0, 0.0]);
}

#[test]
fn ten_minutes_are_kept_and_no_more() {
    let mut board = Dashboard::new(&later(0, 0, 0));
    for second in 1..=1_500_u64 {
        board.see(&later(second, i64::try_from(second).unwrap(), 0));
    }
    assert_eq!(board.curve(10_000, Duration::from_secs(1)).len(), 600);
}

#[test]
fn a_pause_is_made_only_with_a_reason_and_enter() {
    let mut board = board();
    assert_eq!(board.press(Key::Down), KeyRequest::Nothing);
    assert_eq!(board.press(Key::Char('p')), KeyRequest::Nothing);
    assert!(board.prompt().unwrap().question.starts_with("Pause small. Why?"));
    assert_eq!(board.press(Key::Enter), KeyRequest::Nothing);
    assert_eq!(
        board.prompt().unwrap().wrong.as_deref(),
        Some("a reason is needed: 1 to 200 characters")
    );
    type_in(&mut board, "qp");
    board.press(Key::Backspace);
    let action = SteerAction::Pause { campaign: Some("small".to_owned()), until: None };
    assert_eq!(board.press(Key::Enter), KeyRequest::Steer { action, reason: "q".to_owned() });
    assert!(board.prompt().is_none());
}

#[test]
fn esc_leaves_everything_as_it_is() {
    let mut board = board();
    for letter in ['p', 'P', 'r', 'R', 'w'] {
        board.press(Key::Char(letter));
        assert!(board.prompt().is_some(), "{letter}");
        assert_eq!(board.press(Key::Esc), KeyRequest::Nothing);
        assert!(board.prompt().is_none());
    }
    assert_eq!(board.press(Key::Char('x')), KeyRequest::Nothing);
    assert_eq!(board.press(Key::Char('q')), KeyRequest::Quit);
}

#[test]
fn a_weight_is_typed_then_reasoned() {
    let mut board = board();
    board.press(Key::Char('w'));
    type_in(&mut board, "10001");
    board.press(Key::Enter);
    assert!(board.prompt().unwrap().wrong.is_some());
    (0..5).for_each(|_| drop(board.press(Key::Backspace)));
    type_in(&mut board, "80");
    assert_eq!(board.press(Key::Enter), KeyRequest::Nothing);
    assert!(board.prompt().unwrap().question.starts_with("Weight of big: 90 -> 80. Why?"));
    type_in(&mut board, "small is late");
    let action = SteerAction::Weights(BTreeMap::from([("big".to_owned(), 80)]));
    assert_eq!(
        board.press(Key::Enter),
        KeyRequest::Steer { action, reason: "small is late".to_owned() }
    );
}
