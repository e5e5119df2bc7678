//! Bringing deferred mail back, killed at every call.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join;
use tidegate_core::Timestamp;
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_core::store::refill::due_until;
use tidegate_core::store::rows::StoredDrafts;
use tidegate_core::store::{ObjectName, StoredMail, pack};
use tidegate_delivery::ports::{
    Clock as _, FailureKind, PortError, QueueUrl, Queues as _, Store as _,
};
use tidegate_delivery::schedule::refill::{
    Bounds, BroughtBack, Destinations, RefillPorts, Why, bring_back, progress,
};
use tidegate_fakes::{
    Fault, FaultPlan, Latency, MemoryQueues, MemoryStore, Operation, QueueSettings, Rule, SimClock,
    Universe,
};

const LONG: Duration = Duration::from_mins(3);

struct World {
    universe: Universe,
    faults: FaultPlan,
    memory: MemoryQueues,
    queues: MemoryQueues,
    kept: MemoryStore,
    store: MemoryStore,
    clock: SimClock,
    destinations: Destinations,
}

fn url() -> QueueUrl {
    QueueUrl::new("memory://big")
}

impl World {
    /// With objects of so many mails each, the oldest first.
    async fn new(objects: &[u64]) -> Self {
        let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_000));
        let faults = FaultPlan::new(universe, 1);
        let memory = MemoryQueues::new(universe, 1);
        memory.create(&url(), QueueSettings::default());
        let kept = MemoryStore::default().with_pages_of(2);
        for (number, mails) in objects.iter().enumerate() {
            kept.put(&name("big", number, *mails).to_string(), object("big", number, *mails))
                .await
                .unwrap();
        }
        let destinations =
            Destinations { queues: [("big".to_owned(), url())].into(), ..Destinations::default() };
        Self {
            universe,
            queues: memory.clone().with_faults(&faults),
            memory,
            store: kept.clone().with_faults(&faults),
            kept,
            faults,
            clock: universe.clock(),
            destinations,
        }
    }

    async fn bring_back(&self, me: &str, mails: u64) -> (Result<(), PortError>, BroughtBack) {
        self.bring_back_within(LONG * 10, me, mails).await
    }

    async fn bring_back_within(
        &self,
        time: Duration,
        me: &str,
        mails: u64,
    ) -> (Result<(), PortError>, BroughtBack) {
        let bounds = Bounds {
            deferred: mails,
            timed: due_until(self.clock.wall()),
            mails_a_second: 0.1,
            until: self.clock.monotonic() + time,
        };
        let done = RefCell::default();
        let result = bring_back(self.site(me), &bounds, &done).await;
        (result, done.into_inner())
    }

    fn site<'a>(&'a self, me: &'a str) -> RefillPorts<'a, MemoryStore, MemoryQueues, SimClock> {
        RefillPorts {
            store: &self.store,
            queues: &self.queues,
            clock: &self.clock,
            destinations: &self.destinations,
            me,
        }
    }

    /// Kills it where it hangs; whether it did.
    async fn kill(&self) -> bool {
        tokio::select! {
            biased;
            () = self.faults.hung() => true,
            _ = self.bring_back("killed", u64::MAX) => false,
        }
    }

    /// How often each mail stands in the queue, by identity.
    fn standing(&self) -> BTreeMap<String, usize> {
        let mut standing = BTreeMap::new();
        for message in self.memory.contents(&url()) {
            *standing.entry(message.attributes["identity"].clone()).or_insert(0) += 1;
        }
        standing
    }

    /// Asserts that every mail stands in the queue, and at most so many of them twice.
    #[track_caller]
    fn assert_all_back(&self, objects: &[u64], twice: usize, when: &str) {
        let standing = self.standing();
        let all: BTreeSet<String> = objects
            .iter()
            .enumerate()
            .flat_map(|(number, mails)| (0..*mails).map(move |mail| identity(number, mail)))
            .map(|identity| identity.as_str().to_owned())
            .collect();
        assert_eq!(standing.keys().cloned().collect::<BTreeSet<_>>(), all, "{when}: lost");
        let copies: usize = standing.values().map(|count| count - 1).sum();
        assert!(copies <= twice, "{when}: {copies} twice, {twice} allowed");
        assert_eq!(self.kept.contents(), [], "{when}: objects are left");
    }
}

