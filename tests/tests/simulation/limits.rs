//! Limits that operators set while the system runs: by campaign and sender, by the clock, and by day.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use tidegate_core::counters::Counter;
use tidegate_core::limits::{Limit, LimitKey};
use tidegate_core::{Timestamp, Window};
use tidegate_fakes::SesArrival;
use tidegate_tests::simulation::mail::MailVariation as _;
use tidegate_tests::simulation::{
    DEAD_LETTERS, MERGE, ProducedMail, World, WorldSettings, limit_queue, measure,
};

use crate::MODES;

async fn set(world: &World, key: &str, limit: &str) {
    let key: LimitKey = key.parse().unwrap();
    let limit: Option<Limit> = serde_json::from_str(limit).unwrap();
    if let Some(limit) = &limit {
        limit.check().unwrap();
    }
    world.control(|control| drop(control.limits.insert(key, limit))).await;
}

fn of(arrivals: &[SesArrival], campaign: &str) -> Vec<SesArrival> {
    arrivals.iter().filter(|arrival| arrival.campaign == campaign).cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn a_limited_campaign_keeps_its_limit_and_the_others_take_its_slots() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        set(&world, "big", r#"{"rate": "10/s"}"#).await;
        world.put("big", &ProducedMail::several("big", 2_000, 1)).await;
        world.put("small", &ProducedMail::several("small", 4_000, 1)).await;
        let first = world.run(70).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let big = of(&arrivals, "big");
        let worst = measure::worst_second(&big);
        assert!(worst <= 11, "merge {merge}: {worst} in one second");
        let got = measure::sent(&big, &measure::span(first, 10..65));
        assert!(got >= 520, "merge {merge}: {got} of 550");
        let all = measure::utilisation(&world, first, 10..65, 30);
        assert!(all >= 0.975, "merge {merge}: {all:.3} of the quota");
        let moved = world.taken(MERGE).len();
        assert_eq!(moved > 0, merge, "the other campaign's mail is fed");
        let moved_big = world
            .reports()
            .iter()
            .filter(|report| report.counts.by(Counter::Fed).contains_key("big"))
            .count();
        assert_eq!(moved_big, 0, "merge {merge}: mail of the limited campaign is fed");
    }
}

