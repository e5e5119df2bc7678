//! Corrected dead letters: an export whose bodies a person has changed.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tidegate_core::email::id_of;

use super::letter::LetterContent;
use super::raw::{with_base64, with_lines};
use super::read::LetterSnapshot;
use crate::redact::{AddressVisibility, has_mask, unmasked};
use crate::send::InputFault;
use crate::text_file::TextLines;

const ANOTHER: &str = "must stay as it was: with another id it is another mail";

/// Whether a corrected body gives the mail another id.
fn is_another(was: &str, is: &str) -> bool {
    id_of(was).is_some_and(|id| id_of(is) != Some(id))
}

/// A body that a letter cannot be corrected to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidCorrection {
    #[error("body.id {ANOTHER}")]
    Id,
    /// The place in the body, such as `to[0]`; empty for a body that is no JSON.
    #[error(
        "body{0}: a masked address or phone number (***) stands where others, more or fewer stood: write each in full"
    )]
    Masked(String),
}

impl LetterSnapshot {
    /// The letter with this message id alone, with another body. `body` may be a copy in which addresses and phone
    /// numbers are masked; they are those of the original then.
    ///
    /// # Errors
    /// [`InvalidCorrection`].
    pub fn corrected(mut self, message_id: &str, body: &str) -> Result<Self, InvalidCorrection> {
        self.letters.retain(|letter| letter.message_id == message_id);
        for letter in &mut self.letters {
            if let LetterContent::Entry(entry) = &mut letter.content {
                let body = meant(&with_lines(&entry.message), body)?;
                let body = with_base64(&entry.message, &body);
                if is_another(&entry.message, &body) {
                    return Err(InvalidCorrection::Id);
                }
                entry.message = body;
            }
        }
        Ok(self)
    }
}

/// The body that a person meant who changed a masked copy of `original`. Members of JSON are compared one by
/// one.
fn meant(original: &str, edited: &str) -> Result<String, InvalidCorrection> {
    match (serde_json::from_str(original), serde_json::from_str(edited)) {
        (Ok(was), Ok(is)) if has_mask(edited) => {
            member(&was, is, "").map(|value| value.to_string())
        }
        _ => unmasked(original, edited).ok_or_else(|| InvalidCorrection::Masked(String::new())),
    }
}

fn member(was: &Value, is: Value, place: &str) -> Result<Value, InvalidCorrection> {
    let unknown = || InvalidCorrection::Masked(place.to_owned());
    match (was, is) {
        (Value::String(was), Value::String(is)) => {
            unmasked(was, &is).map(Value::String).ok_or_else(unknown)
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            let items = was.iter().zip(is).enumerate();
            let items = items.map(|(at, (was, is))| member(was, is, &format!("{place}[{at}]")));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        (Value::Object(was), Value::Object(is)) => {
            let members = is.into_iter().map(|(name, value)| {
                let place = format!("{place}.{name}");
                let is_it = |known: &&String| AddressVisibility::Masked.within(known) == name;
                let known = was.keys().find(is_it).cloned().unwrap_or(name);
                let before = was.get(&known).unwrap_or(&Value::Null);
                Ok((known, member(before, value, &place)?))
            });
            members.collect::<Result<_, _>>().map(Value::Object)
        }
        (_, is) if has_mask(&is.to_string()) => Err(unknown()),
        (_, is) => Ok(is),
    }
}

/// Corrected bodies, by SQS's id of their dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections {
    file: String,
    /// With the lines of the file.
    bodies: BTreeMap<String, (u64, String)>,
}

#[derive(Deserialize)]
struct CorrectedLine {
    message_id: String,
    body: Option<String>,
}

impl Corrections {
    /// Reads a file that `tidegate dead export` wrote, called `file` in faults.
    ///
    /// ```
    /// use tidegate_operator::dead::Corrections;
    /// let fault = Corrections::read("dead.jsonl", "{\"message_id\": \"5a1f\"}\n".as_bytes()).unwrap_err();
    /// assert!(fault.to_string().starts_with("dead.jsonl:1: body: must be there"), "{fault}");
    /// ```
    ///
    /// # Errors
    /// The first line that is no letter with a body, or names one twice.
    pub fn read(file: &str, input: impl Read) -> Result<Self, Box<InputFault>> {
        let mut bodies = BTreeMap::new();
        let fault = |line, field: &str, problem: &str| {
            Box::new(InputFault::bare(file, line, field, problem))
        };
        for line in TextLines::new(file, input) {
            let (number, line) = line?;
            if line.trim().is_empty() {
                continue;
            }
            let CorrectedLine { message_id, body } = serde_json::from_str(&line).map_err(|_| {
                fault(number, "line", "must be a JSON object with message_id and body")
            })?;
            let body = body.ok_or_else(|| {
                let said = "must be there: the whole message as text (export without --masked)";
                fault(number, "body", said)
            })?;
            if bodies.insert(message_id, (number, body)).is_some() {
                return Err(fault(number, "message_id", "must be another one in each line"));
            }
        }
        Ok(Self { file: file.to_owned(), bodies })
    }

