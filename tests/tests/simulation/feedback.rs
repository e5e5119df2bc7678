//! Bounces and complaints: counted beside the ticks, a campaign held for them, a hold lifted; what
//! fails meanwhile costs no tick and counts nothing twice.

use std::time::Duration;

use futures_util::future::{Either, join, select};
use tidegate_core::control::HoldReason;
use tidegate_core::reputation::ReputationFigures;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, Operation, Rule};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{FEEDBACK, World, WorldSettings, measure};

use crate::{MODES, MS};

fn settings(quota: f64, merge: bool, mode: &'static str) -> WorldSettings {
    WorldSettings::new(quota, merge).variable("TIDEGATE_FEEDBACK", mode)
}

/// What EventBridge puts on the queue for an event about a mail that SES gave this id.
fn notice(kind: &str, campaign: &str, id: &str) -> String {
    format!(r#"{{"kind": "{kind}", "campaign": "{campaign}", "id": "{id}"}}"#)
}

async fn put(world: &World, bodies: impl IntoIterator<Item = String>) {
    let bodies: Vec<_> = bodies.into_iter().map(produced).collect();
    world.put_raw(FEEDBACK, &bodies).await;
}

/// SES reports so many mails.
async fn report(world: &World, kind: &str, campaign: &str, count: u64) {
    let at = world.universe.now().as_millis();
    put(world, (0..count).map(|number| notice(kind, campaign, &format!("{at}-{number}")))).await;
}

async fn held(world: &World, campaign: &str) -> bool {
    let control = world.ledger_now().await.control;
    let holds = control.campaign_holds.get(campaign);
    holds.is_some_and(|holds| holds.get(HoldReason::Reputation).is_some())
}

async fn figures(world: &World, campaign: &str) -> ReputationFigures {
    let standing = world.ledger_now().await;
    let sum = standing.counters.get(&format!("sent.{campaign}")).copied().unwrap_or(0);
    let tally = standing.control.reputation.and_then(|of| of.campaigns.get(campaign).cloned());
    // A campaign that nobody looked at yet counts from nothing.
    tally.unwrap_or_default().figures(u64::try_from(sum).unwrap_or(0))
}

fn ticks(world: &World) -> Vec<(Timestamp, Window)> {
    world.invoke.accepted().into_iter().map(|(at, tick)| (at, tick.window)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_campaign_is_held_at_five_bounces_in_a_hundred_and_the_other_goes_on() {
    for merge in MODES {
        let world = World::new(settings(50.0, merge, "hold"));
        world.fill("big", 3_000).await;
        world.fill("small", 3_000).await;
        let first = world
            .play(70, async |first| {
                world.until(first, 30, MS(500)).await;
                let sent = figures(&world, "big").await.sent;
                assert!(sent >= 1_000, "{sent}");
                let below = sent * 5 / 100 - 1;
                report(&world, "bounce", "big", below).await;
                world.until(first, 31, MS(500)).await;
                assert_eq!(figures(&world, "big").await.bounced, below, "within a second");
                assert!(!held(&world, "big").await);
                report(&world, "bounce", "big", 8).await;
                world.until(first, 32, MS(500)).await;
                assert!(held(&world, "big").await);
            })
            .await;
        world.assert_nothing_lost();
        assert_eq!((world.duplicates().len(), world.refused()), (0, 0));
        let arrivals = world.ses.arrivals();
        let after = measure::span(first, 36..60);
        assert!(measure::share(&arrivals, "big", &after) == 0.0, "merge {merge}");
        assert!(measure::utilisation(&world, first, 38..60, 10) >= 0.97, "merge {merge}");
        assert!(!held(&world, "small").await && world.contents(FEEDBACK).is_empty());
        let holds = world.ledger_now().await.control.campaign_holds;
        let detail = &holds["big"].get(HoldReason::Reputation).map(|hold| hold.detail.clone());
        assert!(detail.as_ref().is_some_and(|detail| detail.contains("bounces of")), "{detail:?}");
        // The minute told it: its metrics are an alarm.
        let minutes = world.minute_reports.borrow();
        assert_eq!(minutes[0].holds(), Some(1));
        assert!(minutes[0].feedback.bounced["big"] > 50);
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_is_held_at_one_complaint_in_a_thousand_and_never_for_one_alone() {
    let world = World::new(settings(50.0, true, "hold"));
    world.fill("big", 3_000).await;
    let first = world
        .play(70, async |first| {
            world.until(first, 25, MS(500)).await;
            assert!((1_000..2_000).contains(&figures(&world, "big").await.sent));
            report(&world, "complaint", "big", 1).await;
            world.until(first, 26, MS(500)).await;
            assert!(!held(&world, "big").await, "one complaint in 1,200 mails");
            report(&world, "complaint", "big", 1).await;
            world.until(first, 27, MS(500)).await;
            assert!(held(&world, "big").await);
        })
        .await;
    world.assert_nothing_lost();
    assert_eq!(measure::sent(&world.ses.arrivals(), &measure::span(first, 31..70)), 0);
}

#[tokio::test(start_paused = true)]
async fn below_the_minimum_nothing_is_held_and_as_it_is_reached_it_is() {
    let settings = settings(50.0, true, "hold").variable("TIDEGATE_FEEDBACK_MINIMUM", 2_000);
    let world = World::new(settings);
    world.fill("big", 4_000).await;
    world
        .play(80, async |first| {
            world.until(first, 20, MS(500)).await;
            report(&world, "bounce", "big", 400).await;
            world.until(first, 38, MS(0)).await;
            let figures = figures(&world, "big").await;
            assert!(figures.bounced == 400 && figures.sent < 2_000, "{figures:?}");
            assert!(!held(&world, "big").await);
            // The next minute's run looks again, without another bounce.
            world.until(first, 61, MS(0)).await;
            assert!(held(&world, "big").await);
        })
        .await;
    world.assert_nothing_lost();
}

#[tokio::test(start_paused = true)]
async fn counting_holds_nothing_and_off_reads_nothing() {
    let world = World::new(settings(50.0, true, "count"));
    world.fill("big", 2_000).await;
    world
        .play(70, async |first| {
            world.until(first, 30, MS(500)).await;
            report(&world, "bounce", "big", 900).await;
            report(&world, "complaint", "small", 3).await;
        })
        .await;
    world.assert_clean();
    assert_eq!(world.accepted().len(), 2_000);
    assert_eq!(figures(&world, "big").await.bounced, 900);
    {
        let minutes = world.minute_reports.borrow();
        assert_eq!((minutes[0].feedback.bounced["big"], minutes[0].holds()), (900, Some(0)));
        assert_eq!(minutes[0].feedback.complained["small"], 3);
    }
    let off = World::new(WorldSettings::new(50.0, true));
    off.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive).at(FEEDBACK));
    off.run(60).await;
    assert!(off.faults.strikes().is_empty());
    assert_eq!(off.ledger_now().await.control.reputation, None);
}

#[tokio::test(start_paused = true)]
async fn a_lifted_hold_does_not_return_from_the_same_bounces_and_does_from_new_ones() {
    let world = World::new(settings(50.0, true, "hold"));
    world.fill("big", 6_000).await;
    let lift = async || {
        world.control(|control| assert!(control.lift(Some("big"), HoldReason::Reputation))).await;
    };
    world
        .play(200, async |first| {
            world.until(first, 30, MS(500)).await;
            report(&world, "bounce", "big", 200).await;
            world.until(first, 40, MS(500)).await;
            assert!(held(&world, "big").await);
            lift().await;
            world.until(first, 62, MS(500)).await;
            let figures = figures(&world, "big").await;
            assert!(figures.bounced == 0 && figures.sent < 200, "{figures:?}");
            world.until(first, 125, MS(500)).await;
            assert!(!held(&world, "big").await, "it came back");
            report(&world, "bounce", "big", 400).await;
            world.until(first, 127, MS(500)).await;
            assert!(held(&world, "big").await);
            lift().await;
        })
        .await;
    world.assert_nothing_lost();
    assert_eq!(world.duplicates(), Vec::<String>::new());
    assert!(world.accepted().len() > 5_500, "{}", world.accepted().len());
}

/// The times of all ticks, of a run without any feedback and of runs where it fails.
#[tokio::test(start_paused = true)]
async fn a_feedback_queue_that_fails_or_hangs_costs_no_tick_and_no_time() {
    let calm = World::new(settings(20.0, true, "off"));
    calm.schedule().await;
    let took = calm.universe.elapsed();
    let unreachable = || FailureKind::Unreachable;
    let failing = [
        vec![],
        vec![Rule::new(Fault::Before(unreachable())).on(Operation::Receive).at(FEEDBACK)],
        vec![Rule::new(Fault::After(unreachable())).on(Operation::Receive).at(FEEDBACK)],
        vec![Rule::new(Fault::HangBefore).on(Operation::Receive).at(FEEDBACK)],
        vec![Rule::new(Fault::HangAfter).on(Operation::Receive).at(FEEDBACK).nth(3)],
        vec![Rule::new(Fault::Before(unreachable())).on(Operation::Delete).at(FEEDBACK)],
        vec![Rule::new(Fault::HangBefore).on(Operation::Delete).at(FEEDBACK)],
        vec![
            Rule::new(Fault::Slow(Latency::always(Duration::from_secs(7))))
                .on(Operation::Receive)
                .at(FEEDBACK)
                .on(Operation::Delete)
                .at(FEEDBACK),
        ],
    ];
    for (number, rules) in failing.into_iter().enumerate() {
        let world = World::new(settings(20.0, true, "hold"));
        world.queues.set_latency(Latency::NONE);
        report(&world, "bounce", "big", 30).await;
        for rule in rules {
            world.faults.add(rule);
        }
        world.schedule().await;
        assert_eq!(world.universe.elapsed(), took, "case {number}");
        assert_eq!(ticks(&world), ticks(&calm), "case {number}");
        let run = &world.schedule_reports.borrow()[0];
        assert_eq!((run.ticks, run.ticks_failed, run.ticks_late), (70, 0, 0), "case {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_reading_ends_before_its_run_and_the_next_goes_on_where_it_ended() {
    let world = World::new(settings(20.0, true, "count"));
    let began = world.universe.now();
    world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive).at(FEEDBACK));
    join(world.schedule(), async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        report(&world, "bounce", "big", 7).await;
    })
    .await;
    let last = world.faults.strikes().iter().map(|strike| strike.at).max().unwrap_or_default();
    assert!(last.saturating_since(began) <= Duration::from_secs(45));
    // Nothing was reported: each call waits for 20 s.
    assert!(world.faults.strikes().len() <= 4, "{:?}", world.faults.strikes());
    assert_eq!(world.contents(FEEDBACK).len(), 7);
    world.schedule().await;
    assert_eq!(figures(&world, "big").await.bounced, 7);
    assert!(world.contents(FEEDBACK).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_scheduler_that_crashes_at_any_call_of_a_count_counts_nothing_twice_and_loses_nothing() {
    use Operation::{Delete, Read, Receive, SetControl};
    for (operation, at) in [(Receive, FEEDBACK), (Read, ""), (SetControl, ""), (Delete, FEEDBACK)] {
        for fault in [Fault::HangBefore, Fault::HangAfter] {
            let world = World::new(settings(20.0, true, "count"));
            let crashed = {
                let crash = std::pin::pin!(async {
                    tokio::time::sleep(Duration::from_secs(25)).await;
                    world.faults.add(Rule::new(fault.clone()).on(operation).at(at).nth(1));
                    report(&world, "bounce", "big", 30).await;
                    report(&world, "complaint", "big", 3).await;
                    world.faults.hung().await;
                });
                matches!(select(crash, std::pin::pin!(world.schedule())).await, Either::Left(_))
            };
            assert!(crashed, "{operation:?} was not called");
            world.faults.clear();
            // What the crashed one had received is visible again after 30 s.
            for _ in 0..2 {
                world.schedule().await;
            }
            let ReputationFigures { bounced, complained, .. } = figures(&world, "big").await;
            assert_eq!((bounced, complained), (30, 3), "{operation:?} {fault:?}");
            assert!(world.contents(FEEDBACK).is_empty(), "{operation:?} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_the_ledger_out_of_reach_nothing_is_deleted_and_later_all_is_counted_once() {
    let world = World::new(settings(20.0, true, "count"));
    let from = world.universe.now();
    let out = Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::SetControl);
    world.faults.add(out.during(from..from + Duration::from_secs(90)));
    report(&world, "bounce", "big", 120).await;
    world.schedule().await;
    assert_eq!(world.contents(FEEDBACK).len(), 120);
    assert!(world.minute_reports.borrow()[0].feedback.bounced.is_empty(), "told before it stands");
    for _ in 0..2 {
        world.schedule().await;
    }
    assert_eq!(figures(&world, "big").await.bounced, 120);
    assert!(world.contents(FEEDBACK).is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_deleted_and_comes_again_is_not_counted_again() {
    let world = World::new(settings(20.0, true, "count"));
    let failing =
        Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::Delete).at(FEEDBACK);
    world.faults.add(failing.nth(1));
    report(&world, "complaint", "big", 3).await;
    world.schedule().await;
    assert_eq!(figures(&world, "big").await.complained, 3);
    assert!(world.contents(FEEDBACK).is_empty());
    assert_eq!(world.minute_reports.borrow()[0].feedback.complained["big"], 3);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_in_two_messages_counts_once_even_hours_and_many_others_later() {
    let world = World::new(settings(50.0, true, "hold"));
    world.fill("small", 3_000).await;
    let complaint = notice("complaint", "small", "0102018f3c5d7e9a-1");
    let comes = async || put(&world, [complaint.clone()]).await;
    world
        .play(130, async |first| {
            world.until(first, 30, MS(500)).await;
            assert!(figures(&world, "small").await.sent >= 1_000);
            comes().await;
            comes().await;
            world.until(first, 35, MS(0)).await;
            assert_eq!(figures(&world, "small").await.complained, 1);
            // The control record has forgotten it, and another run of the scheduler reads it.
            report(&world, "suppressed", "small", 150).await;
            world.until(first, 65, MS(0)).await;
            comes().await;
            world.until(first, 70, MS(0)).await;
            assert!(!held(&world, "small").await, "for one complaint");
        })
        .await;
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_hours(1)).await;
        comes().await;
        world.schedule().await;
    }
    let figures = figures(&world, "small").await;
    assert_eq!((figures.complained, figures.suppressed), (1, 150));
    assert!(world.contents(FEEDBACK).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_event_counts_for_each_of_its_recipients_once() {
    let world = World::new(settings(20.0, true, "count"));
    let of = |from: u32, to: u32| {
        let recipients: Vec<_> = (from..to)
            .map(|n| serde_json::json!({"emailAddress": format!("a{n}@example.com")}))
            .collect();
        serde_json::json!({"kind": "bounce", "campaign": "big", "id": "1", "recipients": recipients})
            .to_string()
    };
    put(&world, [of(0, 30), of(0, 30), of(20, 35)]).await;
    world.schedule().await;
    assert_eq!(figures(&world, "big").await.bounced, 35);
    put(&world, [of(34, 36)]).await;
    world.schedule().await;
    assert_eq!(figures(&world, "big").await.bounced, 36);
}

#[tokio::test(start_paused = true)]
async fn what_ses_does_not_count_holds_nothing_and_mail_that_it_dropped_holds_its_campaign() {
    let world = World::new(settings(50.0, true, "hold"));
    world.fill("big", 3_000).await;
    world.fill("small", 3_000).await;
    world
        .play(70, async |first| {
            world.until(first, 10, MS(0)).await;
            report(&world, "suppressed", "small", 900).await;
            report(&world, "dropped", "big", 200).await;
            world.until(first, 25, MS(0)).await;
            assert!(held(&world, "big").await && !held(&world, "small").await);
        })
        .await;
    let minutes = world.minute_reports.borrow();
    let told = &minutes[0].feedback;
    assert_eq!((told.suppressed["small"], told.dropped["big"]), (900, 200));
    assert!(told.bounced.is_empty());
}

#[tokio::test(start_paused = true)]
async fn overlapping_schedulers_and_an_operator_at_work_count_everything_once() {
    let world = World::new(settings(20.0, true, "count"));
    let slow = Latency::between(MS(5), MS(40));
    world.faults.add(Rule::new(Fault::Slow(slow)).on(Operation::SetControl));
    join(join(world.schedule(), world.schedule()), async {
        for round in 0..20 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            report(&world, "bounce", "big", 40).await;
            world
                .control(|control| control.weights = [("big".to_owned(), 50 + round)].into())
                .await;
        }
    })
    .await;
    world.schedule().await;
    assert_eq!(figures(&world, "big").await.bounced, 800);
    let control = world.ledger_now().await.control;
    assert_eq!(control.weights["big"], 69);
    let minutes = world.minute_reports.borrow();
    let told = minutes.iter().filter_map(|minute| minute.feedback.bounced.get("big"));
    assert_eq!(told.sum::<u64>(), 800);
}
