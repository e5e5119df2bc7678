//! Small rules on text that several fields share.

/// Characters of a value that an error shows.
const SHOWN_CHARS: usize = 60;

/// The first 60 characters, with an ellipsis where there were more.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether the text could break out of a header line.
pub(super) fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

/// Letters, digits, `_` and `-`: what SES allows in tags and names.
pub(super) const fn is_ses_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Whether a member's name may stand in a field path; any other might hold an address.
pub(super) fn is_plain_name(name: &str) -> bool {
    (1..=SHOWN_CHARS).contains(&name.len()) && name.chars().all(|c| is_ses_word_char(c) || c == '.')
}
