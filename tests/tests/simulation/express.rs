//! Express mail beside a full bulk backlog: how long it takes, and what it costs the bulk.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{join_all, select};
use tidegate_core::counters::Counter;
use tidegate_core::{Timestamp, Window};
use tidegate_delivery::ports::{Entropy as _, FailureKind, Queues as _};
use tidegate_fakes::{Fault, Operation, Rule, SeededEntropy, SesArrival};
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings, measure};

use crate::operator_site::url;
use crate::{MODES, MS};

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
struct Case {
    quota: u32,
    merge: bool,
    /// Express mail a second, as a share of the quota.
    share: f64,
    /// The windows in which it comes.
    from: u64,
    to: u64,
    windows: u64,
    variable: Option<(&'static str, &'static str)>,
    /// Whether an event source of Lambda reads the express queue, too.
    event_source: bool,
}

impl Case {
    /// Express mail from the start to the end of as many windows as give a fair count of mails.
    fn new(quota: u32, merge: bool, share: f64) -> Self {
        let windows = match quota {
            0..100 => 150,
            100..500 => 40,
            _ => 20,
        };
        Self {
            quota,
            merge,
            share,
            from: 0,
            to: windows - 3,
            windows,
            variable: None,
            event_source: false,
        }
    }

    async fn run(self) -> Ran {
        let settings = WorldSettings {
            express: true,
            ..WorldSettings::new(f64::from(self.quota), self.merge)
        };
        let settings = match self.variable {
            Some((name, value)) => settings.variable(name, value),
            None => settings,
        };
        let world = World::new(settings);
        let backlog = usize::try_from(u64::from(self.quota) * (self.windows + 5)).unwrap();
        world.fill("big", backlog).await;
        world.fill("small", backlog / 5).await;
        let mut put = BTreeMap::new();
        let first = world
            .play(self.windows, async |first| {
                let producer = pin!(self.produce(&world, first, &mut put));
                if self.event_source {
                    select(producer, pin!(event_source(&world))).await;
                } else {
                    producer.await;
                }
            })
            .await;
        world.assert_clean();
        Ran { world, first, put, windows: self.windows }
    }

    /// Puts express mail at random: the gaps of a Poisson process. Notes when each mail was put.
    async fn produce(self, world: &World, first: Window, put: &mut BTreeMap<String, Timestamp>) {
        let rate = self.share * f64::from(self.quota);
        let (mut due, end) = (first.plus(self.from).opens(), first.plus(self.to).opens());
        let entropy = SeededEntropy::new(7);
        if rate <= 0.0 {
            return;
        }
        loop {
            let mut mails = Vec::new();
            while due < end && (mails.is_empty() || due <= world.universe.now()) {
                let mail = ProducedMail::new(format!("express-{}", put.len()));
                put.insert(mail.id.clone(), due);
                mails.push(mail);
                world.universe.sleep_until(due).await;
                due = due + Duration::from_secs_f64(-(1.0 - entropy.unit()).ln() / rate);
            }
            if mails.is_empty() {
                break;
            }
            world.put(EXPRESS, &mails).await;
        }
    }
}

/// An event source of Lambda: five long polls at a time
/// (<https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html>). Its function takes 30 ms and
/// shows the mail again untouched.
async fn event_source(world: &World) {
    let client = world.queues.client();
    let urls = world.queues.urls();
    let queue = urls.iter().find(|url| url.as_str().ends_with(EXPRESS)).unwrap();
    let polls = (0..5).map(async |_| {
        loop {
            let received = client.receive(queue, 10, MS(20_000)).await.unwrap();
            if !received.is_empty() {
                world.universe.sleep_until(world.universe.now() + MS(30)).await;
                let receipts: Vec<String> = received.into_iter().map(|mail| mail.receipt).collect();
                client.set_visibility(queue, &receipts, Duration::ZERO).await.unwrap();
            }
        }
    });
    join_all(polls).await;
}

/// A finished run.
struct Ran {
    world: World,
    first: Window,
    put: BTreeMap<String, Timestamp>,
    windows: u64,
}

impl Ran {
    /// Recipients that SES accepted in these windows: of campaigns, and of express mail.
    fn sent(&self, windows: Range<u64>) -> (u64, u64) {
        let span = measure::span(self.first, windows);
        let arrivals = self.world.ses.arrivals();
        let (express, bulk): (Vec<SesArrival>, _) =
            arrivals.into_iter().partition(|arrival| arrival.campaign == EXPRESS);
        (measure::sent(&bulk, &span), measure::sent(&express, &span))
    }

    /// Times that express mails took from their queue to SES, sorted.
    fn waits(&self) -> Vec<Duration> {
        let arrivals = self.world.ses.arrivals();
        let mut waits: Vec<Duration> = arrivals
            .iter()
            .filter_map(|a| Some(a.at.saturating_since(*self.put.get(&a.id)?)))
            .collect();
        waits.sort();
        waits
    }

