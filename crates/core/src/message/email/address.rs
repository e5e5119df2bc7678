//! E-mail addresses in the forms that SES takes: `ada@example.com` or `Ada <ada@example.com>`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use email_address::{EmailAddress, Options};

use crate::text::{OVERRIDES, is_invisible};

/// Most characters that SES takes for one address, with its display name in the encoded form.
const MAX_CHARS: usize = 320;
/// Bytes of a name in one RFC 2047 encoded word: 45 bytes are 60 base64 characters. With `=?UTF-8?B?`
/// and `?=` that is 72, and RFC 2047 allows 75.
const ENCODED_WORD_BYTES: usize = 45;

/// Reason why a text is not an address that SES takes. Each message says what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is empty or only white space.
    #[error("must be an address like ada@example.com")]
    Empty,
    /// The text contains a control character or an override of direction, or its address a blank or a character that nobody sees, such as a
    /// zero-width space from a web page.
    #[error("must not hold the invisible character {0}")]
    Invisible(String),
    /// The address has more than 320 characters, which is SES's limit.
    #[error("must be at most 320 characters, display name included")]
    TooLong,
    /// The part before the `@` contains non-ASCII characters; SES does not support SMTPUTF8.
    #[error("must have an ASCII local part (SES does not take others), and has {0}")]
    NonAsciiLocalPart(String),
    /// The domain is in its Unicode form; SES takes only punycode.
    #[error("must have its domain in ASCII: write it in punycode (xn--…)")]
    NonAsciiDomain,
    /// The part before the `@` has more than 64 characters.
    #[error("must have a local part of at most 64 characters")]
    LocalPartTooLong,
    /// The part before the `@` begins or ends with a dot, or has two in a row.
    #[error(
        "must not have two dots in a row before the @, or one at its beginning or end: an address that has them is \
         written in quotes, as \"first..last\"@example.com"
    )]
    Dots,
    /// The text is not of the form `local@domain.tld`.
    #[error("must be one address like ada@example.com or Ada <ada@example.com>")]
    Syntax,
    /// The display name contains special characters outside quotes, which SES would read as syntax.
    #[error(
        "must have its display name in double quotes where it holds any of ( ) < > [ ] : ; @ \\ , \""
    )]
    DisplayName,
}

/// The first character of `text` that `is` it, and its place.
fn character(text: &str, is: impl Fn(char) -> bool) -> Option<String> {
    let (number, found) = (1..).zip(text.chars()).find(|(_, c)| is(*c))?;
    let place = match number {
        1 => "at the beginning".to_owned(),
        _ if number == text.chars().count() => "at the end".to_owned(),
        _ => format!("as character {number}"),
    };
    Some(format!("U+{:04X}, which stands {place}", u32::from(found)))
}

/// A checked address, with or without a display name.
///
/// ```
/// use tidegate_core::email::Address;
/// let ada = Address::parse("Ada <ada@example.com>").unwrap();
/// assert_eq!((ada.name(), ada.addr_spec(), ada.domain()), (Some("Ada"), "ada@example.com", "example.com"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    name: Option<String>,
    addr_spec: String,
}

impl Address {
    /// Reads one address.
    ///
    /// # Errors
    /// [`AddressError`] if SES would refuse the address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if let Some(found) = character(text, |c| c.is_control() || OVERRIDES.contains(&c)) {
            return Err(AddressError::Invisible(found));
        }
        let text = text.trim();
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        let (name, addr_spec) = match text.strip_suffix('>').and_then(|t| t.rsplit_once('<')) {
            Some((name, addr_spec)) => (display_name(name.trim())?, addr_spec.trim()),
            None => (None, text),
        };
        check_addr_spec(addr_spec)?;
        let address = Self { name, addr_spec: addr_spec.to_owned() };
        if address.header_value().len() > MAX_CHARS {
            return Err(AddressError::TooLong);
        }
        Ok(address)
    }

    /// The display name without quotes; none if there is none.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The address `local@domain` without the display name.
    pub fn addr_spec(&self) -> &str {
        &self.addr_spec
    }

    /// The part after the last `@`, in its original spelling.
    pub fn domain(&self) -> &str {
        self.addr_spec.rsplit('@').next().unwrap_or_default()
    }

    /// The same display name with another spelling (upper and lower case) of `local@domain`.
    pub(super) fn spelt(&self, addr_spec: String) -> Self {
        Self { name: self.name.clone(), addr_spec }
    }

    /// The address in the form for SES: all ASCII. A display name in another script becomes RFC 2047
    /// encoded words.
    pub fn header_value(&self) -> String {
        match &self.name {
            Some(name) if !name.is_ascii() => {
                format!("{} <{}>", encoded_words(name), self.addr_spec)
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => f.write_str(&self.addr_spec),
            Some(name) if name.chars().all(is_phrase_char) => {
                write!(f, "{name} <{}>", self.addr_spec)
            }
            Some(name) => {
                let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
                write!(f, "\"{quoted}\" <{}>", self.addr_spec)
            }
        }
    }
}

