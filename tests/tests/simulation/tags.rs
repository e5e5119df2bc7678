//! Campaigns found by their queues' tags: added, weighted anew and taken away while mail is sent.

use std::collections::BTreeMap;

use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::identity::EpochMillis;
use tidegate_core::tagged::{CAMPAIGN_TAG, WEIGHT_TAG};
use tidegate_delivery::ports::{Directory, FailureKind, Ledger as _, PortError, QueueUrl};
use tidegate_delivery::schedule::{self, SchedulePorts};
use tidegate_fakes::{Fault, Latency, Operation, Rule, failures};
use tidegate_tests::simulation::{MERGE, World, WorldSettings, measure};

use crate::{MODES, MS};

/// A queue with a weight is a campaign, named by what follows `campaign-`.
fn weigh(world: &World, campaign: &str, weight: Option<&str>) {
    world.tag(&format!("campaign-{campaign}"), WEIGHT_TAG, weight);
}

/// A world whose campaigns `big` and `small`, 90 and 10, are found by tag.
fn tagged(merge: bool) -> World {
    let settings = WorldSettings::new(20.0, merge)
        .campaigns(&[("campaign-big", 1), ("campaign-small", 1)])
        .variable("TIDEGATE_CAMPAIGNS", "ledger")
        .variable("TIDEGATE_CAMPAIGN_QUEUES", "campaign-");
    let world = World::new(settings);
    weigh(&world, "big", Some("90"));
    weigh(&world, "small", Some("10"));
    world
}

async fn listed(world: &World) -> Vec<(String, u32)> {
    let campaigns = world.ledger_now().await.control.campaigns.into_iter();
    campaigns.map(|campaign| (campaign.name, campaign.weight)).collect()
}

/// The campaigns on the list after a run of one minute.
async fn listed_after_a_run(world: &World) -> Vec<(String, u32)> {
    world.schedule().await;
    listed(world).await
}

