//! Worlds and faults drawn from seeds. `TIDEGATE_SEEDS=5000` runs more of them, `TIDEGATE_SEEDS=100001..200000`
//! others, `TIDEGATE_SEED=17` one again.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_tests::simulation::chaos::{self, Chaos};

/// The number of seeds unless `TIDEGATE_SEEDS` sets another.
const SEEDS: u64 = 1_500;

/// The seeds to run: those from FIRST to LAST for `FIRST..LAST`, and the first ones for a number of them.
fn seeds() -> RangeInclusive<u64> {
    let variable = |name: &str| std::env::var(name).ok();
    let number =
        |text: &str| -> u64 { text.parse().unwrap_or_else(|_| panic!("{text} is no number")) };
    if let Some(seed) = variable("TIDEGATE_SEED") {
        return number(&seed)..=number(&seed);
    }
    let seeds = variable("TIDEGATE_SEEDS").unwrap_or_else(|| SEEDS.to_string());
    match seeds.split_once("..") {
        Some((first, last)) => number(first)..=number(last),
        None => 0..=number(&seeds).saturating_sub(1),
    }
}

fn run(seed: u64) -> Box<Chaos> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // In a box: the runtime copies what the future may return, 4 KB here, each time it polls. That took a fifth of the time.
    runtime.block_on(async { Box::new(chaos::run(seed).await) })
}

fn check(seed: u64) -> Result<(), String> {
    let chaos = run(seed);
    let broken = chaos.broken();
    if broken.is_empty() {
        return Ok(());
    }
    let told = broken.join("\n  ");
    let story = chaos.story.join("\n  ");
    Err(format!(
        "seed {seed}:\n  {told}\nin\n  {story}\nagain with\n  TIDEGATE_SEED={seed} cargo test --workspace --test simulation seeds -- --nocapture"
    ))
}

#[test]
fn whatever_fails_nothing_is_lost_and_the_quota_holds() {
    let seeds = seeds();
    // Each seed is a world of its own: they run side by side.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(*seeds.start());
    let failed = std::thread::scope(|scope| {
        let work = || {
            let mine = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            let mine = mine.take_while(|seed| seeds.contains(seed));
            mine.filter_map(|seed| check(seed).err()).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn a_seed_repeats_itself() {
    assert_eq!(run(3).world.ses.arrivals(), run(3).world.ses.arrivals());
}
