//! Outcomes of sends: retries, dead letters and holds.

use std::collections::BTreeSet;

use tidegate_core::Window;
use tidegate_core::breaker::{Breaker, BreakerPolicy, Outcomes};
use tidegate_core::control::{HoldReason, Holds};
use tidegate_core::counters::Counter;
use tidegate_core::factor::RateFactor;
use tidegate_delivery::poll::{End, PollError, WindowReport};
use tidegate_delivery::ports::{FailureKind, Ledger as _};
use tidegate_fakes::{Counting, Fault, Latency, MessageState, Operation, Rule, failures};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{
    EXPRESS, PollerEnd, ProducedMail, World, WorldSettings, measure, rate,
};

use crate::{MODES, MS};

fn one(merge: bool) -> WorldSettings {
    WorldSettings::new(14.0, merge).campaigns(&[("news", 1)])
}

#[tokio::test(start_paused = true)]
async fn with_the_ledger_out_of_reach_nothing_is_received_or_sent() {
    for fault in [Fault::Before(FailureKind::Unreachable), Fault::After(FailureKind::TimedOut)] {
        let world = World::new(one(true));
        world.fill("news", 100).await;
        world.faults.add(Rule::new(fault).on(Operation::Claim));
        // A fault that changes nothing: its strikes are the receives.
        world.faults.add(Rule::new(Fault::Slow(Latency::NONE)).on(Operation::Receive));
        world.run(5).await;
        assert_eq!(world.poller_runs().len(), 5);
        for start in world.poller_runs().iter() {
            let failed = matches!(start.end, PollerEnd::Failed(PollError::Ledger { .. }));
            assert!(failed, "{:?}", start.end);
        }
        let strikes = world.faults.strikes();
        assert!(strikes.iter().all(|strike| strike.operation == Operation::Claim));
        assert!(world.ses.arrivals().is_empty());
        world.faults.clear();
        world.run(10).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 100);
    }
}

#[tokio::test(start_paused = true)]
async fn where_ses_gives_half_the_quota_the_rate_falls_and_recovers_and_nothing_is_lost() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(40.0, merge) };
        let world = World::new(WorldSettings { real_quota: Some(20.0), ..settings });
        world.tick_rate.set(Some(rate(40.0)));
        world.fill("big", 8_000).await;
        let mut lowest = 1_000_000;
        let first = world
            .play(200, async |first| {
                for number in 1..60 {
                    world.until(first, number, MS(0)).await;
                    lowest = lowest.min(world.ledger_now().await.factor.millionths());
                }
                world.ses.configure(|settings| settings.max_send_rate = rate(40.0));
            })
            .await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert!(world.dead_letters().is_empty());
        assert!(lowest <= 512_000, "merge {merge}: the factor fell to {lowest} only");
        let arrivals = world.ses.arrivals();
        let before = measure::sent(&arrivals, &measure::span(first, 20..60));
        assert!(before >= 40 * 15, "merge {merge}: {before} in 40 windows at 20/s");
        // Of each window at most what was in flight as the first was refused.
        let refused = world.refused();
        assert!((1..300).contains(&refused), "merge {merge}: {refused} refused");
        assert_eq!(world.ledger_now().await.factor.millionths(), 1_000_000);
        let after = measure::utilisation(&world, first, 130..200, 30);
        // The margin is 0.04 for a day.
        assert!(after >= 0.96, "merge {merge}: {after:.4} after it recovered");
        for queue in ["big", "merge.fifo"] {
            let attempts = world
                .contents(queue)
                .iter()
                .filter_map(|m| m.attributes.get("attempt").cloned())
                .collect::<Vec<_>>();
            assert!(attempts.iter().all(|attempt| attempt == "0"), "a refusal is an attempt");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_that_is_refused_starts_no_more() {
    let world = World::new(one(true));
    world.fill("news", 100).await;
    let refused = Rule::new(Fault::Before(failures::rate_exceeded())).on(Operation::Mail).nth(20);
    world.mail_faults.add(refused);
    let first = world.run(75).await;
    assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
    let report = world.report_of(first.plus(1)).unwrap();
    assert_eq!((report.count(Counter::Refused), report.end), (1, End::Served));
    // The mail before it and those in flight, no other: 80 ms are two slots.
    assert!(report.count(Counter::Mails) <= 8, "{report:?}");
    assert_eq!(world.accepted().len(), 100);
    assert!(world.reports().iter().map(|report| report.count(Counter::Retried)).sum::<u64>() == 0);
}

#[tokio::test(start_paused = true)]
async fn neither_a_window_that_is_refused_nor_one_without_mail_raises_the_rate() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 60).await;
        world
            .play(3, async |first| {
                for number in [1, 2] {
                    let span = first.plus(number).opens()..first.plus(number + 1).opens();
                    let refused = Rule::new(Fault::Before(failures::rate_exceeded()));
                    world.mail_faults.add(refused.on(Operation::Mail).during(span).nth(3));
                }
            })
            .await;
        assert_eq!(world.mail_faults.strikes().len(), 2, "merge {merge}");
        let factor = world.ledger_now().await.factor;
        assert_eq!(Some(factor.millionths()), lowered().map(RateFactor::millionths));
        let idle = World::new(one(merge));
        let lowered = lowered().unwrap();
        assert!(idle.ledger.set_factor(RateFactor::default(), lowered).await.unwrap());
        idle.run(20).await;
        assert_eq!(idle.ledger_now().await.factor, lowered, "merge {merge}");
    }
}

