//! The cost of single decisions. Each is measured next to a simple alternative, so that the ratio of
//! two results of one run says something whatever the machine.
//!
//! - `email/parse` against `email/json_value`: checking a whole body against merely parsing its JSON.
//! - `limiter/next` against `limiter/scan`: giving out a slot while so many messages wait, against
//!   searching all of them.
//! - `shares/1000` against `shares/2`: dividing a window of 196 slots among so many campaigns, of which
//!   one in ten has no mail.
//! - `compression/compress` against `compression/level_6`: the body of a newsletter of 50 KB in its compressed form,
//!   against gzip's default level alone.
//! - `compression/attachment` against `compression/attachment_level_2`: to find that a body of 900 KB does not shrink,
//!   against compressing it.

#![expect(clippy::unwrap_used, reason = "a benchmark: a panic ends it")]

use std::hint::black_box;
use std::io::Write as _;
use std::iter::successors;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tidegate_core::Window;
use tidegate_core::allocation::Intake;
use tidegate_core::compression::compress;
use tidegate_core::cycle::Cycle;
use tidegate_core::email::{Email, Priority};
use tidegate_core::grid::SlotGrid;
use tidegate_core::limiter::{Limiter, Line, NextSend, Waiting};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::turns::{self, BATCH, Turns};

const SHORT: &str = include_str!("../../../events/message_short.json");
const LONG: &str = include_str!("../../../events/message_long.json");
const PRIORITIES: [Priority; 4] =
    [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
/// Every tenth message belongs to the small campaign.
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

/// A limiter in which all of `waiting` wait, and the time of the window's first slot.
fn limiter(waiting: &[Waiting<usize>]) -> (Limiter<usize>, tidegate_core::Timestamp) {
    let grid = SlotGrid::new(Rate::per_second(1_000.0).unwrap(), RateMargin::default());
    let slots = grid.slots_of(Window::from_epoch_second(1_795_207_000));
    let mut limiter = Limiter::new(grid, slots.clone(), Cycle::new(&WEIGHTS).unwrap());
    for message in waiting {
        limiter.wait(*message);
    }
    (limiter, grid.at(slots.start))
}

/// The first message of the line by priority, found by looking at every message.
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
                assert!(matches!(next, NextSend::Start(_)));
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

/// Computes a window of 196 slots from the weights to the last receive; returns the messages asked for.
fn window_shares(weights: &[u32], start: u64) -> u64 {
    let cycle = Cycle::new(weights).unwrap();
    let slots = start..start + 196;
    let has_mail: Vec<bool> = (0..weights.len()).map(|campaign| campaign % 10 != 9).collect();
    let turns = if turns::are_taken(weights.len(), 196) {
        Turns::taken(&cycle, &has_mail, &[9], slots.clone(), BATCH)
    } else {
        Turns::all(&cycle, weights.len())
    };
    let (debts, means) = (vec![0; turns.lanes.len()], vec![1.0; turns.lanes.len()]);
    let mut intake = Intake::of_turns(&turns, slots, 196, &debts, &means);
    let lanes = turns.lanes.iter().enumerate();
    intake.mark_all_dry(lanes.filter(|(_, c)| !has_mail[**c]).map(|(lane, _)| lane));
    let mut asked = 0;
    while let Some(ask) = intake.ask() {
        intake.received(&ask, ask.messages, ask.recipients);
        asked += ask.messages;
    }
    asked
}

fn shares(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("shares");
    for count in [2_u32, 1_000] {
        let weights: Vec<u32> = (0..count).map(|campaign| 1 + campaign % 10).collect();
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| assert_eq!(window_shares(black_box(&weights), 350_000_000_000), 196));
        });
    }
    group.finish();
}

/// A mail with paragraphs of words drawn from 600: a paragraph that is repeated would be compressed to nothing.
fn newsletter(bytes: usize) -> String {
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut word = || (0..3 + draw(6)).map(|_| char::from(b"etaoinshrdlu"[draw(12)])).collect();
    let words: Vec<String> = (0..600).map(|_| word()).collect();
    let mut html = String::new();
    while html.len() < bytes {
        let paragraph: Vec<&str> = (0..60).map(|_| words[draw(600)].as_str()).collect();
        html.extend(["<p style=\"margin: 0 0 16px\">", &paragraph.join(" "), "</p>\n"]);
    }
    json!({ "to": "ada@example.com", "html": html }).to_string()
}

/// The base64 text of `bytes` * 3 / 4 bytes without a pattern (Knuth's MMIX).
fn attachment(bytes: usize) -> String {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let noise: Vec<u8> = successors(Some(1_u64), next)
        .map(|state| (state >> 56) as u8)
        .take(bytes * 3 / 4)
        .collect();
    BASE64_STANDARD.encode(noise)
}

fn compression(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compression");
    let body = newsletter(50_000);
    assert!(compress(&body).is_some_and(|compressed| compressed.len() < body.len() / 2));
    group.bench_function("compress", |bencher| bencher.iter(|| compress(black_box(&body))));
    let at_level = |level: u32, body: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    group.bench_function("level_6", |bencher| bencher.iter(|| at_level(6, black_box(&body))));
    let attachment = attachment(900_000);
    assert_eq!(compress(&attachment), None);
    group.bench_function("attachment", |bencher| bencher.iter(|| compress(black_box(&attachment))));
    group.bench_function("attachment_level_2", |bencher| {
        bencher.iter(|| at_level(2, black_box(&attachment)));
    });
    group.finish();
}

criterion_group! {
    name = decisions;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = email, slots, shares, compression
}
criterion_main!(decisions);
