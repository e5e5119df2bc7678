use std::time::Duration;

use tidegate_core::breaker::Breaker;
use tidegate_core::config::{PollerConfig, SchedulerConfig};
use tidegate_core::control::HoldReason;
use tidegate_core::daily::DailyReading;
use tidegate_core::email::Priority;
use tidegate_core::factor::RateFactor;
use tidegate_core::limiter::{WaitingMails, WindowLeft};
use tidegate_core::limits::Adapted;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::reputation::{Reputation, Tally};
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{AccountStatus, PreviousClaim, Standing};

use super::*;
use crate::mcp::tests::assert_answer;
use crate::page::Page;
use crate::redact::AddressVisibility;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_795_206_967_042);

fn rate(rate: f64) -> Rate {
    Rate::per_second(rate).unwrap()
}

/// The settings of a stack with the campaigns big and small.
pub(crate) fn settings() -> StatusSettings {
    let lookup = |name: &str| {
        match name {
        "TIDEGATE_CAMPAIGNS" => Some(r#"[{"name": "big", "queue_url": "https://sqs.example/big", "weight": 90}, {"name": "small", "queue_url": "https://sqs.example/small", "weight": 10}]"#.to_owned()),
        "TIDEGATE_DEAD_LETTER_QUEUE_URL" => Some("https://sqs.example/dead".to_owned()),
        "TIDEGATE_MERGE_QUEUE_URL" => Some("https://sqs.example/merge.fifo".to_owned()),
        "TIDEGATE_LEDGER" => Some("dynamodb:ledger".to_owned()),
        "TIDEGATE_POLLER_FUNCTION" => Some("poller".to_owned()),
        "TIDEGATE_IDLE_WAKE_SECONDS" => Some("1".to_owned()),
        "TIDEGATE_DEDUPLICATION" => Some("park".to_owned()),
        _ => None,
    }
    };
    StatusSettings {
        stack: "tidegate".to_owned(),
        poller: PollerConfig::from_variables(lookup).unwrap(),
        scheduler: SchedulerConfig::from_variables(lookup).unwrap(),
        addresses: AddressVisibility::Masked,
        changes: 5,
        ses_price: None,
    }
}

pub(crate) fn facts() -> StackFacts {
    let window = Window::containing(NOW);
    let mut standing = Standing {
        previous: Some(PreviousClaim {
            window,
            quota: rate(14.0),
            rate_margin: RateMargin::default(),
            limits: 0,
            changed_limits: 0,
            factor: RateFactor::default(),
        }),
        ..Standing::default()
    };
    let sums = [("sent", 40_110), ("mails", 40_110), ("refused", 2), ("retried", 31)];
    let by_campaign = [("sent.big", 36_099), ("sent.small", 4_011)];
    let sums = sums.into_iter().chain(by_campaign);
    standing.counters = sums.map(|(name, sum)| (name.to_owned(), sum)).collect();
    standing.control.daily = Some(DailyReading {
        quota: 50_000,
        sent: 41_000,
        counted: 40_000,
        read_at: EpochMillis::new(0),
    });
    let campaign = |(name, weight): (&str, u32)| Campaign {
        name: name.to_owned(),
        queue_url: format!("https://sqs.example/{name}"),
        weight,
        ..Campaign::default()
    };
    let depth = |visible, delayed| QueueDepth { visible, in_flight: 14, delayed };
    StackFacts {
        at: NOW,
        settings: settings(),
        standing,
        campaigns: [("big", 90), ("small", 10)].map(campaign).to_vec(),
        backlogs: [("big".to_owned(), depth(1_204_511, 31)), ("small".to_owned(), depth(988, 0))]
            .into(),
        depths: [
            ("merge", depth(0, 0)),
            ("dead_letters", QueueDepth { visible: 3, ..QueueDepth::default() }),
        ]
        .into(),
        account: Some(AccountStatus {
            max_send_rate: 14.0,
            max_24_hour_send: 50_000.0,
            sent_last_24_hours: 41_000.0,
            sending_enabled: true,
            spend_limit: None,
        }),
        changes: vec![ChangeRecord {
            at: EpochMillis::new(1_795_206_000_000),
            by: "user/ada".to_owned(),
            action: "weights".to_owned(),
            campaign: None,
            detail: "big 80 → 90".to_owned(),
            reason: "the newsletter goes first".to_owned(),
        }],
        runs: Vec::new(),
    }
}

/// The status, which is an answer of the tools that show it or a part of it.
fn status_of(facts: &StackFacts) -> Status {
    let status = Status::of(facts);
    assert_answer("status", &status);
    assert_answer("weights", &status.campaigns);
    assert_answer("rate", &status.quota);
    assert_answer("limit_list", &status.limits);
    assert_answer("results", &status.runs);
    assert_answer("history", &status.changes);
    status
}

fn page(facts: &StackFacts) -> String {
    Page::of(&status_of(facts)).plain()
}

#[test]
fn a_running_stack_is_shown_with_quota_shares_and_backlogs() {
    let status = status_of(&facts());
    let total: f64 = status.campaigns.iter().map(|campaign| campaign.share).sum();
    assert!((total - 1.0).abs() < 1e-12);
    let daily = status.quota.daily.unwrap();
    assert_eq!((daily.sent, daily.left_for_campaigns), (41_110, 49_500 - 41_110));
    snapbox::assert_data_eq!(page(&facts()), snapbox::file!["../../tests/golden/status.txt"]);
}

#[test]
fn a_priority_queue_is_shown_and_counts_for_its_campaign() {
    let mut facts = facts();
    let depth = QueueDepth { visible: 7, in_flight: 2, delayed: 1 };
    facts.backlogs.insert("small.high".to_owned(), depth);
    let url = "https://sqs.example/small-high".to_owned();
    facts.campaigns[1].priority_queues.insert(Priority::High, url);
    let small = &status_of(&facts).campaigns[1];
    assert_eq!(small.backlog.visible, 988 + 7);
    assert_eq!(small.priority_queues["small.high"], depth);
    let text = page(&facts);
    assert!(text.lines().any(|line| line.trim_start().starts_with("of it small.high")), "{text}");
}

#[test]
fn holds_are_shown_with_who_lifts_them_and_no_address() {
    let mut facts = facts();
    let since = EpochMillis::from(NOW);
    let said = "MessageRejected: ada@example.com is on the suppression list";
    let control = &mut facts.standing.control;
    control.hold(Some("big"), HoldReason::Refusals, Hold::new(said, since));
    control.hold(Some("big"), HoldReason::Paused, Hold::new("by ada: lunch", since));
    let over = Hold::new("by ada: lunch", EpochMillis::new(0)).until(Some(since));
    control.hold(Some("small"), HoldReason::Paused, over);
    let paused = Hold { tenant: Some("acme".to_owned()), ..Hold::new("tenant acme", since) };
    control.hold(Some("small"), HoldReason::Tenant, paused);
    control.hold(None, HoldReason::DailyQuota, Hold::new("used up", since));
    let status = status_of(&facts);
    let lifted: Vec<_> = status.holds.iter().map(|hold| &*hold.lifted_by).collect();
    assert_eq!(
        lifted,
        [
            "the scheduler",
            "`tidegate resume big --reason '…'`",
            "a mail that is accepted: one is tried every 30 s, or `tidegate lift refusals big --reason '…'`",
            "the scheduler, once SES lets the tenant send, or `tidegate lift tenant small --reason '…'`"
        ]
    );
    assert_eq!(status.sending().text, "no: SES's daily quota is used up");
    assert!(
        !status
            .holds
            .iter()
            .any(|hold| hold.campaign.as_deref() == Some("small") && hold.reason == "paused"),
        "a pause that is over holds nothing"
    );
    let text = page(&facts);
    assert!(!text.contains("ada@example.com") && text.contains("***@example.com"), "{text}");
    facts.settings.addresses = AddressVisibility::Shown;
    assert!(page(&facts).contains("ada@example.com"));
}

#[test]
fn what_keeps_mail_from_going_out_is_said_first() {
    let said = |change: &dyn Fn(&mut StackFacts)| {
        let mut facts = facts();
        change(&mut facts);
        status_of(&facts).sending().text
    };
    assert_eq!(said(&|_| {}), "yes");
    assert_eq!(said(&|facts| facts.standing.previous = None), "no window was ever served");
    let long_ago = |facts: &mut StackFacts| facts.at = facts.at + Duration::from_secs(700);
    assert!(said(&long_ago).starts_with("no: no window was served for 11 min 40 s"));
    let window = Window::containing(NOW);
    let blocks = Breaker::Blocking { since: window, until: window.plus(60) };
    let blocked = said(&|facts| facts.standing.control.breaker = blocks.clone());
    assert_eq!(blocked, "no: SES fails; the breaker tries it again at 2026-11-20 20:37:07 UTC");
}

#[test]
fn of_all_caps_the_lowest_is_in_force_less_what_refusals_took() {
    let mut facts = facts();
    facts.settings.poller.cap.quota = Some(rate(10.0));
    let lowered = RateFactor::default().refused(Window::from_epoch_second(9)).unwrap();
    facts.standing.factor = lowered.capped(Some(rate(9.0)));
    assert_eq!(facts.quota().in_force, Some(7.2));
    facts.standing.factor = lowered.capped(Some(rate(7.0)));
    assert_eq!(facts.quota().in_force, Some(5.6));
    // SES does not tell: the last known quota.
    facts.account = None;
    facts.standing.control.last_known_quota = Some(rate(6.0));
    assert_eq!(facts.quota().in_force, Some(4.8));
    facts.standing.control.last_known_quota = None;
    facts.settings.poller.cap.quota = None;
    assert_eq!(facts.quota().in_force, None);
    assert!(page(&facts).contains("unknown: SES does not tell it"));
}

#[test]
fn weights_are_shown_as_they_are_in_force_also_where_all_are_0() {
    let mut facts = facts();
    facts.standing.control.weights = [("big".to_owned(), 0), ("small".to_owned(), 0)].into();
    let weights: Vec<_> = status_of(&facts).campaigns.iter().map(|c| c.weight).collect();
    assert_eq!(weights, [0, 0]);
    assert!(status_of(&facts).campaigns.iter().all(|campaign| campaign.share.abs() < 1e-12));
    facts.standing.control.weights = [("big".to_owned(), 30)].into();
    let status = status_of(&facts);
    assert!((status.campaigns[0].share - 0.75).abs() < 1e-12);
}

#[test]
fn what_the_last_window_left_is_in_the_json_by_line_and_priority_while_its_report_is_new() {
    let mut facts = facts();
    let now = Window::containing(NOW);
    let mails =
        WaitingMails { express: [1, 0, 0, 0], campaigns: [0, 2, 1_200, 0], limited: [0, 0, 3, 0] };
    facts.standing.window_left = Some(WindowLeft { window: now, slots: 1, mails });
    // Some mail gets no slot in most seconds, and goes later: no operator has to know.
    assert!(!page(&facts).contains("slot"));
    let json = |facts: &StackFacts| serde_json::to_value(status_of(facts)).unwrap();
    assert_eq!(json(&facts)["serving"]["left"]["mails"]["campaigns"]["high"], 2);
    facts.at = NOW + Duration::from_secs(6);
    assert!(json(&facts)["serving"]["left"].is_null());
}

#[test]
fn limits_are_shown_with_what_waits_for_them() {
    let mut facts = facts();
    facts.settings.poller.limits.initial =
        "gmail.com+googlemail.com=10/s, tiny.example=6/m, big.example=50/s, *=25%".parse().unwrap();
    let sums = [("domain_fed.1", 3_000), ("domain_taken.1", 500), ("domain_fed.4", 7)];
    facts.standing.counters.extend(sums.map(|(name, sum)| (name.to_owned(), sum)));
    let status = status_of(&facts);
    let shown: Vec<_> =
        status.limits.iter().map(|l| (l.key.as_str(), l.per_second, l.waiting)).collect();
    assert_eq!(
        shown,
        [
            ("domain:gmail.com+googlemail.com", Some(10.0), Some(2_500)),
            ("domain:tiny.example", Some(0.1), Some(0)),
            ("domain:big.example", None, Some(0)),
            ("domain:*", Some(3.5), Some(7)),
        ]
    );
    let text = Page::of(&status).plain();
    assert!(text.contains("Limits") && text.contains("2,500"), "{text}");
}

#[test]
fn an_adaptive_limit_is_shown_as_it_was_set_and_with_the_rate_that_its_provider_takes() {
    let mut facts = facts();
    for (key, limit) in [
        ("gmail.com+googlemail.com", r#"{"rate": "10/s", "adaptive": true}"#),
        ("*", r#"{"rate": "8/s", "adaptive": true}"#),
    ] {
        let limit = serde_json::from_str(limit).unwrap();
        facts.standing.control.limits.insert(key.parse().unwrap(), Some(limit));
    }
    // Half of the time's mail is deferred.
    let now = Window::containing(NOW);
    for (tag, per_second) in [("gmail_com", 10.0), ("slow_example", 8.0)] {
        let lowered = Adapted::deferred(None, &[now; 25], rate(per_second), now).unwrap();
        facts.standing.control.adapted.insert(tag.to_owned(), lowered);
    }
    let status = status_of(&facts);
    let limits = status.limits.iter().map(|l| (l.key.as_str(), l.limit.as_str(), l.per_second));
    let expected = [
        ("domain:*", "8/s adaptive", Some(8.0)),
        ("domain:gmail.com+googlemail.com", "10/s adaptive", Some(5.0)),
        ("domain:slow.example", "8/s adaptive", Some(4.0)),
    ];
    assert_eq!(limits.collect::<Vec<_>>(), expected);
    let text = Page::of(&status).plain();
    assert!(text.contains("10/s adaptive  5/s"), "{text}");
    // Hours later it is what it was set to, and its record says nothing any more.
    facts.at = NOW + Duration::from_hours(10);
    let limits: Vec<_> = status_of(&facts).limits.iter().map(|limit| limit.per_second).collect();
    assert_eq!(limits, [Some(8.0), Some(10.0)]);
}

#[test]
fn a_level_above_clear_is_shown_with_what_it_defers_while_it_counts() {
    let mut facts = facts();
    let judged = "2026-11-20T20:35:07Z";
    let reading = serde_json::json!({
        "level": "busy", "since": judged, "read_at": judged, "growing_since": judged,
        "figures": {"backlog_mails": 612_000, "backlog_seconds": 43_714},
    });
    facts.standing.control.back_pressure = Some(serde_json::from_value(reading).unwrap());
    let status = status_of(&facts);
    let text = Page::of(&status).plain();
    let level = "busy since 2026-11-20 20:35:07 UTC: messages of low priority are deferred; the backlog takes 12 h 08 min";
    let grows = "since 2026-11-20 20:35:07 UTC: more comes than the quota lets go";
    assert!(text.contains(level) && text.contains(grows), "{text}");
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(
        (&json["level"]["level"], &json["level"]["backlog_mails"]),
        (&"busy".into(), &612_000.into())
    );
    // The judgement is an hour old: it counts no more.
    facts.at = NOW + Duration::from_hours(1);
    assert_eq!(status_of(&facts).level, LevelStatus::default());
}

#[test]
fn a_campaign_has_its_own_refusals_bounces_and_complaints() {
    let mut facts = facts();
    facts.standing.counters.insert("refused.big".to_owned(), 2);
    assert!(status_of(&facts).campaigns.iter().all(|campaign| campaign.feedback.is_none()));
    let running = ReputationFigures { bounced: 3, complained: 1, ..ReputationFigures::default() };
    let tally = Tally { from: 36_000, running, ..Tally::default() };
    let campaigns = BTreeMap::from([("big".to_owned(), tally)]);
    let since = EpochMillis::from(NOW);
    let remembered = Vec::new();
    facts.standing.control.reputation = Some(Reputation {
        since,
        campaigns,
        remembered,
        deferrals: BTreeMap::new(),
        ramps: BTreeMap::new(),
    });
    let [big, small] = &status_of(&facts).campaigns[..] else { panic!("two campaigns") };
    let figures = |sent, bounced, complained| ReputationFigures {
        sent,
        bounced,
        complained,
        ..ReputationFigures::default()
    };
    assert_eq!((big.refused, big.feedback), (2, Some(figures(99, 3, 1))));
    assert_eq!((small.refused, small.feedback), (0, Some(figures(4_011, 0, 0))));
}

#[test]
fn everything_that_waits_is_counted_by_where_it_waits() {
    let mut facts = facts();
    facts.backlogs.clear();
    facts.depths.clear();
    assert!(page(&facts).contains("  waiting          nothing\n"));
    facts.depths.insert("express", QueueDepth { visible: 100, in_flight: 1, delayed: 1 });
    facts.depths.insert("merge", QueueDepth { visible: 7, ..QueueDepth::default() });
    // Of a limit that was removed since.
    facts.standing.counters.insert("domain_fed.3".to_owned(), 40);
    let high = "https://sqs.example/small-high".to_owned();
    facts.campaigns[1].priority_queues.insert(Priority::High, high);
    facts
        .backlogs
        .insert("small.high".to_owned(), QueueDepth { visible: 5, ..QueueDepth::default() });
    let status = status_of(&facts);
    let counted = WaitingStatus { express: 102, campaigns: 5, merge: 7, limits: 40, rows: 0 };
    assert_eq!((status.waiting, status.waiting.all()), (counted, 154));
    let text = "waiting          154: 102 express, 5 of campaigns, 7 on the merge queue, 40 on limits' queues";
    assert!(page(&facts).contains(text), "{}", page(&facts));
}

#[test]
fn express_mail_that_is_held_stands_among_the_campaigns() {
    let mut facts = facts();
    facts.depths.insert("express", QueueDepth { visible: 102, ..QueueDepth::default() });
    let hold = Hold::new("10 in a row refused", EpochMillis::from(NOW));
    facts.standing.control.hold(Some("express"), HoldReason::Refusals, hold);
    assert_eq!(status_of(&facts).sending().text, "yes, but not express");
    let text = page(&facts);
    let row = text.lines().find(|line| line.trim_start().starts_with("express  ")).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    assert_eq!(cells, ["express", "first", "-", "0", "102", "0", "0", "held"]);
}

#[test]
fn a_campaign_that_its_limit_closes_says_when_it_opens_and_its_mail_waits_for_the_limit() {
    let mut facts = facts();
    // NOW is 20:36.
    for (key, limit) in [
        ("campaign:small", r#"{"hours": "Mon-Sun 22:00-23:00", "zone": "UTC"}"#),
        ("campaign:*", r#"{"rate": "1/s"}"#),
        ("sender:news@example.org", r#"{"rate": "1/s"}"#),
    ] {
        let limit = serde_json::from_str(limit).unwrap();
        facts.standing.control.limits.insert(key.parse().unwrap(), Some(limit));
    }
    let status = status_of(&facts);
    let waiting = |key| status.limits.iter().find(|limit| limit.key == key).unwrap().waiting;
    assert_eq!(waiting("campaign:small"), Some(988 + 14));
    assert_eq!(waiting("campaign:*"), Some(1_204_511 + 14 + 31));
    assert_eq!(waiting("sender:news@example.org"), None, "its mail waits among other mail");
    assert_eq!(status.sending().text, "yes, but not small");
    let text = page(&facts);
    let row = text.lines().find(|line| line.trim_start().starts_with("small")).unwrap();
    assert!(row.ends_with("closed, opens 2026-11-20 22:00:00 UTC"), "{text}");
}

#[test]
fn a_campaign_says_how_much_of_it_was_dead_lettered_as_long_as_it_may_still_be_there() {
    let mut facts = facts();
    facts.standing.counters.insert("dead.small".to_owned(), 115);
    let mut dead = |letters| {
        facts
            .depths
            .insert("dead_letters", QueueDepth { visible: letters, ..QueueDepth::default() });
        let text = page(&facts);
        let row = text.lines().find(|line| line.trim_start().starts_with("small")).unwrap();
        (status_of(&facts).campaigns[1].dead, row.to_owned())
    };
    assert!(dead(118).1.ends_with("115 dead"));
    // Some were replayed.
    assert_eq!(dead(20).0, 20);
    assert_eq!(dead(0).0, 0);
    assert!(dead(0).1.ends_with('0'));
}

#[test]
fn a_hold_by_a_mail_names_it_and_says_what_it_means() {
    let mut facts = facts();
    let id = "0192f3c4-7c1d-7d0e-9a53-0f8c2f6f8f10";
    let said = format!(
        "10 in a row refused: NotFoundException: no template x, to bob@example.com; ids {id}"
    );
    facts.standing.control.hold(
        Some("big"),
        HoldReason::Refusals,
        Hold::new(&said, EpochMillis::from(NOW)),
    );
    let hold = &status_of(&facts).holds[0];
    assert_eq!(hold.what, "one mail after the other is refused");
    assert!(hold.detail.ends_with(&format!("to ***@example.com; ids {id}")), "{}", hold.detail);
    assert!(page(&facts).contains(id));
}

/// Regression: mail in the store is on no queue, and was said to be sent.
#[test]
fn of_a_run_no_more_is_said_to_be_sent_than_its_campaign_sent_since_it_began() {
    use tidegate_core::runs::{
        Baseline, RowRanges, Run, RunInput, RunSender, RunStage, UploadedRows,
    };
    let mut facts = facts();
    let (input, began) = (RunInput { rows: 3, ..RunInput::default() }, facts.at.into());
    let sent = facts.standing.counters.get("sent.big").copied().unwrap_or(0);
    facts.backlogs.clear();
    let new = Run::new("big", "timed", input, RunSender::default(), began);
    let before = Baseline { sent, ..Baseline::default() };
    let uploaded = UploadedRows {
        token: "t".to_owned(),
        versions: [(1, RowRanges::from(vec![0, 2])), (2, RowRanges::from(vec![2, 1]))].into(),
        refused: RowRanges::from(vec![3, 1]),
    };
    let (stage, uploaded) = (RunStage::Done, Some(uploaded));
    facts.runs = vec![Run { enqueued: 3, stage, before, uploaded, ..new }];
    facts.standing.counters.insert("sent.big".to_owned(), sent + 1);
    let run = status_of(&facts).runs.remove(0);
    assert_eq!((run.enqueued, run.waiting, run.sent), (3, 0, 1));
}
