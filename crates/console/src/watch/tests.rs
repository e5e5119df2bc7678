use std::collections::BTreeMap;

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::channel::Channel;
use tidegate_core::control::ChangeRecord;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::QueueDepth;
use tidegate_operator::status::{
    BreakerStatus, CampaignStatus, HoldStatus, LevelStatus, QuotaStatus, ServingStatus, Status,
    WaitingStatus,
};

use super::*;

fn at(seconds: u64) -> EpochMillis {
    EpochMillis::new(1_795_206_967_000 + seconds * 1_000)
}

pub(crate) fn status() -> Status {
    Status {
        stack: "tidegate".to_owned(),
        at: at(0),
        quota: QuotaStatus {
            words: Channel::Email.words(),
            spend_limit: None,
            account_per_second: Some(14.0),
            configured_cap: None,
            operator_cap: None,
            factor: 1.0,
            in_force: Some(14.0),
            rate_margin: 0.02,
            slots_per_second: Some(13.7),
            daily: None,
            sending_enabled: Some(true),
        },
        serving: ServingStatus { state: "serving", last_window: Some(at(0)), left: None },
        breaker: BreakerStatus { state: "allowing", since: None, until: None },
        holds: Vec::new(),
        campaigns: vec![CampaignStatus {
            name: "big".to_owned(),
            configured_weight: 90,
            weight: 90,
            share: 1.0,
            sent: 100,
            refused: 0,
            dead: 0,
            feedback: None,
            backlog: QueueDepth { visible: 900, ..QueueDepth::default() },
            priority_queues: BTreeMap::new(),
            held: false,
        }],
        level: LevelStatus::default(),
        limits: Vec::new(),
        runs: Vec::new(),
        waiting: WaitingStatus { campaigns: 900, ..WaitingStatus::default() },
        queues: BTreeMap::new(),
        counters: BTreeMap::from([("sent".to_owned(), 100), ("dead".to_owned(), 2)]),
        changes: Vec::new(),
    }
}

fn hold(campaign: Option<&str>, reason: &str) -> HoldStatus {
    HoldStatus {
        campaign: campaign.map(str::to_owned),
        reason: reason.to_owned(),
        what: format!("why of {reason}"),
        detail: "by ada: typo".to_owned(),
        since: at(1),
        until: None,
        lifted_by: "`tidegate resume`".to_owned(),
    }
}

fn record(seconds: u64, detail: &str) -> ChangeRecord {
    ChangeRecord {
        at: at(seconds),
        by: "user/ada".to_owned(),
        action: "weights".to_owned(),
        campaign: None,
        detail: detail.to_owned(),
        reason: "the newsletter first".to_owned(),
    }
}

fn titles(changes: &[StateChange]) -> Vec<&str> {
    changes.iter().map(|change| change.title.as_str()).collect()
}

#[test]
fn the_first_look_tells_nothing_and_an_unchanged_one_neither() {
    let mut snapshots = LastSeen::first(&status());
    assert_eq!(snapshots.changes(&status(), true), []);
}

#[test]
fn holds_and_pauses_are_told_as_they_begin_change_and_end() {
    let mut snapshots = LastSeen::first(&status());
    let mut now = status();
    now.holds = vec![hold(Some("big"), "refusals"), hold(None, "paused")];
    let told = snapshots.changes(&now, false);
    assert_eq!(titles(&told), ["big is held: why of refusals", "All sending is paused"]);
    assert_eq!((told[0].kind, told[0].campaign.as_deref()), (ChangeKind::Hold, Some("big")));
    assert_eq!((told[1].kind, told[1].tone), (ChangeKind::Pause, ChangeTone::Warn));
    now.holds[1].until = Some(at(60));
    assert_eq!(titles(&snapshots.changes(&now, false)), ["All sending: the pause was changed"]);
    now.holds.remove(0);
    let told = snapshots.changes(&now, false);
    assert_eq!(titles(&told), ["big is not held any more (why of refusals)"]);
    assert_eq!(
        (told[0].detail.as_str(), told[0].tone),
        ("still held: why of paused", ChangeTone::Info)
    );
    now.holds.clear();
    let told = snapshots.changes(&now, false);
    assert_eq!(
        (titles(&told), told[0].tone),
        (vec!["All sending is not paused any more"], ChangeTone::Good)
    );
}

#[test]
fn states_are_told_when_they_change_and_idle_counts_as_served() {
    let mut snapshots = LastSeen::first(&status());
    let mut now = status();
    now.serving.state = "idle";
    assert_eq!(snapshots.changes(&now, false), []);
    now.serving.state = "stopped";
    now.breaker = BreakerStatus { state: "blocking", since: Some(at(2)), until: Some(at(7)) };
    now.level.level = BackPressureLevel::Busy;
    now.quota.factor = 0.5;
    let told = snapshots.changes(&now, false);
    let expected = [
        "SES fails: the breaker blocks",
        "Nothing is sent: no poller runs",
        "The rate changed",
        "The level is busy",
    ];
    assert_eq!(titles(&told), expected);
    // It falls further: nothing new.
    now.quota.factor = 0.25;
    now.quota.in_force = Some(3.5);
    assert_eq!(snapshots.changes(&now, false), []);
    now.quota.factor = 1.0;
    now.quota.operator_cap = Some(10.0);
    let told = snapshots.changes(&now, false);
    assert!(told[0].detail.contains("the operator's cap none → 10"), "{}", told[0].detail);
    // SES did not tell once: that is no change of the quota.
    now.quota.account_per_second = None;
    assert_eq!(snapshots.changes(&now, false), []);
    now.quota.account_per_second = Some(14.0);
    assert_eq!(snapshots.changes(&now, false), []);
}

