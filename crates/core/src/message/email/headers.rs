//! Headers that the producer sets, and one-click unsubscription.

use super::error::EmailError;
use super::json::{Node, name_if_odd};
use super::members::{Members, text};

/// Most headers that SES takes in one mail.
const MAX_HEADERS: usize = 15;
/// Most characters of a header's name that SES takes.
const MAX_NAME: usize = 126;
/// Most characters of a header's name and value together that SES takes.
const MAX_LINE: usize = 996;

const UNSUBSCRIBE: &str = "List-Unsubscribe";
const UNSUBSCRIBE_POST: &str = "List-Unsubscribe-Post";
/// The only value that RFC 8058 allows for `List-Unsubscribe-Post`.
const ONE_CLICK: &str = "List-Unsubscribe=One-Click";

/// Headers that SES sets and refuses, and headers that would declare another sender or another encoding
/// than the checked one.
const RESERVED: [&str; 18] = [
    "bcc",
    "cc",
    "content-disposition",
    "content-transfer-encoding",
    "content-type",
    "date",
    "dkim-signature",
    "domainkey-signature",
    "from",
    "message-id",
    "mime-version",
    "received",
    "reply-to",
    "return-path",
    "sender",
    "subject",
    "to",
    "resent-from",
];
/// SES reads settings (configuration set, tags, identity) from headers with this prefix.
pub(super) const RESERVED_PREFIX: &str = "x-ses-";

/// One header that the producer sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Header name in its original spelling: 1 to 126 printable ASCII characters without colon and
    /// space.
    pub name: String,
    /// Header value: printable ASCII, at most 996 characters together with the name.
    pub value: String,
}

/// Addresses for one-click unsubscription (RFC 8058).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListUnsubscribe {
    /// The https address to which the recipient's mail program posts.
    pub url: String,
    /// The `mailto:` address for mail programs that cannot post; none if the message has none.
    pub mailto: Option<String>,
    header: String,
}

impl ListUnsubscribe {
    /// The headers `List-Unsubscribe` and `List-Unsubscribe-Post` with their values.
    pub(super) fn headers(&self) -> [(&str, &str); 2] {
        [(UNSUBSCRIBE, &self.header), (UNSUBSCRIBE_POST, ONE_CLICK)]
    }

    pub(super) fn read(node: Node) -> Result<Self, EmailError> {
        const FIELD: &str = "list_unsubscribe";
        let (url, mailto, url_field) = match node {
            Node::Text(url) => (Some(url), None, FIELD.to_owned()),
            node => {
                let mut members = Members::known(FIELD, node, &["url", "mailto"])?;
                let url_field = members.path_of("url");
                (members.take_text("url")?, members.take_text("mailto")?, url_field)
            }
        };
        let problem = "must be an https address without spaces, commas or angle brackets";
        let url = url.ok_or_else(|| EmailError::missing(url_field.clone(), problem))?;
        let host = url.strip_prefix("https://").and_then(|rest| rest.split(['/', '?', '#']).next());
        if host.is_none_or(str::is_empty) || !is_uri_text(&url) {
            return Err(EmailError::invalid(url_field, problem).with_value(&url));
        }
        if let Some(bad) = mailto.as_deref().filter(|m| !is_mailto(m)) {
            let problem = "must be a mailto: address without spaces, commas or angle brackets";
            return Err(EmailError::invalid("list_unsubscribe.mailto", problem).with_value(bad));
        }
        let header = match &mailto {
            Some(mailto) => format!("<{url}>, <{mailto}>"),
            None => format!("<{url}>"),
        };
        if UNSUBSCRIBE.len() + header.len() > MAX_LINE {
            return Err(EmailError::invalid(FIELD, "must be at most 980 characters altogether")
                .with_value(&header));
        }
        Ok(Self { url, mailto, header })
    }
}

fn is_mailto(uri: &str) -> bool {
    let address = uri.strip_prefix("mailto:").and_then(|rest| rest.split('?').next());
    is_uri_text(uri) && address.is_some_and(|a| super::Address::parse(a).is_ok())
}

/// True for printable ASCII that can neither close the angle brackets nor start a second address.
fn is_uri_text(uri: &str) -> bool {
    uri.chars().all(|c| c.is_ascii_graphic() && !"<>,\"".contains(c))
}

/// Reads `headers`. If `unsubscribing`, two of the 15 headers belong to `list_unsubscribe`.
pub(super) fn read(node: Node, unsubscribing: bool) -> Result<Vec<Header>, EmailError> {
    let entries = Members::any("headers", node)?.into_entries();
    let spare = if unsubscribing { MAX_HEADERS - 2 } else { MAX_HEADERS };
    // The number is checked first: each header is compared with all before it, and a body has room for
    // 80,000.
    if entries.len() > spare {
        let problem = format!("must be at most {MAX_HEADERS}, those of list_unsubscribe included");
        return Err(EmailError::invalid("headers", problem).with_found(entries.len().to_string()));
    }
    let mut headers: Vec<Header> = Vec::new();
    for (name, node) in entries {
        let field = super::json::member_path("headers", &name);
        let of_name = |problem: &'static str| {
            Err(name_if_odd(EmailError::invalid(field.clone(), problem), &name))
        };
        if !(1..=MAX_NAME).contains(&name.len()) || !name.chars().all(is_field_name_char) {
            return of_name(
                "must have a name of 1 to 126 printable ASCII characters without colon or space",
            );
        }
        if is_reserved(&name, unsubscribing) {
            return of_name("must not be a header that Tidegate or SES sets itself");
        }
        if headers.iter().any(|h| h.name.eq_ignore_ascii_case(&name)) {
            return of_name("must not stand twice (upper and lower case are the same)");
        }
        let value = text(&field, node)?;
        let printable = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
        if value.is_empty() || !printable || name.len() + value.len() > MAX_LINE {
            let problem = "must be 1 to 995 printable ASCII characters, no CR or LF, at most 996 \
                           with the name (other characters: as RFC 2047 encoded words)";
            return Err(EmailError::invalid(field, problem).with_value(&value));
        }
        headers.push(Header { name, value });
    }
    Ok(headers)
}

/// RFC 5322 `ftext`: printable ASCII without the colon.
pub(super) const fn is_field_name_char(c: char) -> bool {
    c.is_ascii_graphic() && c != ':'
}

fn is_reserved(name: &str, unsubscribing: bool) -> bool {
    let name = name.to_ascii_lowercase();
    RESERVED.contains(&name.as_str())
        || name.starts_with(RESERVED_PREFIX)
        || (unsubscribing
            && [UNSUBSCRIBE, UNSUBSCRIBE_POST].iter().any(|h| h.eq_ignore_ascii_case(&name)))
}
