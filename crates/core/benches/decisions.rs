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
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tidegate_core::Timestamp;
use tidegate_core::Window;
use tidegate_core::allocation::Intake;
use tidegate_core::compression::compress;
use tidegate_core::cycle::Cycle;
use tidegate_core::email::{Email, Priority};
use tidegate_core::grid::SlotGrid;
use tidegate_core::limiter::{Gates, Limiter, Line, NextSend, Waiting};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_core::trace::{MOST_SPANS, SendSpan, TraceParent, WindowSpans};
use tidegate_core::turns::{self, BATCH, Turns};

const SHORT: &str = include_str!("../../../events/message_short.json");
const LONG: &str = include_str!("../../../events/message_long.json");
const PRIORITIES: [Priority; 4] =
    [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];
/// Every tenth message belongs to the small campaign.
const WEIGHTS: [u32; 2] = [90, 10];

/// Samples of a benchmark, and calls in each of them: as many as take so long, of quick calls at most so many.
const SAMPLES: usize = 101;
const SAMPLE: Duration = Duration::from_millis(5);
const CALLS: u128 = 100;

/// The time of a call for each input. The inputs are made before, and the results dropped after it.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn time<I, T>(inputs: Vec<I>, call: &mut impl FnMut(I) -> T) -> Duration {
    let mut results = Vec::with_capacity(inputs.len());
    let begun = Instant::now();
    for input in inputs {
        results.push(call(black_box(input)));
    }
    let took = begun.elapsed();
    drop(black_box(results));
    took
}

/// Prints the median time of a call.
#[expect(clippy::print_stdout, reason = "the figures are what a benchmark is for")]
fn measure<I, T>(name: &str, mut input: impl FnMut() -> I, mut call: impl FnMut(I) -> T) {
    let once = time(vec![input()], &mut call).as_nanos().max(1);
    let calls = (SAMPLE.as_nanos() / once).clamp(1, CALLS);
    let mut sample = || time((0..calls).map(|_| input()).collect(), &mut call).as_nanos() / calls;
    let mut samples: Vec<u128> = (0..SAMPLES).map(|_| sample()).collect();
    samples.sort_unstable();
    println!("{name:32} {:>12} ns", samples[SAMPLES / 2]);
}

fn email() {
    let text = "A line of a letter, of which many make a newsletter.\r\n".repeat(1_400);
    let raw =
        BASE64_STANDARD.encode(format!("From: news@example.org\r\nSubject: News\r\n\r\n{text}"));
    let raw = format!(r#"{{"from": "news@example.org", "to": "ada@example.com", "raw": "{raw}"}}"#);
    for (name, body) in [("short", SHORT), ("long", LONG), ("raw_100_kb", &*raw)] {
        Email::parse(body).unwrap();
        measure(&format!("email/parse/{name}"), || body, Email::parse);
        measure(&format!("email/json_value/{name}"), || body, serde_json::from_str::<Value>);
    }
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
fn limiter(waiting: &[Waiting<usize>]) -> (Limiter<usize>, Timestamp) {
    let grid = SlotGrid::new(Rate::per_second(1_000.0).unwrap(), RateMargin::default());
    let slots = grid.slots_of(Window::from_epoch_second(1_795_207_000));
    let mut limiter = Limiter::new(grid, slots.clone(), Cycle::new(&WEIGHTS).unwrap());
    for message in waiting {
        limiter.wait(*message);
    }
    (limiter, grid.at(slots.start))
}

/// A gate that admits every message.
struct Open;

impl<T> Gates<T> for Open {
    fn admits(&self, _: T, _: u64) -> bool {
        true
    }

    fn take(&mut self, _: T, _: u64) {}
}

/// The first message of the line by priority, found by looking at every message.
fn scan(waiting: &mut Vec<Waiting<usize>>, line: Line) -> Option<Waiting<usize>> {
    let of_line = waiting.iter().enumerate().filter(|(_, message)| message.line == line);
    let (index, _) = of_line.min_by_key(|(_, m)| (m.priority, m.ticket))?;
    Some(waiting.remove(index))
}

fn slots() {
    for count in [100_usize, 1_000] {
        let waiting = messages(count);
        let (ready, due) = limiter(&waiting);
        let next = |mut limiter: Limiter<usize>| {
            assert!(matches!(limiter.next(black_box(due), &mut Open), NextSend::Start(_)));
            limiter
        };
        measure(&format!("limiter/next/{count}"), || ready.clone(), next);
        let search = |mut waiting: Vec<Waiting<usize>>| {
            assert!(scan(&mut waiting, black_box(Line::Campaign(0))).is_some());
            waiting
        };
        measure(&format!("limiter/scan/{count}"), || waiting.clone(), search);
    }
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
    let mut intake = Intake::new(&turns, slots, 196, &debts, &means);
    let lanes = turns.lanes.iter().enumerate();
    intake.mark_dry(lanes.filter(|(_, c)| !has_mail[**c]).map(|(lane, _)| lane));
    let mut asked = 0;
    while let Some(ask) = intake.ask(u64::MAX, |_| true) {
        intake.received(&ask, ask.messages, ask.recipients);
        asked += ask.messages;
    }
    asked
}

fn shares() {
    for count in [2_u32, 1_000] {
        let weights: Vec<u32> = (0..count).map(|campaign| 1 + campaign % 10).collect();
        let asked = |weights: &Vec<u32>| assert_eq!(window_shares(weights, 350_000_000_000), 196);
        measure(&format!("shares/{count}"), || &weights, asked);
    }
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

fn compression() {
    let body = newsletter(50_000);
    assert!(compress(&body).is_some_and(|compressed| compressed.len() < body.len() / 2));
    measure("compression/compress", || &body, |body| compress(body));
    let at_level = |level: u32, body: &str| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
        encoder.write_all(body.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    measure("compression/level_6", || &body, |body| at_level(6, body));
    let attachment = attachment(900_000);
    assert_eq!(compress(&attachment), None);
    measure("compression/attachment", || &attachment, |body| compress(body));
    measure("compression/attachment_level_2", || &attachment, |body| at_level(2, body));
}

/// A window's spans as they go out, of as many sends as at most become one: beside the processor time of its mails, at least
/// 0.26 ms each.
fn spans() {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let attribute = |name: &str| (name == "traceparent").then_some(parent);
    let Some(trace) = TraceParent::of_attributes(attribute) else { return };
    let at = Timestamp::from_millis;
    let send = |number: u64| SendSpan {
        trace: trace.clone(),
        campaign: "big".to_owned(),
        id: format!("order-{number}"),
        start: at(number),
        end: at(number + 80),
        result: Ok("0102018f3c5d7e9a-1b2c3d4e-0000-4000-8000-5f6a7b8c9d0e-000000".to_owned()),
    };
    let spans = WindowSpans {
        window: Window::from_epoch_second(1),
        token: "token".to_owned(),
        start: at(600),
        end: at(2_100),
        counts: vec![("mails", 100), ("sent", 100)],
        sends: (0..MOST_SPANS as u64).map(send).collect(),
    };
    measure("spans of 100 sends", || (), |()| spans.to_otlp("mail").to_string());
}

fn main() {
    email();
    slots();
    shares();
    compression();
    spans();
}
