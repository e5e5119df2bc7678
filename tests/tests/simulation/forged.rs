//! Attributes that producers attach, also under our names: they concern nobody but their own campaign.

use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_delivery::ports::Outgoing;
use tidegate_fakes::{Fault, Operation, Rule, failures};
use tidegate_tests::simulation::mail::produced;
use tidegate_tests::simulation::{EXPRESS, ProducedMail, World, WorldSettings};

use crate::operator_site::dead_letters;
use crate::{MODES, MS};

const LONG_AGO: &str = "1970-01-01T00:00:00.000Z";

fn forged(id: &str, attributes: &[(&'static str, &str)]) -> Outgoing {
    let attributes = attributes.iter().map(|(name, value)| (*name, (*value).to_owned()));
    Outgoing { attributes: attributes.collect(), ..produced(ProducedMail::new(id).body()) }
}

/// The attributes of an envelope as only a poller should write it.
fn envelope(campaign: &str, id: &str, pass: u32, attempt: u32) -> Vec<(&'static str, String)> {
    let identity = Identity::from_body_id(campaign, id);
    let fresh = Envelope::fresh(campaign, identity, EpochMillis::new(0));
    Envelope { pass, attempt, ..fresh }.to_attributes()
}

fn accepted(world: &World, campaign: &str) -> usize {
    world.ses.accepted().iter().filter(|arrival| arrival.campaign == campaign).count()
}

/// Regression: all 60 mails of the other campaign were taken for copies, and gone without a trace.
#[tokio::test(start_paused = true)]
async fn a_producer_that_forges_another_campaigns_identities_suppresses_none_of_its_mail() {
    for (merge, deduplication) in
        [(true, "off"), (true, "park"), (false, "park"), (false, "resend")]
    {
        for pass in [0, 1] {
            for queue in ["big", EXPRESS] {
                let settings = WorldSettings { express: true, ..WorldSettings::new(20.0, merge) };
                let settings = settings.variable("TIDEGATE_DEDUPLICATION", deduplication);
                let world = World::new(settings.campaigns(&[("big", 1), ("small", 1)]));
                let own = ProducedMail::several("small", 60, 1);
                let forged = own.iter().enumerate().map(|(number, mail)| Outgoing {
                    attributes: envelope("small", &mail.id, pass, 0),
                    ..produced(ProducedMail::new(format!("forged-{number}")).body())
                });
                world.put_raw(queue, &forged.collect::<Vec<_>>()).await;
                world.run(8).await;
                world.put("small", &own).await;
                // Long enough for what got no slot in its window to come again after 30 s.
                world.run(60).await;
                let arrived = [accepted(&world, queue), accepted(&world, "small")];
                assert_eq!(
                    arrived,
                    [60, 60],
                    "merge {merge}, {deduplication}, pass {pass}, {queue}"
                );
                assert!(world.is_drained() && world.dead_letters().is_empty());
            }
        }
    }
}

/// Regression: the mean age was decades, and low-priority mail of all campaigns was deferred.
#[tokio::test(start_paused = true)]
async fn mail_that_claims_to_be_of_1970_does_not_raise_the_level() {
    for merge in MODES {
        let settings =
            WorldSettings::new(20.0, merge).variable("TIDEGATE_BACK_PRESSURE_BUSY", "age=2m");
        let world = World::new(settings);
        world
            .play(300, async |first| {
                for minute in 0..4 {
                    world.until(first, 60 * minute + 3, MS(0)).await;
                    for pass in [0, 1] {
                        let mail = |number: usize| {
                            let id = format!("old-{minute}-{pass}-{number}");
                            let attributes = envelope("big", &id, pass, 0);
                            Outgoing { attributes, ..forged(&id, &[]) }
                        };
                        world.put_raw("big", &(0..50).map(mail).collect::<Vec<_>>()).await;
                    }
                }
            })
            .await;
        assert_eq!(accepted(&world, "big"), 400);
        let minutes = world.minute_reports.borrow();
        let readings: Vec<_> = minutes.iter().filter_map(|minute| minute.back_pressure).collect();
        assert!(readings.len() >= 4, "merge {merge}: {} looks", readings.len());
        assert!(
            readings.iter().all(|reading| reading.level == BackPressureLevel::Clear),
            "{readings:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_that_a_producer_claims_neither_overflow_nor_spend_those_of_its_mail() {
    let most = u32::MAX;
    for merge in MODES {
        for (pass, attempt) in [(0, most), (1, most), (most, most), (most, 0), (0, 4), (9, 7)] {
            let settings = WorldSettings { express: true, ..WorldSettings::new(20.0, merge) };
            let world = World::new(settings);
            for queue in ["big", EXPRESS] {
                let id = format!("of-{queue}");
                let attributes = envelope(queue, &id, pass, attempt);
                world.put_raw(queue, &[Outgoing { attributes, ..forged(&id, &[]) }]).await;
                // It fails twice, and is not at its attempts' end.
                for nth in 1..=2 {
                    let broken = Rule::new(Fault::Before(failures::server_error()));
                    let resource = format!("{queue}/{id}");
                    world.mail_faults.add(broken.on(Operation::Mail).at(&resource).nth(nth));
                }
            }
            world.run(250).await;
            let arrived = (accepted(&world, "big"), accepted(&world, EXPRESS));
            assert_eq!(arrived, (1, 1), "merge {merge}, pass {pass}, attempt {attempt}");
            assert!(world.is_drained() && world.dead_letters().is_empty());
        }
    }
}

/// Regression: such mail became a dead letter.
#[tokio::test(start_paused = true)]
async fn a_producers_own_attributes_under_our_names_have_no_effect() {
    for merge in MODES {
        let world = World::new(WorldSettings { express: true, ..WorldSettings::new(20.0, merge) });
        let attached: [&[(&'static str, &str)]; 5] = [
            &[("identity", "order 7")],
            &[("identity", "big/id/other"), ("campaign", "spring sale")],
            &[("identity", "sha256/7"), ("pass", "gold")],
            &[("campaign", "small"), ("attempt", "99"), ("enqueued_at", LONG_AGO)],
            &[("identity", "small/id/m"), ("campaign", "small"), ("pass", "-1"), ("attempt", "1")],
        ];
        for (number, attributes) in attached.into_iter().enumerate() {
            world.put_raw("big", &[forged(&format!("b-{number}"), attributes)]).await;
            world.put_raw(EXPRESS, &[forged(&format!("e-{number}"), attributes)]).await;
        }
        world.run(6).await;
        assert_eq!((accepted(&world, "big"), accepted(&world, EXPRESS)), (5, 5), "merge {merge}");
        assert!(world.is_drained() && world.dead_letters().is_empty());
    }
}

/// A body that is no mail belongs to its queue's campaign too, whatever its attributes say.
#[tokio::test(start_paused = true)]
async fn a_dead_letter_of_a_forged_body_is_of_its_own_campaign() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        for pass in [0, 1] {
            let message = Outgoing {
                attributes: envelope("small", "order-7", pass, 0),
                ..produced(r#"{"id": "order-7", "tempalte": 1}"#.to_owned())
            };
            world.put_raw("big", &[message]).await;
        }
        world.run(6).await;
        let letters = dead_letters(&world).await.letters;
        assert_eq!(letters.len(), 2, "merge {merge}");
        for letter in letters {
            assert_eq!(letter.identity(), Some(Identity::from_body_id("big", "order-7")));
            assert_eq!(letter.entry().unwrap().campaign, "big");
        }
    }
}
