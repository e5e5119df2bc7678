//! JSON objects of a list, with values as they are written.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Result, Value};

/// A text as a row's value, without the blanks around it.
pub(super) fn cell(text: &str) -> Value {
    match text.trim() {
        "" => Value::Null,
        text => Value::from(text),
    }
}

/// The values of an object.
pub(super) fn object(json: &str) -> Result<BTreeMap<String, Value>> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(json)?;
    let read = |(name, value)| match as_written(value)? {
        Value::String(text) => Ok((name, cell(&text))),
        value => Ok((name, value)),
    };
    members.into_iter().map(read).collect()
}

/// A value of which numbers stay as they are written: one that is not whole is a text, as every value of a CSV is,
/// because as a number it would lose its zeros. A `null` inside of it is left out.
fn as_written(json: &RawValue) -> Result<Value> {
    let text = json.get();
    let is_there = |value: &&RawValue| value.get() != "null";
    Ok(match text.as_bytes().first() {
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text)?;
            Value::Array(items.into_iter().filter(is_there).map(as_written).collect::<Result<_>>()?)
        }
        Some(b'{') => {
            let members: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
            let members = members.into_iter().filter(|(_, value)| is_there(value));
            let read = |(name, value)| Ok((name, as_written(value)?));
            Value::Object(members.map(read).collect::<Result<_>>()?)
        }
        Some(b'-' | b'0'..=b'9')
            if text.parse::<i64>().map(|n| n.to_string()).as_deref() != Ok(text) =>
        {
            Value::from(text)
        }
        _ => serde_json::from_str(text)?,
    })
}

/// The elements of an array that begins on a line, each with its own line.
pub(super) fn elements(mut line: u64, text: &str) -> Result<Vec<(u64, String)>> {
    let (mut rest, mut elements) = (text, Vec::new());
    for element in serde_json::from_str::<Vec<&RawValue>>(text)? {
        let Some((before, after)) = rest.split_once(element.get()) else { continue };
        line += before.matches('\n').count() as u64;
        elements.push((line, element.get().to_owned()));
        line += element.get().matches('\n').count() as u64;
        rest = after;
    }
    Ok(elements)
}

/// An object in one line with one member more; what is no object is a member of it.
pub(super) fn with_member(name: &str, value: &str, json: &str) -> String {
    // A line break in an object stands between its members.
    let json = json.trim().replace('\n', " ");
    let value = Value::from(value);
    match serde_json::from_str::<BTreeMap<String, &RawValue>>(&json) {
        Ok(members) if !members.is_empty() => format!("{{\"{name}\":{value},{}\n", &json[1..]),
        _ => format!("{{\"{name}\":{value},\"row\":{}}}\n", Value::from(json)),
    }
}