    /// Keeps the letters of `reading` that are corrected, with their new bodies; returns how many are not there.
    ///
    /// # Errors
    /// The first body that gives the mail another id: it would be another mail.
    pub fn apply(&self, reading: &mut LetterSnapshot) -> Result<u64, Box<InputFault>> {
        reading.letters.retain(|letter| self.bodies.contains_key(&letter.message_id));
        for letter in &mut reading.letters {
            let corrected = self.bodies.get(&letter.message_id);
            if let (LetterContent::Entry(entry), Some((line, body))) =
                (&mut letter.content, corrected)
            {
                if is_another(&entry.message, body) {
                    return Err(Box::new(InputFault::bare(&self.file, *line, "body.id", ANOTHER)));
                }
                entry.message = with_base64(&entry.message, body);
            }
        }
        Ok(self.bodies.len().saturating_sub(reading.letters.len()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_names_another_letter_and_its_whole_message() {
        for (text, said) in [
            ("[]", "a:1: line: must be a JSON object"),
            ("\n{\"message_id\": \"a\", \"body\": null}", "a:2: body: must be there"),
            (
                "{\"message_id\": \"a\", \"body\": \"{}\"}\n{\"message_id\": \"a\", \"body\": \"{}\"}",
                "a:2: message_id: must be another one",
            ),
        ] {
            let fault = Corrections::read("a", text.as_bytes()).unwrap_err().to_string();
            assert!(fault.starts_with(said), "{fault}");
        }
        let line = "{\"message_id\": \"a\", \"body\": \"{}\", \"code\": \"X\"}";
        assert_eq!(Corrections::read("a", line.as_bytes()).unwrap().bodies.len(), 1);
    }

    #[test]
    fn a_masked_address_that_stayed_where_it_was_is_that_of_the_original() {
        let original = r#"{"id":"7","to":["ada@a.example","bob@a.example"],"subject":"Hi ada@a.example","n":1}"#;
        let meant = |edited: &str| meant(original, edited);
        let text = r#"{"to_phone":"+12065550199","text":"Hi"}"#;
        let shorter = super::meant(text, r#"{"to_phone":"+***99","text":"Hello"}"#);
        assert_eq!(shorter.as_deref(), Ok(r#"{"text":"Hello","to_phone":"+12065550199"}"#));
        for (edited, expected) in [
            (original, original),
            (
                r#"{"id":"7","to":["***@a.example","***@a.example"],"subject":"Hello ***@a.example","n":2}"#,
                r#"{"id":"7","to":["ada@a.example","bob@a.example"],"subject":"Hello ada@a.example","n":2}"#,
            ),
            (
                r#"{"id":"7","to":["***@a.example","cleo@b.example"],"text":"x"}"#,
                r#"{"id":"7","to":["ada@a.example","cleo@b.example"],"text":"x"}"#,
            ),
            (r#"{"id":"7","to":["cleo@b.example"]}"#, r#"{"id":"7","to":["cleo@b.example"]}"#),
            ("no JSON", "no JSON"),
        ] {
            let said = meant(edited).unwrap();
            let json = |text: &str| serde_json::from_str::<Value>(text).ok();
            assert_eq!(json(&said), json(expected), "{edited}");
        }
        for (edited, place) in [
            (r#"{"to_phone":"+***99"}"#, ".to_phone"),
            (r#"{"to":["***@a.example"]}"#, ".to"),
            (r#"{"to":["***@b.example","***@a.example"]}"#, ".to[0]"),
            (r#"{"text":"***@a.example"}"#, ".text"),
            (r#"{"subject":"***@a.example ***@a.example"}"#, ".subject"),
            (r#"{"to":"***@a.example"}"#, ".to"),
            ("***@a.example", ""),
        ] {
            assert_eq!(meant(edited), Err(InvalidCorrection::Masked(place.to_owned())), "{edited}");
        }
    }
}
