//! Words: which characters they may have, and how errors show them.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// Most characters of a text that an error shows.
pub(crate) const SHOWN: usize = 60;

/// A text that cannot be read as what it should be.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} {fault}")]
pub struct InvalidText {
    text: String,
    fault: Cow<'static, str>,
}

impl InvalidText {
    /// `fault` continues a sentence that begins with the text, and says what is allowed.
    pub(crate) fn new(text: &str, fault: impl Into<Cow<'static, str>>) -> Self {
        Self { text: cut(text, SHOWN), fault: fault.into() }
    }
}

/// At most this many characters of `text`, with … where some are left out.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The word as a shell reads it.
///
/// ```
/// use tidegate_core::quoted;
/// assert_eq!((quoted("spring-2"), quoted("it's")), ("spring-2".to_owned(), r"'it'\''s'".to_owned()));
/// ```
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether `text` has 1 to `most` characters, all of them ASCII letters, digits or among `others`.
pub(crate) fn is_word_of(text: &str, most: usize, others: &str) -> bool {
    (1..=most).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// The overrides of direction: they show any text backwards, such as a file's ending. The other marks of direction
/// belong to texts that are written from right to left.
pub(crate) const OVERRIDES: [char; 2] = ['\u{202d}', '\u{202e}'];

/// True if the text contains control characters; CR or LF could add a header line.
pub(crate) fn has_control(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || OVERRIDES.contains(&c))
}

/// True if a member's name may be shown in a field path. Other names may contain an address.
pub(crate) fn is_plain_name(name: &str) -> bool {
    is_word_of(name, SHOWN, "_-.")
}

/// True for blanks outside ASCII, and for characters that show nothing: soft hyphens, characters of no width, those
/// that turn the direction of writing, variation selectors and tags.
pub(crate) fn is_invisible(c: char) -> bool {
    let shows_nothing = matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}');
    shows_nothing || c.is_control() || !c.is_ascii() && c.is_whitespace()
}

/// An error with its causes in one line, joined by colons. A cause whose text an outer error contains is
/// left out, and so are the numbers that Rust adds to the system's errors, such as ` (os error 111)`.
///
/// ```
/// use std::io::Error;
/// assert_eq!(tidegate_core::in_full(&Error::from_raw_os_error(13)), "Permission denied");
/// ```
pub fn in_full(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut said: Vec<String> = Vec::new();
    for cause in causes.map(|cause| without_number(cause.to_string())) {
        if !said.iter().any(|before| before.contains(&cause)) {
            said.push(cause);
        }
    }
    said.join(": ")
}

/// Takes out `" (os error 111)"`, wherever it stands.
fn without_number(mut text: String) -> String {
    const BEGIN: &str = " (os error ";
    while let Some(from) = text.find(BEGIN) {
        let Some(length) = text[from..].find(')') else { break };
        text.replace_range(from..=from + length, "");
    }
    text
}

/// SHA-256 of the concatenated parts, as 64 hex digits.
pub(crate) fn sha256_hex(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
    }
    hex(&hash.finalize())
}

/// Bytes as hex digits, two of each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<dyn Error>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (text, inner) = texts.split_first().unwrap();
        let source = (!inner.is_empty()).then(|| Box::new(layers(inner)) as Box<dyn Error>);
        Layer { text, source }
    }

    #[test]
    fn the_systems_numbers_are_left_out() {
        let refused = "tcp connect error: Connection refused (os error 111)";
        assert_eq!(
            in_full(&layers(&["no answer", refused])),
            "no answer: tcp connect error: Connection refused"
        );
        assert_eq!(in_full(&layers(&["x (os error 1), y (os error 2)"])), "x, y");
        assert_eq!(in_full(&layers(&["x (os error "])), "x (os error ");
    }

    #[test]
    fn every_cause_is_said_once_from_the_outermost_to_the_innermost() {
        assert_eq!(in_full(&layers(&["no answer"])), "no answer");
        assert_eq!(
            in_full(&layers(&["Claim failed", "TLS", "expired"])),
            "Claim failed: TLS: expired"
        );
        assert_eq!(
            in_full(&layers(&["Claim failed (TLS)", "TLS", "expired"])),
            "Claim failed (TLS): expired"
        );
    }
}
