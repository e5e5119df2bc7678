//! Other software sends from the same account: together they keep the quota, by the shared bucket.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::cell::RefCell;
use std::time::Duration;

use futures_util::future::{Either, select};
use std::pin::pin;
use tidegate_core::Timestamp;
use tidegate_core::bucket::Pace;
use tidegate_core::counters::Counter;
use tidegate_core::limits::{Limit, LimitRate};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Answer, Bucket as _, LimitTake, TakeRequest};
use tidegate_fakes::{MemoryBucket, SesArrival};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{World, WorldSettings, measure};
use tokio::time::sleep;

use crate::{MODES, MS};

const QUOTA: f64 = 14.0;
/// From a take to SES, as the pollers' mails need it in the middle.
const WAY: Duration = Duration::from_millis(40);

fn settings(merge: bool, lost: &str) -> WorldSettings {
    let settings = WorldSettings::new(QUOTA, merge);
    let settings = settings.variable("TIDEGATE_SHARED_BUCKET", "redis://bucket.example");
    settings.variable("TIDEGATE_SHARED_BUCKET_LOST", lost)
}

async fn world(settings: WorldSettings, mails: usize) -> World {
    let world = World::new(settings);
    world.bucket.set_latency(Duration::from_millis(2));
    world.fill("big", mails).await;
    world
}

