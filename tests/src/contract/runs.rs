//! The contract of the `Runs` port.

use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::{RUNS_KEPT, Run, RunInput, RunSender};
use tidegate_delivery::ports::{Runs, StoredRun};

use super::ledger::LedgerRoom;
use super::{behaviours, hold_together};

/// Runs all behaviours of the runs on one adapter.
pub async fn runs_contract(room: &impl LedgerRoom) {
    hold_together(behaviours![room =>
        a_run_reads_back_what_was_written_and_the_newest_is_first,
        a_run_that_another_wrote_is_not_overwritten,
        the_oldest_runs_are_forgotten,
    ])
    .await;
}

fn stored(version: u64, name: &str) -> StoredRun {
    let (input, at) = (RunInput { rows: 500, ..RunInput::default() }, 1_795_207_000_000);
    let run = Run {
        seen: EpochMillis::new(at + version),
        enqueued: version,
        settled: vec![0, version].into(),
        returned: vec![3, 4].into(),
        ..Run::new("big", name, input, RunSender::default(), EpochMillis::new(at))
    };
    StoredRun { version, run }
}

async fn a_run_reads_back_what_was_written_and_the_newest_is_first(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert_eq!(ledger.runs(10).await.unwrap(), []);
    for (version, name) in [(0, "news"), (1, "news"), (0, "offers"), (2, "news")] {
        assert!(ledger.set_run(&stored(version, name)).await.unwrap());
    }
    let written = |version, name| StoredRun { version: version + 1, ..stored(version, name) };
    let both = [written(0, "offers"), written(2, "news")];
    assert_eq!(ledger.runs(10).await.unwrap(), both);
    assert_eq!(ledger.runs(1).await.unwrap(), both[..1]);
}

async fn a_run_that_another_wrote_is_not_overwritten(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert!(!ledger.set_run(&stored(1, "news")).await.unwrap());
    assert!(ledger.set_run(&stored(0, "news")).await.unwrap());
    for version in [0, 2] {
        assert!(!ledger.set_run(&stored(version, "news")).await.unwrap(), "{version}");
    }
    let stands = ledger.runs(10).await.unwrap();
    assert_eq!(stands, [StoredRun { version: 1, ..stored(0, "news") }]);
}

async fn the_oldest_runs_are_forgotten(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    for run in 0..RUNS_KEPT + 2 {
        assert!(ledger.set_run(&stored(0, &format!("run-{run}"))).await.unwrap());
    }
    let runs = ledger.runs(RUNS_KEPT).await.unwrap();
    let ends = (runs[0].run.name.as_str(), runs[RUNS_KEPT - 1].run.name.as_str());
    assert_eq!((runs.len(), ends), (RUNS_KEPT, ("run-101", "run-2")));
}
