//! The third form of a mail: a whole MIME message (RFC 5322), which goes to SES byte for byte. Only its header is read.

use std::borrow::Cow;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::parsers::MessageStream;
use mail_parser::{Address as Parsed, HeaderValue};

use super::address::Address;
use super::error::EmailError;
use super::headers::{RESERVED_PREFIX, is_field_name_char};
use super::members;

const FIELD: &str = "raw";

/// Most bytes of a line without its end. SES takes [1,000 with
/// it](https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_RawMessage.html), as RFC 5321 has it (4.5.3.1.6).
const MAX_LINE: usize = 998;

/// The header fields that name a sender. Each may stand once, as [SES has it for the first
/// two](https://docs.aws.amazon.com/ses/latest/dg/header-fields.html).
const SENDERS: [&str; 4] = ["From", "Sender", "Resent-From", "Resent-Sender"];

/// Fields that tell recipients of others, whom only the envelope names.
const BLIND: [&str; 2] = ["bcc", "resent-bcc"];

/// The prefix of fields that tell the relay what to do with a mail.
const OWN_PREFIX: &str = "x-tidegate-";

/// A MIME message for SES, without the header fields that never leave: `Bcc`, `Resent-Bcc` and `X-Tidegate-…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMail {
    base64: String,
    senders: Vec<(&'static str, Address)>,
}

impl RawMail {
    /// Reads a message from its base64 text. The text stays as it is if no field is taken out.
    pub(super) fn read(base64: String) -> Result<Self, EmailError> {
        let mime = members::base64(FIELD, &base64)?;
        check_lines(&mime)?;
        let fields = header_fields(&mime)?;
        if let Some(field) = fields.iter().find(|field| has_prefix(field.name, RESERVED_PREFIX)) {
            let problem = "must not have header fields X-SES-…, by which SES takes settings: the members \
                           configuration_set and tags stand beside raw";
            return Err(invalid(problem).with_value(field.name));
        }
        let named = |name| Some(sender(&fields, name).transpose()?.map(|address| (name, address)));
        let senders: Vec<_> = SENDERS.into_iter().filter_map(named).collect::<Result<_, _>>()?;
        if senders.first().is_none_or(|(name, _)| *name != SENDERS[0]) {
            return Err(not_one(SENDERS[0]));
        }
        let base64 = match without(&mime, &fields, is_kept_back) {
            Cow::Borrowed(_) => base64,
            Cow::Owned(mime) => STANDARD.encode(mime),
        };
        Ok(Self { base64, senders })
    }

    /// The message in base64 (RFC 4648, with padding).
    pub fn base64(&self) -> &str {
        &self.base64
    }

    /// The addresses that the header names as senders, each with its field: `From`, and `Sender`, `Resent-From` and
    /// `Resent-Sender` if they are there.
    pub(super) fn senders(&self) -> impl Iterator<Item = (&'static str, &Address)> {
        self.senders.iter().map(|(name, address)| (*name, address))
    }
}

/// A field of a MIME message's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderField<'a> {
    /// The name in its spelling; upper and lower case mean the same.
    pub name: &'a str,
    /// All bytes behind the colon, with the ends of its lines.
    pub value: &'a [u8],
    /// Where its lines stand in the message, with their ends.
    pub place: Range<usize>,
}

/// The fields of a MIME message's header, in their order.
///
/// A header that programs read in different ways is an error, so that no other reader finds another sender or a `Bcc`: a line
/// that is no field and continues none, a blank before the colon, ends of lines of two kinds.
///
/// # Errors
/// [`EmailError`] on the field `raw`, with the number of the line.
pub fn header_fields(mime: &[u8]) -> Result<Vec<HeaderField<'_>>, EmailError> {
    let mut fields: Vec<HeaderField<'_>> = Vec::new();
    let (mut start, mut kind) = (0, None);
    for (number, line) in lines(mime) {
        let place = start..start + line.len();
        start = place.end;
        let text = without_end(line);
        let end = line.len() - text.len();
        if end == 0 {
            break;
        }
        if *kind.get_or_insert(end) != end {
            let said = "ends otherwise than those before it: in a header all end with CRLF, or all with LF";
            return Err(at_line(number, said));
        }
        if text.is_empty() {
            return Ok(fields);
        }
        let continues = text.starts_with(b" ") || text.starts_with(b"\t");
        let name = text.split(|byte| *byte == b':').next().filter(|name| name.len() < text.len());
        match (fields.last_mut(), name.and_then(field_name)) {
            (Some(field), _) if continues && !text.trim_ascii().is_empty() => {
                field.place.end = place.end;
                field.value = &mime[field.place.start + field.name.len() + 1..place.end];
            }
            (_, Some(name)) if !continues => {
                fields.push(HeaderField { name, value: &line[name.len() + 1..], place });
            }
            _ => return Err(at_line(number, "is no header field, such as Subject: Hello")),
        }
    }
    Err(invalid("must be a MIME message with a blank line between header and body"))
}

