//! Worlds and faults drawn from seeds. `TIDEGATE_SEEDS=5000` runs more of them, `TIDEGATE_SEED=17`
//! one again.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use tidegate_tests::simulation::chaos::{self, Chaos};
use tidegate_tests::simulation::{measure, rate};

/// Seeds of a usual run.
const SEEDS: u64 = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// What holds after every run; what does not, in words.
fn broken(chaos: &Chaos) -> Vec<String> {
    let world = &chaos.world;
    let mut broken = Vec::new();
    let lost = world.lost();
    if !lost.is_empty() {
        broken.push(format!("lost: {lost:?}"));
    }
    if !world.is_drained() {
        broken.push(format!("still waiting: {:?}", world.waiting()));
    }
    let quota = rate(world.settings.quota).ceil();
    let most = quota + u64::from(chaos.largest) - 1;
    let worst = measure::worst_second(&world.ses.arrivals());
    if worst > most {
        broken.push(format!("{worst} recipients in one second, {most} allowed"));
    }
    let twice = world.duplicates().len() as u64;
    if twice > chaos.may_be_twice {
        broken.push(format!("{twice} sent twice, {} at most explained", chaos.may_be_twice));
    }
    broken
}

fn check(seed: u64) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let chaos = runtime.block_on(chaos::run(seed));
    let broken = broken(&chaos);
    if broken.is_empty() {
        return Ok(());
    }
    let told = broken.join("\n  ");
    let story = chaos.story.join("\n  ");
    Err(format!(
        "seed {seed}:\n  {told}\nin\n  {story}\nagain with\n  TIDEGATE_SEED={seed} cargo test -p tidegate-tests --test simulation seeds -- --nocapture"
    ))
}

#[test]
fn whatever_fails_nothing_is_lost_and_the_quota_holds() {
    let seeds = match number("TIDEGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIDEGATE_SEEDS").unwrap_or(SEEDS),
    };
    let failed: Vec<String> = seeds.filter_map(|seed| check(seed).err()).collect();
    assert!(failed.is_empty(), "{} failed\n{}", failed.len(), failed.join("\n\n"));
}

#[test]
fn a_seed_repeats_itself() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(chaos::run(3)).world.ses.arrivals()
    };
    assert_eq!(run(), run());
}
