use std::time::Duration;

use snapbox::{assert_data_eq, file};
use tidegate_core::Timestamp;
use tidegate_fakes::{MemoryLedger, SimClock, Universe};

use super::*;
use crate::page::Page;

fn at(minute: u64) -> EpochMillis {
    EpochMillis::new(1_795_206_967_000 + minute * 60_000)
}

fn busy() -> Reading {
    let figures = BackPressureFigures {
        backlog_mails: Some(612_000),
        backlog_seconds: Some(43_714),
        age_seconds: Some(16_200),
        refused_millionths: Some(1_250),
    };
    let reading = BackPressurePolicy::default().judge(None, figures, at(0));
    Reading { since: at(0), growing_since: Some(at(10)), read_at: at(40), ..reading }
}

#[test]
fn people_read_level_figures_and_thresholds() {
    let deferral = Some("s3://mail-spillbucket-1a2b/spill".to_owned());
    let report =
        LevelReport::of(Some(&busy()), Some(&BackPressurePolicy::default()), deferral, at(43));
    let report = LevelReport { deferred_mails: Some(48_210), ..report };
    assert_data_eq!(Page::of(&report).plain(), file!["../../tests/golden/level.txt"]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!((&json["level"], &json["defers"]), (&"busy".into(), &serde_json::json!(["low"])));
    assert_eq!(json["figures"]["backlog_seconds"], 43_714);
}

#[test]
fn what_is_too_old_counts_as_clear_and_is_said() {
    let report = LevelReport::of(Some(&busy()), Some(&BackPressurePolicy::default()), None, at(56));
    assert!(report.is_old && report.level == BackPressureLevel::Clear && report.defers.is_empty());
    assert!(Page::of(&report).plain().contains("does the scheduler run?"));
    let never = LevelReport::of(None, None, None, at(0));
    assert!(Page::of(&never).plain().contains("not judged yet"));
}

async fn ledger(level: BackPressureLevel, clock: &SimClock) -> MemoryLedger {
    let ledger = MemoryLedger::default();
    set(&ledger, level, clock).await;
    ledger
}

async fn set(ledger: &MemoryLedger, level: BackPressureLevel, clock: &SimClock) {
    let mut standing = ledger.read().await.unwrap();
    let now = clock.wall().into();
    standing.control.back_pressure = Some(Reading { level, read_at: now, ..busy() });
    assert!(ledger.set_control(standing.control_version, &standing.control).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn rows_are_held_back_while_their_priority_is_deferred() {
    let universe = Universe::starting_at(Timestamp::from(at(40)));
    let clock = universe.clock();
    let ledger = ledger(BackPressureLevel::Busy, &clock).await;
    let gate = LedgerLevel { ledger: &ledger, clock: &clock };
    let free = LevelPolicy::default();
    assert!(LevelGate::new(&gate, Priority::Normal, free).until(&clock).await.unwrap().is_none());
    let ignores = LevelPolicy { ignore: true, max_wait: None };
    assert!(LevelGate::new(&gate, Priority::Low, ignores).until(&clock).await.unwrap().is_none());
    let mut held = LevelGate::new(&gate, Priority::Low, free);
    for _ in 0..20 {
        let (next, level) = held.until(&clock).await.unwrap().unwrap();
        assert_eq!(level, BackPressureLevel::Busy);
        clock.sleep_until(next).await;
    }
    set(&ledger, BackPressureLevel::Clear, &clock).await;
    assert!(held.until(&clock).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_ends_when_it_said() {
    let universe = Universe::starting_at(Timestamp::from(at(40)));
    let clock = universe.clock();
    let ledger = ledger(BackPressureLevel::Busy, &clock).await;
    let gate = LedgerLevel { ledger: &ledger, clock: &clock };
    let most = Some(Duration::from_secs(50));
    let mut held =
        LevelGate::new(&gate, Priority::Low, LevelPolicy { ignore: false, max_wait: most });
    let started = clock.monotonic();
    let error = loop {
        match held.until(&clock).await {
            Ok(held) => clock.sleep_until(held.unwrap().0).await,
            Err(error) => break error,
        }
    };
    assert_eq!(clock.monotonic().saturating_since(started), Duration::from_secs(50));
    let said = error.to_string();
    assert!(said.starts_with("the level is busy, which defers messages of low priority"), "{said}");
}
