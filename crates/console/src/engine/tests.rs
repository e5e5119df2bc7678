use std::time::Duration;

use serde_json::Value;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_delivery::ports::{FailureKind, MonitorReport, Queues, RingingAlarm};
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_operator::steer::{Author, SteerAction};
use tidegate_operator::why::MailQuery;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::stream::{Frame, Subscription};
use crate::tests::{limits, on, site, site_with, world};
use tidegate_operator::connections::ClientAddress;

fn author(by: &str, reason: &str) -> Author {
    Author { by: by.to_owned(), reason: reason.to_owned() }
}

fn watch(shared: &EngineHandle) -> Subscription {
    shared.hub.subscribe(ClientAddress::of([127, 0, 0, 1].into()), None).unwrap()
}

/// The next event of this name.
async fn next(stream: &mut Subscription, event: &str) -> Value {
    let found = async {
        loop {
            let Frame { event: name, data, .. } = stream.next().await.unwrap();
            if name == event {
                return serde_json::from_str(&data).unwrap();
            }
        }
    };
    timeout(Duration::from_mins(1), found).await.unwrap_or_else(|_| panic!("no {event}"))
}

#[tokio::test(start_paused = true)]
async fn figures_are_the_ledgers_and_progress_is_told_to_the_end() {
    let world = world();
    world.fill("big", 300).await.unwrap();
    world.fill("small", 30).await.unwrap();
    let told = on(&world, async |shared| {
        let mut stream = watch(&shared);
        let state = next(&mut stream, "state").await;
        assert_eq!(state["figures"]["rows"][0]["waiting"], 300);
        let listen = async {
            let mut told = Vec::new();
            loop {
                let frame = stream.next().await.unwrap();
                let data: Value = serde_json::from_str(&frame.data).unwrap();
                match frame.event {
                    "progress" => told.push(data["title"].as_str().unwrap().to_owned()),
                    "figures" if data["status"]["counters"]["sent"] == 330 => {
                        assert_eq!(data["rows"][0]["sent"], 300);
                        assert_eq!(data["rows"][1]["sent"], 30);
                        if told.iter().filter(|title| title.contains("is empty")).count() == 2 {
                            return told;
                        }
                    }
                    _ => {}
                }
            }
        };
        tokio::select! { told = listen => told, _ = world.run(120) => panic!("it did not end") }
    })
    .await;
    assert!(told.contains(&"big: 50 % is sent".to_owned()), "{told:?}");
    let last = told.iter().find(|title| title.contains("is empty")).unwrap();
    assert!(last.contains("were sent"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_made_kept_in_the_history_and_told_to_every_page_at_once() {
    let world = world();
    on(&world, async |shared| {
        let (mut one, mut two) = (watch(&shared), watch(&shared));
        let begun = Instant::now();
        let pause = SteerAction::Pause { campaign: Some("big".to_owned()), until: None };
        let author = author("ada", "typo in the subject");
        let made = shared.jobs.ask(|answer| EngineJob::Steer(pause, author, answer)).await.unwrap();
        assert!(made.changed && made.recorded);
        assert_eq!(made.record.by, "ada, by the console of ops");
        for stream in [&mut one, &mut two] {
            let told = next(stream, "pause").await;
            assert_eq!(told["title"], "big is paused");
            let audit = next(stream, "change").await;
            assert_eq!(audit["title"], "ada, by the console of ops: pause big");
            assert_eq!(audit["detail"], "until resumed; typo in the subject");
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    })
    .await;
    let standing = world.ledger_now().await.unwrap();
    assert!(standing.control.holds_campaign("big"));
    let changes = tidegate_delivery::ports::History::changes(&world.ledger).await.unwrap();
    assert_eq!(changes[0].reason, "typo in the subject");
}

#[tokio::test(start_paused = true)]
async fn without_a_reason_nothing_is_changed() {
    let world = world();
    on(&world, async |shared| {
        let pause = SteerAction::Pause { campaign: None, until: None };
        let asked =
            shared.jobs.ask(|answer| EngineJob::Steer(pause, author("", " "), answer)).await;
        assert!(matches!(asked, Err(JobError::Steer(_))), "{asked:?}");
    })
    .await;
    assert_eq!(world.ledger_now().await.unwrap().control.standing_holds(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_stack_is_looked_at_each_second_while_somebody_watches_and_seldom_else() {
    let world = world();
    on(&world, async |shared| {
        let looks = || shared.shown.borrow().looks;
        sleep(Duration::from_mins(1)).await;
        let unwatched = looks();
        assert!((4..=6).contains(&unwatched), "{unwatched}");
        let stream = watch(&shared);
        sleep(Duration::from_mins(1)).await;
        assert!((59..=62).contains(&(looks() - unwatched)), "{}", looks() - unwatched);
        drop(stream);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_look_that_fails_is_said_and_what_stood_before_stays() {
    let world = world();
    world.fill("big", 10).await.unwrap();
    let ledger = world.ledger.clone().with_faults(&world.faults);
    let (engine, shared) = Engine::start(site_with(&world, ledger), limits()).await.unwrap();
    let script = async {
        let mut stream = watch(&shared);
        next(&mut stream, "state").await;
        world.faults.add(Rule::new(Fault::Before(FailureKind::Unreachable)).on(Operation::Read));
        let failed = loop {
            let figures = next(&mut stream, "figures").await;
            if !figures["failed"].is_null() {
                break figures;
            }
        };
        assert_eq!(failed["rows"][0]["waiting"], 10);
        assert!(shared.shown.borrow().failed >= 1);
        world.faults.clear();
        while !next(&mut stream, "figures").await["failed"].is_null() {}
    };
    tokio::select! { () = script => {}, () = engine.run(std::future::pending()) => {} }
}

#[tokio::test(start_paused = true)]
async fn a_forecast_is_made_of_what_stands_and_again_after_a_change() {
    let world = world();
    world.fill("big", 200).await.unwrap();
    on(&world, async |shared| {
        let mut stream = watch(&shared);
        let forecast = next(&mut stream, "forecast").await;
        assert_eq!((&forecast["state"], &forecast["why"]), (&"ready".into(), &Value::Null));
        assert_eq!(forecast["campaigns"][0]["name"], "big");
        assert!(forecast["ends_at"].is_string() && forecast["per_second"]["big"][0].is_number());
        let pause = SteerAction::Pause { campaign: None, until: None };
        shared.jobs.ask(|answer| EngineJob::Steer(pause, author("", "x"), answer)).await.unwrap();
        let forecast = next(&mut stream, "forecast").await;
        assert_eq!(
            (&forecast["state"], &forecast["why"]),
            (&"none".into(), &"sending is held".into())
        );
    })
    .await;
}

/// A world with five mails, of which SES refused one for good.
async fn with_a_dead_letter() -> tidegate_simulator::World {
    let world = world();
    let rejected = Rule::new(Fault::Before(failures::rejected())).on(Operation::Mail);
    world.mail_faults.add(rejected.at("big/big-3"));
    world.fill("big", 5).await.unwrap();
    world.run(5).await;
    world.mail_faults.clear();
    world
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_shown_reviewed_and_replayed_once() {
    let world = with_a_dead_letter().await;
    on(&world, async |shared| {
        let mut stream = watch(&shared);
        let dead = next(&mut stream, "dead").await;
        assert_eq!((&dead["read"], &dead["letters"][0]["campaign"]), (&1.into(), &"big".into()));
        let to = dead["letters"][0]["to"][0].as_str().unwrap();
        assert!(to.starts_with("***@"), "{to}");
        let asked = ReviewRequest::default();
        let reviewed = shared.jobs.ask(|answer| EngineJob::Review(asked, answer)).await.unwrap();
        assert_eq!((reviewed.to_send, reviewed.per_second), (1, 10.0));
        let asked = ReplayRequest {
            review: reviewed.review.clone(),
            author: author("ada", "corrected"),
            per_second: None,
        };
        let again = asked.clone();
        let of = shared.jobs.ask(|answer| EngineJob::Replay(asked, answer)).await.unwrap();
        assert_eq!(of, 1);
        let twice = shared.jobs.ask(|answer| EngineJob::Replay(again, answer)).await;
        assert!(matches!(twice, Err(JobError::Replaying | JobError::NoReview(_))), "{twice:?}");
        let replayed = loop {
            let replay = next(&mut stream, "replay").await;
            if replay["running"] == false {
                break replay;
            }
        };
        assert_eq!((&replayed["sent"], &replayed["said"]), (&1.into(), &"1 of 1 mail sent".into()));
    })
    .await;
    world.run(20).await;
    assert_eq!(world.ses.accepted().len(), 5);
    assert!(world.contents(tidegate_simulator::DEAD_LETTERS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_review_is_good_for_ten_minutes() {
    let world = with_a_dead_letter().await;
    on(&world, async |shared| {
        let asked = ReviewRequest::default();
        let reviewed = shared.jobs.ask(|answer| EngineJob::Review(asked, answer)).await.unwrap();
        sleep(Duration::from_secs(reviewed.expires_s)).await;
        let asked =
            ReplayRequest { review: reviewed.review, author: author("", "x"), per_second: None };
        let late = shared.jobs.ask(|answer| EngineJob::Replay(asked, answer)).await;
        assert!(matches!(late, Err(JobError::NoReview(_))), "{late:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_console_that_ends_while_it_reads_lets_go_of_the_letters() {
    let world = with_a_dead_letter().await;
    let (engine, shared) = Engine::start(site(&world), limits()).await.unwrap();
    world.queues.set_latency(Latency::always(Duration::from_secs(1)));
    let stop = tokio::sync::Notify::new();
    let script = async {
        let asked = shared.jobs.ask(EngineJob::ReadDead);
        let reading = timeout(Duration::from_millis(500), asked).await;
        assert!(reading.is_err(), "it waits for more");
        stop.notify_one();
    };
    tokio::join!(engine.run(stop.notified()), script);
    let site = site(&world);
    let depth = Queues::depth(&world.queues, &site.dead_letters()).await.unwrap();
    assert_eq!((depth.visible, depth.in_flight), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn why_a_mail_waits_is_answered() {
    let world = with_a_dead_letter().await;
    on(&world, async |shared| {
        let asked = MailQuery { id: "big-3".to_owned(), campaign: None };
        let why = shared.jobs.ask(|answer| EngineJob::Why(asked, answer)).await.unwrap();
        assert_eq!(why.verdict, tidegate_operator::why::MailVerdict::Dead);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_lets_mail_go_wakes_the_stack_and_a_pause_does_not() {
    let world = world();
    let (wake, mut woken) = unbounded_channel();
    let ports = StackPorts { wake, ..site(&world) };
    let (engine, shared) = Engine::start(ports, limits()).await.unwrap();
    let script = async {
        let campaign = || Some("big".to_owned());
        let pause = SteerAction::Pause { campaign: campaign(), until: None };
        for (action, expected) in
            [(pause, false), (SteerAction::Resume { campaign: campaign() }, true)]
        {
            let steer = |answer| EngineJob::Steer(action, author("", "x"), answer);
            shared.jobs.ask(steer).await.unwrap();
            assert_eq!(woken.try_recv().is_ok(), expected);
        }
    };
    tokio::select! {
        () = script => {}
        () = engine.run(std::future::pending()) => panic!("the engine ended"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_another_program_made_is_forecast_too() {
    let world = world();
    world.fill("big", 200).await.unwrap();
    on(&world, async |shared| {
        let mut stream = watch(&shared);
        assert_eq!(next(&mut stream, "forecast").await["state"], "ready");
        let pause = |control: &mut Control| {
            assert!(control.hold(
                None,
                HoldReason::Paused,
                Hold::new("by ada", world.universe.now())
            ));
        };
        world.control(pause).await.unwrap();
        let begun = Instant::now();
        assert_eq!(next(&mut stream, "forecast").await["why"], "sending is held");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn letters_that_another_reader_had_in_hand_are_read_once_they_are_back() {
    let world = with_a_dead_letter().await;
    let queue = site(&world).dead_letters();
    let held = Queues::receive(&world.queues, &queue, 1, Duration::ZERO).await.unwrap();
    assert_eq!(held.len(), 1);
    on(&world, async |shared| {
        let mut stream = watch(&shared);
        let dead = next(&mut stream, "dead").await;
        assert_eq!((&dead["read"], &dead["whole"]), (&0.into(), &false.into()));
        // Its visibility timeout is 30 s.
        let mut reads = 0;
        while next(&mut stream, "dead").await["read"] == 0 {
            reads += 1;
            assert!(reads < 5);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn alarms_are_told_and_a_page_knows_why_they_are_not() {
    let world = world();
    let ports = site(&world);
    let ringing = RingingAlarm {
        name: "simulated-dead-letters".to_owned(),
        since: None,
        why: "Threshold Crossed".to_owned(),
    };
    let report = MonitorReport { alarms: 7, ringing: vec![ringing], failed: Vec::new() };
    ports.monitor.set_report(report);
    let denied = FailureKind::Denied("AccessDenied".to_owned());
    world.faults.add(Rule::new(Fault::Before(denied)).on(Operation::Monitor).nth(1));
    let ports = StackPorts { monitor: ports.monitor.with_faults(&world.faults), ..ports };
    let (engine, shared) = Engine::start(ports, limits()).await.unwrap();
    let script = async {
        let mut stream = watch(&shared);
        loop {
            let figures = next(&mut stream, "figures").await;
            if let Some(failed) = figures["monitor"]["failed"].as_str() {
                assert!(failed.contains("AccessDenied"), "{failed}");
                break;
            }
        }
        loop {
            let figures = next(&mut stream, "figures").await;
            if figures["monitor"]["failed"].is_null() {
                let report = &figures["monitor"]["report"];
                assert_eq!(report["ringing"][0]["name"], "simulated-dead-letters");
                return;
            }
        }
    };
    tokio::select! {
        () = script => {}
        () = engine.run(std::future::pending()) => panic!("nobody stopped it"),
    }
}
