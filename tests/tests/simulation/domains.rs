//! Limits by recipient domain: kept in every second, and others take the slots meanwhile.

use std::collections::BTreeMap;

use tidegate_core::Window;
use tidegate_core::limits::InitialLimits;
use tidegate_delivery::poll::limit_waiting;
use tidegate_delivery::ports::{Ledger as _, LedgerReport};
use tidegate_fakes::{Counting, Fault, Operation, Rule, failures};
use tidegate_operator::why::MailVerdict;
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{
    DEAD_LETTERS, EXPRESS, MERGE, ProducedMail, World, WorldSettings, limit_queue, measure,
};

use crate::MODES;
use crate::operator_site::why;

const LIMITS: &str = "TIDEGATE_LIMITS";

fn limited(quota: f64, merge: bool, limits: &str) -> WorldSettings {
    WorldSettings::new(quota, merge).variable(LIMITS, limits)
}

fn mails(prefix: &str, count: usize, domain: &str) -> Vec<ProducedMail> {
    ProducedMail::several(prefix, count, 1).into_iter().map(|mail| mail.to(domain)).collect()
}

/// The number of times that each mail was moved to another queue.
fn moves(world: &World) -> BTreeMap<String, usize> {
    let queues = [MERGE.to_owned(), limit_queue(0), limit_queue(1)];
    let mut moves = BTreeMap::new();
    for (_, id) in queues.iter().flat_map(|queue| world.taken(queue)) {
        *moves.entry(id).or_insert(0) += 1;
    }
    moves
}

