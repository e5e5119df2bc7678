use super::*;
use proptest::prelude::*;

const POLICY: BreakerPolicy =
    BreakerPolicy { share: 200_000, after: 60, outcomes: 20, stop: 30, probe: 15 };

fn at(second: u64) -> Window {
    Window::from_epoch_second(1_000 + second)
}

/// The breaker after consecutive windows with these counts (all, failures), and the second in which it
/// blocked.
fn after(windows: impl IntoIterator<Item = (u64, u64)>) -> (Breaker, Option<u64>) {
    let mut breaker = Breaker::default();
    for (second, (all, failures)) in (0..).zip(windows) {
        if let Some(next) = breaker.observed(at(second), Outcomes { all, failures }, &POLICY) {
            breaker = next;
        }
        if !breaker.is_allowing() {
            return (breaker, Some(second));
        }
    }
    (breaker, None)
}

#[test]
fn it_blocks_when_more_than_a_fifth_fails_for_more_than_a_minute() {
    let (breaker, tripped) = after(std::iter::repeat_n((14, 3), 200));
    assert_eq!(tripped, Some(60));
    assert_eq!(breaker, Breaker::Blocking { since: at(60), until: at(90) });
    // Exactly 20 % failures do not count as more than 20 %.
    let (breaker, tripped) = after(std::iter::repeat_n((15, 3), 200));
    assert_eq!((breaker, tripped), (Breaker::default(), None));
}

#[test]
fn it_judges_on_twenty_outcomes_however_long_they_take() {
    // One failed send in ten seconds: the 20th outcome is in second 190.
    let seldom = |second: u64| if second.is_multiple_of(10) { (1, 1) } else { (0, 0) };
    assert_eq!(after((0..400).map(seldom)).1, Some(190));
    // 19 outcomes are one too few, however much time passes.
    assert_eq!(after((0..190).map(seldom).chain(std::iter::repeat_n((0, 0), 9_000))).1, None);
}

#[test]
fn an_outage_of_less_than_a_minute_trips_nothing_then_or_later() {
    for length in [1, 20, 40, 59] {
        let outage = std::iter::repeat_n((200, 200), length);
        let (breaker, tripped) = after(outage.chain(std::iter::repeat_n((200, 2), 100)));
        assert_eq!((breaker, tripped), (Breaker::default(), None), "{length} s");
    }
}

#[test]
fn seconds_without_a_failure_between_those_of_an_outage_do_not_save_it() {
    let windows = (0..200).map(|second| if second % 2 == 0 { (30, 30) } else { (30, 0) });
    assert_eq!(after(windows).1, Some(60));
}

#[test]
fn a_window_of_failures_now_and_then_trips_nothing() {
    let windows = (0..3_600).map(|second| if second % 6 == 0 { (14, 14) } else { (14, 0) });
    assert_eq!(after(windows).1, None);
}

#[test]
fn an_outage_is_suspected_when_nothing_of_several_mails_was_accepted_for_a_minute() {
    let suspects = |windows: &[(u64, u64)], second| {
        let (breaker, _) = after(windows.iter().copied());
        breaker.suspects_an_outage(at(second), &POLICY)
    };
    assert!(!suspects(&[(2, 2)], 59));
    assert!(suspects(&[(2, 2)], 60));
    assert!(suspects(&[(2, 2), (0, 0), (1, 1)], 60));
    // The same mail may fail again and again: at most one failure per window is no outage.
    assert!(!suspects(&[(1, 1), (0, 0), (1, 1), (1, 1)], 600));
    // SES accepted one mail, so it works.
    assert!(!suspects(&[(2, 2), (3, 2)], 600));
    assert!(!suspects(&[], 600));
    let blocking = Breaker::Blocking { since: at(0), until: at(30) };
    assert!(blocking.suspects_an_outage(at(1), &POLICY));
}

#[test]
fn failures_that_have_become_few_in_all_trip_nothing_with_the_next_bad_window() {
    let often = std::iter::repeat_n((14, 3), 42).chain(std::iter::repeat_n((14, 4), 18));
    // 18 good seconds: the share of failures since the first one falls to 20 % or less, so the watch
    // ends.
    let rarely = std::iter::repeat_n((14, 0), 18).chain([(14, 14)]);
    assert_eq!(after(often.chain(rarely)).1, None);
}

#[test]
fn one_poller_probes_and_is_replaced_when_it_is_too_old() {
    let blocking = Breaker::Blocking { since: at(0), until: at(30) };
    assert_eq!(blocking.permit(at(29), &POLICY), Permit::Nothing);
    assert_eq!(blocking.probing(at(29), "a", &POLICY), None);
    let probing = blocking.probing(at(30), "a", &POLICY).unwrap();
    assert_eq!(probing.permit(at(31), &POLICY), Permit::Nothing);
    assert_eq!(probing.probing(at(44), "b", &POLICY), None);
    let replaced = probing.probing(at(45), "b", &POLICY).unwrap();
    // The first prober was replaced, so its result is ignored.
    assert_eq!(replaced.probed(at(46), "a", true, &POLICY), None);
    assert_eq!(replaced.probed(at(46), "b", true, &POLICY), Some(Breaker::default()));
    let again = replaced.probed(at(46), "b", false, &POLICY).unwrap();
    assert_eq!(again, Breaker::Blocking { since: at(0), until: at(76) });
    assert_eq!(again.blocked_for(at(46)), Some(Duration::from_secs(46)));
}

#[test]
fn while_it_does_not_allow_nothing_is_judged() {
    let failing = Outcomes { all: 100, failures: 100 };
    let blocking = Breaker::Blocking { since: at(0), until: at(30) };
    assert_eq!(blocking.observed(at(1), failing, &POLICY), None);
    let probing = blocking.probing(at(30), "a", &POLICY).unwrap();
    assert_eq!(probing.observed(at(30), failing, &POLICY), None);
    assert_eq!(Breaker::default().probed(at(1), "a", false, &POLICY), None);
}

#[test]
fn the_record_says_the_state_by_its_name() {
    let blocking = Breaker::Blocking { since: at(0), until: at(30) };
    let text = serde_json::to_string(&blocking).unwrap();
    assert_eq!(
        text,
        r#"{"state":"blocking","since":"1970-01-01T00:16:40Z","until":"1970-01-01T00:17:10Z"}"#
    );
    let (watched, _) = after([(3, 2)]);
    let text = serde_json::to_string(&watched).unwrap();
    assert_eq!(serde_json::from_str::<Breaker>(&text).unwrap(), watched);
    assert_ne!(watched, Breaker::default());
}

proptest! {
    #[test]
    fn it_never_blocks_within_a_minute_nor_on_less_than_twenty_outcomes(
        windows in prop::collection::vec((0_u64..30, 0.0_f64..=1.0), 0..120),
    ) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "small numbers")]
        let windows: Vec<(u64, u64)> =
            windows.iter().map(|(all, share)| (*all, (*all as f64 * share) as u64)).collect();
        if let Some(second) = after(windows.iter().copied()).1 {
            let end = usize::try_from(second).unwrap();
            prop_assert!(end >= 60);
            let minute = &windows[end - 60..=end];
            prop_assert!(windows[..=end].iter().map(|(all, _)| all).sum::<u64>() >= 20);
            // The minute before contains failures, or the watch's outcomes are older.
            let last: u64 = minute.iter().map(|(_, failures)| failures).sum();
            prop_assert!(last > 0);
        }
    }
}
