//! Adaptive limits: a provider defers what is over a rate that nobody knows, and its limit follows.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::ops::Range;
use std::time::Duration;

use tidegate_core::Window;
use tidegate_fakes::SesArrival;
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{FEEDBACK, ProducedMail, World, WorldSettings, measure};

use crate::MODES;

fn settings(quota: f64, merge: bool) -> WorldSettings {
    WorldSettings::new(quota, merge).variable("TIDEGATE_FEEDBACK", "count")
}

async fn limit(world: &World, key: &str, limit: &str) {
    let (key, limit) = (key.parse().unwrap(), serde_json::from_str(limit).unwrap());
    world.control(|control| drop(control.limits.insert(key, Some(limit)))).await;
}

fn to(name: &str, count: usize, domain: &str) -> Vec<ProducedMail> {
    ProducedMail::several(name, count, 1).into_iter().map(|mail| mail.to(domain)).collect()
}

/// SES reports deferrals 2 s after the mail, each tenth twice, and the newest first. Returns how many there were
/// in each second.
async fn report_deferrals(world: &World, first: Window, seconds: u64) -> Vec<(u64, usize)> {
    let (mut told, mut late) = (Vec::new(), Vec::new());
    for number in 0..seconds {
        world.until(first, number, Duration::ZERO).await;
        let new = world.ses.take_deferrals();
        told.push((number, new.len()));
        late.push(new);
        let mut due = if late.len() > 2 { late.remove(0) } else { Vec::new() };
        due.reverse();
        let doubled: Vec<String> = due.iter().step_by(10).cloned().collect();
        let bodies: Vec<_> = due.into_iter().chain(doubled).map(produced).collect();
        world.put_raw(FEEDBACK, &bodies).await;
    }
    told
}

fn deferred(told: &[(u64, usize)], span: Range<u64>) -> usize {
    let is_in = |(second, _): &(u64, usize)| span.contains(second);
    told.iter().copied().filter(is_in).map(|(_, count)| count).sum()
}

fn sent(arrivals: &[SesArrival], prefix: &str, first: Window, span: Range<u64>) -> u64 {
    let of: Vec<SesArrival> =
        arrivals.iter().filter(|arrival| arrival.id.starts_with(prefix)).cloned().collect();
    measure::sent(&of, &measure::span(first, span))
}

#[tokio::test(start_paused = true)]
async fn a_minute_after_a_provider_takes_a_quarter_its_rate_is_used_and_little_is_deferred() {
    for merge in MODES {
        let world = World::new(settings(100.0, merge));
        world.ses.provider(&["gmail.com", "googlemail.com"], 40);
        limit(
            &world,
            "gmail.com+googlemail.com",
            r#"{"rate": "40/s", "adaptive": true, "queue": 5}"#,
        )
        .await;
        world.put("big", &to("g", 12_000, "gmail.com")).await;
        world.put("small", &to("o", 24_000, "other.example")).await;
        let told = std::cell::RefCell::default();
        let first = world
            .play(420, async |first| {
                let change = async {
                    world.until(first, 60, Duration::ZERO).await;
                    world.ses.provider(&["gmail.com", "googlemail.com"], 10);
                };
                let report = report_deferrals(&world, first, 415);
                told.replace(futures_util::future::join(report, change).await.0);
            })
            .await;
        let arrivals = world.ses.arrivals();
        let before = sent(&arrivals, "g", first, 20..60);
        assert!(before >= 38 * 40, "merge {merge}: {before} of 1,600 before the drop");
        let span = 120..410;
        let sent = sent(&arrivals, "g", first, span.clone());
        let deferred = deferred(&told.borrow(), span.clone());
        let taken = usize::try_from(sent).unwrap() - deferred;
        let hidden = 10 * span.count();
        assert!(taken * 100 >= hidden * 90, "merge {merge}: {taken} of {hidden}");
        assert!(deferred * 100 <= taken * 2, "merge {merge}: {deferred} of {sent}");
        // Only this provider's mail is slower: the other mail has the slots that it leaves.
        let all = measure::utilisation(&world, first, 120..220, 60);
        assert!(all >= 0.97, "merge {merge}: {all:.3} of the quota");
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_takes_nothing_is_left_alone_and_nothing_is_lost() {
    let world = World::new(settings(40.0, true));
    limit(&world, "slow.example", r#"{"rate": "20/s", "adaptive": true, "queue": 5}"#).await;
    world.ses.provider(&["slow.example"], 0);
    world.put("big", &to("g", 2_000, "slow.example")).await;
    world.put("small", &to("o", 5_000, "other.example")).await;
    let first = world
        .play(240, async |first| {
            report_deferrals(&world, first, 180).await;
            let adapted = world.ledger_now().await.control.adapted;
            let opens = adapted["slow_example"].opens(first.plus(180));
            assert!(opens.is_some_and(|opens| opens > first.plus(220)), "{opens:?}");
        })
        .await;
    let arrivals = world.ses.arrivals();
    assert_eq!(sent(&arrivals, "g", first, 182..239), 0, "sent while it is left alone");
    assert_eq!(sent(&arrivals, "o", first, 0..239), 5_000);
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn each_domain_under_the_others_limit_is_lowered_by_itself() {
    let settings = settings(60.0, true).variable("TIDEGATE_LIMITS", "*=20/s");
    let world = World::new(settings);
    limit(&world, "*", r#"{"rate": "20/s", "adaptive": true}"#).await;
    world.ses.provider(&["slow.example"], 5);
    world.put("big", &to("s", 3_000, "slow.example")).await;
    world.put("small", &to("q", 3_000, "quick.example")).await;
    let first =
        world.play(150, async |first| drop(report_deferrals(&world, first, 149).await)).await;
    let arrivals = world.ses.arrivals();
    let slow = sent(&arrivals, "s", first, 60..140);
    assert!((3 * 80..=6 * 80).contains(&slow), "{slow} to the slow provider");
    let adapted = world.ledger_now().await.control.adapted;
    assert_eq!(adapted.keys().collect::<Vec<_>>(), ["slow_example"]);
}

#[tokio::test(start_paused = true)]
async fn one_deferral_in_a_thousand_mails_lowers_no_limit() {
    let world = World::new(settings(120.0, true));
    limit(&world, "example.com", r#"{"rate": "100/s", "adaptive": true, "queue": 5}"#).await;
    world.put("big", &to("g", 60_000, "example.com")).await;
    let first = world
        .play(590, async |first| {
            for tenth in 1..58 {
                world.until(first, 10 * tenth, Duration::ZERO).await;
                let sent_at = first.plus(10 * (tenth - 1)).opens().as_millis();
                let sent_at = tidegate_core::identity::EpochMillis::new(sent_at);
                let body = serde_json::json!({
                    "kind": "deferral", "campaign": ["big"], "id": format!("1-{tenth}"),
                    "tags": {"tidegate_limit": ["example_com"]}, "sent_at": sent_at,
                });
                world.put_raw(FEEDBACK, &[produced(body.to_string())]).await;
                let control = world.ledger_now().await.control;
                assert!(control.adapted.is_empty(), "{tenth}: {:?}", control.adapted);
            }
        })
        .await;
    let sent = sent(&world.ses.arrivals(), "g", first, 60..560);
    assert!(sent >= 48_500, "{sent} of 50,000");
}
