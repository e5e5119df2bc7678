//! What a queue's URL, and the beginning of its name, may be.

pub(super) fn is_url(text: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.contains('/')))
        && !text.contains(char::is_whitespace)
}

/// SQS demands the ending of FIFO queues, in lower case, and of no other.
#[expect(clippy::case_sensitive_file_extension_comparisons, reason = "SQS compares by case")]
pub(super) fn is_fifo(url: &str) -> bool {
    url.ends_with(".fifo")
}

/// The beginning of campaign queues' names: what a queue's name may hold, and one character less
/// than the 80 it may have.
pub(super) fn queue_prefix(text: &str) -> Option<String> {
    let fits = (1..=79).contains(&text.len()) && text.chars().all(is_name_char);
    fits.then(|| text.to_owned())
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
