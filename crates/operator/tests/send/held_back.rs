//! A run obeys the level: rows that it defers wait where they are, in their file.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use futures_util::future::join;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, Operation, Rule};
use tidegate_operator::send::{RunEnd, SendProgress};

use super::world::{Journal, World, recipients};

/// Counts how often it was told that rows are held back.
#[derive(Default)]
struct Told(Cell<u32>);

impl SendProgress for Told {
    fn held_back(&self, level: BackPressureLevel) {
        assert_eq!(level, BackPressureLevel::Overloaded);
        self.0.set(self.0.get() + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_wait_while_the_level_defers_them_and_go_when_it_does_not() {
    let world = World::new(1);
    world.set_level(BackPressureLevel::Overloaded).await;
    let (csv, mut journal, told) = (recipients(95), Journal::default(), Told::default());
    let falls = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(world.run_state().len(), 0, "sent while it was deferred");
        world.set_level(BackPressureLevel::Busy).await; // defers low priority alone
    };
    let run = world.run_with(&csv, &mut journal, &told, pending());
    let (report, ()) = join(run, falls).await;
    assert_eq!(report.unwrap().ended, RunEnd::Done);
    assert_eq!(world.run_state().len(), 95);
    // Every 3 s, when the run looks at the ledger.
    assert!((90..=110).contains(&told.0.get()), "{}", told.0.get());
}

#[tokio::test(start_paused = true)]
async fn a_level_that_rises_is_heard_between_batches() {
    let world = World::new(2);
    world.queues.set_latency(Latency::always(Duration::from_millis(500)));
    let (csv, mut journal) = (recipients(3_000), Journal::default());
    let rises = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        world.set_level(BackPressureLevel::Overloaded).await;
        tokio::time::sleep(Duration::from_secs(20)).await;
        let then = world.run_state().len();
        assert!((100..2_000).contains(&then), "{then}");
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(world.run_state().len(), then, "it went on");
        world.set_level(BackPressureLevel::Clear).await;
    };
    let (report, ()) = join(world.run(&csv, &mut journal, pending()), rises).await;
    assert_eq!(report.unwrap().ended, RunEnd::Done);
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_gives_up_and_the_same_run_goes_on_later() {
    let mut world = World::new(3);
    world.limits.max_wait = Some(Duration::from_mins(10));
    world.set_level(BackPressureLevel::Overloaded).await;
    let (csv, mut journal) = (recipients(95), Journal::default());
    let report = world.run(&csv, &mut journal, pending()).await.unwrap();
    assert!(
        matches!(&report.ended, RunEnd::GaveUp(why) if why.contains("waited for 10 min 00 s")),
        "{:?}",
        report.ended
    );
    (world.limits.even_if_deferred, world.limits.max_wait) = (true, None);
    let report = world.run(&csv, &mut journal, pending()).await.unwrap();
    assert_eq!((report.ended, world.run_state().len()), (RunEnd::Done, 95));
}

#[tokio::test(start_paused = true)]
async fn a_bounded_wait_ends_when_it_said_also_between_two_looks() {
    let mut world = World::new(4);
    world.limits.max_wait = Some(Duration::from_secs(50));
    world.set_level(BackPressureLevel::Overloaded).await;
    let began = world.now();
    let report = world.run(&recipients(95), &mut Journal::default(), pending()).await.unwrap();
    let took = world.now().saturating_since(began);
    assert!((50.0..50.5).contains(&took.as_secs_f64()), "{took:?}");
    let said = "the level is overloaded, which defers messages of normal priority; waited for 50 s";
    assert!(matches!(&report.ended, RunEnd::GaveUp(why) if why.starts_with(said)), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn rows_that_the_level_deferred_go_while_the_ledger_does_not_answer() {
    let mut world = World::new(5);
    world.ledger = world.ledger.with_faults(&world.faults);
    world.set_level(BackPressureLevel::Overloaded).await;
    let (csv, mut journal) = (recipients(95), Journal::default());
    let fails = async {
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(world.run_state().len(), 0, "sent while it was deferred");
        let silent = Fault::Before(FailureKind::TimedOut);
        world.faults.add(Rule::new(silent).on(Operation::Read));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(world.run_state().len(), 95, "it waited for the ledger");
    };
    let (report, ()) = join(world.run(&csv, &mut journal, pending()), fails).await;
    assert_eq!(report.unwrap().ended, RunEnd::Done);
}
