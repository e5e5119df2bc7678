//! Corrected dead letters: an export whose bodies a person has changed.

use std::collections::BTreeMap;
use std::io::BufRead;

use serde::Deserialize;
use tidegate_core::email::id_of;

use super::letter::LetterContent;
use super::read::LetterSnapshot;
use crate::send::InputFault;

/// Corrected bodies, by SQS's id of their dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corrections(BTreeMap<String, (u64, String)>);

#[derive(Deserialize)]
struct CorrectedLine {
    message_id: String,
    body: Option<String>,
}

impl Corrections {
    /// Reads a file that `tidegate dead export` wrote, called `file` in faults.
    ///
    /// ```
    /// use tidegate_operate::dead::Corrections;
    /// let fault = Corrections::read("dead.jsonl", "{\"message_id\": \"5a1f\"}\n".as_bytes()).unwrap_err();
    /// assert!(fault.to_string().starts_with("dead.jsonl:1: body: must be there"), "{fault}");
    /// ```
    ///
    /// # Errors
    /// The first line that is no letter with a body, or names one twice.
    pub fn read(file: &str, input: impl BufRead) -> Result<Self, Box<InputFault>> {
        let mut all = BTreeMap::new();
        let fault = |line, field: &str, problem: &str| {
            Box::new(InputFault::bare(file, line, field, problem))
        };
        for (number, line) in (1..).zip(input.lines()) {
            let line = line.map_err(|error| {
                fault(number, "line", &format!("must be readable text: {error}"))
            })?;
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
            if all.insert(message_id, (number, body)).is_some() {
                return Err(fault(number, "message_id", "must be another one in each line"));
            }
        }
        Ok(Self(all))
    }

    /// The number of corrected letters.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The letters of `reading` that are corrected, with their new bodies.
    ///
    /// # Errors
    /// The first body that gives the mail another id: it would be another mail.
    pub fn applied(
        &self,
        file: &str,
        reading: LetterSnapshot,
    ) -> Result<LetterSnapshot, Box<InputFault>> {
        let mut letters = Vec::new();
        for mut letter in reading.letters {
            let Some((line, body)) = self.0.get(&letter.message_id) else { continue };
            if let LetterContent::Entry(entry) = &mut letter.content {
                let (was, is) = (id_of(&entry.message), id_of(body));
                if was.is_some() && was != is {
                    let said = "must stay as it was: with another id it is another mail";
                    return Err(Box::new(InputFault::bare(file, *line, "body.id", said)));
                }
                entry.message.clone_from(body);
            }
            letters.push(letter);
        }
        Ok(LetterSnapshot { letters, ..reading })
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
        assert_eq!(Corrections::read("a", line.as_bytes()).unwrap().len(), 1);
    }
}
