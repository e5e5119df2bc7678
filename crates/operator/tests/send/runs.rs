//! The run in the ledger: a cancel or a pause reaches it, and another host neither repeats it nor has to leave it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::pending;
use std::time::Duration;

use futures_util::future::join;
use proptest::prelude::*;
use tidegate_core::control::{Cancel, Control, Hold, HoldReason};
use tidegate_core::runs::RunStage;
use tidegate_delivery::control::extend_cancel;
use tidegate_delivery::ports::{FailureKind, Ledger as _, Runs as _, StoredRun};
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_operator::send::{KnownList, RunEnd, RunRecord, SendProgress, SendReport};

use super::world::{Journal, World, checked, draft, recipients};

/// A world whose queue has room for `most` messages and that nobody empties.
fn blocked(most: u64) -> World {
    let mut world = World::new(1);
    world.limits.max_backlog = Some(most);
    world
}

async fn change(world: &World, change: impl FnOnce(&mut Control)) {
    let standing = world.ledger.read().await.unwrap();
    let mut control = standing.control;
    change(&mut control);
    assert!(world.ledger.set_control(standing.control_version, &control).await.unwrap());
}

async fn cancel(world: &World) {
    let at = world.now();
    change(world, |control| control.cancel("big", Cancel { at, keep: true }, "by Ada")).await;
}

fn seconds(seconds: u64) -> impl Future<Output = ()> {
    tokio::time::sleep(Duration::from_secs(seconds))
}

