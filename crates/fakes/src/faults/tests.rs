use std::time::Duration;

use tidegate_core::bucket::Pace;
use tidegate_core::email::Email;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::tick::Tick;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{
    Claim, ClaimRequest, Clock, FailureKind, Fifo, Invoke, Ledger, Mail, Mailer, Outgoing,
    QueueUrl, Queues, Received,
};

use super::{Fault, FaultPlan, Operation, Rule};
use crate::{
    Latency, MemoryInvoke, MemoryLedger, MemoryQueues, MemorySes, QueueSettings, SesSettings,
    Universe, failures,
};

const NOW: Duration = Duration::ZERO;

struct Bench {
    queues: MemoryQueues,
    plan: FaultPlan,
    url: QueueUrl,
}

async fn bench(bodies: &[&str]) -> Bench {
    let universe = Universe::starting_at(Timestamp::from_millis(1_000_000));
    let memory = MemoryQueues::new(universe, 1);
    let url = QueueUrl::new("memory://big");
    memory.create(&url, QueueSettings::default());
    for body in bodies {
        memory.send(&url, &[message(body)]).await.unwrap();
    }
    let plan = FaultPlan::new(universe, 2);
    Bench { queues: memory.client().with_faults(&plan), plan, url }
}

fn message(body: &str) -> Outgoing {
    Outgoing { body: body.into(), attributes: vec![], delay: NOW, fifo: None }
}

fn receipts(received: &[Received]) -> Vec<String> {
    received.iter().map(|message| message.receipt.clone()).collect()
}

impl Bench {
    async fn receive(&self) -> Vec<Received> {
        self.queues.receive(&self.url, 10, NOW).await.unwrap()
    }

