//! A stack for text messages: the same gate, with a slot for each part.

use std::time::Duration;

use tidegate_core::Window;
use tidegate_core::control::HoldReason;
use tidegate_core::counters::Counter;
use tidegate_core::deduplication::Deduplication;
use tidegate_fakes::{Counting, Fault, Operation, Rule, SesArrival, failures};
use tidegate_tests::simulation::mail::{MailVariation as _, produced};
use tidegate_tests::simulation::{EXPRESS, FEEDBACK, ProducedMail, World, WorldSettings, measure};

use crate::operator_site::{replay, review, why};
use crate::{MODES, MS};

/// 1,600 parts a minute.
const QUOTA: f64 = 1_600.0 / 60.0;

fn texts(merge: bool) -> WorldSettings {
    WorldSettings::new(QUOTA, merge).variable("TIDEGATE_CHANNEL", "sms")
}

/// `parts` in texts of the given sizes by turns.
fn sized(campaign: &str, parts: u32, sizes: &[u32]) -> Vec<ProducedMail> {
    let mut texts = ProducedMail::texts(campaign, parts as usize, 1);
    texts.truncate(parts as usize * sizes.len() / sizes.iter().sum::<u32>() as usize);
    texts.iter_mut().zip(sizes.iter().cycle()).for_each(|(text, parts)| text.recipients = *parts);
    texts
}

/// Utilisation, shares within a point, and no minute above 1,600 parts; the worst second is returned.
async fn regulated(merge: bool, sizes: &[u32]) -> u64 {
    let world = World::new(WorldSettings { counting: Counting::Bucket, ..texts(merge) });
    world.put("big", &sized("big", 27 * 130, sizes)).await;
    world.put("small", &sized("small", 27 * 30, sizes)).await;
    let first = world.run(130).await;
    world.assert_nothing_lost();
    assert_eq!((world.duplicates(), world.refused()), (Vec::new(), 0));
    let arrivals = world.ses.arrivals();
    let case = format!("merge {merge}, texts of {sizes:?} parts");
    for start in [5, 65] {
        let minute = measure::span(first, start..start + 60);
        let share = measure::share(&arrivals, "small", &minute);
        assert!((share - 0.1).abs() <= 0.01, "{case}: share {share:.4}");
        assert!(measure::sent(&arrivals, &minute) <= 1_600, "{case}: above 1,600 in a minute");
    }
    let used = measure::utilisation(&world, first, 5..125, 60);
    assert!(used >= 0.975, "{case}: utilisation {used:.4}");
    measure::worst_second(&arrivals)
}

#[tokio::test(start_paused = true)]
async fn at_1600_parts_a_minute_the_quota_is_used_and_no_second_is_above_it() {
    for merge in MODES {
        let worst = regulated(merge, &[1]).await;
        assert!(worst <= 27, "merge {merge}: {worst} parts in one second");
    }
}

/// A text's parts are one request, so a second may have those of its first text that began before it.
#[tokio::test(start_paused = true)]
async fn texts_of_three_parts_use_three_slots_each() {
    for merge in MODES {
        let worst = regulated(merge, &[1, 1, 3]).await;
        assert!(worst <= 27 + 2, "merge {merge}: {worst} parts in one second");
    }
}

