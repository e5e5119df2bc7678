//! A long text in its original JSON form.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::text::OVERRIDES;

/// A mail's text or HTML as a JSON string literal, with quotes and escapes.
///
/// SES's request is JSON, like the message. The literal is therefore copied from one into the other.
/// Decoding and encoding a newsletter of 200 KB would take a third of the poller's processor time. Two
/// literals are equal if their texts are equal: `"ü"` equals `"\u00fc"`.
///
/// ```
/// use tidegate_core::email::TextLiteral;
/// let text = TextLiteral::from("Say \"hello\".");
/// assert_eq!((text.literal(), &*text.decode()), (r#""Say \"hello\".""#, "Say \"hello\"."));
/// ```
#[derive(Clone)]
pub struct TextLiteral(Box<RawValue>);

impl TextLiteral {
    /// Takes `raw` if it is a string. `None` for any other value, and for half a surrogate pair:
    /// `"\ud83d"` is valid JSON but not a character.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let literal = raw.get();
        // Only surrogate escapes need a second check. The JSON reader has checked all others.
        let may_be_half = literal.contains("\\ud") || literal.contains("\\uD");
        let is_text = literal.starts_with('"')
            && (!may_be_half || serde_json::from_str::<String>(literal).is_ok());
        is_text.then(|| Self(raw.to_owned()))
    }

    /// The JSON string literal, with its quotes.
    pub fn literal(&self) -> &str {
        self.0.get()
    }

    /// True if there is no character between the quotes.
    pub fn is_empty(&self) -> bool {
        self.literal().len() <= "\"\"".len()
    }

    /// True if NUL or an override of direction is in the text.
    pub(super) fn has_hidden(&self) -> bool {
        const WRITTEN: [&str; 7] =
            ["\u{202d}", "\u{202e}", "\\u0000", "\\u202d", "\\u202D", "\\u202e", "\\u202E"];
        let bytes = self.literal().as_bytes();
        // Both forms begin with one of two bytes, so most of a newsletter is passed over.
        let may_be = memchr::memchr2_iter(b'\\', 0xe2, bytes)
            .any(|at| WRITTEN.iter().any(|written| bytes[at..].starts_with(written.as_bytes())));
        may_be && self.decode().contains(['\0', OVERRIDES[0], OVERRIDES[1]])
    }

    /// The text without quotes and with its escapes decoded.
    pub fn decode(&self) -> String {
        serde_json::from_str(self.literal()).unwrap_or_default()
    }
}

impl From<&str> for TextLiteral {
    fn from(text: &str) -> Self {
        Self(serde_json::value::to_raw_value(text).unwrap_or_default())
    }
}

impl Serialize for TextLiteral {
    /// Writes the literal unchanged. This works only with `serde_json`'s serializer.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl PartialEq for TextLiteral {
    fn eq(&self, other: &Self) -> bool {
        self.literal() == other.literal() || self.decode() == other.decode()
    }
}

impl Eq for TextLiteral {}

impl fmt::Debug for TextLiteral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.literal())
    }
}
