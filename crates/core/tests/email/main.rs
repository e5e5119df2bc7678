//! Tests of the message: both forms, every rule with its error, and properties of all messages.

use tidegate_core::email::{Email, EmailError};

mod addresses;
mod forms;
mod members;
mod properties;
mod raw;
mod schema;
mod stored;
mod text_schema;
#[path = "../../../../tests/oracles/src/written.rs"]
mod written;

fn parse(body: &str) -> Result<Email, EmailError> {
    Email::parse(body)
}

/// A valid long form as JSON text, with one member replaced or added.
fn long_with(name: &str, value: &str) -> String {
    let mut members = vec![
        ("to", r#""ada@example.com""#),
        ("from", r#""news@example.org""#),
        ("subject", r#""Hello""#),
        ("text", r#""Text.""#),
    ];
    members.retain(|(n, _)| *n != name);
    members.push((name, value));
    let members: Vec<_> = members.iter().map(|(n, v)| format!("\"{n}\": {v}")).collect();
    format!("{{{}}}", members.join(", "))
}

/// Asserts that a member's value gives an error on `field` that contains `expected`.
#[track_caller]
fn refused(name: &str, value: &str, field: &str, expected: &str) {
    let found = parse(&long_with(name, value)).map_err(|e| (e.field.clone(), e.to_string()));
    let as_expected = matches!(&found, Err((found_field, text)) if found_field == field
        && text.starts_with(&format!("{field}: ")) && text.contains(expected));
    assert!(as_expected, "expected {expected:?} on {field}, found {found:?}");
}