#[tokio::test(start_paused = true)]
async fn a_cancel_ends_a_run_within_five_seconds_and_its_rest_is_counted() {
    let world = blocked(200);
    let (csv, mut journal) = (recipients(3_000), Journal::default());
    let cancelled = async {
        seconds(21).await;
        cancel(&world).await;
        world.now()
    };
    let (report, at) = join(
        async { (world.run(&csv, &mut journal, pending()).await.unwrap(), world.now()) },
        cancelled,
    )
    .await;
    let (report, ended): (SendReport, _) = report;
    assert!(ended.as_millis() - at.as_millis() <= 5_000, "{at} to {ended}");
    assert_eq!(report.ended, RunEnd::Cancelled);
    let run = world.stored().await;
    assert_eq!((run.stage, run.enqueued + run.left()), (RunStage::Cancelled, 3_000));
    assert_eq!(run.enqueued, world.run_state().len() as u64);
    // Going on with it would send what was cancelled.
    let error = world.run(&csv, &mut journal, pending()).await.unwrap_err().to_string();
    assert!(error.contains("To send to all who have not got it: --rest-of recipients"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_a_run_enqueued_before_it_took_note_of_a_cancel_is_cancelled_too() {
    let world = World::new(1);
    cancel(&world).await;
    seconds(4).await;
    let later = world.now();
    extend_cancel(&world.ledger, "big", later).await.unwrap();
    let control = world.ledger.read().await.unwrap().control;
    assert_eq!(control.cancels["big"], Cancel { at: later, keep: true });
    assert_eq!(control.open_cancels().count(), 1);
    // Never back.
    extend_cancel(&world.ledger, "big", tidegate_core::identity::EpochMillis::new(1))
        .await
        .unwrap();
    assert_eq!(world.ledger.read().await.unwrap().control, control);
}

/// Keeps what it was told of pauses.
#[derive(Default)]
struct Told(RefCell<Vec<String>>);

impl SendProgress for Told {
    fn paused(&self, detail: &str) {
        self.0.borrow_mut().push(detail.to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_waits_while_its_campaign_or_all_sending_is_paused() {
    for of in [Some("big"), None] {
        let world = blocked(200);
        let (csv, mut journal, told) = (recipients(250), Journal::default(), Told::default());
        let steps = async {
            seconds(20).await;
            let hold = Hold::new("by Ada: wrong link", world.now());
            change(&world, |control| assert!(control.hold(of, HoldReason::Paused, hold))).await;
            seconds(5).await;
            world.empty();
            seconds(60).await;
            assert_eq!(world.run_state().len(), 0, "enqueued during the pause");
            assert_eq!(world.stored().await.stage, RunStage::Waiting);
            change(&world, |control| assert!(control.lift(of, HoldReason::Paused))).await;
        };
        let run = world.run_with(&csv, &mut journal, &told, pending());
        let (report, ()) = join(run, steps).await;
        assert_eq!(report.unwrap().ended, RunEnd::Done);
        assert_eq!(world.stored().await.stage, RunStage::Done);
        assert!(told.0.borrow().iter().all(|said| said == "by Ada: wrong link"));
        assert!(!told.0.borrow().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_begun_during_a_pause_is_enqueued_and_waits_for_the_next_one() {
    let world = blocked(200);
    let hold = |detail: &str| Hold::new(detail, world.now());
    let pause = async |detail| {
        let hold = hold(detail);
        change(&world, |control| {
            control.lift(Some("big"), HoldReason::Paused);
            assert!(control.hold(Some("big"), HoldReason::Paused, hold));
        })
        .await;
    };
    pause("by Ada: wrong link").await;
    seconds(1).await;
    let (csv, mut journal, told) = (recipients(250), Journal::default(), Told::default());
    let steps = async {
        seconds(20).await;
        assert!(told.0.borrow().is_empty(), "it waited");
        assert!(world.run_state().len() >= 200);
        pause("by Bob: another one").await;
        seconds(5).await;
        assert_eq!(told.0.borrow().last().unwrap(), "by Bob: another one");
        change(&world, |control| assert!(control.lift(Some("big"), HoldReason::Paused))).await;
        world.empty();
    };
    let (report, ()) = join(world.run_with(&csv, &mut journal, &told, pending()), steps).await;
    assert_eq!(report.unwrap().ended, RunEnd::Done);
}

#[tokio::test(start_paused = true)]
async fn the_same_list_from_elsewhere_is_refused_and_goes_on_from_the_ledger() {
    let mut world = World::new(1);
    let (csv, mut journal) = (recipients(500), Journal::default());
    let report = world.run(&csv, &mut journal, tokio::time::sleep(Duration::from_millis(60))).await;
    let before = report.unwrap().enqueued;
    assert!((1..500).contains(&before), "{before}");
    seconds(26 * 60).await;
    world.host = "runner-7";
    let mut elsewhere = Journal::default();
    let refused = world.run(&csv, &mut elsewhere, pending()).await.unwrap_err().to_string();
    let said = format!("begun 26 min 00 s ago on laptop, {before} of 500 enqueued");
    assert!(refused.contains(&said), "{refused}");
    assert!(refused.contains("--continue") && refused.contains("--again NAME"), "{refused}");
    assert_eq!(elsewhere.0, b"", "a journal was begun");
    world.wish = KnownList::Continue;
    let report = world.run(&csv, &mut elsewhere, pending()).await.unwrap();
    assert_eq!(
        (report.ended, report.enqueued_before, report.enqueued),
        (RunEnd::Done, before, 500 - before)
    );
    assert!(world.run_state().values().all(|times| *times == 1), "somebody got it twice");
    assert_eq!(elsewhere.contents().acknowledged.count(), 500, "the new journal has not all rows");
    // The first host's journal knows less than the ledger.
    world.host = "laptop";
    world.wish = KnownList::Refuse;
    let done = world.run(&csv, &mut journal, pending()).await.unwrap_err().to_string();
    assert!(
        done.contains("500 of 500 enqueued; nothing was sent. To send to everybody once more"),
        "{done}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_being_sent_is_not_taken_over_until_it_is_silent_for_a_minute() {
    let world = blocked(100);
    let (csv, mut journal, mut elsewhere) =
        (recipients(300), Journal::default(), Journal::default());
    let mut other = blocked(100);
    (other.host, other.wish) = ("runner-7", KnownList::Continue);
    (other.ledger, other.queues, other.universe) =
        (world.ledger.clone(), world.queues.clone(), world.universe);
    // The first host is cut off after 30 s: it neither writes nor ends.
    let cut_off = async {
        tokio::select! {
            report = world.run(&csv, &mut journal, pending()) => panic!("{report:?}"),
            () = seconds(30) => {}
        }
    };
    let take = async {
        seconds(15).await;
        let live = other.run(&csv, &mut elsewhere, pending()).await.unwrap_err().to_string();
        assert!(live.contains("is being sent: begun 15 s ago on laptop"), "{live}");
        seconds(78).await;
        other.empty();
        let stop = seconds(20);
        let report = other.run(&csv, &mut elsewhere, stop).await.unwrap();
        assert_eq!((report.ended, report.enqueued_before), (RunEnd::Interrupted, 100));
    };
    join(cut_off, take).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_had_a_run_that_another_took_over_ends() {
    let world = blocked(100);
    let (csv, mut journal) = (recipients(300), Journal::default());
    let take = async {
        seconds(20).await;
        let mut stored = world.ledger.runs(1).await.unwrap().remove(0);
        (stored.run.sender.host, stored.run.sender.token) = ("runner-7".into(), "another".into());
        assert!(world.ledger.set_run(&stored).await.unwrap());
    };
    let run = world.run(&csv, &mut journal, pending());
    let (ended, ()) = join(run, take).await;
    assert!(ended.unwrap_err().to_string().contains("goes on at runner-7"));
}

#[tokio::test(start_paused = true)]
async fn a_begin_whose_answer_was_lost_is_a_begin_and_another_host_s_is_not() {
    let world = World::new(1);
    let run = world.wanted(&checked(&draft(), &recipients(3)).unwrap()).await;
    let stored = StoredRun { version: 0, run };
    assert!(world.ledger.set_run(&stored).await.unwrap());
    assert!(RunRecord::begin(&world.ledger, stored.clone()).await.is_ok());
    let mut other = stored;
    (other.run.sender.host, other.run.sender.token) = ("runner-7".into(), "another".into());
    let taken = RunRecord::begin(&world.ledger, other).await.unwrap_err().to_string();
    assert!(taken.contains("goes on at laptop"), "{taken}");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_does_not_answer_stops_no_run() {
    let mut world = blocked(100);
    world.ledger = world.ledger.with_faults(&world.faults);
    let (csv, mut journal) = (recipients(250), Journal::default());
    let fails = async {
        seconds(10).await;
        for operation in [Operation::Read, Operation::SetRun] {
            world.faults.add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(operation));
        }
        world.empty();
        seconds(20).await;
        assert_eq!(world.run_state().len(), 100, "it waited for the ledger");
        world.faults.clear();
        world.empty();
    };
    let run = world.run(&csv, &mut journal, pending());
    let (report, ()) = join(run, fails).await;
    assert_eq!((report.unwrap().ended, world.stored().await.enqueued), (RunEnd::Done, 250));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Killed anywhere and gone on with on another host each time: every row is enqueued, and again only what was
    /// enqueued since the ledger was last written, under the same id.
    #[test]
    fn a_run_that_is_killed_anywhere_goes_on_elsewhere_and_loses_no_row(
        seed in 0_u64..1_000, kills in proptest::collection::vec(5_u64..90, 0..4),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(async {
            let mut world = World::new(seed);
            world.wish = KnownList::Continue;
            let csv = recipients(400);
            for (index, kill) in kills.iter().enumerate() {
                world.host = ["a", "b", "c", "d"][index];
                let (mut journal, killed) = (Journal::default(), tokio::time::sleep(Duration::from_millis(*kill)));
                tokio::select! {
                    ended = world.run(&csv, &mut journal, pending()) => { ended.unwrap(); }
                    () = killed => {}
                }
                seconds(61).await;
            }
            world.host = "last";
            if world.ledger.runs(1).await.unwrap().first().is_none_or(|run| run.run.stage != RunStage::Done) {
                world.run(&csv, &mut Journal::default(), pending()).await.unwrap();
            }
            let rows = world.run_state();
            assert_eq!(rows.len(), 400);
            let mut ids: BTreeMap<u64, String> = BTreeMap::new();
            for (row, id) in world.ids() {
                assert_eq!(ids.entry(row).or_insert_with(|| id.clone()), &id, "row {row}");
            }
        });
    }
}
