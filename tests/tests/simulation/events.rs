//! Other programs are told of mail that SES was not given, of holds, and of runs that are over.

use std::time::Duration;

use tidegate_core::control::{CANCELLED, Cancel, Control, Hold, HoldReason};
use tidegate_core::events::{FateKind, MailFate, StackEvent};
use tidegate_core::exclusions::AddressKey;
use tidegate_core::runs::{Run, RunInput, RunSender, RunStage};
use tidegate_delivery::ports::{FailureKind, Outgoing, Queues as _, Runs as _, StoredRun};
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_operator::exclude::{ExcludeAction, exclude};
use tidegate_operator::steer::Author;
use tidegate_simulator::{DEAD_LETTERS, ProducedMail};
use tidegate_tests::simulation::{World, WorldSettings};

use crate::operator_site::url;
use crate::{MODES, MS};

fn settings(merge: bool) -> WorldSettings {
    WorldSettings::new(50.0, merge).variable("TIDEGATE_EVENT_BUS", "default")
}

/// What was told of mails: each one's id, why it is gone, and its code.
fn fates(world: &World) -> Vec<(String, FateKind, Option<String>)> {
    let fates = world.reports().into_iter().flat_map(|report| report.fates);
    let told =
        |MailFate { kind, identity, code, .. }: MailFate| (identity.id().into_owned(), kind, code);
    let mut fates: Vec<_> = fates.map(told).collect();
    fates.sort();
    fates
}

async fn exclude_mail(world: &World, id: &str) {
    let keys = [AddressKey::of_text(&format!("{id}.0@example.com"))].into();
    let author = Author { by: "ada".to_owned(), reason: "unsubscribed".to_owned() };
    let (ledger, clock) = (&world.ledger, &world.universe.clock());
    let excluded = exclude(ExcludeAction::Add, &keys, &author, ledger, clock, |_| {}).await;
    assert!(excluded.is_ok(), "{excluded:?}");
}