    #[expect(clippy::cast_precision_loss, reason = "a few thousand calls")]
    /// Calls on the express queue to receive mail or to show it again, beyond one a mail, a second.
    fn polls_beside_mails(&self) -> f64 {
        let urls = self.world.queues.urls();
        let queue = urls.iter().find(|url| url.as_str().ends_with(EXPRESS)).unwrap();
        let of = |operation| self.world.queues.calls_of(queue, operation);
        let calls = of(Operation::Receive) + of(Operation::SetVisibility);
        let mails = self.put.len() as f64;
        (calls as f64 - mails) / self.windows as f64
    }

    /// Mails left to their visibility timeout in these windows.
    fn left(&self, windows: Range<u64>) -> u64 {
        let windows = self.first.plus(windows.start)..self.first.plus(windows.end);
        let reports = self.world.reports();
        reports.iter().filter(|r| windows.contains(&r.window)).map(|r| r.count(Counter::Left)).sum()
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// The longest time that 99 of 100 express mails take from their queue to SES.
fn target(quota: u32, share: f64) -> Duration {
    match quota {
        _ if share >= 0.5 => MS(400),
        0..100 => MS(250),
        100..1_000 => MS(150),
        _ => MS(120),
    }
}

/// At 5, 10 and 50 % of the quota: express mail is sent at once, with a call a mail and 1.5 a second; the
/// bulk loses the slots that express takes and no more, and next to none of it is received for slots that
/// it does not get.
#[expect(clippy::print_stdout, reason = "with --nocapture: the figures of docs/limits/express.md")]
async fn beside_a_full_backlog(
    quota: u32,
    merge: bool,
    variable: Option<(&'static str, &'static str)>,
) {
    let windows = 5..Case::new(quota, merge, 0.0).windows - 3;
    let count = windows.end - windows.start;
    let alone = Case { variable, ..Case::new(quota, merge, 0.0) }.run().await;
    let (before, _) = alone.sent(windows.clone());
    for share in [0.05, 0.1, 0.5] {
        let ran = Case { variable, ..Case::new(quota, merge, share) }.run().await;
        let (bulk, express) = ran.sent(windows.clone());
        let (waits, left) = (ran.waits(), ran.left(windows.clone()));
        let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(&waits, percent));
        let case = format!("{quota}/s, merge {merge}, {share}");
        println!(
            "{case}: express {express}, bulk {bulk} of {before} alone, {left} left in {count} windows, p50 {p50:?} p99 {p99:?} max {most:?}"
        );
        assert_eq!(waits.len(), ran.put.len(), "{case}: express mail not sent");
        let counted = ran.world.counted(Counter::ExpressWaits);
        assert_eq!(counted, waits.len() as u64, "{case}: waits of express mail alone are counted");
        let most_calls = ran.polls_beside_mails();
        println!("{case}: {most_calls:.2} calls a second beside one a mail");
        assert!(p99 <= target(quota, share), "{case}: p99 {p99:?}, most {most:?}");
        assert!(most < MS(1_200), "{case}: most {most:?}");
        assert!(most_calls <= 1.5, "{case}: {most_calls:.2} calls a second beside one a mail");
        // A slot at either edge of the span.
        assert!(
            bulk + express + 2 >= before * 999 / 1_000,
            "{case}: {bulk} and {express} of {before}"
        );
        // One in twenty slots' mail, at low quotas a mail a window: at 14/s one express mail in the last
        // moment displaces the one mail that is held for it.
        let most_left = count * u64::from(quota.div_ceil(20));
        assert!(left <= most_left, "{case}: {left} left in {count} windows");
    }
}

#[tokio::test(start_paused = true)]
async fn express_beside_a_full_backlog_at_14_a_second() {
    for merge in MODES {
        beside_a_full_backlog(14, merge, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn express_beside_a_full_backlog_at_200_a_second() {
    for merge in MODES {
        beside_a_full_backlog(200, merge, None).await;
    }
    beside_a_full_backlog(200, true, Some(("TIDEGATE_DEDUPLICATION", "resend"))).await;
}

#[tokio::test(start_paused = true)]
async fn express_beside_a_full_backlog_at_1000_a_second() {
    for merge in MODES {
        beside_a_full_backlog(1_000, merge, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sudden_flood_leaves_little_of_the_bulk_and_starves_nothing_as_it_ends() {
    for quota in [14, 200, 1_000] {
        for merge in MODES.into_iter().filter(|merge| *merge || quota < 1_000) {
            let case = Case { from: 10, to: 18, windows: 32, ..Case::new(quota, merge, 2.0) };
            let ran = case.run().await;
            let left = ran.left(8..30);
            println!("flood at {quota}/s, merge {merge}: {left} left");
            // A window and a half, and of each window of the flood one mail.
            let most = u64::from(quota) * 3 / 2 + 22;
            assert!(left <= most, "{quota}/s, merge {merge}: {left} left");
            for window in 8..30 {
                let report = ran.world.report_of(ran.first.plus(window)).unwrap();
                let lost = report.count(Counter::Unused) + report.count(Counter::Skipped);
                assert!(lost <= 1 + u64::from(quota) / 100, "{quota}/s, merge {merge}: {report:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_a_flood_the_floor_is_the_campaigns_to_the_slot_and_without_one_they_get_nothing() {
    for (quota, merge) in [(14, true), (14, false), (200, true), (200, false)] {
        for floor in [20, 0] {
            let variable = Some(("TIDEGATE_CAMPAIGN_FLOOR", if floor == 0 { "0%" } else { "20%" }));
            let case = Case { variable, windows: 20, to: 20, ..Case::new(quota, merge, 2.0) };
            let ran = case.run().await;
            for window in 4..18 {
                let report = ran.world.report_of(ran.first.plus(window)).unwrap();
                let express = report.counts.by(Counter::Sent).get(EXPRESS).copied().unwrap_or(0);
                let bulk = report.count(Counter::Sent) - express;
                let case = format!("{quota}/s, merge {merge}, floor {floor}, window {window}");
                assert!(bulk + express + 1 >= report.slots, "{case}: {report:?}");
                let off = (bulk * 100).abs_diff(report.slots * floor);
                assert!(off < 100, "{case}: {bulk} of {} slots", report.slots);
            }
        }
    }
}

/// Why Tidegate has none (decision 44): it takes mail away from the pollers.
#[tokio::test(start_paused = true)]
async fn an_event_source_on_the_express_queue_delays_mail_and_multiplies_calls() {
    for quota in [14, 200] {
        let case = Case::new(quota, true, 0.1);
        let [(p99, calls), (p99_beside, calls_beside)] =
            [case.run().await, Case { event_source: true, ..case }.run().await]
                .map(|ran| (percentile(&ran.waits(), 99), ran.polls_beside_mails()));
        println!(
            "{quota}/s: p99 {p99:?} and {p99_beside:?}, calls a second beside one a mail {calls:.2} and {calls_beside:.2}"
        );
        assert!(p99_beside > p99, "{quota}/s: {p99_beside:?}");
        assert!(calls_beside > 4.0 * calls.max(1.0), "{quota}/s: {calls_beside:.2}");
    }
}

/// It is received before anybody knows how much express mail there is.
#[tokio::test(start_paused = true)]
async fn mail_of_several_recipients_whose_slots_express_mail_took_stays_hidden() {
    let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, false) });
    world.put(EXPRESS, &ProducedMail::several("express", 200, 1)).await;
    world.put("big", &ProducedMail::several("big", 40, 2)).await;
    world.run(4).await;
    let (left, unused) = (world.counted(Counter::Left), world.counted(Counter::Unused));
    assert!(left > 0 && unused == 0, "{left} left, {unused} slots unused");
    let shown = world.queues.calls_of(&url("big"), Operation::SetVisibility);
    assert_eq!(shown, 0, "it is shown to a poller that has no slots for it either");
}

/// While express mail is expected, campaign mail is received in small parts.
#[tokio::test(start_paused = true)]
async fn from_an_express_queue_whose_receives_fail_no_mail_is_expected() {
    let world = World::new(WorldSettings { express: true, ..WorldSettings::new(14.0, false) });
    world.fill("big", 500).await;
    let calls = || world.queues.calls_of(&url("big"), Operation::Receive);
    world
        .play(34, async |first| {
            for n in 0..10 {
                world.until(first, n, MS(0)).await;
                let mails = ProducedMail::several(&format!("express-{n}"), 7, 1);
                world.put(EXPRESS, &mails).await;
            }
            world.until(first, 11, MS(500)).await;
            let broken = Rule::new(Fault::Before(FailureKind::Unreachable));
            world.faults.add(broken.on(Operation::Receive).at(EXPRESS));
            world.until(first, 13, MS(500)).await;
            let before = calls();
            world.until(first, 33, MS(500)).await;
            let receives = calls() - before;
            assert!(receives <= 50, "{receives} receives in 20 windows of 14 mails");
        })
        .await;
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_floor_costs_express_nothing_where_campaigns_have_no_mail() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..WorldSettings::new(50.0, merge) };
        let world = World::new(settings.variable("TIDEGATE_CAMPAIGN_FLOOR", "90%"));
        world.put(EXPRESS, &ProducedMail::several("express", 1_000, 1)).await;
        let first = world.run(26).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 1_000, "merge {merge}");
        let used = measure::utilisation(&world, first, 2..19, 10);
        assert!(used >= 0.97, "merge {merge}: {used:.4}");
    }
}
