//! Addresses as SES takes them: `ada@example.com` or `Ada <ada@example.com>`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use email_address::{EmailAddress, Options};

use super::text::has_control;

/// Characters that SES takes of an address, the display name (as sent) included.
const MAX_CHARS: usize = 320;
/// Bytes of a name that one RFC 2047 encoded word carries: 60 base64 characters of at most 75.
const ENCODED_WORD_BYTES: usize = 45;

/// Why a text is no address that SES takes; each says what is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Nothing there.
    #[error("must be an address like ada@example.com")]
    Empty,
    /// CR, LF, NUL, … anywhere.
    #[error("must not hold control characters")]
    Control,
    /// More than SES takes.
    #[error("must be at most 320 characters, display name included")]
    TooLong,
    /// SES has no SMTPUTF8.
    #[error("must have an ASCII local part (SES does not take others)")]
    NonAsciiLocalPart,
    /// An internationalised domain in its Unicode form.
    #[error("must have its domain in ASCII: write it in punycode (xn--…)")]
    NonAsciiDomain,
    /// More than 64 characters before the `@`.
    #[error("must have a local part of at most 64 characters")]
    LocalPartTooLong,
    /// Not `local@domain.tld`.
    #[error("must be one address like ada@example.com or Ada <ada@example.com>")]
    Syntax,
    /// A display name that SES would read as something else.
    #[error(
        "must have its display name in double quotes where it holds any of ( ) < > [ ] : ; @ \\ , \""
    )]
    DisplayName,
}

/// A checked address, with its display name where it has one.
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
    /// What SES would refuse: see [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if has_control(text) {
            return Err(AddressError::Control);
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

    /// The display name, unquoted.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// `local@domain`, without the display name.
    pub fn addr_spec(&self) -> &str {
        &self.addr_spec
    }

    /// What stands after the last `@`, as written.
    pub fn domain(&self) -> &str {
        self.addr_spec.rsplit('@').next().unwrap_or_default()
    }

    /// For logs: the domain alone, `***@example.com`.
    pub fn redacted(&self) -> String {
        format!("***@{}", self.domain())
    }

    /// The same with its `local@domain` in other upper and lower case.
    pub(super) fn spelt(&self, addr_spec: String) -> Self {
        Self { name: self.name.clone(), addr_spec }
    }

    /// As SES must get it: all ASCII, a display name in other scripts as RFC 2047 encoded words.
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

/// RFC 5322 atoms and spaces need no quotes; other scripts are encoded on the wire.
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

/// The text up to the closing quote, which must be the last character.
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

fn check_addr_spec(addr_spec: &str) -> Result<(), AddressError> {
    let (local, domain) = addr_spec.rsplit_once('@').ok_or(AddressError::Syntax)?;
    if !local.is_ascii() {
        return Err(AddressError::NonAsciiLocalPart);
    }
    if !domain.is_ascii() {
        return Err(AddressError::NonAsciiDomain);
    }
    let options =
        Options::default().with_required_tld().without_display_text().without_domain_literal();
    match EmailAddress::parse_with_options(addr_spec, options) {
        Ok(_) if is_host_name(domain) => Ok(()),
        Err(email_address::Error::LocalPartTooLong) => Err(AddressError::LocalPartTooLong),
        _ => Err(AddressError::Syntax),
    }
}

/// Letters, digits, hyphens and dots: the syntax crate takes more than a host name may hold.
pub(super) fn is_host_name(domain: &str) -> bool {
    domain.split('.').all(|label| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

fn encoded_words(name: &str) -> String {
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