fn identity(object: usize, mail: u64) -> Identity {
    Identity::from_body_id("big", &format!("{object}-{mail}"))
}

fn name(campaign: &str, number: usize, mails: u64) -> ObjectName {
    format!("deferred/20261120T2036{number:02}Z.{campaign}.1a2b.{mails}.jsonl.gz").parse().unwrap()
}

fn object(campaign: &str, number: usize, mails: u64) -> Vec<u8> {
    let line = |mail: u64| {
        let envelope = Envelope {
            pass: 3,
            attempt: 1,
            ..Envelope::fresh(campaign, identity(number, mail), EpochMillis::new(7_000))
        };
        StoredMail::of(format!(r#"{{"mail": "{number}-{mail}"}}"#), &envelope, None)
    };
    pack(&(0..mails).map(line).collect::<Vec<_>>()).unwrap()
}

const OBJECTS: [u64; 3] = [25, 1, 12];
/// One of three groups.
const LARGE: [u64; 3] = [230, 1, 12];
/// Mails that are sent before their progress is written.
const GROUP: usize = 100;

#[tokio::test(start_paused = true)]
async fn what_was_deferred_stands_in_its_queue_again_the_same_mail_a_pass_later() {
    let world = World::new(&OBJECTS).await;
    let (result, done) = world.bring_back("ada", u64::MAX).await;
    result.unwrap();
    assert_eq!((done.mails, done.objects, done.is_all()), (38, 3, true));
    world.assert_all_back(&OBJECTS, 0, "whole");
    for message in world.memory.contents(&url()) {
        let attribute = |name: &str| message.attributes.get(name).map(String::as_str);
        let envelope = Envelope::from_attributes(attribute).unwrap().unwrap();
        assert_eq!((envelope.pass, envelope.attempt), (4, 1));
        assert_eq!(envelope.enqueued_at, EpochMillis::new(7_000));
    }
    assert_eq!(progress(&world.kept, &name("big", 0, 25)).await.unwrap(), None);
}

/// Killed before and after every call there is, then resumed.
#[tokio::test(start_paused = true)]
async fn killed_at_any_call_nothing_is_lost_and_at_most_one_group_is_brought_back_twice() {
    let mut calls = 0;
    for after in [false, true] {
        for nth in 1.. {
            let world = World::new(&LARGE).await;
            let fault = if after { Fault::HangAfter } else { Fault::HangBefore };
            world.faults.add(Rule::new(fault).nth(nth));
            if !world.kill().await {
                break;
            }
            calls += 1;
            world.faults.clear();
            world.universe.sleep_until(world.universe.now() + LONG).await;
            world.bring_back("resumed", u64::MAX).await.0.unwrap();
            let twice = if after { GROUP } else { 0 };
            let strikes = world.faults.strikes();
            let struck = strikes[0].operation;
            // Before its progress is written a group, or some batches of it, stand there that nobody knows of.
            let is_between = matches!(struck, Operation::ReplaceObject | Operation::Send);
            let twice = if is_between { GROUP } else { twice };
            world.assert_all_back(&LARGE, twice, &format!("call {nth} ({struck:?})"));
        }
    }
    assert!(calls > 30, "{calls} calls");
}

/// As a lost answer, not a crash: the same process goes on a minute later.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_lost_anywhere_costs_at_most_one_group_twice() {
    for nth in 1.. {
        let world = World::new(&LARGE).await;
        world.faults.add(Rule::new(Fault::After(FailureKind::TimedOut)).nth(nth));
        if world.bring_back("ada", u64::MAX).await.0.is_ok() {
            break;
        }
        world.universe.sleep_until(world.universe.now() + LONG).await;
        world.bring_back("ada", u64::MAX).await.0.unwrap();
        world.assert_all_back(&LARGE, GROUP, &format!("call {nth}"));
    }
}

#[tokio::test(start_paused = true)]
async fn refused_entries_are_tried_again_and_the_others_are_not() {
    let world = World::new(&OBJECTS).await;
    world.faults.add(Rule::new(Fault::RefuseEntries(0.4)).on(Operation::Send));
    let mut left = 0;
    for _ in 0..200 {
        let (result, done) = world.bring_back("ada", u64::MAX).await;
        result.unwrap();
        left += done.left.len();
        if done.is_all() {
            break;
        }
    }
    assert!(left > 3, "{left}");
    world.assert_all_back(&OBJECTS, 0, "refused");
}

#[tokio::test(start_paused = true)]
async fn bounds_are_kept_to_the_mail_and_what_is_left_follows() {
    let world = World::new(&OBJECTS).await;
    for (mails, stand) in [(7, 7), (1, 8), (17, 25), (6, 31), (100, 38)] {
        let (result, done) = world.bring_back("ada", mails).await;
        result.unwrap();
        assert!(done.mails <= mails);
        assert_eq!(world.standing().len(), stand, "the oldest first");
        assert_eq!(done.is_all(), stand == 38, "an object that is half back is not all");
    }
    world.assert_all_back(&OBJECTS, 0, "bounded");
}

/// A group of a hundred mails takes two seconds.
#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_no_group_begins_and_another_run_may_go_on_at_once() {
    let world = World::new(&LARGE).await;
    let seconds = Duration::from_secs;
    let slow = Fault::Slow(Latency::between(seconds(2), seconds(2)));
    world.faults.add(Rule::new(slow).on(Operation::Send));
    let (result, done) = world.bring_back_within(seconds(3), "ada", u64::MAX).await;
    result.unwrap();
    assert_eq!((done.mails, done.objects, done.through), (200, 0, false));
    world.faults.clear();
    let (result, done) = world.bring_back("grace", u64::MAX).await;
    result.unwrap();
    assert_eq!((done.mails, done.is_all()), (43, true));
    world.assert_all_back(&LARGE, 0, "in two runs");
}