#[tokio::test(start_paused = true)]
async fn of_weight_and_limit_the_smaller_one_applies() {
    for merge in MODES {
        // By weight the small campaign has 5 a second, less than its limit; the big one 45, more than that.
        let world = World::new(WorldSettings::new(50.0, merge));
        set(&world, "small", r#"{"rate": "20/s"}"#).await;
        set(&world, "big", r#"{"rate": "30/s"}"#).await;
        world.put("big", &ProducedMail::several("big", 4_000, 1)).await;
        world.put("small", &ProducedMail::several("small", 2_000, 1)).await;
        let first = world.run(70).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        for (campaign, least, most) in [("big", 1_550, 1_655), ("small", 960, 1_110)] {
            let got = measure::sent(&of(&arrivals, campaign), &measure::span(first, 10..65));
            assert!((least..=most).contains(&got), "merge {merge}: {got} of {campaign}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_of_a_few_an_hour_uses_each_of_its_slots() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge));
        set(&world, "small", r#"{"rate": "180/h"}"#).await;
        world.put("small", &ProducedMail::several("small", 100, 1)).await;
        world.put("big", &ProducedMail::several("big", 8_000, 1)).await;
        let first = world.run(620).await;
        world.assert_clean();
        let small = of(&world.ses.arrivals(), "small");
        assert!(measure::worst_second(&small) <= 1, "merge {merge}");
        // A slot each 20.4 s: 29 in 600 s.
        let got = measure::sent(&small, &measure::span(first, 10..610));
        assert!((28..=30).contains(&got), "merge {merge}: {got}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_takes_effect_within_two_windows_and_keeps_the_bound_as_it_changes() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.put("big", &ProducedMail::several("big", 4_000, 1)).await;
        let first = world
            .play(60, async |first| {
                world.until(first, 20, Duration::ZERO).await;
                set(&world, "big", r#"{"rate": "8/s"}"#).await;
                world.until(first, 40, Duration::ZERO).await;
                set(&world, "big", "null").await;
            })
            .await;
        world.assert_clean();
        let big = of(&world.ses.arrivals(), "big");
        let limited: Vec<SesArrival> = big
            .iter()
            .filter(|arrival| {
                arrival.at >= first.plus(22).opens() && arrival.at < first.plus(40).opens()
            })
            .cloned()
            .collect();
        let worst = measure::worst_second(&limited);
        assert!((8..=9).contains(&worst), "merge {merge}: {worst} in one second");
        let after = measure::sent(&big, &measure::span(first, 45..60));
        assert!(after >= 14 * 49, "merge {merge}: {after} after the limit");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_outside_the_hours_and_mail_on_its_way_goes_back() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        world.put("big", &ProducedMail::several("big", 3_000, 1)).await;
        world.put("small", &ProducedMail::several("small", 3_000, 1)).await;
        let minute = |window: Window| window.epoch_second() / 60 % 1_440;
        let mut edges = None;
        world
            .play(300, async |first| {
                // Closed from the second whole minute of the run to the fourth.
                let (from, to) = (minute(first) + 2, minute(first) + 4);
                let hours = format!(
                    "00:00-{:02}:{:02}, {:02}:{:02}-24:00",
                    from / 60,
                    from % 60,
                    to / 60,
                    to % 60
                );
                set(&world, "big", &format!(r#"{{"hours": "{hours}"}}"#)).await;
                let at = |minute: u64| first.epoch_second() / 86_400 * 86_400 + minute * 60;
                edges =
                    Some([from, to].map(|minute| Window::from_epoch_second(at(minute)).opens()));
            })
            .await;
        world.assert_clean();
        let [closes, opens] = edges.unwrap();
        let arrivals = world.ses.arrivals();
        let started = |arrival: &SesArrival| arrival.at;
        let inside = |at: Timestamp| at >= closes + Duration::from_millis(200) && at < opens;
        let wrong: Vec<Timestamp> =
            of(&arrivals, "big").iter().map(started).filter(|at| inside(*at)).collect();
        assert_eq!(wrong, [], "merge {merge}: sent while closed");
        // The other campaign has all slots meanwhile, and the first goes on when its hours begin.
        let span = measure::span(Window::containing(closes), 5..115);
        let small = measure::sent(&of(&arrivals, "small"), &span);
        assert!(small >= 110 * 19, "merge {merge}: {small} of the other campaign");
        let after =
            measure::sent(&of(&arrivals, "big"), &measure::span(Window::containing(opens), 5..35));
        assert!(after >= 30 * 16, "merge {merge}: {after} after the hours began");
        assert_eq!(world.contents(DEAD_LETTERS).len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sender_keeps_its_limit_in_all_campaigns_and_no_other_mail_waits_for_it() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(40.0, merge));
        set(&world, "sender:slow.example", r#"{"rate": "6/s"}"#).await;
        let from = |mail: ProducedMail, sender: &str| mail.from(sender);
        let slow = |name: &str, count| -> Vec<ProducedMail> {
            let mails = ProducedMail::several(name, count, 1).into_iter();
            mails.map(|mail| from(mail, "news@slow.example")).collect()
        };
        world.put("big", &slow("a", 300)).await;
        world.put("big", &ProducedMail::several("o", 1_500, 1)).await;
        world.put("small", &slow("b", 300)).await;
        let first = world.run(90).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let slow: Vec<SesArrival> = arrivals
            .iter()
            .filter(|a| a.id.starts_with('a') || a.id.starts_with('b'))
            .cloned()
            .collect();
        let worst = measure::worst_second(&slow);
        assert!(worst <= 7, "merge {merge}: {worst} in one second");
        let got = measure::sent(&slow, &measure::span(first, 10..80));
        // Without a queue of its own, a limit under which mail waits is used to 70 % and more.
        assert!(got >= 290, "merge {merge}: {got} of 412");
        let others = arrivals.iter().filter(|arrival| arrival.id.starts_with('o'));
        let last = others.clone().map(|arrival| arrival.at).max().unwrap();
        assert_eq!(others.count(), 1_500, "merge {merge}");
        let took = last.saturating_since(first.opens()).as_secs();
        assert!(took <= 80, "merge {merge}: the others took {took} s");
    }
}

/// The limit comes while mail under it stands in the merge queue. Without one the mail is left where it is.
#[tokio::test(start_paused = true)]
async fn mail_over_its_senders_limit_goes_to_its_campaigns_queue_and_to_none_of_a_domains_limit() {
    for merge in MODES {
        let settings = WorldSettings::new(40.0, merge).variable("TIDEGATE_LIMITS", "*=50%");
        let world = World::new(settings);
        let mails =
            (0..600).map(|n| ProducedMail::new(format!("n{n}")).to(&format!("d{n}.example")));
        let mails: Vec<ProducedMail> = mails.map(|mail| mail.from("news@slow.example")).collect();
        world.put("big", &mails).await;
        let script = async |first| {
            world.until(first, 5, Duration::ZERO).await;
            set(&world, "sender:slow.example", r#"{"rate": "4/s"}"#).await;
        };
        world.play(30, script).await;
        world.assert_clean();
        let [again, left] = [Counter::LimitedAgain, Counter::Left].map(|of| world.counted(of));
        assert_eq!((again > 0, left > 0), (merge, !merge), "{again} put back, {left} left");
        assert_eq!(world.taken(&limit_queue(0)), [], "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_of_a_closed_campaign_keeps_no_stack_awake_and_goes_when_its_hours_begin() {
    for merge in MODES {
        let world =
            World::new(WorldSettings::new(14.0, merge).variable("TIDEGATE_IDLE_WAKE_SECONDS", 20));
        let begin = world.next_window().plus(1_200);
        set(&world, "big", &format!(r#"{{"not_before": "{begin}"}}"#)).await;
        world.put("big", &ProducedMail::several("big", 50, 1)).await;
        let first = world.run(1_300).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        assert_eq!(arrivals.len(), 50, "merge {merge}");
        assert!(
            arrivals.iter().all(|arrival| arrival.at >= begin.opens()),
            "merge {merge}: too early"
        );
        let last = arrivals.iter().map(|arrival| arrival.at).max().unwrap();
        let after = last.saturating_since(begin.opens());
        assert!(
            after <= Duration::from_secs(8),
            "merge {merge}: the last {after:?} after the begin"
        );
        let served = world.poller_runs().len();
        assert!(served <= 250, "merge {merge}: {served} pollers from {first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_up_sends_each_days_number_to_one_recipient() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(14.0, merge));
        let ramp = r#"{"ramp": {"from": "2026-11-20", "days": [30, 75]}, "hours": "20:40-20:50"}"#;
        set(&world, "big", ramp).await;
        world.put("big", &ProducedMail::several("big", 200, 1)).await;
        world.run(2 * 86_400 - 600).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let on = |day: u64| {
            let of = |arrival: &&SesArrival| arrival.at.as_millis() / 86_400_000 == day;
            arrivals.iter().filter(of).count()
        };
        let first = world.settings.epoch.as_millis() / 86_400_000;
        assert_eq!([on(first), on(first + 1)], [30, 75], "merge {merge}");
        let minute = |arrival: &SesArrival| arrival.at.as_millis() / 60_000 % 1_440;
        let hours = 20 * 60 + 40..20 * 60 + 50;
        assert!(arrivals.iter().all(|arrival| hours.contains(&minute(arrival))), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_over_a_limit_goes_through_another_configuration_set_without_waiting() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(40.0, merge));
        let limit = r#"{"rate": "6/s", "overflow": "pool-b"}"#;
        set(&world, "sender:new.example", limit).await;
        set(&world, "set:pool-b", r#"{"rate": "20/s", "queue": 5}"#).await;
        let mails = ProducedMail::several("n", 2_400, 1).into_iter();
        let mails: Vec<ProducedMail> = mails.map(|mail| mail.from("news@new.example")).collect();
        world.put("big", &mails).await;
        world.put("small", &ProducedMail::several("o", 2_400, 1)).await;
        let first = world.run(70).await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let through = |set: Option<&str>| -> Vec<SesArrival> {
            let new = arrivals.iter().filter(|arrival| arrival.id.starts_with('n'));
            new.filter(|arrival| arrival.configuration_set.as_deref() == set).cloned().collect()
        };
        let (own, rest) = (through(None), through(Some("pool-b")));
        assert!(measure::worst_second(&own) <= 7, "merge {merge}");
        let got = measure::sent(&own, &measure::span(first, 10..65));
        assert!((300..=330).contains(&got), "merge {merge}: {got} of 323");
        // The other set's own limit holds for what comes to it. It is not used up: only the drain knows what is over.
        assert!(measure::worst_second(&rest) <= 21, "merge {merge}");
        let got = measure::sent(&rest, &measure::span(first, 10..65));
        assert!(got >= 700, "merge {merge}: {got} of 1,078");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_day_sets_the_warm_up_back_and_says_why() {
    let settings = WorldSettings::new(20.0, true).variable("TIDEGATE_FEEDBACK", "count");
    let world = World::new(settings);
    let today = world.universe.now();
    let today = tidegate_core::limits::Zone::default().day_of(Window::containing(today));
    let limit = format!(r#"{{"ramp": {{"from": "{today}", "days": [500, 1000]}}}}"#);
    set(&world, "sender:new.example", &limit).await;
    world.put("small", &ProducedMail::several("o", 500, 1)).await;
    world
        .play(50, async |first| {
            world.until(first, 10, Duration::ZERO).await;
            let notice = r#"{"kind": "bounce", "campaign": ["small"], "id": "ID",
                "tags": {"tidegate_campaign": ["small"], "tidegate_limit": ["sender_new_example"]}}"#;
            let of = |number: u32| notice.replace("ID", &number.to_string());
            let notices: Vec<_> =
                (0..30).map(of).map(tidegate_tests::simulation::mail::produced).collect();
            world.put_raw(tidegate_tests::simulation::FEEDBACK, &notices).await;
        })
        .await;
    let limits = world.ledger_now().await.control.limits;
    let limit = limits.values().flatten().next().unwrap();
    let shown = limit.to_string();
    assert!(shown.contains(&format!("set back by 1 since {today}: ")), "{shown}");
    assert!(shown.ends_with(" % bounces (5 % are allowed)"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_campaign_at_its_end_is_deferred_and_returns_when_the_limit_goes() {
    for merge in MODES {
        let settings = WorldSettings::new(20.0, merge)
            .variable("TIDEGATE_BACK_PRESSURE_BUSY", "depth=10m")
            .variable("TIDEGATE_BACK_PRESSURE_OVERLOADED", "depth=20m")
            .variable("TIDEGATE_STORE", "s3://tides/store")
            .variable("TIDEGATE_DEFERRAL", "on");
        let world = World::new(settings);
        let end = world.next_window().plus(10).opens();
        set(&world, "big", &format!(r#"{{"until": "{end}", "defers": true}}"#)).await;
        world.put("big", &ProducedMail::several("big", 900, 1)).await;
        world.put("small", &ProducedMail::several("small", 900, 1)).await;
        let first = world.run(60).await;
        // The last mail may still be under way to SES.
        let latest = end + Duration::from_millis(200);
        let late = of(&world.ses.arrivals(), "big").iter().filter(|a| a.at >= latest).count();
        assert_eq!(late, 0, "merge {merge}: sent after the end");
        // The others have all slots from then on.
        let small =
            measure::sent(&of(&world.ses.arrivals(), "small"), &measure::span(first, 20..40));
        assert!(small >= 20 * 19, "merge {merge}: {small} of 400");
        world.run(120).await;
        let (sent, deferred) = (of(&world.ses.arrivals(), "big").len(), world.deferred().len());
        assert_eq!(sent + deferred, 900, "merge {merge}: {sent} sent, {deferred} deferred");
        // Nothing returns while the limit stands, however long the stack has nothing to do.
        world.run(15 * 60).await;
        assert_eq!(of(&world.ses.arrivals(), "big").len(), sent, "merge {merge}");
        set(&world, "big", "null").await;
        world.run(20 * 60).await;
        world.assert_clean();
        assert_eq!(of(&world.ses.arrivals(), "big").len(), 900, "merge {merge}");
    }
}

/// The feed leaves mail to the next window in which the account has a slot, not to the very next one: no window
/// follows another here. Without a queue of its own the limit is not used up in merge mode; it was not used at all.
#[tokio::test(start_paused = true)]
async fn an_account_that_sends_every_third_second_sends_mail_under_a_limit() {
    for (merge, least) in [(true, 60), (false, 120)] {
        let world = World::new(WorldSettings::new(0.35, merge));
        set(&world, "sender:example.org", r#"{"rate": "60%"}"#).await;
        world.put("big", &ProducedMail::several("big", 250, 1)).await;
        let first = world.run(1_000).await;
        world.assert_clean();
        let sent = measure::sent(&world.ses.arrivals(), &measure::span(first, 0..1_000));
        // 1,000 s of 0.6 × 0.35 a second, less the rate margin, are 206.
        assert!((least..=207).contains(&sent), "merge {merge}: {sent}");
    }
}