#[tokio::test(start_paused = true)]
async fn a_country_keeps_its_limit_in_parts_and_no_other_text_waits_for_it() {
    for merge in MODES {
        let world = World::new(WorldSettings { counting: Counting::Bucket, ..texts(merge) });
        let rate = serde_json::from_str(r#"{"rate": "6/s", "queue": 5}"#).expect("a limit");
        let key = "+49+43".parse().expect("a key");
        world.control(|control| drop(control.limits.insert(key, Some(rate)))).await;
        let abroad = sized("abroad", 600, &[1, 2]).into_iter().map(|text| text.to("+49"));
        world.put("big", &abroad.collect::<Vec<_>>()).await;
        world.put("big", &sized("home", 1_400, &[1])).await;
        let first = world.run(90).await;
        world.assert_nothing_lost();
        let arrivals = world.ses.arrivals();
        let is_abroad = |arrival: &SesArrival| arrival.addresses[0].starts_with("+49");
        let (abroad, home): (Vec<_>, Vec<_>) = arrivals.into_iter().partition(is_abroad);
        let worst = measure::worst_second(&abroad);
        assert!(worst <= 9, "merge {merge}: {worst} parts in one second");
        let span = measure::span(first, 10..60);
        let (abroad, home) = (measure::sent(&abroad, &span), measure::sent(&home, &span));
        // A limit of 6/s has 5.88 slots a second, of which a text of two parts needs two in one window; all others are for
        // the other texts.
        assert!(abroad >= 270, "merge {merge}: {abroad} of 294");
        assert!(home + abroad >= 1_300, "merge {merge}: {home} and {abroad} of 1,333");
    }
}

#[tokio::test(start_paused = true)]
async fn express_texts_go_before_all_campaigns() {
    let world = World::new(WorldSettings { express: true, ..texts(true) });
    world.put("big", &ProducedMail::texts("big", 1_000, 1)).await;
    let first = world
        .play(20, async |first| {
            world.until(first, 10, MS(100)).await;
            world.put(EXPRESS, &ProducedMail::texts("code", 20, 1)).await;
        })
        .await;
    world.assert_nothing_lost();
    let of = |arrivals: &[_]| measure::share(arrivals, EXPRESS, &measure::span(first, 10..13));
    assert!(of(&world.ses.arrivals()) >= 0.2, "20 of the 79 parts of three seconds");
}

/// What each fault of the endpoint does to a text; nothing is lost in any of them.
#[tokio::test(start_paused = true)]
async fn in_faults_of_the_endpoint_no_text_is_lost() {
    for merge in MODES {
        for failure in [
            failures::throttled(),
            failures::server_error(),
            failures::connection_refused(),
            failures::answer_lost(),
        ] {
            let is_ambiguous = failure == failures::answer_lost();
            let world = World::new(texts(merge));
            world.put("big", &sized("big", 200, &[1, 3])).await;
            let fault = if is_ambiguous {
                Fault::After(failure.clone())
            } else {
                Fault::Before(failure.clone())
            };
            world.mail_faults.add(Rule::new(fault).on(Operation::Mail).chance(0.1));
            world.run(20).await;
            world.mail_faults.clear();
            world.run(300).await;
            assert!(world.is_drained(), "merge {merge}: {failure:?}");
            world.assert_nothing_lost();
            assert_eq!(world.accepted().len(), 100, "merge {merge}: {failure:?}");
            assert!(world.dead_letters().is_empty());
            assert!(is_ambiguous || world.duplicates().is_empty(), "merge {merge}: {failure:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_a_poller_loses_no_text() {
    for merge in MODES {
        let world = World::new(texts(merge));
        world.put("big", &sized("big", 300, &[1, 3])).await;
        world
            .play(130, async |first| {
                for window in [3, 5, 8] {
                    world.until(first, window, MS(500)).await;
                    world.crash();
                }
            })
            .await;
        world.assert_nothing_lost();
        assert!(world.is_drained() && world.accepted().len() == 150, "merge {merge}");
    }
}

/// Twelve people in a row who have opted out say nothing about the rest of the list.
#[tokio::test(start_paused = true)]
async fn a_number_that_takes_no_texts_is_dead_lettered_and_the_campaign_goes_on() {
    let world = World::new(texts(true));
    let refused =
        ["DESTINATION_PHONE_NUMBER_OPTED_OUT", "INVALID_PARAMETER", "DESTINATION_COUNTRY_BLOCKED"]
            .map(failures::usual);
    for number in 0..14_usize {
        let failure = refused.get(number.saturating_sub(11)).unwrap_or(&refused[0]);
        world.ses.refuse_address(&ProducedMail::phone(&format!("big-{number}")), failure.clone());
    }
    world.put("big", &ProducedMail::texts("big", 40, 1)).await;
    world.run(20).await;
    world.assert_nothing_lost();
    assert_eq!(world.accepted().len(), 26);
    let dead = world.dead_letters();
    assert_eq!(dead.len(), 14);
    let code =
        |code: &str| dead.iter().filter(|d| d.last_error.code.as_deref() == Some(code)).count();
    assert_eq!(code("DESTINATION_PHONE_NUMBER_OPTED_OUT"), 12);
    assert_eq!((code("INVALID_PARAMETER"), code("DESTINATION_COUNTRY_BLOCKED")), (1, 1));
    assert!(dead.iter().all(|letter| letter.to[0].starts_with("+1206")));
    assert!(world.ledger_now().await.control.campaign_holds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_a_text_is_explained_and_replayed() {
    let world = World::new(texts(true));
    let phone = ProducedMail::phone("big-0");
    world.ses.refuse_address(&phone, failures::usual("INVALID_PARAMETER"));
    world.put("big", &ProducedMail::texts("big", 3, 2)).await;
    world.run(5).await;
    assert_eq!((world.accepted().len(), world.dead_letters().len()), (2, 1));
    let explained = serde_json::to_string(&why(&world, Some("big"), "big-0").await);
    let explained = explained.expect("it is JSON");
    assert!(explained.contains("INVALID_PARAMETER"), "{explained}");
    assert!(!explained.contains(&phone), "{explained}");
    world.ses.accept_address(&phone);
    let found = review(&world, Deduplication::Off, false).await;
    assert_eq!(found.work.letters(), 1);
    assert!(replay(&world, &found).await.is_whole());
    world.run(90).await;
    world.assert_nothing_lost();
    assert_eq!((world.accepted().len(), world.dead_letters().len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn with_deduplication_a_text_whose_answer_was_lost_is_not_sent_twice() {
    let world = World::new(texts(true).variable("TIDEGATE_DEDUPLICATION", "park"));
    world.put("big", &sized("big", 200, &[1, 3])).await;
    let lost = Rule::new(Fault::After(failures::answer_lost())).on(Operation::Mail).chance(0.2);
    world.mail_faults.add(lost);
    world.run(400).await;
    world.assert_nothing_lost();
    assert_eq!((world.duplicates(), world.accepted().len()), (Vec::new(), 100));
    assert!(!world.dead_letters().is_empty(), "nobody knows of some whether they were sent");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_is_not_allowed_is_dead_lettered_unsent() {
    let world = World::new(texts(true).variable("TIDEGATE_ALLOWED_COUNTRIES", "+49"));
    world.put("big", &ProducedMail::texts("big", 1, 1)).await;
    world.put("big", &[ProducedMail::new("mail")]).await;
    world.run(5).await;
    let mut codes: Vec<_> =
        world.dead_letters().into_iter().filter_map(|letter| letter.last_error.code).collect();
    codes.sort();
    assert_eq!(codes, ["CountryNotAllowed", "UnknownMember"]);
    assert!(world.ses.arrivals().is_empty());
}

/// Receipts come from AWS as they are, over the same queue as SES's notices.
#[tokio::test(start_paused = true)]
async fn receipts_of_texts_hold_their_campaign_by_parts() {
    let settings = texts(true).variable("TIDEGATE_FEEDBACK", "hold");
    let world = World::new(settings.variable("TIDEGATE_FEEDBACK_MINIMUM", 100));
    world.put("big", &ProducedMail::texts("big", 600, 2)).await;
    world.put("small", &ProducedMail::texts("small", 300, 1)).await;
    let receipt = include_str!("../../../events/text_receipt.json").replace("spring", "big");
    world
        .play(70, async |first| {
            world.until(first, 20, MS(500)).await;
            let sent = world.ledger_now().await.counters["sent.big"];
            // 7 % of the parts, in half as many receipts of two parts each.
            let count = usize::try_from(sent / 28).expect("few");
            let delivered = produced(receipt.replace("TEXT_UNREACHABLE", "TEXT_DELIVERED"));
            world.put_raw(FEEDBACK, &vec![delivered; count]).await;
            world.until(first, 23, MS(500)).await;
            assert!(world.ledger_now().await.control.campaign_holds.is_empty());
            let of = |number: usize| receipt.replace("862a8790", &format!("{number:08}"));
            world.put_raw(FEEDBACK, &(0..count).map(of).map(produced).collect::<Vec<_>>()).await;
            world.until(first, 26, MS(500)).await;
            let holds = world.ledger_now().await.control.campaign_holds;
            assert!(holds["big"].get(HoldReason::Reputation).is_some());
        })
        .await;
    world.assert_nothing_lost();
    assert!(world.accepted().keys().filter(|id| id.starts_with("small")).count() == 300);
}

fn limited() -> WorldSettings {
    WorldSettings { spend_limit: Some(200), ..texts(true) }
}

async fn held(world: &World) -> bool {
    world.ledger_now().await.control.holds.get(HoldReason::SpendLimit).is_some()
}

#[tokio::test(start_paused = true)]
async fn at_the_spend_limit_all_is_held_and_told_until_the_limit_is_raised() {
    let world = World::new(limited());
    world.put("big", &ProducedMail::texts("big", 400, 1)).await;
    world
        .play(400, async |first| {
            world.until(first, 90, MS(0)).await;
            assert!(held(&world).await);
            let told: Vec<String> = world.topic.told().into_iter().map(|(_, said)| said).collect();
            assert_eq!(told, ["simulated: all sending is held: spend_limit"]);
            let tried = world.refused();
            world.until(first, 250, MS(0)).await;
            assert_eq!(world.refused(), tried, "nothing is tried while the limit is reached");
            world.ses.configure(|settings| settings.spend_limit = Some(1_000));
        })
        .await;
    world.assert_nothing_lost();
    assert_eq!(world.accepted().len(), 400);
    assert!(!held(&world).await && world.dead_letters().is_empty());
    let failed: u64 = world.reports().iter().map(|report| report.count(Counter::Retried)).sum();
    assert_eq!(failed, 0, "a spend limit is not an attempt");
}

/// The simulation begins on 20 November 2026.
#[tokio::test(start_paused = true)]
async fn a_new_month_lifts_the_hold_of_the_spend_limit() {
    let world = World::new(limited());
    world.put("big", &ProducedMail::texts("big", 300, 1)).await;
    world.run(90).await;
    assert_eq!((world.accepted().len(), held(&world).await), (200, true));
    let december = Window::from_epoch_second(1_796_083_200).opens();
    world.universe.sleep_until(december.saturating_sub(MS(200_000))).await;
    world.run(120).await;
    assert_eq!((world.accepted().len(), held(&world).await), (200, true));
    tokio::time::sleep(Duration::from_mins(3)).await;
    world.run(300).await;
    world.assert_nothing_lost();
    assert_eq!((world.accepted().len(), held(&world).await), (300, false));
}
