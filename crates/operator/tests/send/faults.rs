//! Whatever befalls the calls: every row is enqueued, and doubles are those that were not yet
//! acknowledged.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_core::email::Email;
use tidegate_core::identity::EpochMillis;
use tidegate_core::runs::RunStage;
use tidegate_delivery::ports::{FailureKind, Queues as _};
use tidegate_fakes::{Fault, Latency, MemoryLedger, Operation, Rule};
use tidegate_operator::send::{RunEnd, SendError, SendProgress, TestMail, send_test};

use super::world::{CSV, FILE, Journal, World, draft, recipients};

/// Every row of `rows` stands there, and twice only rows that `doubled` allows.
fn assert_complete(world: &World, rows: u64, may_double: impl Fn(u64) -> bool) -> usize {
    let state = world.run_state();
    assert!((1..=rows).all(|row| state.contains_key(&row)), "{state:?}");
    assert_eq!(state.len() as u64, rows);
    let doubled: Vec<u64> =
        state.iter().filter(|(_, count)| **count > 1).map(|(row, _)| *row).collect();
    assert!(doubled.iter().all(|row| may_double(*row)), "doubled: {doubled:?}");
    doubled.len()
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_call_the_next_run_sends_what_was_not_acknowledged_and_nothing_else() {
    let csv = recipients(95);
    let (mut kills, mut doubles) = (0, 0);
    for hang in [Fault::HangBefore, Fault::HangAfter] {
        for nth in 1.. {
            let world = World::new(nth);
            world.faults.add(Rule::new(hang.clone()).nth(nth));
            let mut journal = Journal::default();
            let ended = world.run_until_killed(&csv, &mut journal).await;
            if ended {
                break;
            }
            kills += 1;
            let acknowledged = journal.contents().acknowledged;
            world.faults.clear();
            let report = world.run(&csv, &mut journal, pending()).await.unwrap();
            assert_eq!(report.ended, RunEnd::Done);
            assert_eq!(report.enqueued_before, acknowledged.count());
            let unacknowledged = |row| !acknowledged.contains(row);
            let doubled = assert_complete(&world, 95, unacknowledged);
            assert!(doubled <= 10 * world.limits.parallel, "{doubled}");
            doubles += doubled;
            let again = world.run(&csv, &mut journal, pending()).await.unwrap_err();
            assert!(matches!(again, SendError::AlreadySent { rows: 95, .. }), "{again}");
        }
    }
    assert!(kills >= 20 && doubles > 0, "{kills} kills, {doubles} doubles: nothing was tested");
}

#[tokio::test(start_paused = true)]
async fn a_test_mail_is_the_row_s_to_another_address_under_an_id_of_its_own() {
    let world = World::new(6);
    let (draft, csv, me) = (draft(), recipients(9), "Me <me@example.org>");
    let at = EpochMillis::new(1_795_207_000_300);
    let (draft, queue, queues) = (&draft, &world.queue, &world.queues);
    let (to, rows, express) = (me, 2, true);
    let mail = TestMail { draft, file: FILE, format: CSV, to, rows, queue, express };
    let report = send_test(mail, csv.as_bytes(), queues, at).await.unwrap();
    assert_eq!(report.ids, ["test-1795207000300-1", "test-1795207000300-2"]);
    let bodies: Vec<String> =
        world.queues.contents(&world.queue).into_iter().map(|message| message.body).collect();
    for (body, row) in bodies.iter().zip(1..) {
        let email = Email::parse(body).unwrap();
        assert_eq!(email.to[0].to_string(), me);
        assert!(body.contains(&format!("Hello Ada {row}")), "{body}");
    }
    assert_eq!(bodies.len(), 2);
    // A row that would be refused sends nothing, not even the rows before it.
    let torn = "to,first_name,token\na@example.com,A,t\nnobody,B,t\n";
    let refused = send_test(mail, torn.as_bytes(), queues, at).await;
    assert!(
        refused.unwrap_err().to_string().starts_with("recipients.csv:3: to: must be one address")
    );
    assert_eq!(world.queues.contents(&world.queue).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn excluded_addresses_get_no_mail_and_are_counted() {
    let excluded = "address;since\nADA3@example.com;2026\n\n# by mail\n\"ada5@example.com\"\nnobody@example.com\n";
    let world = World { excluded: excluded.to_owned(), ..World::new(5) };
    let mut journal = Journal::default();
    let report = world.run(&recipients(6), &mut journal, pending()).await.unwrap();
    assert_eq!((report.ended, report.rows, report.excluded), (RunEnd::Done, 4, 2));
    assert_eq!(world.run_state().into_keys().collect::<Vec<_>>(), [1, 2, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn refused_entries_and_lost_answers_are_tried_again_until_all_is_there() {
    let timed_out = || FailureKind::TimedOut;
    for (fault, doubles) in [
        (Fault::RefuseEntries(0.3), false),
        (Fault::LoseEntries(0.3), true),
        (Fault::Before(timed_out()), false),
        (Fault::After(timed_out()), true),
        (Fault::Slow(Latency::between(Duration::ZERO, Duration::from_secs(3))), false),
    ] {
        let world = World::new(3);
        world.faults.add(Rule::new(fault.clone()).on(Operation::Send).chance(0.3));
        let mut journal = Journal::default();
        let report = world.run(&recipients(300), &mut journal, pending()).await.unwrap();
        assert_eq!((report.ended, report.enqueued), (RunEnd::Done, 300), "{fault:?}");
        let doubled = assert_complete(&world, 300, |_| doubles);
        assert_eq!(doubled > 0, doubles, "{fault:?}");
        assert!(!world.faults.strikes().is_empty());
        assert_eq!(journal.contents().acknowledged.count(), 300);
    }
}

#[tokio::test(start_paused = true)]
async fn what_sqs_will_never_take_ends_the_run_at_once_and_the_rest_is_for_the_next() {
    for kind in [FailureKind::Denied("AccessDenied".to_owned()), FailureKind::NotFound] {
        let world = World::new(4);
        world.faults.add(Rule::new(Fault::Before(kind)).on(Operation::Send).nth(5));
        let mut journal = Journal::default();
        let report = world.run(&recipients(200), &mut journal, pending()).await.unwrap();
        assert!(matches!(&report.ended, RunEnd::GaveUp(why) if why.contains("SendMessageBatch")));
        assert!(report.seconds < 1.0 && (40..200).contains(&report.enqueued), "{report:?}");
        let report = world.run(&recipients(200), &mut journal, pending()).await.unwrap();
        assert_eq!(report.ended, RunEnd::Done);
        assert_eq!(assert_complete(&world, 200, |_| false), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_for_as_long_as_patience_lasts() {
    for operation in [Operation::Send, Operation::Depth] {
        let mut world = World::new(5);
        let universe = world.universe;
        let outage = |seconds| {
            let from = universe.now();
            Rule::new(Fault::Before(FailureKind::Unreachable))
                .on(operation)
                .during(from..from + Duration::from_secs(seconds))
        };
        world.faults.add(outage(240));
        let mut journal = Journal::default();
        let report = world.run(&recipients(50), &mut journal, pending()).await.unwrap();
        assert_eq!(report.ended, RunEnd::Done);
        assert!(report.seconds >= 240.0 && world.faults.strikes().len() > 10, "{report:?}");
        world.faults.clear();
        world.ledger = MemoryLedger::default();
        world.faults.add(outage(3_600));
        let report = world.run(&recipients(60), &mut Journal::default(), pending()).await.unwrap();
        assert!(matches!(&report.ended, RunEnd::GaveUp(why) if why.contains("cannot be reached")));
        assert!((300.0..330.0).contains(&report.seconds), "{report:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interruption_waits_for_the_batches_under_way_and_nothing_is_doubled() {
    let world = World::new(6);
    let csv = recipients(500);
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(40));
    let report = world.run(&csv, &mut journal, stop).await.unwrap();
    assert_eq!(report.ended, RunEnd::Interrupted);
    assert!((10..500).contains(&report.enqueued), "{report:?}");
    assert_eq!(world.run_state().len() as u64, report.enqueued, "one is under way still");
    let report = world.run(&csv, &mut journal, pending()).await.unwrap();
    assert_eq!((report.ended.clone(), report.left()), (RunEnd::Done, 0));
    assert_eq!(assert_complete(&world, 500, |_| false), 0);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_does_not_wait_for_an_outage_s_end() {
    let world = World::new(7);
    world.faults.add(Rule::new(Fault::Before(FailureKind::Unreachable)).on(Operation::Send));
    let stop = tokio::time::sleep(Duration::from_secs(30));
    let report = world.run(&recipients(50), &mut Journal::default(), stop).await.unwrap();
    assert_eq!(report.ended, RunEnd::Interrupted);
    assert!(report.seconds < 31.0, "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn another_input_under_the_same_run_is_refused_with_what_differs() {
    let world = World::new(8);
    let mut journal = Journal::default();
    let stop = tokio::time::sleep(Duration::from_millis(20));
    world.run(&recipients(100), &mut journal, stop).await.unwrap();
    let stood = world.run_state();
    let refused = world.run(&recipients(101), &mut journal, pending()).await.unwrap_err();
    assert!(refused.to_string().contains("begun with another input ("), "{refused}");
    assert_eq!(world.run_state(), stood);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_changes_while_it_is_sent_has_no_end_in_the_journal() {
    let mut world = World::new(10);
    let csv = recipients(30);
    let more = recipients(31);
    let broken = csv.replace("ada25@example.com", "ada25@example");
    let cases = [(&more, "run the command again"), (&broken, "or Ada <ada@example.com>)")];
    for (later, said) in cases {
        let mut journal = Journal::default();
        let run = world.run_changed(&csv, later, &mut journal, &(), pending()).await;
        let error = run.unwrap_err();
        assert!(matches!(error, SendError::InputChanged { .. }), "{error}");
        assert!(error.to_string().ends_with(said), "{error}");
        assert_eq!(journal.contents().ended, None);
        assert_eq!(world.stored().await.stage, RunStage::Stopped);
        world.ledger = MemoryLedger::default();
    }
}

#[derive(Default)]
struct Seen {
    waits: Cell<u64>,
    depths: RefCell<Vec<u64>>,
}

impl SendProgress for Seen {
    fn waiting(&self, depth: u64, _most: u64) {
        self.waits.set(self.waits.get() + 1);
        self.depths.borrow_mut().push(depth);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deep_queue_is_waited_for_and_asked_every_five_seconds_at_most() {
    let mut world = World::new(9);
    world.limits.max_backlog = Some(100);
    // Counted, not slowed.
    world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Depth));
    let consumer = async {
        let queues = world.queues.client();
        let mut deepest = 0;
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            deepest = deepest.max(world.queues.contents(&world.queue).len());
            assert!(deepest < 100 + 10 * world.limits.parallel, "{deepest}");
            let taken = queues.receive(&world.queue, 10, Duration::ZERO).await.unwrap();
            let receipts: Vec<String> = taken.into_iter().map(|mail| mail.receipt).collect();
            if !receipts.is_empty() {
                queues.delete(&world.queue, &receipts).await.unwrap();
            }
        }
    };
    let mut journal = Journal::default();
    let seen = Seen::default();
    let csv = recipients(1_000);
    let run = world.run_with(&csv, &mut journal, &seen, pending());
    let report = tokio::select! {
        report = run => report.unwrap(),
        () = consumer => unreachable!(),
    };
    assert_eq!((report.ended, report.enqueued), (RunEnd::Done, 1_000));
    // 20 a second are taken: 900 of the thousand had to go first.
    assert!((42.0..60.0).contains(&report.seconds), "{}", report.seconds);
    let asked: Vec<_> = world.faults.strikes().iter().map(|strike| strike.at).collect();
    let apart = |pair: &[tidegate_core::Timestamp]| {
        pair[1].saturating_since(pair[0]) >= Duration::from_secs(5)
    };
    assert!(asked.len() > 5 && asked.windows(2).all(apart), "{asked:?}");
    assert!(seen.waits.get() > 0 && seen.depths.borrow().iter().all(|depth| *depth >= 100));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The machine crashed: the journal ends at any byte, whatever stands on the queue.
    #[test]
    fn with_a_journal_cut_at_any_byte_every_row_is_there_and_no_acknowledged_one_twice(
        rows in 1_u64..80, cut in 0.0_f64..1.0, seed in 0_u64..1_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(seed);
            let csv = recipients(rows);
            let mut journal = Journal::default();
            world.faults.add(Rule::new(Fault::RefuseEntries(0.3)).on(Operation::Send).chance(0.5));
            world.run(&csv, &mut journal, pending()).await.unwrap();
            #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss,
                clippy::cast_sign_loss, reason = "within the journal")]
            journal.0.truncate((journal.0.len() as f64 * cut) as usize);
            let acknowledged = journal.contents().acknowledged;
            // With the ledger it would be known as done.
            world.ledger = MemoryLedger::default();
            world.run(&csv, &mut journal, pending()).await.unwrap();
            assert_complete(&world, rows, |row| !acknowledged.contains(row));
            assert!(journal.contents().ended.is_some());
        });
    }
}
