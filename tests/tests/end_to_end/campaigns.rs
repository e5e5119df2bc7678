//! Campaigns on their way: quota, shares, fallback, nothing lost, nothing twice.

use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::rate::Rate;
use tidegate_core::tick::Tick;
use tidegate_delivery::ports::QueueDepth;
use tidegate_devstack::{LocalPlan, Mode, RunFigures, RunPhase};

use crate::forecast::assert_forecast;
use crate::site::{Answer, DEAD_LETTERS, EXPRESS, QUOTA, RATE, RATE_MARGIN, Site, mail, now, plan};

/// Asserts that nothing was lost, sent twice or refused. `others` is the number of arrivals that
/// are not of the plan.
async fn kept(site: &mut Site, plan: &LocalPlan, others: u64) -> RunFigures {
    site.wait_until_empty(40).await;
    assert_eq!(site.depth(DEAD_LETTERS).await, QueueDepth::default());
    let (figures, stats) = (site.figures(plan), site.stats().await);
    println!("{:?}\n{:?}\n{stats:?}", figures.phases, figures.series);
    assert_eq!((figures.missing, figures.duplicates, figures.foreign), (0, 0, others));
    assert!(stats.refused.is_empty(), "{stats:?}");
    figures
}

/// No half-open second above the quota, counted at arrival: it is a whole number, and every mail has
/// one recipient.
async fn assert_within_quota(site: &Site, figures: &RunFigures) {
    let stats = site.stats().await;
    assert!(figures.worst_second <= QUOTA, "{} in a second", figures.worst_second);
    assert!(stats.worst_sliding_second_offered <= QUOTA, "{stats:?}");
}

/// A phase of five windows or more used at least so much of the quota.
fn assert_used(phase: &RunPhase, least: f64) {
    assert!(phase.windows >= 5, "{phase:?}");
    assert!(phase.utilisation.is_some_and(|used| used >= least), "below {least}: {phase:?}");
}

fn assert_weighted(figures: &RunFigures) {
    let small = figures.phases.all_waiting.shares["small"];
    assert!((small.share - small.wanted).abs() <= 0.02, "{small:?}");
}

#[tokio::test]
async fn two_campaigns_leave_at_the_quota_by_weight_and_nothing_is_lost() {
    let plan = plan(394, 26);
    let mut site = Site::measured(|_| {}).await;
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(420, 60).await;
    let figures = kept(&mut site, &plan, 0).await;

    assert_within_quota(&site, &figures).await;
    assert_used(&figures.phases.backlogged, 0.97 / (1.0 + RATE_MARGIN));
    assert_weighted(&figures);
    assert_used(&figures.phases.after_first_end, 0.95 / (1.0 + RATE_MARGIN));
    assert!(figures.ended_after_seconds["small"] < figures.ended_after_seconds["big"]);
    assert_forecast(&plan, &figures);

    // The last window's poller reports when it has settled.
    let counters = site.counters_with("mails", 420).await;
    let calls = counters["sqs_calls"];
    assert!((1..=630).contains(&calls), "{calls} SQS calls for 420 mails");
    assert_eq!((counters["sent.big"], counters["sent.small"]), (394, 26));
}

/// The next window's tick, given twice at once: how each ended.
async fn doubled_tick(site: &Site) -> [String; 2] {
    let tick =
        Tick { window: Window::containing(now()).plus(1), quota: Rate::per_second(RATE).unwrap() };
    let tick = serde_json::to_string(&tick).unwrap();
    let answers = <[Answer; 2]>::from(tokio::join!(site.poll(&tick), site.poll(&tick)));
    answers.map(|answer| {
        assert!(!answer.failed, "{answer:?}");
        answer.payload["end"].as_str().unwrap().to_owned()
    })
}

#[tokio::test]
async fn a_doubled_and_an_overlapping_scheduler_are_harmless() {
    let plan = plan(225, 25);
    let mut site = Site::measured(|_| {}).await;
    site.fill(&plan).await;
    tokio::join!(site.fire(), site.fire());
    // Some 10 s later a third; all three issue the ticks of the seconds that follow.
    site.wait_for(140, 40).await;
    site.fire().await;
    site.wait_for(160, 20).await;
    let ends = doubled_tick(&site).await;
    assert!(ends.contains(&"duplicate".to_owned()), "{ends:?}");
    assert!(ends.iter().all(|end| end == "duplicate" || end == "served"), "{ends:?}");
    site.wait_for(250, 60).await;
    let figures = kept(&mut site, &plan, 0).await;
    assert_within_quota(&site, &figures).await;
    assert_used(&figures.phases.backlogged, 0.95 / (1.0 + RATE_MARGIN));

    // Each window was served once, although up to five pollers were sent into it.
    let counters = site.counters_with("mails", 250).await;
    let seconds = Window::containing(now()).epoch_second() + 1 - figures.series.start;
    assert!(counters["windows"].unsigned_abs() <= seconds, "{counters:?} in {seconds} s");
}

#[tokio::test]
async fn direct_mode_keeps_quota_and_shares_and_express_mail_goes_first() {
    let plan = plan(260, 20);
    let mut site = Site::measured(|setup| setup.settings.mode = Mode::Direct).await;
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(100, 30).await;
    let express = ["ada", "grace", "alan"].map(|name| mail(&format!("{name}@example.com")));
    let put_at = now();
    site.put(EXPRESS, &express).await;
    site.wait_for(283, 60).await;

    let arrived = |campaign: &str| {
        let of_it = site.arrivals().iter().filter(|arrival| arrival.campaign == campaign);
        of_it.map(|arrival| arrival.at_ns).collect::<Vec<_>>()
    };
    let (urgent, bulk) = (arrived("express"), arrived("big"));
    assert_eq!(urgent.len(), 3);
    let last = urgent.iter().max().unwrap();
    let waited = Duration::from_nanos(last - put_at.as_nanos());
    assert!(waited <= Duration::from_millis(2_500), "{waited:?}");
    let behind = bulk.iter().filter(|at| *at > last).count();
    assert!(behind >= 28, "bulk mail was to wait: {behind}");

    let figures = kept(&mut site, &plan, 3).await;
    assert_within_quota(&site, &figures).await;
    assert_used(&figures.phases.backlogged, 0.95 / (1.0 + RATE_MARGIN));
    assert_weighted(&figures);
    let counters = site.counters_with("mails", 283).await;
    let calls = counters["sqs_calls"];
    assert!((1..=425).contains(&calls), "{calls} SQS calls for 283 mails");
}
