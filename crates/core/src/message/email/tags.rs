//! SES message tags of a mail.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::EmailError;
use super::json::{Node, member_path, name_if_odd};
use super::members::{Members, text};
use crate::identity::sha256_hex;
use crate::text::is_word_of;

/// Most characters of a tag's name, and of its value, that SES takes.
const MAX_CHARS: usize = 256;
/// Most tags of the producer. SES takes 50; `tidegate_campaign` and `tidegate_id` are two of them.
const MAX_TAGS: usize = 48;
/// Prefix of the tags that Tidegate adds; producers may not use it.
const RESERVED_PREFIX: &str = "tidegate_";
/// Hex digits of the hash that keeps values apart after their illegal characters are replaced.
const HASH_DIGITS: usize = 16;

pub(super) fn read(node: Node) -> Result<BTreeMap<String, String>, EmailError> {
    let mut tags = BTreeMap::new();
    for (name, node) in Members::any("tags", node)?.into_entries() {
        let field = member_path("tags", &name);
        let of_name =
            |problem| Err(name_if_odd(EmailError::invalid(field.clone(), problem), &name));
        if !is_ses_word(&name) {
            return of_name("must have a name of 1 to 256 letters, digits, _ and -");
        }
        if name.to_ascii_lowercase().starts_with(RESERVED_PREFIX) {
            return of_name("must not begin with tidegate_ (Tidegate adds those itself)");
        }
        let value = text(&field, node)?;
        if !is_ses_word(&value) {
            let problem = "must be 1 to 256 letters, digits, _ and -";
            return Err(EmailError::invalid(field, problem).with_value(&value));
        }
        tags.insert(name, value);
    }
    if tags.len() > MAX_TAGS {
        let problem = "must be at most 48 (SES takes 50, Tidegate adds two)";
        return Err(EmailError::invalid("tags", problem).with_found(tags.len().to_string()));
    }
    Ok(tags)
}

fn is_ses_word(text: &str) -> bool {
    is_word_of(text, MAX_CHARS, "_-")
}

/// Turns any text into a value that SES takes for a tag: 1 to 256 letters, digits, `_` and `-`.
///
/// A legal text stays as it is. In any other text each illegal character becomes `_`, and a hash of the
/// whole text is appended, so that two different texts give two different values.
///
/// ```
/// use tidegate_core::email::ses_tag_value;
/// assert_eq!(ses_tag_value("spring-2026"), "spring-2026");
/// assert!(ses_tag_value("order 7").starts_with("order_7-"));
/// assert_ne!(ses_tag_value("order 7"), ses_tag_value("order/7"));
/// ```
pub fn ses_tag_value(text: &str) -> Cow<'_, str> {
    if is_ses_word(text) {
        return Cow::Borrowed(text);
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut value: String = text.chars().map(legal).take(MAX_CHARS - 1 - HASH_DIGITS).collect();
    value.push('-');
    value.push_str(&sha256_hex(&[text])[..HASH_DIGITS]);
    Cow::Owned(value)
}