#[test]
fn dead_letters_are_told_by_their_number() {
    let mut snapshots = LastSeen::first(&status());
    let mut now = status();
    now.counters.insert("dead".to_owned(), 5);
    let told = snapshots.changes(&now, false);
    assert_eq!(
        (titles(&told), told[0].detail.as_str()),
        (vec!["3 dead letters"], "5 since the ledger began")
    );
    assert_eq!(snapshots.changes(&now, false), []);
}

#[test]
fn progress_is_told_only_of_a_look_that_counted_the_queues() {
    let mut snapshots = LastSeen::first(&status());
    let mut now = status();
    now.campaigns[0].sent = 500;
    assert_eq!(snapshots.changes(&now, false), []);
    now.campaigns[0].backlog.visible = 500;
    let told = snapshots.changes(&now, true);
    // Of the 900 that waited at the first look, 400 are sent; the 100 before it are no part of the run.
    assert_eq!((titles(&told), told[0].kind), (vec!["big: 40 % is sent"], ChangeKind::Progress));
}

#[test]
fn a_campaign_whose_mail_was_dead_lettered_is_not_said_to_be_sent() {
    let mut snapshots = LastSeen::first(&status());
    let mut now = status();
    (now.campaigns[0].sent, now.campaigns[0].dead) = (400, 600);
    now.campaigns[0].backlog.visible = 100;
    assert_eq!(titles(&snapshots.changes(&now, true)), ["big: 30 % is sent"]);
    (now.campaigns[0].sent, now.campaigns[0].backlog.visible) = (500, 0);
    assert_eq!(snapshots.changes(&now, true), []);
    let told = snapshots.changes(&now, true);
    let ends = ["big: its queue is empty, 400 were sent; 600 are dead letters"];
    assert_eq!((titles(&told), told[0].tone), (ends.to_vec(), ChangeTone::Warn));
}

#[test]
fn every_operators_change_is_told_once_the_oldest_first() {
    let mut now = status();
    now.changes = vec![record(0, "old")];
    let mut snapshots = LastSeen::first(&now);
    // Two within the same millisecond, one of them after the look that saw the first.
    now.changes.insert(0, record(3, "a"));
    assert_eq!(snapshots.changes(&now, false).len(), 1);
    now.changes.insert(0, record(3, "b"));
    now.changes.insert(0, record(4, "c"));
    let told = snapshots.changes(&now, false);
    let details: Vec<_> = told.iter().map(|change| &change.detail[..1]).collect();
    assert_eq!((details, told[0].kind), (vec!["b", "c"], ChangeKind::Change));
    assert_eq!(told[0].at, at(3));
    assert_eq!(told[0].title, "user/ada: weights");
    assert_eq!(snapshots.changes(&now, false), []);
}

#[test]
fn a_run_is_told_by_its_tenths_and_by_its_end() {
    let mut run = SendingRun::default();
    let looks = [(0, 1_000), (50, 950), (100, 900), (350, 650), (360, 640), (990, 10), (1_000, 0)];
    let said: Vec<_> = looks.map(|(sent, waiting)| run.look(sent, waiting, 0)).into();
    let tenths = |tenths| Some(Milestone::Tenths(tenths));
    assert_eq!(
        said,
        [Some(Milestone::Started(1_000)), None, tenths(1), tenths(3), None, tenths(9), None]
    );
    assert_eq!(run.look(1_000, 0, 0), Some(Milestone::Finished(1_000)));
    assert_eq!(run.look(1_000, 0, 0), None);
    // The next one counts from there.
    assert_eq!(run.look(1_000, 100, 0), Some(Milestone::Started(100)));
    assert_eq!(run.look(1_050, 50, 0), tenths(5));
}

#[test]
fn a_run_that_is_under_way_at_the_first_look_counts_from_there() {
    let mut run = SendingRun::first_seen(1_000_000);
    assert_eq!(run.look(1_000_000, 1_000, 0), Some(Milestone::Started(1_000)));
    assert_eq!(run.look(1_000_350, 650, 0), Some(Milestone::Tenths(3)));
    assert_eq!(run.look(1_001_000, 0, 0), None);
    assert_eq!(run.look(1_001_000, 0, 0), Some(Milestone::Finished(1_000)));
}

#[test]
fn a_queue_that_is_counted_empty_once_has_not_ended() {
    let mut run = SendingRun::default();
    run.look(0, 100, 0);
    assert_eq!(run.look(20, 0, 0), None);
    assert_eq!(run.look(30, 70, 0), Some(Milestone::Tenths(3)));
}
