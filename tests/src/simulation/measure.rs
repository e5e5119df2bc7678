//! Measures rate, shares and duplicates of a world after its run.

use std::ops::Range;

use tidegate_core::Window;
pub use tidegate_simulator::measure::*;

use super::World;

/// The least share of the quota that was used in any `length` windows within `windows`, counted
/// from `first`. A span's edges cut a slot in two: one recipient counts for that.
///
/// # Panics
/// Where `windows` are fewer than `length`.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub fn utilisation(world: &World, first: Window, windows: Range<u64>, length: u64) -> f64 {
    let arrivals = world.ses.arrivals();
    let allowed = world.settings.quota * length as f64;
    let last = windows.end.saturating_sub(length);
    assert!(windows.start <= last, "the run is shorter than {length} windows");
    let used = (windows.start..=last).map(|start| {
        let got = sent(&arrivals, &span(first, start..start + length));
        (got + 1) as f64 / allowed
    });
    used.fold(f64::INFINITY, f64::min)
}