/// A MIME message without the header fields that `is_out` names, with all their lines. Everything else stays byte for
/// byte.
///
/// ```
/// use tidegate_core::email::without_fields;
/// let mime = b"From: news@example.org\r\nBcc: ada@example.com,\r\n bob@example.com\r\n\r\nText.\r\n";
/// let rest = without_fields(mime, |name| name.eq_ignore_ascii_case("bcc")).unwrap();
/// assert_eq!(&*rest, b"From: news@example.org\r\n\r\nText.\r\n");
/// ```
///
/// # Errors
/// As of [`header_fields`].
pub fn without_fields(
    mime: &[u8],
    is_out: impl Fn(&str) -> bool,
) -> Result<Cow<'_, [u8]>, EmailError> {
    Ok(without(mime, &header_fields(mime)?, is_out))
}

fn without<'a>(
    mime: &'a [u8],
    fields: &[HeaderField<'_>],
    is_out: impl Fn(&str) -> bool,
) -> Cow<'a, [u8]> {
    let out: Vec<_> = fields.iter().filter(|field| is_out(field.name)).collect();
    if out.is_empty() {
        return Cow::Borrowed(mime);
    }
    let mut rest = Vec::with_capacity(mime.len());
    let mut copied = 0;
    for field in out {
        rest.extend_from_slice(&mime[copied..field.place.start]);
        copied = field.place.end;
    }
    rest.extend_from_slice(&mime[copied..]);
    Cow::Owned(rest)
}

fn is_kept_back(name: &str) -> bool {
    BLIND.iter().any(|blind| blind.eq_ignore_ascii_case(name)) || has_prefix(name, OWN_PREFIX)
}

fn has_prefix(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix))
}

/// The one address of the field `name`; none if there is no such field.
fn sender(fields: &[HeaderField<'_>], name: &str) -> Result<Option<Address>, EmailError> {
    let mut named = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
    let Some(field) = named.next() else { return Ok(None) };
    let HeaderValue::Address(Parsed::List(listed)) =
        MessageStream::new(field.value).parse_address()
    else {
        return Err(not_one(name));
    };
    let ([only], None) = (listed.as_slice(), named.next()) else { return Err(not_one(name)) };
    // In `<ada@example.com> <eve@example.com>` the parser finds both in one text, which is no address.
    let text = only.address.as_deref().unwrap_or_default();
    let said = |fault| invalid(format!("{fault} (header field {name})")).with_value(text);
    let address = Address::parse(text).map_err(said)?;
    if address.addr_spec() == text { Ok(Some(address)) } else { Err(not_one(name)) }
}

/// Refuses what SES refuses or programs take for different things, wherever it stands.
fn check_lines(mime: &[u8]) -> Result<(), EmailError> {
    for (number, line) in lines(mime) {
        let text = without_end(line);
        if text.len() > MAX_LINE {
            let said = format!("has {} bytes: SES takes at most {MAX_LINE}", text.len());
            return Err(at_line(number, &said));
        }
        match memchr::memchr2(0, b'\r', text).map(|at| text[at]) {
            None => {}
            Some(0) => return Err(at_line(number, "has a NUL")),
            Some(_) => return Err(at_line(number, "has a CR without LF behind it")),
        }
    }
    Ok(())
}

/// The lines with their ends, and their numbers from 1 on.
fn lines(mime: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    (1..).zip(mime.split_inclusive(|byte| *byte == b'\n'))
}

fn without_end(line: &[u8]) -> &[u8] {
    let end = line.strip_suffix(b"\r\n").or_else(|| line.strip_suffix(b"\n"));
    end.unwrap_or(line)
}

fn field_name(name: &[u8]) -> Option<&str> {
    let name = str::from_utf8(name).ok()?;
    (!name.is_empty() && name.chars().all(is_field_name_char)).then_some(name)
}

fn invalid(problem: impl Into<Cow<'static, str>>) -> EmailError {
    EmailError::invalid(FIELD, problem)
}

fn not_one(name: &str) -> EmailError {
    invalid(format!("must have one header field {name}, with one address"))
}

fn at_line(number: usize, said: &str) -> EmailError {
    invalid(format!("must be a MIME message, and its line {number} {said}"))
}