    fn standing(&self) -> usize {
        self.queues.contents(&self.url).len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_before_is_not_done_and_one_that_fails_after_is() {
    let bench = bench(&[]).await;
    let timed_out = || FailureKind::TimedOut;
    bench.plan.add(Rule::new(Fault::Before(timed_out())).on(Operation::Send).nth(1));
    bench.plan.add(Rule::new(Fault::After(timed_out())).on(Operation::Send).nth(2));
    for standing in [0, 1] {
        let error = bench.queues.send(&bench.url, &[message("a")]).await.unwrap_err();
        assert_eq!((error.kind, error.operation), (timed_out(), "SendMessageBatch"));
        assert_eq!(bench.standing(), standing);
    }
    assert!(bench.queues.send(&bench.url, &[message("b")]).await.is_ok());
    assert_eq!((bench.queues.calls(), bench.plan.strikes().len()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn refused_entries_are_not_done_lost_ones_are_and_answers_keep_their_order() {
    let bench = bench(&["a", "b", "c", "d", "e", "f", "g", "h"]).await;
    let received = bench.receive().await;
    bench.plan.add(Rule::new(Fault::RefuseEntries(0.5)).on(Operation::Delete).nth(1));
    let mut batch = receipts(&received);
    batch[3] = "no receipt".into();
    let answers = bench.queues.delete(&bench.url, &batch).await.unwrap();
    let kept = bench.queues.contents(&bench.url);
    for (message, answer) in received.iter().zip(&answers) {
        let stands = kept.iter().any(|k| k.message_id == message.message_id);
        assert_eq!(answer.is_err(), stands, "{}", &*message.body);
    }
    assert!(answers[3].is_err() && (2..8).contains(&kept.len()), "{}", kept.len());
    bench.plan.add(Rule::new(Fault::LoseEntries(1.0)).on(Operation::Delete));
    let answers = bench.queues.delete(&bench.url, &receipts(&received)).await.unwrap();
    assert!(answers.iter().all(Result::is_err));
    assert_eq!(bench.standing(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_every_entry_is_refused_is_a_call_that_changes_nothing() {
    let bench = bench(&[]).await;
    bench.plan.add(Rule::new(Fault::RefuseEntries(1.0)).on(Operation::Send));
    let answers = bench.queues.send(&bench.url, &[message("a"), message("b")]).await.unwrap();
    assert!(answers.len() == 2 && answers.iter().all(Result::is_err));
    assert_eq!((bench.standing(), bench.queues.calls()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_comes_once_more_after_its_delay_though_the_message_was_deleted() {
    let bench = bench(&["a"]).await;
    let later = Latency::always(Duration::from_secs(2));
    bench.plan.add(Rule::new(Fault::Duplicate(later)).on(Operation::Receive).nth(1));
    let first = bench.receive().await;
    bench.queues.delete(&bench.url, &receipts(&first)).await.unwrap();
    assert_eq!(bench.receive().await, []);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let again = bench.receive().await;
    assert_eq!(again[0].message_id, first[0].message_id);
    assert_eq!(again[0].receive_count, 2);
    let deleted = bench.queues.delete(&bench.url, &receipts(&again)).await.unwrap();
    assert_eq!(deleted, [Ok(())]);
    assert_eq!(bench.receive().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_receive_may_find_nothing_on_a_queue_that_is_not_empty() {
    let bench = bench(&["a"]).await;
    bench.plan.add(Rule::new(Fault::Nothing).on(Operation::Receive).at("big"));
    assert_eq!(bench.receive().await, []);
    bench.plan.clear();
    assert_eq!(bench.receive().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_dropped_where_its_call_hangs_crashed_before_or_after_it() {
    for (fault, standing) in [(Fault::HangBefore, 0), (Fault::HangAfter, 1)] {
        let bench = bench(&[]).await;
        bench.plan.add(Rule::new(fault).on(Operation::Send));
        let batch = [message("a")];
        tokio::select! {
            answer = bench.queues.send(&bench.url, &batch) => panic!("{answer:?}"),
            () = bench.plan.hung() => {}
        }
        assert_eq!(bench.standing(), standing);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_holds_for_its_time_and_its_resource_only() {
    let bench = bench(&["a"]).await;
    let at = |ms: u64| Timestamp::from_millis(1_000_000 + ms);
    let rule = Rule::new(Fault::Before(FailureKind::Unreachable)).at("big");
    bench.plan.add(rule.during(at(1_000)..at(2_000)));
    assert!(bench.queues.depth(&bench.url).await.is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.queues.depth(&bench.url).await.is_err());
    let other = bench.queues.depth(&QueueUrl::new("memory://small")).await.unwrap_err();
    assert_eq!(other.kind, FailureKind::NotFound);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.queues.depth(&bench.url).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn drawn_faults_come_as_often_as_asked_and_the_same_for_the_same_seed() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let bench = bench(&[]).await;
        bench.plan.add(Rule::new(Fault::Before(FailureKind::TimedOut)).chance(0.3));
        let mut failed = Vec::new();
        for _ in 0..1_000 {
            failed.push(bench.queues.depth(&bench.url).await.is_err());
        }
        runs.push(failed);
    }
    assert_eq!(runs[0], runs[1]);
    let count = runs[0].iter().filter(|failed| **failed).count();
    assert!((250..350).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_answer_is_lost_was_accepted() {
    let universe = Universe::starting_at(Timestamp::from_millis(1_000_000));
    let ses = MemorySes::new(universe, 1, SesSettings::of_rate(Rate::MAX));
    let (clock, plan) = (universe.clock(), FaultPlan::new(universe, 1));
    let mailer = ses.mailer(&clock).with_faults(&plan);
    let slow = Latency::always(Duration::from_secs(5));
    plan.add(Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).at("big/"));
    plan.add(Rule::new(Fault::Slow(slow)).on(Operation::Warm));
    let body = r#"{"to_address": "ada@example.com", "from_address": "news@example.org",
        "subject": "Hello", "body": "Text."}"#;
    let email = Email::parse(body).unwrap().into();
    let latest = clock.monotonic() + Duration::from_mins(1);
    let pace = Pace { rate: Rate::MIN, rate_margin: RateMargin::default() };
    let lost = mailer.send(Mail::new(&email, "big", "1", pace), latest).await.result;
    assert_eq!(lost, Err(failures::answer_lost()));
    let other = Mail::new(&email, "small", "2", pace);
    assert!(mailer.send(other, latest).await.result.is_ok());
    assert_eq!(ses.accepted().len(), 2);
    mailer.warm(3).await;
    assert_eq!((universe.elapsed(), ses.warmed()), (Duration::from_secs(5), 3));
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_answer_is_lost_stands_in_the_ledger() {
    let universe = Universe::starting_at(Timestamp::from_millis(1_000_000));
    let plan = FaultPlan::new(universe, 1);
    let ledger = MemoryLedger::default().with_faults(&plan);
    plan.add(Rule::new(Fault::After(FailureKind::TimedOut)).on(Operation::Claim).nth(1));
    let request = ClaimRequest {
        window: Window::from_epoch_second(1_000),
        quota: Rate::MAX,
        rate_margin: tidegate_core::rate::RateMargin::default(),
        limits: 0,
        token: "ours".into(),
    };
    assert!(ledger.claim(&request).await.is_err());
    assert!(matches!(ledger.claim(&request).await, Ok(Claim::Claimed(_))));
}

#[tokio::test(start_paused = true)]
async fn an_accepted_tick_may_be_doubled_or_lost() {
    let universe = Universe::starting_at(Timestamp::from_millis(1_000_000));
    let (invoke, mut ticks) = MemoryInvoke::new(universe, 1);
    let plan = FaultPlan::new(universe, 1);
    let faulty = invoke.with_faults(&plan);
    let tick = |second| Tick { window: Window::from_epoch_second(second), quota: Rate::MAX };
    plan.add(Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Tick).nth(1));
    plan.add(Rule::new(Fault::Nothing).on(Operation::Tick).nth(2));
    for second in [1_001, 1_002, 1_003] {
        faulty.tick(&tick(second)).await.unwrap();
    }
    let mut got = Vec::new();
    while let Ok(tick) = ticks.try_recv() {
        got.push(tick.window.epoch_second());
    }
    assert_eq!(got, [1_001, 1_001, 1_003]);
}

#[tokio::test(start_paused = true)]
async fn a_fifo_queue_gives_nothing_twice() {
    let bench = bench(&[]).await;
    let url = QueueUrl::new("memory://merge.fifo");
    bench.queues.create(&url, QueueSettings::default());
    let fifo = Some(Fifo { group: "g".into(), deduplication: "1".into() });
    bench.queues.send(&url, &[Outgoing { fifo, ..message("a") }]).await.unwrap();
    bench.plan.add(Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Receive));
    assert_eq!(bench.queues.receive(&url, 10, NOW).await.unwrap().len(), 1);
    assert_eq!(bench.queues.receive(&url, 10, NOW).await.unwrap(), []);
}
