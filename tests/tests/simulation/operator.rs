//! Changes by operators during a run: a cap on the rate, and a pause with an end.

use std::time::Duration;

use tidegate_core::control::{Hold, HoldReason};
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;
use tidegate_delivery::ports::Ledger as _;
use tidegate_tests::simulation::{World, WorldSettings, measure, rate};

use crate::{MODES, MS};

async fn cap(world: &World, cap: Option<Rate>) {
    let factor = world.ledger_now().await.factor;
    assert!(matches!(world.ledger.set_factor(factor, factor.capped(cap)).await, Ok(true)));
}

#[tokio::test(start_paused = true)]
async fn a_cap_holds_within_two_seconds_and_goes_as_fast() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 3_000).await;
        world.fill("small", 600).await;
        let first = world
            .play(60, async |first| {
                world.until(first, 10, MS(100)).await;
                cap(&world, Some(rate(5.5))).await;
                world.until(first, 30, MS(100)).await;
                cap(&world, None).await;
            })
            .await;
        world.assert_clean();
        let arrivals = world.ses.arrivals();
        let capped = measure::sent(&arrivals, &measure::span(first, 12..30));
        // 18 windows at 5.5 a second under the rate margin of 2 %.
        assert!((95..=99).contains(&capped), "merge {merge}: {capped} in 18 capped windows");
        let after = measure::utilisation(&world, first, 32..50, 10);
        assert!(after >= 0.95, "merge {merge}: {after:.4} after the cap was lifted");
    }
}

#[tokio::test(start_paused = true)]
async fn at_every_moment_of_a_capped_rate_s_changes_no_second_holds_more_than_the_quota() {
    let world = World::new(WorldSettings::new(14.0, true));
    world.fill("big", 1_200).await;
    world
        .play(80, async |first| {
            for step in 0..20_u32 {
                let at = u64::from(step);
                world.until(first, 4 + 3 * at, MS(37 * at)).await;
                let lower = step.is_multiple_of(2);
                let other = lower.then(|| rate(1.0 + 0.6 * f64::from(step)));
                cap(&world, other).await;
            }
        })
        .await;
    // Strict: the account refuses whatever exceeds its quota in any sliding second.
    world.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn a_pause_with_an_end_ends_by_itself_at_that_second() {
    for merge in MODES {
        for campaign in [None, Some("big")] {
            let world = World::new(WorldSettings::new(50.0, merge));
            world.fill("big", 2_500).await;
            let mut until = None;
            let first = world
                .play(60, async |first| {
                    world.until(first, 10, MS(100)).await;
                    let end = first.plus(20).opens() + Duration::from_millis(500);
                    until = Some(EpochMillis::from(end));
                    let hold = Hold::new("lunch", world.universe.now()).until(until);
                    world
                        .control(|control| {
                            assert!(control.hold(campaign, HoldReason::Paused, hold));
                        })
                        .await;
                })
                .await;
            world.assert_clean();
            let arrivals = world.ses.arrivals();
            let paused = measure::sent(&arrivals, &measure::span(first, 12..21));
            assert_eq!(paused, 0, "merge {merge}, {campaign:?}: sent while paused");
            let again = measure::sent(&arrivals, &measure::span(first, 21..24));
            assert!(again > 0, "merge {merge}, {campaign:?}: nothing after the pause's end");
            let control = world.ledger_now().await.control;
            assert_eq!(control.standing_holds(), 0, "merge {merge}, {campaign:?}: it stands on");
        }
    }
}
