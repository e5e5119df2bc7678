//! Overload with deferral on: what is deferred, what is not, and that all of it arrives in the end.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::counters::Counter;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Operation, Rule};
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings, measure};

/// Windows of a minute.
const MINUTE: u64 = 60;

/// Busy from a minute of backlog on, overloaded from four.
fn settings(merge: bool) -> WorldSettings {
    WorldSettings::new(14.0, merge)
        .variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=1m")
        .variable("TIDEGATE_BACK_PRESSURE_OVERLOADED", "depth=4m")
        .variable("TIDEGATE_STORE", "s3://tides/store")
        .variable("TIDEGATE_DEFERRAL", "on")
}

/// `count` mails, `PRIORITY-0` and so on.
fn mails(priority: &'static str, count: usize) -> Vec<ProducedMail> {
    let named = |mail: ProducedMail| if priority == "normal" { mail } else { mail.at(priority) };
    ProducedMail::several(priority, count, 1).into_iter().map(named).collect()
}

/// One of each in turn, so that no priority stands before the others.
fn mixed(lists: &[Vec<ProducedMail>]) -> Vec<ProducedMail> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let each = |n: usize| lists.iter().filter_map(move |list| list.get(n * list.len() / longest));
    let mut seen = std::collections::BTreeSet::new();
    (0..longest).flat_map(each).filter(|mail| seen.insert(mail.id.clone())).cloned().collect()
}

/// The levels of the run, each once.
fn levels(world: &World) -> Vec<BackPressureLevel> {
    let minutes = world.minute_reports.borrow();
    let mut levels: Vec<BackPressureLevel> =
        minutes.iter().filter_map(|minute| Some(minute.back_pressure.as_ref()?.level)).collect();
    levels.dedup();
    levels
}

fn brought_back(world: &World) -> u64 {
    let minutes = world.minute_reports.borrow();
    minutes.iter().filter_map(|minute| Some(minute.refill.as_ref()?.done.mails)).sum()
}

fn deferred_mails(world: &World) -> u64 {
    world.reports().iter().map(|report| report.count(Counter::Deferred)).sum()
}

/// When the last mail whose id begins so was accepted, in windows after `first`.
fn last(world: &World, first: Window, prefix: &str) -> u64 {
    let accepted = world.ses.accepted();
    let own = accepted.iter().filter(|arrival| arrival.id.starts_with(prefix));
    let at = own.map(|arrival| arrival.at).max().unwrap();
    Window::containing(at).saturating_since(first)
}

#[track_caller]
fn assert_clean(world: &World) {
    assert_eq!(world.lost(), Vec::<String>::new(), "lost");
    assert_eq!(world.duplicates(), Vec::<String>::new(), "sent twice");
    assert_eq!(world.refused(), 0, "refused");
    assert!(measure::worst_second(&world.ses.arrivals()) <= 14);
}

