//! Weights that follow the time: a campaign finishes by a given time, another has more while the others sleep.

use std::time::Duration;

use tidegate_core::identity::EpochMillis;
use tidegate_core::weight_rule::{FinishBy, WeightRule};
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings, measure};

use crate::MODES;

#[tokio::test(start_paused = true)]
async fn a_campaign_finishes_at_its_time_to_half_a_percent_and_its_weight_stands_again() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(20.0, merge));
        // By weight the small one has 2/s and would take 5,000 s; 6/s end in time.
        world.put("small", &ProducedMail::several("small", 10_000, 1)).await;
        world.put("big", &ProducedMail::several("big", 40_000, 1)).await;
        let seconds = 1_680;
        let first = world
            .play(1_800, async |first| {
                let finish_by = EpochMillis::from(first.plus(seconds).opens());
                let finish = FinishBy { finish_by, zone: None, least: 1, most: 900, restore: None };
                let rule = WeightRule::FinishBy(finish);
                world
                    .control(|control| {
                        control.weight_rules.insert("small".to_owned(), rule);
                    })
                    .await;
            })
            .await;
        let arrivals = world.ses.arrivals();
        let small = arrivals.iter().filter(|arrival| arrival.campaign == "small");
        assert_eq!(small.clone().count(), 10_000, "merge {merge}");
        let took = small.map(|arrival| arrival.at).max().unwrap().saturating_since(first.opens());
        let off = took.as_secs_f64() / Duration::from_secs(seconds).as_secs_f64() - 1.0;
        assert!(off.abs() <= 0.005, "merge {merge}: {off:.4} of the time too late");
        assert!(measure::utilisation(&world, first, 60..1_600, 60) >= 0.97, "merge {merge}");
        let control = world.ledger_now().await.control;
        assert!(control.weight_rules.is_empty() && control.weights.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_has_its_off_peak_weight_outside_the_other_campaigns_hours_alone() {
    for merge in MODES {
        let mut settings = WorldSettings::new(50.0, merge);
        settings.campaigns.push(("bulk".to_owned(), 10));
        let world = World::new(settings);
        world.put("bulk", &ProducedMail::several("bulk", 8_000, 1)).await;
        world.put("big", &ProducedMail::several("big", 8_000, 1)).await;
        world.put("small", &ProducedMail::several("small", 8_000, 1)).await;
        let first = world
            .play(130, async |first| {
                world.until(first, 5, Duration::ZERO).await;
                let opens = first.epoch_second() / 60 % 1_440;
                // The big campaign is open to the end of the next minute.
                let until = opens + 2;
                let hours = format!(
                    "{:02}:{:02}-{:02}:{:02}",
                    opens / 60,
                    opens % 60,
                    until / 60,
                    until % 60
                );
                let limit = serde_json::from_str(&format!(r#"{{"hours": "{hours}"}}"#)).unwrap();
                world
                    .control(|control| {
                        control.limits.insert("big".parse().unwrap(), Some(limit));
                        let rule = WeightRule::OffPeak { off_peak: 90 };
                        control.weight_rules.insert("bulk".to_owned(), rule);
                    })
                    .await;
            })
            .await;
        let arrivals = world.ses.arrivals();
        let share = |span| measure::share(&arrivals, "bulk", &measure::span(first, span));
        let closes = 120 - first.epoch_second() % 60;
        let open = share(15..closes - 5);
        assert!((0.08..=0.10).contains(&open), "merge {merge}: {open:.3} within the hours");
        let closed = share(closes + 5..129);
        assert!((0.89..=0.91).contains(&closed), "merge {merge}: {closed:.3} outside");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_with_a_weight_off_peak_alone_wakes_a_sleeping_stack_for_it() {
    for merge in MODES {
        let mut settings = WorldSettings::new(20.0, merge);
        settings.campaigns.push(("bulk".to_owned(), 0));
        let world = World::new(settings);
        let mut closes = 0;
        let first = world
            .play(420, async |first| {
                let opens = first.epoch_second() / 60 % 1_440;
                let until = opens + 3;
                closes = 180 - first.epoch_second() % 60;
                let hours = format!(
                    "{:02}:{:02}-{:02}:{:02}",
                    opens / 60,
                    opens % 60,
                    until / 60,
                    until % 60
                );
                let limit = serde_json::from_str(&format!(r#"{{"hours": "{hours}"}}"#)).unwrap();
                world
                    .control(|control| {
                        control.limits.insert("big".parse().unwrap(), Some(limit));
                        let rule = WeightRule::OffPeak { off_peak: 50 };
                        control.weight_rules.insert("bulk".to_owned(), rule);
                    })
                    .await;
                world.put("bulk", &ProducedMail::several("bulk", 100, 1)).await;
            })
            .await;
        let arrivals = world.ses.arrivals();
        assert_eq!(measure::sent(&arrivals, &measure::span(first, 0..closes)), 0, "merge {merge}");
        let after = measure::sent(&arrivals, &measure::span(first, closes..closes + 75));
        assert_eq!(after, 100, "merge {merge}: within a minute and a quarter");
    }
}
