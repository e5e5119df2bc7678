//! One text of a JSON value changed: by a mark, so that whoever shows that text shows the mark; or
//! by what would break out of a header line.

use serde_json::{Map, Value};

/// Not part of any constant text, and long: an error that does not shorten it outgrows its bound.
/// No name that may stand in a field's path holds a `~`.
const MARK: &str = "~Qz7~";
const REPEATED: usize = 400;
/// The start of another header, after whatever a text says.
const BREAK_OUT: &str = "\r\nBcc: eve@example.com";

/// Whether `text` contains a marked secret.
pub(crate) fn shows_mark(text: &str) -> bool {
    text.contains(MARK)
}

/// `value` with its text number `nth` marked, names included, and that text's path; none where
/// there are fewer texts.
pub(crate) fn with_mark(value: &Value, nth: usize) -> Option<(Value, Vec<String>)> {
    let (mut value, mut left, mut path) = (value.clone(), nth, Vec::new());
    append(&mut value, &mut left, &mut path, &MARK.repeat(REPEATED)).then_some((value, path))
}

/// Likewise, with a line break and a header after it.
pub(crate) fn with_break_out(value: &Value, nth: usize) -> Option<Value> {
    let (mut value, mut left) = (value.clone(), nth);
    append(&mut value, &mut left, &mut Vec::new(), BREAK_OUT).then_some(value)
}

fn append(value: &mut Value, left: &mut usize, path: &mut Vec<String>, suffix: &str) -> bool {
    match value {
        Value::String(text) => {
            let here = taken(left);
            if here {
                text.push_str(suffix);
            }
            here
        }
        Value::Array(items) => items.iter_mut().any(|item| append(item, left, path, suffix)),
        Value::Object(members) => append_to_member(members, left, path, suffix),
        _ => false,
    }
}

fn append_to_member(
    members: &mut Map<String, Value>,
    left: &mut usize,
    path: &mut Vec<String>,
    suffix: &str,
) -> bool {
    let names: Vec<String> = members.keys().cloned().collect();
    for name in names {
        if taken(left) {
            let value = members.remove(&name).unwrap_or_default();
            members.insert(name + suffix, value);
            return true;
        }
        path.push(name.clone());
        if members.get_mut(&name).is_some_and(|value| append(value, left, path, suffix)) {
            return true;
        }
        path.pop();
    }
    false
}

/// Counts down; whether this one is meant.
fn taken(left: &mut usize) -> bool {
    let here = *left == 0;
    *left = left.wrapping_sub(1);
    here
}
