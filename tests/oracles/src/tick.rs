//! A tick, and the texts and numbers in it.

use std::time::Duration;

use serde_json::Value;
use tidegate_core::identity::EpochMillis;
use tidegate_core::rate::Rate;
use tidegate_core::tick::{Admission, InvalidTick, Tick};
use tidegate_core::{Timestamp, Window};

use crate::mark::with_mark;

/// Texts in one payload that are marked, one after the other.
const MARKED: usize = 8;
/// Bytes that an error may have: a number as text can have 309 digits.
const MAX_ERROR: usize = 800;

/// Any bytes as an Invoke's payload.
pub fn tick(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        texts(text.trim());
    }
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return };
    checked(&value, &Tick::from_value(&value));
    for nth in 0..MARKED {
        let Some((marked, _)) = with_mark(&value, nth) else { break };
        checked(&marked, &Tick::from_value(&marked));
    }
    let parts = value.as_object().into_iter().flatten().map(|(_, part)| part);
    for part in parts.chain([&value]) {
        part.as_str().into_iter().for_each(texts);
        part.as_f64().into_iter().for_each(|number| rate(number, Rate::per_second(number).ok()));
    }
}

fn checked(value: &Value, read: &Result<Option<Tick>, InvalidTick>) {
    let none = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
    match read {
        Ok(None) => assert!(none, "{value} is no empty payload"),
        Ok(Some(tick)) => accepted(value, *tick),
        Err(error) => {
            assert!(!none);
            bounded(error);
            let text = error.to_string();
            let fault = text.split("; allowed is").next().unwrap();
            let named = ["`window`", "`rate_per_second`"].iter().any(|name| fault.contains(name));
            assert!(named || !value.is_object(), "no member is named: {text}");
        }
    }
}

fn bounded(error: &InvalidTick) {
    let text = error.to_string();
    assert!(text.contains("allowed is") && text.len() <= MAX_ERROR, "{} bytes: {text}", text.len());
}

fn accepted(value: &Value, tick: Tick) {
    let members: Vec<_> = value.as_object().into_iter().flatten().collect();
    assert_eq!(members.len(), 2, "{value} is taken for a tick");
    assert_eq!(value["window"].as_str().unwrap().parse(), Ok(tick.window));
    rate(value["rate_per_second"].as_f64().unwrap(), Some(tick.quota));
    let json = serde_json::to_value(tick).unwrap();
    assert_eq!(Tick::from_value(&json), Ok(Some(tick)), "{json}");
    let at = |time: Timestamp| tick.admit(time);
    assert_eq!(at(tick.window.opens()), Admission::Admitted);
    assert_eq!(at(tick.window.closes()), Admission::Expired);
    let early = tick.window.opens().saturating_sub(Duration::from_millis(1_501));
    assert!(
        early + Duration::from_millis(1_501) != tick.window.opens()
            || at(early) == Admission::Early
    );
}

/// A rate is what was written, to a millionth, within its range.
fn rate(given: f64, read: Option<Rate>) {
    let Some(rate) = read else {
        assert!(!(0.001..=10_000.0).contains(&given), "{given} is refused");
        return;
    };
    assert!((0.001..=10_000.0).contains(&rate.as_per_second()), "{rate}");
    assert!((rate.as_per_second() - given).abs() <= 1e-6, "{given} is read as {rate}");
    assert_eq!(Rate::per_second(rate.as_per_second()), Ok(rate));
}

/// A window and a time read back as they are written; what is refused is shown shortened.
fn texts(text: &str) {
    match text.parse::<Window>() {
        Ok(window) => {
            assert_eq!(window.to_string().parse(), Ok(window), "{text}");
            assert_eq!(Window::containing(window.opens()), window);
            let time: EpochMillis = text.parse().unwrap();
            assert_eq!(Timestamp::from(time), window.opens(), "{text} is no whole second");
            assert_eq!(window.opens() + Duration::from_secs(1), window.closes());
        }
        Err(error) => assert!(error.to_string().len() <= MAX_ERROR),
    }
    match text.parse::<EpochMillis>() {
        Ok(time) => assert_eq!(time.to_string().parse(), Ok(time), "{text}"),
        Err(error) => assert!(error.to_string().len() <= MAX_ERROR),
    }
}