async fn until_drained(world: &World, minutes: usize) {
    let drained = async |_| {
        for _ in 0..minutes {
            if world.is_drained() {
                // What a scheduler did it says at its minute's end.
                tokio::time::sleep(Duration::from_secs(70)).await;
                return true;
            }
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
        false
    };
    let drained = world.play_until_done(drained).await;
    assert!(drained, "not drained: {} deferred", world.deferred().len());
}

#[tokio::test(start_paused = true)]
async fn mail_on_limit_queues_counts_for_the_level() {
    let settings = settings(true).variable("TIDEGATE_LIMITS", "gmail.com=1/s");
    let world = World::new(settings);
    let limited = mails("high", 600).into_iter().map(|mail| mail.to("gmail.com"));
    world.put("big", &limited.collect::<Vec<_>>()).await;
    world.run(3 * MINUTE).await;
    let minutes = world.minute_reports.borrow();
    let last = minutes.last().unwrap().back_pressure.as_ref().unwrap().figures;
    // 600 came, and one a second went: the other queues are empty by now.
    let backlog = last.backlog_mails.unwrap();
    assert!((400..600).contains(&backlog), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn the_level_is_judged_by_what_was_sent_in_the_last_minute() {
    let world = World::new(settings(true));
    world.put("big", &mails("high", 3_000)).await;
    world.run(4 * MINUTE).await;
    let minutes = world.minute_reports.borrow();
    let last = minutes.last().unwrap().back_pressure.as_ref().unwrap().figures;
    // All was put at once: what was sent in the minute before had waited for longer than all on average.
    assert!(last.age_seconds.is_some_and(|age| (75..=165).contains(&age)), "{last:?}");
    assert_eq!(last.refused_millionths, Some(0));
}

async fn under_overload(merge: bool) {
    let world = World::new(settings(merge));
    let all = mixed(&[
        mails("low", 3_000),
        mails("normal", 1_600),
        mails("high", 500),
        mails("critical", 100),
    ]);
    world.put("big", &all).await;
    let first = world.run(3 * MINUTE).await;
    let deferred = world.deferred();
    assert!(deferred.len() > 1_000, "{}", deferred.len());
    for (id, body) in &deferred {
        assert!(!body.contains("critical") && !body.contains("\"high\""), "{id} was deferred");
    }
    until_drained(&world, 90).await;
    assert_clean(&world);
    assert_eq!(world.accepted().len(), all.len());
    assert_eq!(deferred_mails(&world), brought_back(&world));
    // Up once, down step by step, and not up again by what comes back.
    let expected =
        [BackPressureLevel::Overloaded, BackPressureLevel::Busy, BackPressureLevel::Clear];
    let ran = levels(&world);
    let down: Vec<BackPressureLevel> =
        ran.into_iter().filter(|level| *level != BackPressureLevel::Clear).collect();
    assert_eq!(down, expected[..2], "{:?}", levels(&world));
    assert_eq!(levels(&world).last(), Some(&BackPressureLevel::Clear));
    let normal = deferred.iter().filter(|(id, _)| id.starts_with("normal"));
    assert!(normal.count() > 300, "overloaded, normal mail is deferred as well");
    // What is urgent did not wait for the rest: 600 mails, and a minute in which nothing was judged.
    for urgent in ["critical", "high"] {
        assert!(last(&world, first, urgent) < 150, "{urgent}: {}", last(&world, first, urgent));
    }
}

#[tokio::test(start_paused = true)]
async fn under_overload_what_is_not_urgent_is_deferred_and_sent_once_when_it_is_over() {
    under_overload(true).await;
}

#[tokio::test(start_paused = true)]
async fn direct_mode_defers_as_well() {
    under_overload(false).await;
}

#[tokio::test(start_paused = true)]
async fn deferring_costs_no_slot() {
    let mut sent = Vec::new();
    for deferral in [true, false] {
        let settings = if deferral { settings(true) } else { WorldSettings::new(14.0, true) };
        let world = World::new(settings);
        let all = mixed(&[mails("low", 4_000), mails("high", 4_000)]);
        world.put("big", &all).await;
        let first = world.run(4 * MINUTE).await;
        let span = measure::span(first, MINUTE..4 * MINUTE);
        sent.push(measure::sent(&world.ses.arrivals(), &span));
        assert_eq!(deferred_mails(&world) > 0, deferral);
    }
    assert!(sent[0] * 200 >= sent[1] * 199, "{sent:?}: more than half a per cent less");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_of_nothing_else_is_moved_once_and_leaves_its_slots_to_the_others() {
    let world = World::new(settings(true));
    let low: Vec<ProducedMail> = mails("low", 3_000);
    world.put("big", &low).await;
    world.put("small", &mails("high", 1_000)).await;
    // No quota is known in the first minute there ever was: its backlog is not judged.
    let first = world.run(3 * MINUTE).await;
    let span = measure::span(first, MINUTE + 5..MINUTE + 55);
    let arrivals = world.ses.arrivals();
    assert!(measure::sent(&arrivals, &span) >= 680, "{}", measure::sent(&arrivals, &span));
    let calls: u64 = world.reports().iter().map(|report| report.count(Counter::SqsCalls)).sum();
    // Received and deleted in tens, once each, beside what 1,000 sent mails and idle looks cost.
    assert!(deferred_mails(&world) > 2_000, "{}", deferred_mails(&world));
    assert!(calls < 2_600, "{calls} calls for {} deferred", deferred_mails(&world));
    let most = world.reports().iter().map(|r| r.count(Counter::Deferred)).max().unwrap();
    assert!(most <= 140, "{most} in a window");
    until_drained(&world, 90).await;
    assert_clean(&world);
}

/// Killed as the object is written and nothing yet deleted: copies, which the rate margin knows.
#[tokio::test(start_paused = true)]
async fn pollers_that_die_between_object_and_delete_leave_copies_and_lose_nothing() {
    for after in [false, true] {
        let settings = settings(true).variable("TIDEGATE_DEDUPLICATION", "resend");
        let world = World::new(settings);
        world.put("big", &mixed(&[mails("low", 1_500), mails("high", 500)])).await;
        let fault = if after { Fault::HangAfter } else { Fault::HangBefore };
        world.faults.add(Rule::new(fault).on(Operation::PutObject).chance(0.3));
        world.run(3 * MINUTE).await;
        assert!(world.faults.strikes().len() > 3);
        world.faults.clear();
        until_drained(&world, 120).await;
        assert_clean(&world);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_written_stays_on_its_queue() {
    let world = World::new(settings(true));
    world.put("big", &mixed(&[mails("low", 1_500), mails("high", 500)])).await;
    let unreachable = Rule::new(Fault::Before(FailureKind::Unreachable)).on(Operation::PutObject);
    world.faults.add(unreachable);
    world.run(3 * MINUTE).await;
    let failed: u64 = world.reports().iter().map(|report| report.count(Counter::StoreFailed)).sum();
    assert!(failed > 100 && deferred_mails(&world) == 0, "{failed}");
    world.faults.clear();
    until_drained(&world, 90).await;
    assert_clean(&world);
}

/// A dead scheduler, or one without the list of campaigns: nothing is deferred for ever.
#[tokio::test(start_paused = true)]
async fn a_level_that_nobody_renews_ends() {
    let world = World::new(settings(true));
    world.put("big", &mails("high", 2_000)).await;
    world.run(MINUTE).await;
    assert!(
        world.ledger_now().await.control.back_pressure.unwrap().level > BackPressureLevel::Clear
    );
    world.unscheduled.set(true);
    world.universe.sleep_until(world.universe.now() + Duration::from_mins(16)).await;
    let now = world.universe.now();
    assert_eq!(world.ledger_now().await.control.level(now.into()), BackPressureLevel::Clear);
}