/// The share of a limit that was used over the windows, with mail for it all the time.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn used(
    world: &World,
    domains: &[&str],
    limit: f64,
    first: Window,
    windows: std::ops::Range<u64>,
) -> f64 {
    let arrivals = measure::to_domains(&world.ses.arrivals(), domains);
    let seconds = windows.end - windows.start;
    let got = measure::sent(&arrivals, &measure::span(first, windows));
    got as f64 / (limit * seconds as f64)
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_sent_at_its_limit_and_others_take_the_slots() {
    for merge in MODES {
        let settings = limited(50.0, merge, "gmail.com+googlemail.com=10/s");
        let world = World::new(settings);
        // The provider's mail stands before all else in its campaign.
        world.put("big", &mails("g", 700, "gmail.com")).await;
        world.put("big", &mails("h", 300, "GoogleMail.com")).await;
        world.put("big", &mails("o", 2_000, "example.com")).await;
        let first = world.run(70).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let provider = measure::to_domains(&arrivals, &["gmail.com", "GoogleMail.com"]);
        let worst = measure::worst_second(&provider);
        assert!(worst <= 11, "merge {merge}: {worst} in one second");
        let got = used(&world, &["gmail.com", "GoogleMail.com"], 10.0, first, 10..65);
        assert!(got >= 0.95, "merge {merge}: {got:.3} of the limit");
        // 2,000 others at 39 a second beside it.
        let others = measure::to_domains(&arrivals, &["example.com"]);
        let last = others.last().unwrap().at.saturating_since(first.opens()).as_secs();
        assert!(others.len() == 2_000 && last <= 60, "merge {merge}: others ended after {last} s");
        // In merge mode what is fed before the limit is known to be full crosses two queues.
        let moves = moves(&world);
        let twice = moves.values().filter(|moves| **moves > 1).count();
        assert!(moves.values().all(|moves| *moves <= 2), "merge {merge}: {moves:?}");
        assert!(twice <= 40, "merge {merge}: {twice} moved twice");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_misses_its_last_moment_costs_its_limit_no_slot() {
    for merge in MODES {
        let world = World::new(limited(50.0, merge, "gmail.com=5/s"));
        world.put("big", &mails("g", 400, "gmail.com")).await;
        world.put("big", &mails("o", 2_500, "example.com")).await;
        let late = Rule::new(Fault::Before(failures::too_late())).on(Operation::Mail);
        world.mail_faults.add(late.at("big/g-").chance(0.5));
        let first = world.run(60).await;
        world.assert_clean();
        let provider = measure::to_domains(&world.ses.arrivals(), &["gmail.com"]);
        assert!(measure::worst_second(&provider) <= 6, "merge {merge}");
        let got = used(&world, &["gmail.com"], 5.0, first, 10..50);
        assert!(got >= 0.9, "merge {merge}: {got:.3} of the limit");
    }
}

/// No report tells that it came.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_no_mail_is_counted_as_gone_from_its_limits_queue() {
    for merge in MODES {
        let world = World::new(limited(20.0, merge, "gmail.com=5/s"));
        world.put_raw(&limit_queue(0), &[produced("{}")]).await;
        world.run(3).await;
        assert_eq!(world.contents(DEAD_LETTERS).len(), 1, "merge {merge}");
        let taken = world.ledger_now().await.counters.get("domain_taken.1").copied();
        assert_eq!(taken, Some(1), "merge {merge}");
    }
}

/// Its mail is delayed for minutes, so that receives that find nothing prove nothing: SQS counts it.
#[tokio::test(start_paused = true)]
async fn a_reported_depth_of_the_queue_of_other_domains_is_set_right_by_counting() {
    for merge in MODES {
        let world = World::new(limited(14.0, merge, "*=5/s"));
        let mut report = LedgerReport::default();
        report.counters.insert("domain_fed.1".into(), 50);
        world.ledger.report(&report).await.unwrap();
        let domains =
            (0..600).map(|n| ProducedMail::new(format!("m{n}")).to(&format!("d{n}.example")));
        world.put("big", &domains.collect::<Vec<_>>()).await;
        world.run(40).await;
        world.assert_clean();
        let sums = world.ledger_now().await.counters;
        assert_eq!(limit_waiting(&sums, 0), 0, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_under_one_a_second_is_kept_and_reached() {
    for merge in MODES {
        let world = World::new(limited(14.0, merge, "tiny.example=12/m"));
        world.put("big", &mails("t", 30, "tiny.example")).await;
        world.put("small", &mails("o", 1_000, "example.com")).await;
        let first = world.run(160).await;
        world.assert_clean();
        let provider = measure::to_domains(&world.ses.arrivals(), &["tiny.example"]);
        assert!(measure::worst_second(&provider) <= 2);
        let got = used(&world, &["tiny.example"], 0.2, first, 10..140);
        assert!((0.9..=1.05).contains(&got), "merge {merge}: {got:.3} of the limit");
        assert_eq!(measure::to_domains(&world.ses.arrivals(), &["example.com"]).len(), 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn every_other_domain_is_sent_its_share_at_most_and_nothing_spins() {
    for merge in MODES {
        let world = World::new(limited(40.0, merge, "*=25%"));
        world.put("big", &mails("a", 1_500, "a.example")).await;
        world.put("small", &mails("b", 300, "b.example")).await;
        for n in 0..600 {
            world.put("big", &mails(&format!("c{n}"), 1, &format!("c{n}.example"))).await;
        }
        let first = world.run(400).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for domain in ["a.example", "b.example"] {
            let worst = measure::worst_second(&measure::to_domains(&arrivals, &[domain]));
            assert!(worst <= 11, "merge {merge}: {worst} to {domain} in one second");
        }
        let got = used(&world, &["a.example"], 10.0, first, 10..60);
        assert!(got >= 0.85, "merge {merge}: {got:.3} of the limit");
        // 1,500 at 10 a second are 150 s; each look doubles: 15, 30, 60, 120, 240 s.
        let most = moves(&world).into_values().max().unwrap();
        assert!(most <= 7, "merge {merge}: moved {most} times");
        let sent = world.accepted().len();
        assert!(sent >= 2_390, "merge {merge}: {sent} of 2,400 after 400 s");
    }
}

#[tokio::test(start_paused = true)]
async fn weights_hold_while_a_provider_is_limited() {
    for merge in MODES {
        // The big campaign could fill its share with the provider's mail twice over.
        let world = World::new(limited(40.0, merge, "gmail.com=18/s"));
        world.put("big", &mails("g", 4_000, "gmail.com")).await;
        world.put("big", &mails("o", 6_000, "example.com")).await;
        world.put("small", &mails("s", 2_000, "example.com")).await;
        let first = world.run(200).await;
        world.assert_clean();
        let share = measure::share(&world.ses.arrivals(), "small", &measure::span(first, 30..190));
        assert!((0.08..=0.13).contains(&share), "merge {merge}: share {share:.3}");
        let all = measure::utilisation(&world, first, 10..190, 60);
        assert!(all >= 0.95, "merge {merge}: {all:.3} of the quota");
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_one_campaign_at_a_provider_does_not_hold_up_another_campaign() {
    for merge in MODES {
        let world = World::new(limited(20.0, merge, "gmail.com=10/s"));
        world.put("big", &mails("g", 3_000, "gmail.com")).await;
        let first = world.run(60).await;
        // By now all of it waits at the provider's queue.
        world.put("small", &mails("s", 600, "example.com")).await;
        world.run(120).await;
        world.assert_clean();
        let small = measure::to_domains(&world.ses.arrivals(), &["example.com"]);
        let got = measure::sent(&small, &measure::span(first, 66..110));
        assert!(got >= 44 * 9, "merge {merge}: {got} in 44 s");
        let got = used(&world, &["gmail.com"], 10.0, first, 10..60);
        assert!(got >= 0.95, "merge {merge}: {got:.3} of the limit");
        let answer = why(&world, Some("big"), "g-2999").await;
        let wait = answer.if_it_waits.unwrap();
        assert_eq!(wait.verdict, MailVerdict::Limit, "{}", wait.what);
        let said = "to gmail.com (10/s: the last goes in about";
        assert!(wait.what.contains(said), "{}", wait.what);
    }
}

#[tokio::test(start_paused = true)]
async fn express_mail_keeps_the_limits_too_and_one_domains_flood_keeps_out_no_other() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..limited(20.0, merge, "gmail.com=2/s") };
        let world = World::new(settings);
        world.put("big", &mails("o", 900, "example.com")).await;
        world.put(EXPRESS, &mails("g", 100, "gmail.com")).await;
        world
            .play(60, async |first| {
                for n in 0..40 {
                    world.until(first, n + 5, crate::MS(300)).await;
                    world.put(EXPRESS, &mails(&format!("x{n}"), 1, "example.org")).await;
                }
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let provider = measure::to_domains(&arrivals, &["gmail.com"]);
        assert!(measure::worst_second(&provider) <= 3);
        assert!(provider.len() >= 70, "merge {merge}: {} to the provider", provider.len());
        let others = measure::to_domains(&arrivals, &["example.org"]);
        assert_eq!(others.len(), 40, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn mails_to_several_providers_keep_each_limit() {
    for merge in MODES {
        let settings = limited(50.0, merge, "gmail.com=10/s, yahoo.com=5/s");
        let world = World::new(WorldSettings { counting: Counting::Bucket, ..settings });
        let three = |mail: ProducedMail| ProducedMail { recipients: 3, ..mail };
        world
            .put("big", &mails("g", 100, "gmail.com").into_iter().map(three).collect::<Vec<_>>())
            .await;
        world
            .put("small", &mails("y", 60, "yahoo.com").into_iter().map(three).collect::<Vec<_>>())
            .await;
        // Of the five slots a second a mail of three takes three: the others are no use to the next.
        world.run(120).await;
        world.assert_nothing_lost();
        let arrivals = world.ses.arrivals();
        for (domain, most) in [("gmail.com", 10 + 5), ("yahoo.com", 5 + 5)] {
            let provider = measure::to_domains(&arrivals, &[domain]);
            let worst = measure::worst_second(&provider);
            assert!(worst <= most, "merge {merge}: {worst} to {domain}");
        }
        assert_eq!(world.accepted().len(), 160, "merge {merge}");
        assert_eq!(world.duplicates(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_taken_away_leaves_no_mail_behind() {
    for merge in MODES {
        let world = World::new(limited(20.0, merge, "gmail.com=1/s"));
        world.put("big", &mails("g", 300, "gmail.com")).await;
        world.run(30).await;
        assert!(world.contents(&limit_queue(0)).len() > 100, "merge {merge}");
        let mut poller = world.settings.poller().unwrap();
        poller.limits.initial = InitialLimits::default();
        world.deploy(poller);
        world.run(60).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 300, "merge {merge}");
        assert_eq!(world.contents(DEAD_LETTERS).len(), 0);
    }
}

/// What 20 domains cost at 200 a second: the utilisation and the calls of SQS in 60 windows, with this limit for
/// each; none without limits.
async fn cost_of_20_domains(merge: bool, limit: Option<&str>) -> (f64, u64) {
    let limits: Vec<String> =
        (0..20).filter_map(|n| Some(format!("d{n}.example={}", limit?))).collect();
    let settings = WorldSettings::new(200.0, merge);
    let world = World::new(match limit {
        Some(_) => settings.variable(LIMITS, limits.join(", ")),
        None => settings,
    });
    let to = |campaign: &str, count: usize| -> Vec<ProducedMail> {
        let mails = ProducedMail::several(campaign, count, 1).into_iter().enumerate();
        mails.map(|(n, mail)| mail.to(&format!("d{}.example", n % 20))).collect()
    };
    world.put("big", &to("big", 12_600)).await;
    world.put("small", &to("small", 1_400)).await;
    let first = world.run(60).await;
    world.assert_clean();
    let (standard, fifo) = world.queues.calls_by_kind();
    (measure::utilisation(&world, first, 10..58, 20), standard + fifo)
}

#[tokio::test(start_paused = true)]
async fn limits_with_room_cost_few_calls_and_no_speed() {
    for merge in MODES {
        let (fast, free) = cost_of_20_domains(merge, None).await;
        // Three times the mail of each domain. All limits have one period: without phases of their own, 2 % of the
        // slots would be lost where windows meet.
        let (used, calls) = cost_of_20_domains(merge, Some("30/s")).await;
        assert!(
            used >= 0.975 && fast >= 0.975,
            "merge {merge}: {used:.3}, {fast:.3} without limits"
        );
        assert!(calls <= free * 108 / 100, "merge {merge}: {calls} calls of SQS, {free} without");
    }
}