#[tokio::test(start_paused = true)]
async fn two_at_once_do_not_double_what_the_other_brings_back() {
    let world = World::new(&OBJECTS).await;
    let ms = Duration::from_millis;
    world.faults.add(Rule::new(Fault::Slow(Latency::between(ms(5), ms(40)))));
    let (ada, grace) =
        join(world.bring_back("ada", u64::MAX), world.bring_back("grace", u64::MAX)).await;
    ada.0.unwrap();
    grace.0.unwrap();
    let left = ada.1.left.into_iter().chain(grace.1.left);
    assert!(left.clone().count() > 0 && left.map(|left| left.why).all(|why| why == Why::Taken));
    world.bring_back("ada", u64::MAX).await.0.unwrap();
    world.assert_all_back(&OBJECTS, 0, "two at once");
}

#[tokio::test(start_paused = true)]
async fn what_has_nowhere_to_go_is_said_and_left() {
    let mut world = World::new(&[3]).await;
    let gone = name("gone", 1, 2);
    world.kept.put(&gone.to_string(), object("gone", 1, 2)).await.unwrap();
    let broken = name("big", 2, 2);
    world.kept.put(&broken.to_string(), b"no gzip".to_vec()).await.unwrap();
    world.kept.put(&name("held", 3, 2).to_string(), object("held", 3, 2)).await.unwrap();
    world.destinations.queues.insert("held".to_owned(), QueueUrl::new("memory://held"));
    world.destinations.held.insert("held".to_owned());
    let (result, done) = world.bring_back("ada", u64::MAX).await;
    result.unwrap();
    assert_eq!((done.mails, done.objects), (3, 1));
    let why: Vec<Why> = done.left.into_iter().map(|left| left.why).collect();
    assert!(
        matches!(&why[..], [Why::NoCampaign, Why::Held, Why::Unreadable(said)]
            if said.starts_with("it cannot be unpacked: ")),
        "{why:?}"
    );
    assert_eq!(world.kept.contents().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn of_a_held_campaigns_chunks_of_rows_one_is_said_to_be_left() {
    let mut world = World::new(&[]).await;
    world.destinations.held.insert("big".to_owned());
    world.kept.put(&StoredDrafts::key("token"), Vec::new()).await.unwrap();
    for number in 0..3 {
        let chunk = format!("rows/20261120T203600Z.big.token00000{number}.2.jsonl.gz");
        world.kept.put(&chunk, Vec::new()).await.unwrap();
    }
    let (result, done) = world.bring_back("ada", u64::MAX).await;
    result.unwrap();
    let left: Vec<(String, Why)> =
        done.left.into_iter().map(|left| (left.object.token, left.why)).collect();
    assert_eq!(left, [("token000000".to_owned(), Why::Held)]);
}

/// Regression: the first of them ended the run, and no campaign got its mail.
#[tokio::test(start_paused = true)]
async fn an_object_or_a_queue_that_fails_keeps_no_other_mail_back() {
    let mut world = World::new(&OBJECTS).await;
    let small = QueueUrl::new("memory://small");
    world.memory.create(&small, QueueSettings::default());
    for (campaign, queue) in [("small", small.clone()), ("gone", QueueUrl::new("memory://gone"))] {
        world.destinations.queues.insert(campaign.to_owned(), queue);
        let timed = name(campaign, 1, 2).to_string().replace("deferred/", "timed/");
        world.kept.put(&timed, object(campaign, 1, 2)).await.unwrap();
    }
    world.kept.put(&name("big", 0, 25).progress_key(), b"no progress".to_vec()).await.unwrap();
    let (result, done) = world.bring_back("ada", u64::MAX).await;
    let error = result.unwrap_err();
    assert!(error.resource.starts_with("progress/deferred/20261120T203600Z.big"), "{error}");
    assert_eq!((done.mails, world.memory.contents(&small).len()), (15, 2));
    assert_eq!(world.kept.contents().len(), 2, "what failed stays");
}

/// Regression: the campaigns came in the order of their names, and a run of the scheduler never got to the last ones.
#[tokio::test(start_paused = true)]
async fn of_a_thousand_campaigns_none_starves_while_others_are_filled() {
    const MAILS: u64 = 100;
    // What each campaign sends in a minute.
    const A_MINUTE: usize = 12;
    let ms = Duration::from_millis;
    let mut world = World::new(&[]).await;
    let names: Vec<String> = (0..1_000).map(|number| format!("c{number:03}")).collect();
    for name in &names {
        let queue = QueueUrl::new(format!("memory://{name}"));
        world.memory.create(&queue, QueueSettings::default());
        world.destinations.queues.insert(name.clone(), queue);
        let timed = self::name(name, 1, MAILS).to_string().replace("deferred/", "timed/");
        world.kept.put(&timed, object(name, 1, MAILS)).await.unwrap();
    }
    // Each object takes four calls of S3: what a run gets done in 40 s is not enough for all.
    world
        .faults
        .add(Rule::new(Fault::Slow(Latency::between(ms(20), ms(40)))).on(Operation::GetObject));
    world
        .faults
        .add(Rule::new(Fault::Slow(Latency::between(ms(20), ms(40)))).on(Operation::ReplaceObject));
    let mut gone = BTreeMap::<&str, usize>::new();
    for minute in 0_usize..9 {
        let until = world.universe.now() + Duration::from_mins(1);
        let bounds = Bounds {
            deferred: 0,
            timed: due_until(world.clock.wall()),
            mails_a_second: 200.0,
            until: world.clock.monotonic() + Duration::from_secs(40),
        };
        let done = RefCell::default();
        bring_back(world.site("ada"), &bounds, &done).await.unwrap();
        world.universe.sleep_until(until).await;
        for name in &names {
            let queue = &world.destinations.queues[name];
            for most in [10, A_MINUTE - 10] {
                let mails = world.memory.receive(queue, most, Duration::ZERO).await.unwrap();
                *gone.entry(name).or_default() += mails.len();
                let receipts: Vec<String> = mails.into_iter().map(|mail| mail.receipt).collect();
                if !receipts.is_empty() {
                    world.memory.delete(queue, &receipts).await.unwrap();
                }
            }
            // After three minutes each has had its first turn, and no queue runs dry.
            let least = minute.saturating_sub(2) * A_MINUTE;
            let sent = gone[name.as_str()];
            assert!(
                sent >= least.min(usize::try_from(MAILS).unwrap()),
                "{name}: {sent} after {minute} minutes"
            );
        }
    }
}
