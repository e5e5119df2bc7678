//! Checks of queue URLs, and of the beginning of campaign queues' names.

pub(super) fn is_url(text: &str) -> bool {
    ["https://", "http://"]
        .iter()
        .any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| rest.contains('/')))
        && !text.contains(char::is_whitespace)
}

/// Whether the queue is FIFO: SQS demands the ending `.fifo`, in lower case, for FIFO queues only.
#[expect(clippy::case_sensitive_file_extension_comparisons, reason = "SQS compares by case")]
pub(super) fn is_fifo(url: &str) -> bool {
    url.ends_with(".fifo")
}

/// The beginning of campaign queues' names: 1 to 79 characters that a queue's name may contain. A
/// queue's name has at most 80 characters, so at least one remains for the rest.
pub(super) fn queue_prefix(text: &str) -> Option<String> {
    let fits = (1..=79).contains(&text.len()) && text.chars().all(is_name_char);
    fits.then(|| text.to_owned())
}

pub(super) fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}
