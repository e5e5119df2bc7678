//! What a decision costs, beside the plainest thing that could be in its place: read as ratios of
//! one run.
//!
//! - `email/parse` against `email/json_value`: a body checked whole against a body merely read.
//! - `limiter/next` against `limiter/scan`: a slot given out, with so many messages waiting, against
//!   looking through all of them.

#![expect(clippy::unwrap_used, reason = "a benchmark: a panic ends it")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use serde_json::Value;
use tidegate_core::Window;
use tidegate_core::cycle::Cycle;
use tidegate_core::email::{Email, Priority};
use tidegate_core::grid::SlotGrid;
use tidegate_core::limiter::{Limiter, Line, Next, Waiting};
use tidegate_core::rate::{Guard, Rate};

const SHORT: &str = include_str!("../../../events/message_short.json");
const LONG: &str = include_str!("../../../events/message_long.json");
const PRIORITIES: [Priority; 4] =
    [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
/// Every tenth message is the small campaign's.
const WEIGHTS: [u32; 2] = [90, 10];

fn email(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("email");
    for (name, body) in [("short", SHORT), ("long", LONG)] {
        Email::parse(body).unwrap();
        group.bench_with_input(BenchmarkId::new("parse", name), body, |bencher, body| {
            bencher.iter(|| Email::parse(black_box(body)));
        });
        group.bench_with_input(BenchmarkId::new("json_value", name), body, |bencher, body| {
            bencher.iter(|| serde_json::from_str::<Value>(black_box(body)));
        });
    }
    group.finish();
}

fn messages(count: usize) -> Vec<Waiting<usize>> {
    let message = |ticket| Waiting {
        ticket,
        line: Line::Campaign(usize::from(ticket % 10 == 0)),
        priority: PRIORITIES[ticket / 10 % 4],
        recipients: 1,
    };
    (0..count).map(message).collect()
}

/// A limiter with all of `waiting`, the window's first slot due.
fn limiter(waiting: &[Waiting<usize>]) -> (Limiter<usize>, tidegate_core::Timestamp) {
    let grid = SlotGrid::new(Rate::per_second(1_000.0).unwrap(), Guard::default());
    let slots = grid.slots_of(Window::from_epoch_second(1_795_207_000));
    let mut limiter = Limiter::new(grid, slots.clone(), Cycle::new(&WEIGHTS).unwrap());
    for message in waiting {
        limiter.wait(*message);
    }
    (limiter, grid.at(slots.start))
}

/// The first message of the line, by priority: found by looking at every one.
fn scan(waiting: &mut Vec<Waiting<usize>>, line: Line) -> Option<Waiting<usize>> {
    let of_line = waiting.iter().enumerate().filter(|(_, message)| message.line == line);
    let (index, _) = of_line.min_by_key(|(_, m)| (m.priority, m.ticket))?;
    Some(waiting.remove(index))
}

fn slots(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("limiter");
    for count in [100_usize, 1_000] {
        let waiting = messages(count);
        let (ready, due) = limiter(&waiting);
        group.bench_function(BenchmarkId::new("next", count), |bencher| {
            let take = |mut limiter: Limiter<usize>| {
                let next = limiter.next(black_box(due));
                assert!(matches!(next, Next::Start(_)));
                limiter
            };
            bencher.iter_batched(|| ready.clone(), take, BatchSize::SmallInput);
        });
        group.bench_function(BenchmarkId::new("scan", count), |bencher| {
            let take = |mut waiting: Vec<Waiting<usize>>| {
                assert!(scan(&mut waiting, black_box(Line::Campaign(0))).is_some());
                waiting
            };
            bencher.iter_batched(|| waiting.clone(), take, BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group! {
    name = decisions;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = email, slots
}
criterion_main!(decisions);