fn list(campaigns: &[(&str, u32)]) -> Vec<(String, u32)> {
    campaigns.iter().map(|(name, weight)| ((*name).to_owned(), *weight)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_appears_is_served_within_a_minute_at_its_share() {
    for merge in MODES {
        let world = tagged(merge);
        world.fill("campaign-big", 2_300).await;
        world.fill("campaign-small", 500).await;
        let mut made = None;
        let first = world
            .play(120, async |first| {
                world.until(first, 20, MS(0)).await;
                assert_eq!(listed(&world).await, list(&[("big", 90), ("small", 10)]));
                world.add_queue("campaign-q3");
                world.fill("campaign-q3", 1_500).await;
                world.tag("campaign-q3", CAMPAIGN_TAG, Some("third"));
                weigh(&world, "q3", Some("100"));
                made = Some(world.universe.now());
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let begun = arrivals.iter().find(|arrival| arrival.campaign == "third").unwrap().at;
        let waited = begun.saturating_since(made.unwrap());
        assert!(waited <= MS(62_000), "merge {merge}: served after {waited:?}");
        for (campaign, wanted) in [("third", 0.5), ("big", 0.45), ("small", 0.05)] {
            let share = measure::share(&arrivals, campaign, &measure::span(first, 66..116));
            assert!((share - wanted).abs() <= 0.02, "merge {merge}: {campaign} has {share:.4}");
        }
        let used = measure::utilisation(&world, first, 4..116, 30);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
        // The second run is under way as the last window ends.
        let run = world.schedule_reports.borrow_mut().remove(0);
        assert_eq!((run.ticks, run.ticks_late, run.ticks_failed), (70, 0, 0), "{run:?}");
        assert_eq!(run.campaigns, Some(2));
        assert_eq!(listed(&world).await, list(&[("big", 90), ("small", 10), ("third", 100)]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_weight_that_is_tagged_anew_counts_from_the_next_minute_on() {
    for merge in MODES {
        let world = tagged(merge);
        world.fill("campaign-big", 2_000).await;
        world.fill("campaign-small", 1_500).await;
        let first = world
            .play(120, async |first| {
                world.until(first, 30, MS(0)).await;
                weigh(&world, "big", Some("25"));
                weigh(&world, "small", Some("75"));
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for (windows, wanted) in [(4..58, 0.1), (66..116, 0.75)] {
            let share = measure::share(&arrivals, "small", &measure::span(first, windows));
            assert!((share - wanted).abs() <= 0.02, "merge {merge}: {share:.4}, not {wanted}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_whose_tag_is_removed_waits_in_its_queue_and_what_was_merged_of_it_is_sent() {
    for merge in MODES {
        let world = tagged(merge);
        world.fill("campaign-big", 1_500).await;
        world.fill("campaign-small", 1_000).await;
        let first = world
            .play(100, async |first| {
                world.until(first, 30, MS(0)).await;
                weigh(&world, "big", None);
            })
            .await;
        assert_eq!(listed(&world).await, list(&[("small", 10)]));
        world.assert_clean();
        assert!(world.contents(MERGE).iter().all(|m| m.attributes["campaign"] == "small"));
        let share = measure::share(&world.ses.arrivals(), "big", &measure::span(first, 66..100));
        assert!(share == 0.0, "merge {merge}: {share:.4}");
        assert!(world.contents("campaign-big").len() > 10, "merge {merge}");
        let used = measure::utilisation(&world, first, 66..96, 10);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
    }
}

/// It has no queue to go back to: what fails to be sent is left in the merge queue, and sent from
/// there after its visibility timeout.
#[tokio::test(start_paused = true)]
async fn what_was_merged_of_a_campaign_whose_queue_is_gone_is_sent() {
    let world = tagged(true);
    world.fill("campaign-big", 2_400).await;
    world.fill("campaign-small", 20).await;
    // From the fifth second on, until it is listed no more, SES takes nothing of it.
    let failing = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
    let now = world.universe.now();
    let failing = failing.at("small/").during(now + MS(4_000)..now + MS(75_000));
    world.mail_faults.add(failing);
    let left = || {
        let merged = world.contents(MERGE).into_iter();
        merged.filter(|message| message.attributes["campaign"] == "small").count()
    };
    let first = world
        .play(120, async |first| {
            world.until(first, 3, MS(500)).await;
            // What is merged now fails; its queue is gone before it could go back there.
            world.remove_queue("campaign-small");
            world.until(first, 66, MS(0)).await;
            assert_eq!(listed(&world).await, list(&[("big", 90)]));
            assert!(left() > 0, "nothing of it was merged");
        })
        .await;
    assert_eq!((left(), world.dead_letters().len()), (0, 0));
    assert_eq!(world.duplicates(), Vec::<String>::new());
    let late = measure::share(&world.ses.arrivals(), "small", &measure::span(first, 74..120));
    assert!(late > 0.0);
}

#[tokio::test(start_paused = true)]
async fn what_is_in_doubt_stays_as_it_stood() {
    let world = tagged(true);
    let both = list(&[("big", 90), ("small", 10)]);
    assert_eq!(listed_after_a_run(&world).await, both);
    // One bad tag: that queue stays, the other changes.
    weigh(&world, "small", Some("lots"));
    weigh(&world, "big", Some("80"));
    assert_eq!(listed_after_a_run(&world).await, list(&[("big", 80), ("small", 10)]));
    weigh(&world, "big", Some("90"));
    weigh(&world, "small", Some("10"));
    assert_eq!(listed_after_a_run(&world).await, both);
    // Two queues of one campaign, and weights that give no cycle.
    world.add_queue("campaign-other");
    world.tag("campaign-other", CAMPAIGN_TAG, Some("big"));
    weigh(&world, "other", Some("7"));
    weigh(&world, "small", Some("20"));
    assert_eq!(listed_after_a_run(&world).await, both);
    world.tag("campaign-other", CAMPAIGN_TAG, None);
    weigh(&world, "other", Some("9999"));
    assert_eq!(listed_after_a_run(&world).await, both);
    world.remove_queue("campaign-other");
    assert_eq!(listed_after_a_run(&world).await, list(&[("big", 90), ("small", 20)]));
    // No campaign at all.
    weigh(&world, "big", None);
    weigh(&world, "small", None);
    assert_eq!(listed_after_a_run(&world).await, list(&[("big", 90), ("small", 20)]));
    world.remove_queue("campaign-big");
    world.remove_queue("campaign-small");
    assert_eq!(listed_after_a_run(&world).await, list(&[("big", 90), ("small", 20)]));
}

/// A directory that lists nothing, as SQS may for a moment.
struct Forgetful<'a>(&'a World);

impl Directory for Forgetful<'_> {
    async fn queues(&self, _: &str) -> Result<Vec<QueueUrl>, PortError> {
        Ok(Vec::new())
    }

    async fn tags(&self, queue: &QueueUrl) -> Result<BTreeMap<String, String>, PortError> {
        self.0.queues.tags(queue).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_listed_is_gone_only_when_it_says_so() {
    let world = tagged(true);
    let both = list(&[("big", 90), ("small", 10)]);
    assert_eq!(listed_after_a_run(&world).await, both);
    let config = world.settings.scheduler().unwrap();
    let run = async || {
        let (clock, account) = (world.universe.clock(), world.ses.account());
        let before = world.ledger.read().await.ok();
        let ports = SchedulePorts {
            clock: &clock,
            account: &account,
            ledger: &world.ledger,
            invoke: &world.invoke,
            directory: &Forgetful(&world),
            queues: &world.queues.client(),
        };
        let run = schedule::run(&config, false, before, ports);
        run.await.unwrap().campaigns
    };
    assert_eq!((run().await, listed(&world).await), (Some(2), both));
    world.remove_queue("campaign-small");
    assert_eq!((run().await, listed(&world).await), (Some(1), list(&[("big", 90)])));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_or_hangs_changes_nothing_and_costs_no_tick() {
    let slow = || Fault::Slow(Latency::between(MS(90_000), MS(90_001)));
    let refused = || Fault::Before(FailureKind::Denied("AccessDenied".to_owned()));
    for (fault, operation) in [
        (refused(), Operation::ListQueues),
        (refused(), Operation::ListTags),
        (Fault::HangBefore, Operation::ListQueues),
        (Fault::HangBefore, Operation::ListTags),
        (slow(), Operation::ListTags),
    ] {
        let world = tagged(true);
        let both = list(&[("big", 90), ("small", 10)]);
        assert_eq!(listed_after_a_run(&world).await, both);
        weigh(&world, "small", Some("30"));
        world.faults.add(Rule::new(fault).on(operation));
        let before = world.universe.now();
        assert_eq!(listed_after_a_run(&world).await, both, "{operation:?}");
        let run = world.schedule_reports.borrow_mut().remove(1);
        assert_eq!((run.ticks, run.ticks_late, run.ticks_failed), (70, 0, 0), "{run:?}");
        assert_eq!(run.campaigns, None);
        assert!(world.universe.now().saturating_since(before) <= MS(71_500), "{operation:?}");
        world.faults.clear();
        assert_eq!(listed_after_a_run(&world).await, list(&[("big", 90), ("small", 30)]));
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_operator_changes_meanwhile_stays() {
    let world = tagged(true);
    // Between the read of the record and its change.
    let slow = Fault::Slow(Latency::between(MS(2_000), MS(2_001)));
    world.faults.add(Rule::new(slow).on(Operation::ListTags));
    let pause = async {
        world.universe.sleep_until(world.universe.now() + MS(3_000)).await;
        let hold = Hold::new("by hand", EpochMillis::new(0));
        world.control(|control| assert!(control.hold(Some("big"), HoldReason::Paused, hold))).await;
    };
    futures_util::future::join(world.schedule(), pause).await;
    let control = world.ledger_now().await.control;
    assert!(control.holds_campaign("big"));
    assert_eq!(listed(&world).await, list(&[("big", 90), ("small", 10)]));
}
