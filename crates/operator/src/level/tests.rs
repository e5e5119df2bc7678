use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::back_pressure::{BackPressureFigures, BackPressurePolicy, Reading};
use tidegate_core::email::Priority;
use tidegate_fakes::{MemoryLedger, SimClock, Universe};

use super::*;

const START: Timestamp = Timestamp::from_millis(1_795_206_967_000);

async fn ledger(level: BackPressureLevel, clock: &SimClock) -> MemoryLedger {
    let ledger = MemoryLedger::default();
    set(&ledger, level, clock).await;
    ledger
}

async fn set(ledger: &MemoryLedger, level: BackPressureLevel, clock: &SimClock) {
    let mut standing = ledger.read().await.unwrap();
    let now = clock.wall().into();
    let judged = BackPressurePolicy::default().judge(None, BackPressureFigures::default(), now);
    standing.control.back_pressure = Some(Reading { level, ..judged });
    assert!(ledger.set_control(standing.control_version, &standing.control).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn rows_are_held_back_while_their_priority_is_deferred() {
    let universe = Universe::starting_at(START);
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
    let universe = Universe::starting_at(START);
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
