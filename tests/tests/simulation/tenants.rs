//! SES's tenants: one that may not send holds its campaigns alone, and is lifted when SES says otherwise.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use tidegate_core::control::HoldReason;
use tidegate_core::counters::Counter;
use tidegate_core::limits::LimitKey;
use tidegate_core::tagged::{TENANT_TAG, WEIGHT_TAG};
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, Operation, Rule, SesArrival, failures};
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings, measure};

use crate::{MODES, MS};

const ACME: &str = "acme,identity/example.org";
const PAUSED: &str = "acme,paused,identity/example.org";

/// Two campaigns of the tenant `acme`, and one of the account's own.
fn agency(merge: bool) -> WorldSettings {
    WorldSettings::new(20.0, merge)
        .campaigns(&[("spring", 30), ("fall", 30), ("own", 40)])
        .tenant("spring", "acme")
        .tenant("fall", "acme")
}

fn world(settings: WorldSettings, tenants: &[&str]) -> World {
    let world = World::new(settings);
    set(&world, tenants);
    // A fault that changes nothing: its strikes are the questions about tenants.
    world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Tenant));
    world
}

fn set(world: &World, tenants: &[&str]) {
    world.ses.set_tenants(tenants.iter().map(|tenant| tenant.parse().unwrap()).collect());
}

fn questions(world: &World) -> usize {
    let strikes = world.faults.strikes();
    strikes.iter().filter(|strike| strike.operation == Operation::Tenant).count()
}

/// The campaigns that are held for their tenant; nothing else is held.
async fn held(world: &World) -> Vec<String> {
    let control = world.ledger_now().await.control;
    assert!(control.holds.is_empty(), "{:?}", control.holds);
    for holds in control.campaign_holds.values() {
        assert_eq!(holds.reasons().collect::<Vec<_>>(), ["tenant"]);
        assert_eq!(holds.get(HoldReason::Tenant).unwrap().tenant.as_deref(), Some("acme"));
    }
    control.campaign_holds.into_keys().collect()
}

fn of(arrivals: &[SesArrival], tenant: Option<&str>) -> Vec<SesArrival> {
    arrivals.iter().filter(|arrival| arrival.tenant.as_deref() == tenant).cloned().collect()
}

/// What holds after each run: nothing lost, sent twice or dead-lettered, and no second above the quota.
fn assert_kept(world: &World) {
    assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
    assert!(world.dead_letters().is_empty());
    assert!(measure::worst_second(&world.ses.arrivals()) <= 20);
}