/// True for characters that need no quotes in a display name: RFC 5322 atom characters, spaces, and
/// non-ASCII characters, which are encoded when sent.
fn is_phrase_char(c: char) -> bool {
    c == ' ' || !c.is_ascii() || c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

fn display_name(text: &str) -> Result<Option<String>, AddressError> {
    let name = match text.strip_prefix('"') {
        Some(rest) => unquote(rest)?,
        None if text.chars().all(|c| is_phrase_char(c) || c == '.') => text.to_owned(),
        None => return Err(AddressError::DisplayName),
    };
    let name = name.trim();
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

/// Reads a quoted text after its opening quote. The closing quote must be the last character.
fn unquote(rest: &str) -> Result<String, AddressError> {
    let mut name = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' if chars.as_str().is_empty() => return Ok(name),
            '"' => return Err(AddressError::DisplayName),
            '\\' => name.push(chars.next().ok_or(AddressError::DisplayName)?),
            other => name.push(other),
        }
    }
    Err(AddressError::DisplayName)
}

/// An address without a name, in lower case; a text that is no address in lower case.
pub fn plain_address(text: &str) -> String {
    Address::parse(text)
        .map_or_else(|_| text.to_lowercase(), |address| address.addr_spec().to_lowercase())
}

fn check_addr_spec(addr_spec: &str) -> Result<(), AddressError> {
    if let Some(found) = character(addr_spec, is_invisible) {
        return Err(AddressError::Invisible(found));
    }
    let (local, domain) = addr_spec.rsplit_once('@').ok_or(AddressError::Syntax)?;
    if let Some(found) = character(addr_spec, |c| !c.is_ascii()).filter(|_| !local.is_ascii()) {
        return Err(AddressError::NonAsciiLocalPart(found));
    }
    if !domain.is_ascii() {
        return Err(AddressError::NonAsciiDomain);
    }
    let options =
        Options::default().with_required_tld().without_display_text().without_domain_literal();
    match EmailAddress::parse_with_options(addr_spec, options) {
        Ok(_) if is_host_name(domain) => Ok(()),
        Err(email_address::Error::LocalPartTooLong) => Err(AddressError::LocalPartTooLong),
        _ if !local.contains('"') && local.split('.').any(str::is_empty) && !local.is_empty() => {
            Err(AddressError::Dots)
        }
        _ => Err(AddressError::Syntax),
    }
}

/// Stricter than the `email_address` crate: only letters, digits and inner hyphens, in labels of 1 to
/// 63 characters.
pub(crate) fn is_host_name(domain: &str) -> bool {
    domain.split('.').all(|label| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

fn encoded_words(name: &str) -> String {
    // Words are split between characters: RFC 2047 forbids a character in two words.
    let mut words = Vec::new();
    let mut word = String::new();
    for c in name.chars() {
        if word.len() + c.len_utf8() > ENCODED_WORD_BYTES {
            words.push(std::mem::take(&mut word));
        }
        word.push(c);
    }
    words.push(word);
    let encoded = words.iter().map(|word| format!("=?UTF-8?B?{}?=", STANDARD.encode(word)));
    encoded.collect::<Vec<_>>().join(" ")
}