#[tokio::test(start_paused = true)]
async fn mail_that_is_dead_lettered_cancelled_or_excluded_is_told_once_and_no_other() {
    for merge in MODES {
        for keep in [true, false] {
            let world = World::new(settings(merge));
            exclude_mail(&world, "big-5").await;
            world.mail_faults.add(
                Rule::new(Fault::Before(failures::rejected())).on(Operation::Mail).at("big/big-3"),
            );
            world.fill("big", 20).await;
            // Its mail waits for the cancel.
            let hold = Hold::new("by Ada", world.universe.now());
            let pause = |control: &mut Control| {
                assert!(control.hold(Some("small"), HoldReason::Paused, hold));
            };
            world.control(pause).await;
            let invalid = || {
                let (body, attributes) = (r#"{"id": "bad"}"#.into(), Vec::new());
                Outgoing { body, attributes, delay: Duration::ZERO, fifo: None }
            };
            world.queues.send(&url("big"), &[invalid()]).await.unwrap();
            world
                .play(400, async |first| {
                    // What could not be moved is not told: it is tried again after its visibility timeout.
                    let span = first.opens()..first.plus(5).opens();
                    let unreachable = Fault::Before(FailureKind::Unreachable);
                    let rule = Rule::new(unreachable).on(Operation::Send).at(DEAD_LETTERS);
                    world.faults.add(rule.during(span));
                    world.until(first, 4, MS(0)).await;
                    assert_eq!(fates(&world).len(), 1, "merge {merge}: {:?}", fates(&world));
                    world.until(first, 300, MS(0)).await;
                    world.put("small", &[ProducedMail::new("wrong")]).await;
                    let cancel = Cancel { at: world.universe.now().into(), keep };
                    world.control(|control| control.cancel("small", cancel, "by ada")).await;
                })
                .await;
            let told = fates(&world);
            let code = |code: &str| Some(code.to_owned());
            let cancelled = keep.then(|| CANCELLED.to_owned());
            let expected = [
                ("bad", FateKind::DeadLettered, code("MissingMember")),
                ("big-3", FateKind::DeadLettered, code("MessageRejected")),
                ("big-5", FateKind::Excluded, None),
                ("wrong", FateKind::Cancelled, cancelled),
            ];
            let expected = expected.map(|(id, kind, code)| (id.to_owned(), kind, code));
            assert_eq!(told, expected, "merge {merge}, keep {keep}");
            assert_eq!(world.dead_letters().len(), if keep { 3 } else { 2 });
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_bus_nothing_is_kept_for_it() {
    let world = World::new(WorldSettings::new(50.0, true));
    exclude_mail(&world, "big-5").await;
    world.fill("big", 20).await;
    world.run(60).await;
    assert_eq!((fates(&world), world.bus.events()), (Vec::new(), Vec::new()));
}

fn kinds(world: &World) -> Vec<&'static str> {
    world.bus.events().iter().map(|event: &StackEvent| event.detail_type).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hold_and_a_runs_end_are_told_once_each_and_later_if_the_bus_did_not_answer() {
    for merge in MODES {
        let world = World::new(settings(merge));
        let input = RunInput { rows: 30, ..RunInput::default() };
        let began = world.universe.now().into();
        let new = Run::new("big", "news", input, RunSender::default(), began);
        let run = Run { enqueued: 30, stage: RunStage::Done, ..new };
        assert!(world.ledger.set_run(&StoredRun { version: 0, run }).await.unwrap());
        let hold = Hold::new("by Ada", world.universe.now());
        world.control(|control| assert!(control.hold(Some("big"), HoldReason::Paused, hold))).await;
        world.fill("big", 30).await;
        world
            .play(700, async |first| {
                let span = first.opens()..first.plus(150).opens();
                let unreachable = Fault::Before(FailureKind::Unreachable);
                world.faults.add(Rule::new(unreachable).on(Operation::PutEvents).during(span));
                world.until(first, 140, MS(0)).await;
                assert_eq!(kinds(&world), Vec::<&str>::new());
                world.until(first, 290, MS(0)).await;
                assert_eq!(kinds(&world), ["Hold Begun"], "merge {merge}");
                world
                    .control(|control| assert!(control.lift(Some("big"), HoldReason::Paused)))
                    .await;
                world.until(first, 690, MS(0)).await;
            })
            .await;
        assert_eq!(kinds(&world), ["Hold Begun", "Hold Lifted", "Run Finished"], "merge {merge}");
        // Operators hear of it once, whatever the bus does.
        let told = world.topic.told();
        assert_eq!(told.iter().filter(|(_, told)| told.contains("big")).count(), 2, "{told:?}");
        let finished = world.bus.events().pop().unwrap().detail;
        assert_eq!((&finished["run"], &finished["rows"]), (&"news".into(), &30.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_is_not_over_while_mail_waits_on_its_campaigns_queue() {
    let world =
        World::new(WorldSettings::new(0.5, false).variable("TIDEGATE_EVENT_BUS", "default"));
    let input = RunInput { rows: 30, ..RunInput::default() };
    let new = Run::new("big", "news", input, RunSender::default(), world.universe.now().into());
    let run = Run { enqueued: 30, stage: RunStage::Done, ..new };
    assert!(world.ledger.set_run(&StoredRun { version: 0, run }).await.unwrap());
    // The sums do not say whose mail was sent: of 90, 30 are after a minute.
    world.fill("big", 90).await;
    world
        .play(420, async |first| {
            world.until(first, 150, MS(0)).await;
            let sent = world.accepted().len();
            assert!((40..90).contains(&sent), "{sent} are sent");
            assert_eq!(kinds(&world), Vec::<&str>::new());
            world.until(first, 410, MS(0)).await;
        })
        .await;
    assert_eq!(kinds(&world), ["Run Finished"]);
}
