//! Tests of the dashboard, drawn on a terminal in memory.

use std::time::Duration;

use crate::status::tests::settings;
use crate::status::{StackFacts, StatusSettings};
use tidegate_core::config::Campaign;
use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::factor::RateFactor;
use tidegate_core::identity::EpochMillis;
use tidegate_core::limits::Limit;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::runs::{Run, RunInput, RunSender, RunStage};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{AccountStatus, PreviousClaim, QueueDepth, Standing};

use super::page;
use crate::status::LiveStatus;

const START: Timestamp = Timestamp::from_millis(1_795_206_967_042);

/// The facts read `seconds` after the start, with about 12.4 and 1.4 recipients per second sent since.
fn facts(seconds: u64) -> StackFacts {
    let at = START + Duration::from_secs(seconds);
    let previous = PreviousClaim {
        window: Window::containing(at),
        quota: Rate::per_second(14.0).unwrap(),
        rate_margin: RateMargin::default(),
        limits: 0,
        changed_limits: 0,
        factor: RateFactor::default(),
    };
    let (big, small) =
        (i64::try_from(seconds * 1235 / 100).unwrap(), i64::try_from(seconds * 137 / 100).unwrap());
    let sums = [("sent", big + small), ("sent.big", big), ("sent.small", small)];
    let waited = [("waited.big", 754 * big), ("waited.small", 12 * small)];
    let counters = sums.into_iter().chain(waited).map(|(name, sum)| (name.to_owned(), sum));
    let campaign = |(name, weight): (&str, u32)| Campaign {
        name: name.to_owned(),
        queue_url: format!("https://sqs.example/{name}"),
        weight,
        ..Campaign::default()
    };
    let depth = |visible| QueueDepth { visible, ..QueueDepth::default() };
    StackFacts {
        at,
        settings: StatusSettings { changes: 0, ..settings() },
        standing: Standing {
            previous: Some(previous),
            counters: counters.collect(),
            ..Standing::default()
        },
        campaigns: [("big", 90), ("small", 10)].map(campaign).to_vec(),
        backlogs: [("big".to_owned(), depth(54_321)), ("small".to_owned(), depth(420))].into(),
        depths: [("merge", depth(14)), ("dead_letters", depth(3))].into(),
        account: Some(AccountStatus {
            max_send_rate: 14.0,
            max_24_hour_send: -1.0,
            sent_last_24_hours: 0.0,
            sending_enabled: true,
            spend_limit: None,
        }),
        changes: Vec::new(),
        runs: Vec::new(),
    }
}

fn board() -> LiveStatus {
    let mut live = LiveStatus::new(&facts(0));
    (1..=60).for_each(|second| live.update(&facts(second)));
    live
}

fn drawn(board: &LiveStatus, width: usize, height: usize) -> String {
    page(board, "", width, height).plain()
}

#[test]
fn a_board_shows_quota_and_use_the_last_minutes_and_a_row_a_campaign() {
    let golden = snapbox::file!["../../tests/golden/top.txt"];
    snapbox::assert_data_eq!(drawn(&board(), 110, 18), golden);
}

/// Regression: the stack was gone, and the head said "sending: yes" and "sent now 13.8/s".
#[test]
fn a_stack_that_is_gone_is_not_shown_as_healthy() {
    let mut board = board();
    board.set_error("ledger cannot be reached".to_owned());
    let screen = drawn(&board, 110, 18);
    let said = "not read since 2026-11-20 20:37:07 UTC, the figures are of then: ledger cannot";
    assert!(screen.starts_with(&format!("tidegate  {said}")), "{screen}");
    assert!(screen.contains("sent then"), "{screen}");
    for healthy in ["sending", "sent now"] {
        assert!(!screen.contains(healthy), "{healthy} on:\n{screen}");
    }
}