#[tokio::test(start_paused = true)]
async fn a_paused_tenant_holds_its_campaigns_alone_until_ses_lets_it_send() {
    for merge in MODES {
        let world = world(agency(merge), &[ACME]);
        world.fill("spring", 500).await;
        world.fill("fall", 500).await;
        world.fill("own", 2_300).await;
        let first = world
            .play(260, async |first| {
                world.until(first, 20, MS(0)).await;
                assert_eq!((questions(&world), held(&world).await.len()), (0, 0));
                set(&world, &[PAUSED]);
                world.until(first, 23, MS(0)).await;
                assert_eq!(held(&world).await, ["fall", "spring"]);
                world.until(first, 120, MS(0)).await;
                assert_eq!(held(&world).await, ["fall", "spring"]);
                set(&world, &[ACME]);
                // By then the stack sleeps: nothing waits but the held campaigns' mail.
                world.until(first, 182, MS(0)).await;
                assert!(held(&world).await.is_empty());
            })
            .await;
        assert_kept(&world);
        assert_eq!(world.accepted().len(), 3_300, "merge {merge}");
        let arrivals = world.ses.arrivals();
        let acme = of(&arrivals, Some("acme"));
        assert_eq!(measure::sent(&acme, &measure::span(first, 20..120)), 0);
        // What was under way as the first refusal came, and no more, although it lasted 100 windows.
        assert!((1..=10).contains(&world.refused()), "merge {merge}: {}", world.refused());
        let used = measure::utilisation(&world, first, 24..118, 30);
        assert!(used >= 0.97, "merge {merge}: the others used {used:.4} of the quota");
        let own = of(&arrivals, None);
        assert!(own.iter().all(|arrival| arrival.verdict.is_ok() && arrival.campaign == "own"));
        // One question a minute while it was held: at windows 60, 120 and 180 or so.
        assert!((2..=3).contains(&questions(&world)), "merge {merge}: {}", questions(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_lacks_an_association_is_held_until_it_has_it_and_is_not_tried_before() {
    for merge in MODES {
        let world = world(agency(merge), &["acme"]);
        world.fill("spring", 100).await;
        world.fill("own", 100).await;
        world.run(150).await;
        assert_eq!(held(&world).await, ["fall", "spring"]);
        let control = world.ledger_now().await.control;
        let detail = &control.campaign_holds["spring"].get(HoldReason::Tenant).unwrap().detail;
        for part in ["tenant acme, ", "associate", "AccessDeniedException", "identity/example.org"]
        {
            assert!(detail.contains(part), "{part}: {detail}");
        }
        let refused = world.refused();
        assert!((1..=10).contains(&refused), "merge {merge}: {refused}");
        assert_eq!(world.accepted().len(), 100);
        set(&world, &[ACME]);
        world.run(130).await;
        assert_kept(&world);
        assert!(held(&world).await.is_empty());
        assert_eq!((world.accepted().len(), world.refused()), (200, refused), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_ses_does_not_know_is_held_until_it_is_created() {
    let world = world(agency(true), &[]);
    world.fill("spring", 60).await;
    world.fill("own", 60).await;
    world.run(100).await;
    assert_eq!((held(&world).await.len(), world.accepted().len()), (2, 60));
    set(&world, &[ACME]);
    world.run(130).await;
    assert_kept(&world);
    assert_eq!(world.accepted().len(), 120);
}

#[tokio::test(start_paused = true)]
async fn what_ses_tells_of_tenants_delays_no_tick_and_lifts_nothing_while_it_is_not_told() {
    for fault in [Fault::HangBefore, Fault::Before(FailureKind::TimedOut)] {
        let world = world(agency(true), &[PAUSED]);
        world.fill("spring", 60).await;
        world.run(30).await;
        set(&world, &[ACME]);
        world.faults.clear();
        world.faults.add(Rule::new(fault).on(Operation::Tenant));
        world.run(130).await;
        assert_eq!(held(&world).await.len(), 2);
        let runs = world.schedule_reports.borrow();
        assert!(runs.iter().all(|run| run.ticks_late == 0 && run.ticks_failed == 0), "{runs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_more_tenants_than_a_run_may_ask_for_the_next_run_asks_for_others() {
    let names: Vec<String> = (0..25).map(|n| format!("t{n:02}")).collect();
    let campaigns: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let settings = WorldSettings::new(20.0, true).campaigns(&campaigns);
    let settings = names.iter().fold(settings, |settings, name| settings.tenant(name, name));
    let paused = |name: &str| format!("{name},paused,identity/example.org");
    let all_paused: Vec<String> = names.iter().map(|name| paused(name)).collect();
    let world = world(settings, &all_paused.iter().map(String::as_str).collect::<Vec<_>>());
    for name in &names {
        world.fill(name, 2).await;
    }
    let mut but_the_last = all_paused.clone();
    for name in but_the_last.iter_mut().skip(20) {
        *name = name.replace(",paused", "");
    }
    world
        .play(260, async |first| {
            world.until(first, 50, MS(0)).await;
            assert_eq!(world.ledger_now().await.control.campaign_holds.len(), 25);
            set(&world, &but_the_last.iter().map(String::as_str).collect::<Vec<_>>());
            world.until(first, 250, MS(0)).await;
            let held = world.ledger_now().await.control.campaign_holds;
            assert_eq!(held.keys().map(String::as_str).collect::<Vec<_>>(), names[..20]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_denial_that_does_not_name_the_tenant_holds_its_campaign_alone() {
    let world = world(agency(true), &[ACME]);
    for campaign in ["spring", "fall", "own"] {
        world.fill(campaign, 60).await;
    }
    let denied = Rule::new(Fault::Before(failures::access_denied())).on(Operation::Mail);
    world.mail_faults.add(denied.at("spring/"));
    world.run(40).await;
    assert_kept(&world);
    let control = world.ledger_now().await.control;
    assert!(control.holds.is_empty());
    let holds: Vec<_> = control.campaign_holds.iter().collect();
    assert_eq!((holds.len(), holds[0].0.as_str()), (1, "spring"));
    assert!(holds[0].1.get(HoldReason::Refusals).is_some());
    assert_eq!(world.accepted().len(), 120);
}

#[tokio::test(start_paused = true)]
async fn a_paused_account_is_found_although_its_tenants_mail_is_refused_first() {
    let settings = WorldSettings { express: true, ..agency(true) };
    let world = world(settings, &[ACME]);
    world.fill("spring", 600).await;
    world.ses.configure(|settings| settings.sending_enabled = false);
    world.run(130).await;
    let control = world.ledger_now().await.control;
    assert!(control.holds.get(HoldReason::Account).is_some(), "{:?}", control.holds);
    assert!(world.accepted().is_empty());
    world.ses.configure(|settings| settings.sending_enabled = true);
    world.put(EXPRESS, &[ProducedMail::new("now")]).await;
    world.run(130).await;
    assert_kept(&world);
    assert!(held(&world).await.is_empty());
    assert_eq!(world.accepted().len(), 601);
}

#[tokio::test(start_paused = true)]
async fn the_campaigns_of_a_tenant_share_its_limit_and_another_campaign_is_not_touched() {
    for merge in MODES {
        let world = world(agency(merge), &[ACME]);
        let key: LimitKey = "tenant:acme".parse().unwrap();
        let limit = serde_json::from_str(r#"{"rate": "4/s"}"#).unwrap();
        world.control(|control| drop(control.limits.insert(key, limit))).await;
        world.fill("spring", 300).await;
        world.fill("fall", 300).await;
        world.fill("own", 2_000).await;
        let first = world.run(100).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let acme = of(&arrivals, Some("acme"));
        assert!(measure::worst_second(&acme) <= 5, "merge {merge}");
        let got = measure::sent(&acme, &measure::span(first, 20..95));
        assert!((200..=300).contains(&got), "merge {merge}: {got} of 300");
        for campaign in ["spring", "fall"] {
            assert!(acme.iter().any(|arrival| arrival.campaign == campaign), "{campaign}");
        }
        // More than its share of 8 a second: it takes what the limit leaves.
        let own = measure::sent(&of(&arrivals, None), &measure::span(first, 20..95));
        assert!(own >= 15 * 75, "merge {merge}: {own}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tag_names_the_tenant_and_another_tag_ends_the_hold_for_the_one_before() {
    let settings = WorldSettings::new(20.0, true)
        .campaigns(&[("campaign-spring", 1), ("campaign-own", 1)])
        .variable("TIDEGATE_CAMPAIGNS", "ledger")
        .variable("TIDEGATE_CAMPAIGN_QUEUES", "campaign-");
    let world = world(settings, &[ACME]);
    world.tag("campaign-own", WEIGHT_TAG, Some("1"));
    world.tag("campaign-spring", WEIGHT_TAG, Some("1"));
    world.tag("campaign-spring", TENANT_TAG, Some("acne"));
    world.fill("campaign-spring", 60).await;
    world.fill("campaign-own", 60).await;
    world.run(70).await;
    let control = world.ledger_now().await.control;
    assert!(control.campaign_holds["spring"].get(HoldReason::Tenant).is_some());
    assert!(control.campaigns.iter().all(|campaign| campaign.tenant.is_none()));
    world.tag("campaign-spring", TENANT_TAG, Some("acme"));
    world.run(130).await;
    assert_kept(&world);
    assert_eq!(world.accepted().len(), 120);
    let accepted = world.ses.accepted();
    assert_eq!((of(&accepted, Some("acme")).len(), of(&accepted, None).len()), (60, 60));
    assert!(held(&world).await.is_empty());
    let failed = |report: &tidegate_delivery::poll::WindowReport| {
        report.counts.by(Counter::Failed).get("tenant").copied().unwrap_or(0)
    };
    assert!(world.reports().iter().map(failed).sum::<u64>() > 0);
}
