//! SES's own rules for addresses, tags and headers.

use super::NameValue;
use crate::sandbox::mailbox::{MailFields, address_of};
use crate::ses::SesError;

/// The most recipients of one mail.
const MOST_RECIPIENTS: u32 = 50;
/// The most tags of one mail.
const MOST_TAGS: usize = 50;

pub(super) fn addresses(draft: &MailFields) -> Result<(), SesError> {
    if draft.from.is_empty() {
        return Err(SesError::bad_request("Missing required header 'From'."));
    }
    let recipients = draft.recipients();
    if recipients == 0 {
        return Err(SesError::bad_request("Missing required header 'To'."));
    }
    if recipients > MOST_RECIPIENTS {
        return Err(SesError::bad_request(format!("Recipient count exceeds {MOST_RECIPIENTS}.")));
    }
    std::iter::once(draft.from.as_str()).chain(draft.all_recipients()).try_for_each(address)
}

fn address(mailbox: &str) -> Result<(), SesError> {
    let address = address_of(mailbox);
    let Some((local, domain)) = address.rsplit_once('@').filter(|(_, domain)| !domain.is_empty())
    else {
        return Err(SesError::bad_request("Missing final '@domain'"));
    };
    let odd = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || !byte.is_ascii();
    if local.is_empty() || local.bytes().any(odd) {
        return Err(SesError::bad_request(
            "Local address contains control, whitespace or non-ASCII",
        ));
    }
    if domain.bytes().any(odd) {
        return Err(SesError::bad_request("Domain contains control, whitespace or non-ASCII"));
    }
    Ok(())
}

pub(super) fn tags(tags: Vec<NameValue>) -> Result<Vec<(String, String)>, SesError> {
    if tags.len() > MOST_TAGS {
        return Err(SesError::bad_request(format!("Tag count exceeds {MOST_TAGS}.")));
    }
    let plain = |text: &str| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        !text.is_empty() && text.len() <= 256 && text.bytes().all(known)
    };
    let mut read: Vec<(String, String)> = Vec::with_capacity(tags.len());
    for NameValue { name, value } in tags {
        for (what, text) in [("name", &name), ("value", &value)] {
            if !plain(text) {
                return Err(SesError::bad_request(format!(
                    "Invalid tag {what} <{text}>: only alphanumeric ASCII characters, '_', and \
                     '-' are allowed, 1 to 256 of them."
                )));
            }
        }
        if read.iter().any(|(known, _)| *known == name) {
            return Err(SesError::bad_request(format!("Duplicate tag name <{name}>.")));
        }
        read.push((name, value));
    }
    Ok(read)
}

pub(super) fn headers(headers: &[NameValue]) -> Result<(), SesError> {
    for NameValue { name, value } in headers {
        let printable = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || !name.bytes().all(printable) {
            return Err(SesError::bad_request(format!("Invalid header name <{name}>.")));
        }
        if value.bytes().any(|byte| byte == b'\r' || byte == b'\n') {
            let message = format!("Invalid value of header <{name}>: it contains a line break.");
            return Err(SesError::bad_request(message));
        }
    }
    Ok(())
}
