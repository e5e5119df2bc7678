//! The cost of the ledger in DynamoDB's units: it must not grow with the number of past campaigns.

use std::collections::BTreeMap;

use tidegate_core::Window;
use tidegate_core::parts::{Upkeep, counters_of};
use tidegate_delivery::ports::{Ledger as _, LedgerReport};
use tidegate_tests::simulation::{World, WorldSettings};

use crate::{MODES, MS};

/// Write units and read units a window, of the windows 40 to 60.
async fn units(world: &World) -> (f64, f64) {
    let mut units = (0.0, 0.0);
    world
        .play(70, async |first| {
            world.until(first, 40, MS(100)).await;
            let before = world.ledger.units();
            world.until(first, 60, MS(100)).await;
            let after = world.ledger.units();
            let each = |after: usize, before: usize| {
                f64::from(u32::try_from(after - before).unwrap_or(u32::MAX)) / 20.0
            };
            units = (each(after.written, before.written), each(after.read, before.read));
        })
        .await;
    world.assert_clean();
    units
}

#[tokio::test(start_paused = true)]
async fn a_window_of_two_campaigns_costs_a_write_for_its_claim_and_one_for_its_report() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(50.0, merge));
        world.fill("big", 4_000).await;
        world.fill("small", 600).await;
        let (written, read) = units(&world).await;
        assert!(written <= 2.4, "merge {merge}: {written} write units a window");
        assert!(read <= 1.2, "merge {merge}: {read} read units a window");
    }
}

/// Five hundred campaigns that are no more cost their sums until four days are over, and nothing then.
#[tokio::test(start_paused = true)]
async fn campaigns_that_are_past_cost_nothing_in_the_end() {
    let world = World::new(WorldSettings::new(50.0, true));
    let left: Vec<String> = (0..500).map(|number| format!("past-{number:0>58}")).collect();
    let counters = left.iter().flat_map(|name| counters_of(name)).map(|name| (name, 987_654));
    let counters: BTreeMap<String, i64> = counters.collect();
    let upkeep = Upkeep { parts: 8, left, ..Upkeep::default() };
    // Five days before the first window.
    let long_ago = Window::from_epoch_second(1_795_207_000 - 5 * 86_400);
    let report = LedgerReport { window: long_ago, counters, upkeep, ..LedgerReport::default() };
    world.ledger.report(&report).await.unwrap();
    world.fill("big", 4_000).await;
    world.fill("small", 600).await;
    let (written, _) = units(&world).await;
    let sizes = world.ledger.sizes();
    let largest = sizes.values().max();
    assert!(largest < Some(&2_048), "{sizes:?}");
    assert!(written <= 5.0, "{written} write units a window");
    assert!(world.ledger_now().await.left.is_empty());
}
