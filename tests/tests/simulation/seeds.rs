//! Worlds and faults drawn from seeds. `TIDEGATE_SEEDS=5000` runs more of them, `TIDEGATE_SEEDS=100001..200000`
//! others, `TIDEGATE_SEED=17` one again.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate_tests::simulation::chaos::{self, Broken, Chaos, Reduction, Tally};

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

fn run(seed: u64, reduction: &Reduction) -> Box<Chaos> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // In a box: the runtime copies what the future may return, 4 KB here, each time it polls. That took a fifth of the time.
    runtime.block_on(async { Box::new(chaos::run(seed, reduction).await) })
}

/// What a failing seed breaks, in the least world that still breaks one of the same invariants.
fn fault_of(seed: u64, broken: &[Broken]) -> String {
    let fails = |less: &Chaos| {
        less.broken().iter().any(|one| broken.iter().any(|all| all.invariant == one.invariant))
    };
    let least = chaos::shrink(|reduction| run(seed, reduction), fails).unwrap();
    let told = |broken: &[Broken]| -> String {
        let lines = broken.iter().map(|broken| format!("{}: {}", broken.invariant, broken.found));
        lines.collect::<Vec<_>>().join("\n  ")
    };
    let (all, left) = (told(broken), told(&least.broken()));
    format!(
        "seed {seed}:\n  {all}\nof which this is left in the least world:\n  {left}\nin\n  {}\nagain with\n  TIDEGATE_SEED={seed} cargo test --workspace --test simulation seeds -- --nocapture",
        least.told(&left)
    )
}

/// No further seed is begun after so many failures; the first of them are shrunk, which takes some hundred runs of each.
const MOST_FAILURES: usize = 10;
const SHRUNK: usize = 2;

/// Runs these seeds side by side: their sums, and what failed.
fn run_all(seeds: &RangeInclusive<u64>) -> (Tally, Vec<(u64, Vec<Broken>)>) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = AtomicU64::new(*seeds.start());
    let work = || {
        let (mut tally, mut failed) = (Tally::default(), Vec::new());
        while failed.len() < MOST_FAILURES {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                break;
            }
            let chaos = run(seed, &Reduction::default());
            tally.add(&chaos);
            if !chaos.broken().is_empty() {
                failed.push((seed, chaos.broken()));
            }
        }
        (tally, failed)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let parts = workers.into_iter().map(|worker| worker.join().unwrap());
        let (sums, mut failed) =
            parts.fold((Tally::default(), Vec::new()), |(sums, mut all), (tally, failed)| {
                all.extend(failed);
                (sums.and(tally), all)
            });
        failed.sort_unstable_by_key(|(seed, _)| *seed);
        (sums, failed)
    })
}

#[test]
fn whatever_fails_nothing_is_lost_and_the_quota_holds() {
    let (tally, failed) = run_all(&seeds());
    if let Ok(path) = std::env::var("TIDEGATE_SEEDS_TABLE") {
        std::fs::write(path, tally.to_string()).unwrap();
    }
    let seeds: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
    let told = failed.iter().take(SHRUNK).map(|(seed, broken)| fault_of(*seed, broken));
    let told = told.collect::<Vec<_>>().join("\n\n");
    assert!(failed.is_empty(), "these seeds failed: {seeds:?}\n{told}");
}

/// A mail that is sent twice is no fault where its poller was killed; here it is taken for one.
#[test]
fn a_failing_seed_shrinks_to_what_it_needs_and_tells_the_story_of_a_mail() {
    let sent_twice = |chaos: &Chaos| !chaos.world.duplicates().is_empty();
    let shrunk = (0..50).find_map(|seed| {
        let least = chaos::shrink(|reduction| run(seed, reduction), sent_twice)?;
        Some((run(seed, &Reduction::default()), least))
    });
    let (whole, least) = shrunk.unwrap();
    let twice = least.world.duplicates();
    let told = least.told(&twice.join(" "));
    let parts = |told: &str| told.lines().take_while(|line| !line.contains("the story of")).count();
    assert!(parts(&told) < parts(&whole.told("")), "{told}");
    assert!(parts(&told) <= 10, "{told}");
    assert_eq!(told.matches(": accepted").count(), 2, "{told}");
}

#[test]
fn a_seed_repeats_itself() {
    assert_eq!(
        run(3, &Reduction::default()).world.ses.arrivals(),
        run(3, &Reduction::default()).world.ses.arrivals()
    );
}
