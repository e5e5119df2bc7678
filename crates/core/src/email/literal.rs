//! A long text, kept as the JSON in which it came.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// A mail's text or HTML as a JSON string literal, quotes and escapes included.
///
/// SES's request is JSON as the message is. A newsletter of 200 KB is therefore copied from one into the
/// other; decoding and encoding it again would take a third of the poller's processor time. Two literals
/// are equal if they say the same: `"ü"` and `"\u00fc"` are.
///
/// ```
/// use tidegate_core::email::TextLiteral;
/// let text = TextLiteral::from("Say \"hello\".");
/// assert_eq!((text.literal(), &*text.decode()), (r#""Say \"hello\".""#, "Say \"hello\"."));
/// ```
#[derive(Clone)]
pub struct TextLiteral(Box<RawValue>);

impl TextLiteral {
    /// Takes `raw` if it is a string. `None` for any other value, and for escapes that are no character:
    /// half of a surrogate pair, `"\ud83d"`, is JSON but no text.
    pub(super) fn read(raw: &RawValue) -> Option<Self> {
        let literal = raw.get();
        // Only these escapes need a second look: the reader of the whole body has checked all others.
        let may_be_half = literal.contains("\\ud") || literal.contains("\\uD");
        let is_text = literal.starts_with('"')
            && (!may_be_half || serde_json::from_str::<String>(literal).is_ok());
        is_text.then(|| Self(raw.to_owned()))
    }

    /// The literal, with its quotes.
    pub fn literal(&self) -> &str {
        self.0.get()
    }

    /// Whether no character stands between the quotes.
    pub fn is_empty(&self) -> bool {
        self.literal().len() <= "\"\"".len()
    }

    /// The text itself.
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
    /// The literal as it is, by `serde_json`'s serializer; no other knows how.
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
