//! An SES that fails, keeps its answers to itself, or takes less than it said.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_devstack::{SandboxStats, Setup};
use tokio::time::{Instant, sleep};

use crate::site::{RATE, Site, now, plan};

/// The shortest delay before a first retry.
const LEAST_DELAY: Duration = Duration::from_secs(30);
/// Longest time that a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);
/// The whole quota, as the rate factor has it.
const FULL: u64 = 1_000_000;

/// Waits until the sandbox has injected so many faults of a kind.
async fn wait_for_faults(site: &Site, kind: &str, count: u64) {
    let until = Instant::now() + PATIENCE;
    while faults(&site.stats().await, kind) < count {
        assert!(Instant::now() < until, "{:?}", site.stats().await);
        sleep(Duration::from_millis(100)).await;
    }
}

fn faults(stats: &SandboxStats, kind: &str) -> u64 {
    stats.faults.get(kind).copied().unwrap_or_default()
}

/// The mails that these events are of, by identity.
fn identities<'a>(events: impl IntoIterator<Item = &'a Value>) -> BTreeSet<&'a str> {
    events.into_iter().map(|event| event["identity"].as_str().unwrap()).collect()
}

/// The logs tell what SES surely did not take and what it may have taken; a mail that failed carries
/// its attempts.
fn assert_told(site: &Site, unanswered: &BTreeSet<&str>) {
    let (not_sent, sent) = (site.events("not sent"), site.events("sent"));
    let (maybe, surely): (Vec<&Value>, Vec<&Value>) =
        not_sent.iter().partition(|event| event["possibly_sent"] == true);
    assert!(!maybe.is_empty() && !surely.is_empty(), "{not_sent:?}");
    assert!(maybe.iter().all(|event| event["outcome"] == "ambiguous"), "{maybe:?}");
    assert!(surely.iter().all(|event| event["http_status"] == 500), "{surely:?}");
    let not_among: Vec<_> = identities(maybe).difference(unanswered).copied().collect();
    assert!(not_among.is_empty(), "not taken, but told as possibly sent: {not_among:?}");
    let failed = identities(&not_sent);
    let attempts = sent
        .iter()
        .filter(|event| failed.contains(event["identity"].as_str().unwrap()))
        .map(|event| event["attempt"].as_u64().unwrap());
    let attempts: Vec<u64> = attempts.collect();
    assert!(!attempts.is_empty() && attempts.iter().all(|attempt| *attempt > 1), "{attempts:?}");
}

/// With a schedule, and a log line for each mail that was sent.
fn logged(setup: &mut Setup) {
    setup.schedule = true;
    setup.parameters.push(("LogLevel".to_owned(), "info,tidegate=debug".to_owned()));
}

#[tokio::test]
async fn failed_sends_are_retried_later_and_only_unanswered_mail_arrives_twice() {
    let plan = plan(225, 25);
    let mut site = Site::strict(logged).await;
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(20, 40).await;
    let failing_since = now();
    site.change(json!({ "faults": ["InternalFailure,status=500,ratio=0.3"] })).await;
    wait_for_faults(&site, "error", 20).await;
    // SES takes the mail; then the connection is closed, at once or after the send's time-out.
    let lost = ["lost-answer,ratio=0.2", "lost-answer,ratio=0.2,after=8s"];
    site.change(json!({ "faults": lost })).await;
    wait_for_faults(&site, "lost-answer", 20).await;
    site.change(json!({ "faults": [] })).await;
    site.complete(&plan, 140).await;

    let stats = site.stats().await;
    let copies = site.copies().await;
    assert_eq!(copies.len() as u64, plan.mails());
    let doubled = copies.iter().filter(|(_, mail)| mail.arrived_ns.len() > 1);
    let doubled: BTreeSet<&str> = doubled.map(|(identity, _)| identity.as_str()).collect();
    let unanswered = copies.iter().filter(|(_, mail)| mail.unanswered > 0);
    let unanswered: BTreeSet<&str> = unanswered.map(|(identity, _)| identity.as_str()).collect();
    assert_eq!(doubled, unanswered);
    assert!(copies.values().all(|mail| mail.arrived_ns.len() == mail.unanswered + 1), "{copies:?}");

    assert_told(&site, &unanswered);
    let due = (failing_since + LEAST_DELAY).as_nanos();
    let not_sent = site.events("not sent");
    let soonest = identities(&not_sent).union(&unanswered).map(|id| copies[*id].last_ns()).min();
    assert!(soonest.is_some_and(|at| at >= due), "a retry at {soonest:?}, none due before {due}");
    let (_, counters) = site.ledger().await;
    let failures = faults(&stats, "error") + faults(&stats, "lost-answer");
    assert_eq!(counters["retried"].unsigned_abs(), failures, "{counters:?}");
    let refused: Vec<_> = stats.refused.keys().collect();
    assert_eq!(refused, ["InternalFailure"], "nothing was to exceed the quota");
}

/// Waits until the rate factor is as wanted; what it is then.
async fn factor(site: &Site, mut wanted: impl FnMut(u64) -> bool) -> u64 {
    let until = Instant::now() + PATIENCE;
    loop {
        let (factor, counters) = site.ledger().await;
        if wanted(factor) {
            return factor;
        }
        assert!(Instant::now() < until, "the factor is {factor}: {counters:?}");
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_quota_halved_in_mid_campaign_slows_sending_and_costs_no_mail_an_attempt() {
    let plan = plan(180, 20);
    let mut site = Site::strict(logged).await;
    site.fill(&plan).await;
    site.fire().await;
    site.wait_for(20, 40).await;
    // The ticks of this minute go on telling the quota that the scheduler read.
    site.change(json!({ "quota": RATE / 2.0 })).await;
    // Lowered twice: the second time needs refusals five windows after the first.
    let lowered = factor(&site, |factor| factor < FULL * 7 / 10).await;
    site.change(json!({ "quota": RATE })).await;
    // A poller that was refused before may lower it once more.
    let mut lowest = lowered;
    let raised = factor(&site, |factor| {
        lowest = lowest.min(factor);
        factor > lowest
    });
    println!("lowered to {lowered}, raised to {}", raised.await);
    site.complete(&plan, 100).await;

    let figures = site.figures(&plan);
    assert_eq!((figures.missing, figures.duplicates, figures.foreign), (0, 0, 0));
    let (stats, (_, counters)) = (site.stats().await, site.ledger().await);
    let refused = stats.refused.get("TooManyRequestsException").copied().unwrap_or_default();
    assert!(refused > 0 && stats.refused.len() == 1, "{stats:?}");
    assert_eq!(counters["refused"].unsigned_abs(), refused, "{counters:?}");
    let never = ["retried", "dead"].map(|name| counters.get(name).copied());
    assert_eq!(never, [None; 2], "{counters:?}");
    let sent = site.events("sent");
    assert!(!sent.is_empty() && sent.iter().all(|event| event["attempt"] == 1), "{sent:?}");
}