#[test]
fn holds_find_their_place_on_a_small_terminal() {
    let mut board = board();
    let mut facts = facts(61);
    let hold = Hold::new("by ada: \u{1b}[2Jtypo", EpochMillis::from(START));
    facts.standing.control.hold(Some("small"), HoldReason::Paused, hold);
    board.update(&facts);
    let screen = drawn(&board, 80, 24);
    for shown in ["paused", "\\u{1b}[2Jtypo"] {
        assert!(screen.contains(shown), "no {shown} on:\n{screen}");
    }
}

#[test]
fn all_that_waits_and_what_a_limit_closes_are_shown() {
    let mut facts = facts(60);
    facts.depths.insert("express", QueueDepth { visible: 102, ..QueueDepth::default() });
    let hours = Some("Mon-Sun 22:00-23:00".parse().unwrap());
    let night = Some(Limit { hours, ..Limit::default() });
    facts.standing.control.limits.insert("campaign:small".parse().unwrap(), night);
    facts.standing.counters.insert("dead.big".to_owned(), 2);
    let screen = drawn(&LiveStatus::new(&facts), 120, 24);
    let opens = "closed, opens 2026-11-20 22:00:00 UTC";
    for shown in ["54,857: 102 express, 54,741 of campaigns", opens, "2 dead", "yes, but not small"]
    {
        assert!(screen.contains(shown), "no {shown} on:\n{screen}");
    }
}

#[test]
fn no_size_of_a_terminal_makes_it_fail() {
    let board = board();
    for (width, height) in [(1, 1), (20, 3), (80, 24), (300, 100), (5, 60)] {
        drawn(&board, width, height);
    }
}

#[test]
fn a_caption_stands_above_the_board() {
    let caption = "Console: http://127.0.0.1:1/\n7 of 9 mails arrived\n";
    let with = page(&board(), caption, 110, 20).plain();
    let (said, view) = with.split_once("tidegate  2026").unwrap();
    assert_eq!(said, caption);
    assert_eq!(format!("tidegate  2026{view}"), drawn(&board(), 110, 18));
}

#[test]
fn of_more_campaigns_than_there_is_room_for_the_first_are_shown_and_the_others_are_counted() {
    let screen = drawn(&board(), 110, 12);
    assert!(!screen.contains("small") && screen.contains("and 1 more"), "{screen}");
}

#[test]
fn the_last_campaign_has_the_last_line_where_all_have_room() {
    let screen = drawn(&board(), 110, 13);
    assert!(screen.contains("small") && !screen.contains("more"), "{screen}");
}

#[test]
fn holds_come_before_closed_limits_and_runs_that_still_enqueue_and_others_are_left_out() {
    let mut facts = facts(60);
    let at = EpochMillis::from(facts.at);
    let control = &mut facts.standing.control;
    control.hold(Some("small"), HoldReason::Paused, Hold::new("by ada: typo", at));
    let night = Limit { hours: Some("Mon-Sun 22:00-23:00".parse().unwrap()), ..Limit::default() };
    let open = Limit { rate: Some("10/s".parse().unwrap()), ..Limit::default() };
    for (key, limit) in [("campaign:small", night), ("domain:open.example", open)] {
        control.limits.insert(key.parse().unwrap(), Some(limit));
    }
    let input = RunInput { rows: 500, ..RunInput::default() };
    let run = |name| Run::new("big", name, input.clone(), RunSender::default(), at);
    facts.runs = vec![run("under-way"), Run { stage: RunStage::Done, ..run("finished") }];
    let screen = drawn(&LiveStatus::new(&facts), 120, 40);
    let places = ["Holds\n", "Limits\n", "Runs\n"].map(|heading| screen.find(heading));
    assert!(places[0].is_some() && places.is_sorted(), "{places:?} on:\n{screen}");
    assert!(screen.contains("under-way") && screen.contains("campaign:small"), "{screen}");
    assert!(!screen.contains("finished") && !screen.contains("open.example"), "{screen}");
}