/// Sends one mail every `every`, or as soon after that as the bucket lets it; for ever.
async fn other(
    bucket: MemoryBucket,
    every: Duration,
    domains: &[LimitTake],
    sent: &RefCell<Vec<SesArrival>>,
) {
    let pace = Pace { rate: Rate::per_second(QUOTA).unwrap(), rate_margin: RateMargin::default() };
    let request = TakeRequest { pace, wanted: 1, least: 1, limits: domains };
    loop {
        match bucket.take(&request).await.unwrap() {
            taken if taken.answer == Answer::Granted(1) => {
                let at = Timestamp::from_nanos(taken.at_micros * 1_000) + WAY;
                sent.borrow_mut().push(SesArrival {
                    at,
                    campaign: "other".to_owned(),
                    tenant: None,
                    id: String::new(),
                    recipients: 1,
                    addresses: Vec::new(),
                    configuration_set: None,
                    raw: None,
                    environment: 0,
                    verdict: Ok(String::new()),
                });
                sleep(every).await;
            }
            taken => match taken.answer {
                Answer::Refused { after, .. } => sleep(after).await,
                Answer::Granted(_) => {}
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn together_with_other_software_no_second_holds_more_than_the_quota() {
    // It wants less than there is; or as much as it can get, held to its share by a bucket of its own:
    // whoever asks again the moment the bucket is free would leave nothing to a pacer.
    let share = [LimitTake {
        name: "crm".to_owned(),
        rate: Rate::per_second(6.0).unwrap(),
        recipients: 1,
        is_of_recipient: false,
    }];
    let cases: [(Duration, &[LimitTake]); 2] = [(MS(200), &[]), (MS(1), &share)];
    for (merge, (every, domains)) in MODES.into_iter().flat_map(|m| cases.map(|case| (m, case))) {
        let world = world(settings(merge, "closed"), 500).await;
        let others = RefCell::default();
        let busy = pin!(other(world.bucket.clone(), every, domains, &others));
        let Either::Left((first, _)) = select(pin!(world.run(40)), busy).await else { continue };
        world.assert_clean();
        let mut all = world.ses.arrivals();
        all.extend(others.take());
        all.sort_by_key(|arrival| arrival.at);
        let worst = measure::worst_second(&all);
        assert!(worst <= 14, "{worst} in one second");
        let span = measure::span(first, 5..38);
        let (ours, both) =
            (measure::sent(&world.ses.arrivals(), &span), measure::sent(&all, &span));
        assert!(both >= 14 * 33 * 90 / 100, "{both} in 33 s: {ours} of them ours");
        assert!(ours >= 14 * 33 * 45 / 100, "{ours} of {both} in 33 s are ours");
        let refused: u64 =
            world.reports().iter().map(|report| report.count(Counter::BucketRefused)).sum();
        assert!(
            refused > 0
                && world.reports().iter().all(|report| report.count(Counter::BucketLost) == 0)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn alone_on_its_bucket_nothing_is_refused_and_the_quota_used() {
    for merge in MODES {
        let world = world(settings(merge, "closed"), 600).await;
        let first = world.run(36).await;
        world.assert_clean();
        assert!(measure::utilisation(&world, first, 4..36, 30) >= 0.975);
        let withheld = world
            .reports()
            .iter()
            .map(|r| r.count(Counter::BucketRefused) + r.count(Counter::BucketLost))
            .sum::<u64>();
        assert_eq!(withheld, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn closed_a_lost_bucket_stops_all_sending_until_it_is_back_and_nothing_is_lost() {
    for merge in MODES {
        let world = world(settings(merge, "closed"), 300).await;
        let outage = async {
            sleep(Duration::from_secs(8)).await;
            world.bucket.set_lost(true);
            sleep(Duration::from_secs(10)).await;
            world.bucket.set_lost(false);
            std::future::pending::<()>().await;
        };
        let began = world.universe.now();
        let Either::Left((_, _)) = select(pin!(world.run(50)), pin!(outage)).await else {
            continue;
        };
        world.assert_clean();
        let gone = began + Duration::from_secs(9)..began + Duration::from_secs(18);
        let sent = |span: &std::ops::Range<Timestamp>| measure::sent(&world.ses.arrivals(), span);
        assert_eq!(sent(&gone), 0);
        let after = began + Duration::from_secs(20)..began + Duration::from_secs(30);
        assert!(sent(&after) > 100, "{} in ten seconds", sent(&after));
        let lost: u64 =
            world.reports().iter().map(|report| report.count(Counter::BucketLost)).sum();
        assert!(lost >= 9, "each of the windows said so: {lost}");
        // Each window asks once or twice, not once a mail.
        assert!(world.bucket.asked() < 300 + 40 + 30, "{} takes", world.bucket.asked());
    }
}

#[tokio::test(start_paused = true)]
async fn open_a_lost_bucket_leaves_the_slots() {
    let world = world(settings(true, "open"), 600).await;
    world.bucket.set_lost(true);
    let first = world.run(36).await;
    world.assert_clean();
    let used = measure::utilisation(&world, first, 4..36, 30);
    // Once a window a mail waits for the time limit, which is past its slot.
    assert!(used >= 0.88, "{used}");
}

#[tokio::test(start_paused = true)]
async fn a_recipient_has_as_many_mails_as_the_limit_allows_and_all_others_have_theirs() {
    for merge in MODES {
        let world = world(settings(merge, "closed"), 60).await;
        let rate: LimitRate = "5/h".parse().unwrap();
        let key = "recipient:*".parse().unwrap();
        world.control(|control| drop(control.limits.insert(key, Some(Limit::from(rate))))).await;
        let of_loop = |n: u32| {
            let to = if n.is_multiple_of(2) {
                "loop@customer.example"
            } else {
                "Loop <LOOP@customer.example>"
            };
            let body = format!(
                r#"{{"id": "l{n}", "to": "{to}", "from": "a@sender.example", "subject": "S", "text": "T"}}"#
            );
            produced(body)
        };
        world.put_raw("small", &(0..40).map(of_loop).collect::<Vec<_>>()).await;
        let first = world.run(1_600).await;
        let of = |campaign: &str| {
            let arrivals = world.ses.arrivals().into_iter();
            let of = arrivals.filter(|arrival| arrival.campaign == campaign);
            let seconds = of.map(|of| of.at.saturating_since(first.opens()).as_secs());
            seconds.collect::<Vec<u64>>()
        };
        let (looped, others) = (of("small"), of("big"));
        assert!(others.len() == 60 && others.iter().all(|at| *at < 15), "{others:?}");
        assert!(looped[..5].iter().all(|at| *at < 15), "{looped:?}");
        assert!((6..=7).contains(&looped.len()) && looped[5] >= 726, "{looped:?}");
        assert!(looped.get(6).is_none_or(|at| *at >= 1_453), "{looped:?}");
        // Who has had enough is found out in a slot, by each poller with what it has at hand; further mail stays away
        // without one.
        let refused = world.counted(Counter::BucketRefused);
        assert!((1..=42).contains(&refused), "{refused} slots were spent in vain");
        world.assert_nothing_lost();
        assert_eq!((world.waiting().len(), world.refused()), (40 - looped.len(), 0));
    }
}