/// The rate factor after one refusal.
fn lowered() -> Option<RateFactor> {
    RateFactor::default().refused(Window::from_epoch_second(1))
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_later_and_dead_lettered_when_its_attempts_are_spent() {
    for merge in MODES {
        let world = World::new(one(merge).variable("TIDEGATE_MAX_ATTEMPTS", 3));
        world.fill("news", 20).await;
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken.at("news/news-7"));
        world
            .play(240, async |first| {
                world.until(first, 8, MS(0)).await;
                let standing = world.contents("news");
                assert_eq!(standing.len(), 1, "merge {merge}: {standing:?}");
                let waiting = &standing[0];
                assert_eq!(
                    (&*waiting.attributes["attempt"], &*waiting.attributes["pass"]),
                    ("1", "1")
                );
                let MessageState::Delayed(until) = waiting.place else {
                    panic!("{:?}", waiting.place)
                };
                let wait = until.saturating_since(first.opens());
                assert!(wait >= MS(30_000) && wait <= MS(63_000), "{wait:?}");
            })
            .await;
        assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
        assert_eq!(world.accepted().len(), 19);
        let dead = world.dead_letters();
        assert_eq!(dead.len(), 1);
        let entry = &dead[0];
        assert_eq!((entry.campaign.as_str(), entry.attempts), ("news", 3));
        assert_eq!(entry.to, ["news-7.0@example.com"]);
        assert_eq!(entry.last_error.code.as_deref(), Some("InternalFailure"));
        assert_eq!(entry.last_error.http_status, Some(500));
        assert_eq!(entry.message, ProducedMail::new("news-7").body());
        assert!(entry.first_attempt_at.unwrap() < entry.last_attempt_at.unwrap());
        let reports = world.reports();
        assert_eq!(
            reports
                .iter()
                .map(|r| (r.count(Counter::Retried), r.count(Counter::Dead)))
                .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1)),
            (2, 1)
        );
        assert_eq!(
            reports
                .iter()
                .filter_map(|r| r.counts.by(Counter::Failed).get("transient"))
                .sum::<u64>(),
            3
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_dead_lettered_at_once_with_its_reason() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 20).await;
        world.ses.refuse_address("news-3.0@example.com", failures::rejected());
        world.run(6).await;
        assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
        assert_eq!(world.accepted().len(), 19);
        let dead = world.dead_letters();
        assert_eq!(dead.len(), 1);
        assert_eq!(dead[0].last_error.code.as_deref(), Some("MessageRejected"));
        assert!(dead[0].last_error.provider_message.contains("suppression list"));
        assert_eq!(dead[0].attempts, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_no_mail_are_dead_lettered_with_field_and_fault() {
    for merge in MODES {
        let settings = one(merge).variable("TIDEGATE_ALLOWED_SENDERS", "news@example.org");
        let world = World::new(settings);
        let mail = |members: &str| {
            format!(
                r#"{{"to": "a@example.com", "from": "news@example.org", "subject": "S", {members}}}"#
            )
        };
        // Escaped once more it is half as long again, which no message may be: its entry stands in an
        // attribute.
        let filler = r"\n".repeat(500_000);
        let bad = [
            ("{".to_owned(), "NotJson", "JSON"),
            (mail(r#""text": "T", "tempalte": 1"#), "UnknownMember", "tempalte"),
            (mail(r#""txt": "T""#), "UnknownMember", "txt"),
            (
                mail(r#""text": "T", "headers": {"X-A": "b\r\nBcc: c@example.com"}"#),
                "InvalidMember",
                "headers",
            ),
            (mail(r#""text": "T", "cc": "nobody""#), "InvalidMember", "cc"),
            (mail(r#""text": "T""#).replace("news@", "other@"), "SenderNotAllowed", "from"),
            (mail(&format!(r#""text": "T", "oops": "{filler}""#)), "UnknownMember", "oops"),
        ];
        for (number, (body, ..)) in bad.iter().enumerate() {
            world.put_raw("news", &[produced(body.clone())]).await;
            world.put("news", &ProducedMail::several(&format!("good{number}"), 2, 1)).await;
        }
        world.run(8).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 14);
        let dead = world.dead_letters();
        assert_eq!(dead.len(), bad.len());
        for (body, code, named) in &bad {
            let entry = dead.iter().find(|entry| entry.message == *body).unwrap();
            let said = &entry.last_error.provider_message;
            assert!(said.contains(named), "{named}: {said}");
            assert_eq!(entry.last_error.code.as_deref(), Some(*code));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_that_names_what_ses_does_not_have_or_denies_is_retried_then_dead_lettered_alone() {
    for merge in MODES {
        let kinds =
            [failures::template_missing(), failures::not_verified(), failures::access_denied()];
        for failure in kinds {
            let world =
                World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, merge) });
            world.put(EXPRESS, &[ProducedMail::new("bad-0")]).await;
            world.put("small", &[ProducedMail::new("bad-1")]).await;
            world.fill("big", 200).await;
            world.fill("small", 60).await;
            world.put(EXPRESS, &ProducedMail::several("express", 10, 1)).await;
            for bad in ["bad-0.0@example.com", "bad-1.0@example.com"] {
                world.ses.refuse_address(bad, failure.clone());
            }
            world.run(60).await;
            assert_eq!(world.accepted().len(), 270, "merge {merge}: {failure:?}");
            world.run(60 * 20).await;
            assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
            let control = world.ledger_now().await.control;
            assert_eq!(control.standing_holds(), 0, "merge {merge}: {control:?}");
            let dead = world.dead_letters();
            assert_eq!(dead.len(), 2, "merge {merge}: {failure:?}");
            assert!(dead.iter().all(|entry| entry.attempts == 5
                && entry.last_error.code == failure.code
                && entry.last_error.provider_message == failure.message));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recipient_that_is_not_verified_is_dead_lettered_at_once_and_all_other_mail_goes_on() {
    for merge in MODES {
        let world = World::new(one(merge));
        let address = "news-3.0@example.com";
        world.ses.refuse_address(address, failures::recipient_not_verified(address));
        world.fill("news", 20).await;
        world.run(6).await;
        let dead = world.dead_letters();
        assert_eq!((dead.len(), world.accepted().len()), (1, 19), "merge {merge}");
        assert_eq!((dead[0].attempts, &*dead[0].to), (1, &["news-3.0@example.com".to_owned()][..]));
        assert_eq!(world.ledger_now().await.control.standing_holds(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_ses_refuses_ends_its_environment_and_costs_no_mail_an_attempt() {
    for merge in MODES {
        // One in a hundred sends; each in an environment's first second; and one mail again and again.
        for case in 0..3 {
            let world = World::new(one(merge).variable("TIDEGATE_MAX_ATTEMPTS", 1));
            world.fill("news", 299).await;
            world.put("news", &[ProducedMail::new("odd")]).await;
            let refused = Rule::new(Fault::Before(failures::token_refused())).on(Operation::Mail);
            match case {
                0 => world.mail_faults.add(refused.chance(0.01)),
                1 => world.ses.configure(|ses| ses.token_lag = MS(1_000)),
                _ => world.mail_faults.add(refused.at("news/odd")),
            }
            world.run(60).await;
            let sent = world.accepted().len();
            assert!(sent >= if case == 2 { 299 } else { 290 }, "merge {merge}, {case}: {sent}");
            world.mail_faults.clear();
            world.run(30).await;
            world.assert_clean();
            assert_eq!(world.accepted().len(), 300, "merge {merge}, case {case}");
            assert!(world.dead_letters().is_empty(), "merge {merge}, case {case}");
            let control = world.ledger_now().await.control;
            assert!(control.standing_holds() == 0 && control.breaker.is_allowing(), "{control:?}");
            let failed = |report: &WindowReport| report.counts.by(Counter::Failed)["environment"];
            let reports = world.reports();
            let met = reports.iter().filter(|r| !r.counts.by(Counter::Failed).is_empty());
            assert!(met.map(failed).sum::<u64>() > 0, "merge {merge}, case {case}");
            // No window follows in an environment of which nothing was taken.
            let runs = world.poller_runs();
            let mut ended = BTreeSet::new();
            for run in runs.iter() {
                assert!(!ended.contains(&run.environment), "merge {merge}, case {case}");
                if run.report().is_some_and(WindowReport::ends_environment) {
                    ended.insert(run.environment);
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn while_no_token_is_taken_the_breaker_blocks_and_probes_and_lets_go_by_itself() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 2_000).await;
        let refused = Rule::new(Fault::Before(failures::token_refused())).on(Operation::Mail);
        world.mail_faults.add(refused);
        world.run(180).await;
        assert!(world.reports().iter().any(|report| report.end == End::Blocked), "merge {merge}");
        let ended = world.reports().into_iter().filter(WindowReport::ends_environment).count();
        assert!(ended > 60, "merge {merge}: {ended} environments ended");
        world.mail_faults.clear();
        world.run(240).await;
        assert_eq!((world.lost(), world.duplicates()), (vec![], vec![]));
        assert!(world.dead_letters().is_empty());
        assert_eq!(world.accepted().len(), 2_000, "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_that_is_paused_or_used_up_holds_all() {
    let cases = [
        (failures::sending_paused(), HoldReason::Account),
        (failures::daily_quota_exceeded(), HoldReason::DailyQuota),
    ];
    for (failure, reason) in cases {
        let world = World::new(WorldSettings::new(20.0, true));
        world.fill("big", 200).await;
        world.mail_faults.add(Rule::new(Fault::Before(failure)).on(Operation::Mail));
        world.run(10).await;
        assert!(world.accepted().is_empty() && world.dead_letters().is_empty());
        assert!(world.ledger_now().await.control.holds.get(reason).is_some());
        // One window's mails in flight met it; then nothing was tried.
        let met: u64 =
            world.reports().iter().flat_map(|r| r.counts.by(Counter::Failed).values()).sum();
        assert!((1..=8).contains(&met), "{reason:?}: {met}");
        world.mail_faults.clear();
        world.control(|control| control.holds = Holds::default()).await;
        world.run(45).await;
        world.assert_clean();
        assert_eq!(world.accepted().len(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_retried_and_counted_as_possibly_sent() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 20).await;
        let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).nth(5);
        world.mail_faults.add(lost);
        world.run(80).await;
        assert_eq!(world.lost(), Vec::<String>::new());
        // SES took it, and again a minute later: the one case that nothing but a rate margin prevents.
        assert_eq!(world.duplicates().len(), 1);
        let ambiguous: u64 = world
            .reports()
            .iter()
            .filter_map(|r| r.counts.by(Counter::Failed).get("ambiguous"))
            .sum();
        assert_eq!(ambiguous, 1);
        assert_eq!(world.accepted().len(), 20);
    }
}

#[tokio::test(start_paused = true)]
async fn express_mail_that_fails_goes_back_to_its_queue_until_its_attempts_are_spent() {
    for merge in MODES {
        let settings = WorldSettings { express: true, ..one(merge) };
        let world = World::new(settings.variable("TIDEGATE_MAX_ATTEMPTS", 2));
        world.put(EXPRESS, &[ProducedMail::new("bad"), ProducedMail::new("good")]).await;
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken.at("express/bad"));
        world.run(90).await;
        world.assert_nothing_lost();
        let dead = world.dead_letters();
        assert_eq!((dead.len(), world.accepted().len()), (1, 1), "merge {merge}");
        assert_eq!((dead[0].campaign.as_str(), dead[0].attempts), (EXPRESS, 2));
    }
}

#[tokio::test(start_paused = true)]
async fn neither_mail_that_ses_refuses_nor_mail_that_never_left_is_an_outage() {
    for merge in MODES {
        for failure in [failures::rejected(), failures::too_late()] {
            let world = World::new(one(merge));
            world.fill("news", 1_500).await;
            let some = Rule::new(Fault::Before(failure)).on(Operation::Mail);
            world.mail_faults.add(some.chance(0.4));
            world.run(100).await;
            let control = world.ledger_now().await.control;
            assert!(world.mail_faults.strikes().len() > 400, "merge {merge}");
            assert!(control.breaker == Breaker::default() && control.campaign_holds.is_empty());
            assert!(world.reports().iter().all(|report| report.end != End::Blocked));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_account_that_refuses_every_mail_for_its_rate_is_an_outage() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 500).await;
        let all = Rule::new(Fault::Before(failures::rate_exceeded())).on(Operation::Mail);
        world.mail_faults.add(all);
        world.run(120).await;
        assert!(world.reports().iter().any(|report| report.end == End::Blocked), "merge {merge}");
        assert!(!world.ledger_now().await.control.breaker.is_allowing());
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_fails_once_the_breaker_blocked_not_even_the_first_is_an_attempt() {
    for merge in MODES {
        let world = World::new(one(merge));
        world.fill("news", 10).await;
        let (policy, failing) = (BreakerPolicy::default(), Outcomes { all: 10, failures: 10 });
        let now = Window::containing(world.universe.now());
        let watched = Breaker::default().observed(now, failing, &policy).unwrap();
        world.control(|control| control.breaker = watched).await;
        let slow = Latency::between(MS(3_000), MS(3_001));
        world.mail_faults.add(Rule::new(Fault::Slow(slow)).on(Operation::Mail));
        let broken = Rule::new(Fault::Before(failures::server_error())).on(Operation::Mail);
        world.mail_faults.add(broken);
        world
            .play(1, async |first| {
                world.until(first, 1, MS(500)).await;
                let blocking = Breaker::Blocking { since: first, until: first.plus(60) };
                world.control(|control| control.breaker = blocking).await;
            })
            .await;
        let standing = world.contents("news").into_iter();
        let failed = standing.filter(|message| message.attributes.contains_key("last_error"));
        let attempts: Vec<String> = failed.map(|m| m.attributes["attempt"].clone()).collect();
        assert_eq!(attempts, vec!["0"; 10], "merge {merge}");
    }
}
