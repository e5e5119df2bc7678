//! Excluded recipients: mail that was enqueued before is not sent to them, and all other mail is.

use std::collections::BTreeSet;

use tidegate_core::counters::Counter;
use tidegate_core::exclusions::AddressKey;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, Operation, Rule};
use tidegate_operator::exclude::{ExcludeAction, exclude};
use tidegate_operator::steer::Author;
use tidegate_simulator::ProducedMail;
use tidegate_tests::simulation::{EXPRESS, MERGE, World, WorldSettings, measure};

use crate::{MODES, MS};

/// Puts the recipients of these mails on the list, or takes them off it, as an operator does.
async fn change(world: &World, action: ExcludeAction, ids: impl IntoIterator<Item = String>) {
    let keys: BTreeSet<AddressKey> =
        ids.into_iter().map(|id| AddressKey::of_text(&format!("{id}.0@example.com"))).collect();
    let author = Author { by: "ada".to_owned(), reason: "unsubscribed".to_owned() };
    let clock = world.universe.clock();
    let changed = exclude(action, &keys, &author, &world.ledger, &clock, |_| {}).await;
    assert!(changed.is_ok(), "{changed:?}");
}

fn excluded(world: &World) -> u64 {
    world.reports().iter().map(|report| report.count(Counter::Excluded)).sum()
}

fn every_third(campaign: &str) -> impl Iterator<Item = String> {
    (0..900).step_by(3).map(move |number| format!("{campaign}-{number}"))
}

#[tokio::test(start_paused = true)]
async fn mail_that_waits_is_not_sent_to_who_is_excluded_meanwhile_and_all_other_mail_is() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 900).await;
        world.fill("small", 100).await;
        let first = world
            .play(40, async |first| {
                world.until(first, 5, MS(100)).await;
                change(&world, ExcludeAction::Add, every_third("big")).await;
            })
            .await;
        let arrivals = world.ses.arrivals();
        // Window 6 was claimed after the change; the last mail of window 5 is on its way as it opens.
        let late = first.plus(6).opens() + MS(100);
        let is_excluded: BTreeSet<String> = every_third("big").collect();
        let wrong = arrivals.iter().filter(|sent| is_excluded.contains(&sent.id) && sent.at > late);
        assert_eq!(wrong.count(), 0, "merge {merge}");
        let sent = arrivals.iter().filter(|sent| is_excluded.contains(&sent.id)).count() as u64;
        assert!((40..=120).contains(&sent), "merge {merge}: {sent} before the change");
        assert_eq!(excluded(&world), 300 - sent, "merge {merge}");
        assert_eq!(arrivals.len() as u64, 1_000 - (300 - sent), "merge {merge}");
        assert_eq!(world.contents("big").len() + world.contents(MERGE).len(), 0, "merge {merge}");
        assert!(world.duplicates().is_empty() && world.dead_letters().is_empty());
        // Excluded mail uses no slot.
        let used = measure::utilisation(&world, first, 4..14, 5);
        assert!(used >= 0.95, "merge {merge}: {used:.4}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_that_is_taken_off_the_list_gets_mail_again_and_express_mail_always() {
    let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, true) });
    let ids = || ["news".to_owned(), "code".to_owned(), "again".to_owned()];
    change(&world, ExcludeAction::Add, ids()).await;
    world.put("big", &[ProducedMail::new("news")]).await;
    world.put(EXPRESS, &[ProducedMail::new("code")]).await;
    world
        .play(40, async |first| {
            world.until(first, 10, MS(0)).await;
            assert_eq!(excluded(&world), 1);
            change(&world, ExcludeAction::Remove, ids()).await;
            world.put("big", &[ProducedMail::new("again")]).await;
        })
        .await;
    let accepted = world.accepted();
    assert_eq!(accepted.keys().map(String::as_str).collect::<Vec<_>>(), ["again", "code"]);
}

#[tokio::test(start_paused = true)]
async fn a_mail_to_two_of_whom_one_is_excluded_goes_to_neither() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        change(&world, ExcludeAction::Add, ["two".to_owned()]).await;
        let two = ProducedMail { recipients: 2, ..ProducedMail::new("two") };
        world.put("big", &[two, ProducedMail::new("other")]).await;
        world.run(20).await;
        let accepted = world.accepted();
        assert_eq!(accepted.keys().map(String::as_str).collect::<Vec<_>>(), ["other"]);
        assert_eq!(excluded(&world), 1, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_list_cannot_be_read_no_campaigns_mail_is_sent_and_none_is_lost() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 100).await;
        change(&world, ExcludeAction::Add, ["big-7".to_owned()]).await;
        world
            .faults
            .add(Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::ReadExclusions));
        world
            .play(120, async |first| {
                world.until(first, 20, MS(0)).await;
                assert_eq!(world.ses.arrivals().len(), 0, "merge {merge}");
                world.faults.clear();
            })
            .await;
        assert_eq!((world.accepted().len(), excluded(&world)), (99, 1), "merge {merge}");
        assert!(!world.accepted().contains_key("big-7"));
        assert!(world.duplicates().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn mail_that_waits_for_a_slow_list_is_sent_unless_the_list_has_its_recipient() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.fill("big", 100).await;
        change(&world, ExcludeAction::Add, ["big-7".to_owned()]).await;
        let slow = Fault::Slow(Latency::always(MS(700)));
        world.faults.add(Rule::new(slow).on(Operation::ReadExclusions));
        world.run(60).await;
        assert_eq!((world.accepted().len(), excluded(&world)), (99, 1), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_environment_reads_the_list_once_for_each_of_its_versions() {
    let world = World::new(WorldSettings::new(50.0, true));
    change(&world, ExcludeAction::Add, ["nobody".to_owned()]).await;
    world.fill("big", 1_500).await;
    // From now on a second read would fail, and stop the campaign for 30 s.
    let read = Rule::new(Fault::Before(FailureKind::TimedOut)).on(Operation::ReadExclusions);
    world
        .play(45, async |first| {
            world.until(first, 8, MS(0)).await;
            world.faults.add(read);
        })
        .await;
    assert_eq!(world.accepted().len(), 1_500);
}
