//! Masks e-mail addresses and phone numbers in output, unless they are requested.

use std::ops::Range;

use crate::text_message::check_phone_number;

/// The forms of an `@`: plain, in a URL, in an identity with such a URL, in JSON, in HTML.
const AT: [&str; 5] = ["@", "%40", "%2540", r"\u0040", "&#64;"];

/// Stands for the part of an address before its `@`.
pub(crate) const MASK: &str = "***";

/// Most bytes of a local part (RFC 5321).
const MOST_LOCAL_BYTES: usize = 64;

/// Whether output shows addresses and phone numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressVisibility {
    /// They are masked.
    #[default]
    Masked,
    /// They are shown, since somebody asked for them.
    Shown,
}

impl AddressVisibility {
    /// Shows a text that is an address or a phone number as a whole; masked, only the part after its last `@` remains,
    /// or the last two digits.
    ///
    /// ```
    /// use tidegate_core::redact::AddressVisibility;
    /// assert_eq!(AddressVisibility::Masked.one("Ada <ada@example.com>"), "***@example.com");
    /// assert_eq!(AddressVisibility::Shown.one("ada@example.com"), "ada@example.com");
    /// assert_eq!(AddressVisibility::Masked.one("ada%40example.com"), "***@example.com");
    /// assert_eq!(AddressVisibility::Masked.one("+12065550199"), "+***99");
    /// assert_eq!(AddressVisibility::Masked.one("no address"), "***");
    /// ```
    pub fn one(self, address: &str) -> String {
        if self == Self::Shown {
            return address.to_owned();
        }
        let after = |at: &&str| address.rfind(at).map(|place| place + at.len());
        let domain = AT.iter().filter_map(after).max().map_or("", |start| &address[start..]);
        let domain = domain.trim_end_matches(['>', ' ']);
        if check_phone_number(address).is_ok() {
            return self.within(address);
        }
        if domain.is_empty() { MASK.to_owned() } else { format!("{MASK}@{domain}") }
    }

    /// Shows a text that may contain addresses and phone numbers. Masked, the part of an address before its `@` is
    /// replaced, and a phone number in E.164 but for its last two digits; nothing else.
    ///
    /// That part consists of letters, digits, and `. _ + -`, or stands in quotes. The escapes of URLs and
    /// JSON count as what they mean: in `%3Cada%40example.com` and `\nada@example.com` it is `ada`.
    ///
    /// ```
    /// use tidegate_core::redact::AddressVisibility;
    /// let html = r#"{"html":"<a href=\"mailto:ada@example.com\">"}"#;
    /// let masked = r#"{"html":"<a href=\"mailto:***@example.com\">"}"#;
    /// assert_eq!(AddressVisibility::Masked.within(html), masked);
    /// let text = r#"{"to_phone": "+12065550199"}"#;
    /// assert_eq!(AddressVisibility::Masked.within(text), r#"{"to_phone": "+***99"}"#);
    /// ```
    pub fn within(self, text: &str) -> String {
        if self == Self::Shown {
            return text.to_owned();
        }
        let masked = replaced(text, locals(text).into_iter().map(|local| (local, MASK)));
        replaced(&masked, phones(&masked).map(|digits| (digits, MASK)))
    }
}

/// The text that a person meant who changed a masked copy of `original`: `edited`, with the parts before the
/// `@`, and the digits of phone numbers, put back. None if masked ones were added, removed or moved: whom they mean is
/// not known then.
///
/// ```
/// use tidegate_core::redact::unmasked;
/// let meant = |edited| unmasked("ada@example.com, +12065550199: hello", edited);
/// let whole = "ada@example.com, +12065550199: hello, you";
/// assert_eq!(meant("***@example.com, +***99: hello, you").as_deref(), Some(whole));
/// assert_eq!(meant("cleo@example.com").as_deref(), Some("cleo@example.com"));
/// assert_eq!(meant("***@example.com"), None);
/// assert_eq!(meant("***@example.com, +***98"), None);
/// ```
pub fn unmasked(original: &str, edited: &str) -> Option<String> {
    let masked = masks(edited);
    if masked.is_empty() {
        return Some(edited.to_owned());
    }
    let mut known = locals(original);
    let of_address = known.clone();
    let is_own =
        |phone: &Range<usize>| !of_address.iter().any(|local| local.contains(&phone.start));
    known.extend(phones(original).filter(is_own));
    known.extend(masks(original));
    known.sort_unstable_by_key(|part| part.start);
    let is_alike = |(is, was): (&Range<usize>, &Range<usize>)| {
        left_of(&edited[is.end..]) == left_of(&original[was.end..])
    };
    if masked.len() != known.len() || !masked.iter().zip(&known).all(is_alike) {
        return None;
    }
    let back = known.into_iter().map(|part| &original[part]);
    Some(replaced(edited, masked.into_iter().zip(back)))
}

/// Whether a text has a masked address or phone number.
pub fn has_mask(text: &str) -> bool {
    !masks(text).is_empty()
}

/// The parts of addresses before their `@`.
fn locals(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut copied = 0;
    for (at, _) in addresses(text) {
        let start = local_start(&text[copied..at]);
        if copied + start < at {
            found.push(copied + start..at);
            copied = at;
        }
    }
    found
}

/// The digits of phone numbers in E.164 (`+` and 7 to 15 digits), but for the last two of each.
fn phones(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices('+').filter_map(|(plus, _)| {
        let digits = &text[plus + 1..];
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        (7..=15).contains(&count).then(|| plus + 1..plus + count - 1)
    })
}

/// The masks that stand for such parts, and for such digits.
fn masks(text: &str) -> Vec<Range<usize>> {
    let masked = addresses(text).filter(|(at, _)| text[..*at].ends_with(MASK));
    let mut masks: Vec<_> = masked.map(|(at, _)| at - MASK.len()..at).collect();
    let of_phones = text.match_indices("+***").map(|(plus, mask)| plus + 1..plus + mask.len());
    // In `+****@example.com` an asterisk stands before a masked address.
    masks.extend(of_phones.filter(|mask| !text[mask.end..].starts_with('*')));
    masks.sort_unstable_by_key(|mask| mask.start);
    masks.dedup();
    masks
}

/// The rest of an address or a number at the beginning of `text`, after its mask: a domain with its `@`, or digits.
fn left_of(text: &str) -> &str {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 { &text[..digits] } else { domain(text) }
}

/// Where each `@` before a domain begins and ends.
fn addresses(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let begins = |c: char| c.is_alphanumeric() || c == '[';
    ats(text).into_iter().filter(move |(_, domain)| text[*domain..].starts_with(begins))
}

/// The `@` at which a text begins, with its domain.
fn domain(text: &str) -> &str {
    let at = AT.iter().filter(|at| text.starts_with(**at)).map(|at| at.len()).max().unwrap_or(0);
    let is_inner = |c: char| c.is_alphanumeric() || ".-[]:".contains(c);
    let rest = &text[at..];
    &text[..at + rest.find(|c| !is_inner(c)).unwrap_or(rest.len())]
}

fn replaced<'a>(text: &str, parts: impl Iterator<Item = (Range<usize>, &'a str)>) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut copied = 0;
    for (place, part) in parts {
        whole += &text[copied..place.start];
        whole += part;
        copied = place.end;
    }
    whole + &text[copied..]
}

/// Where each `@` begins and ends, in order.
fn ats(text: &str) -> Vec<(usize, usize)> {
    let of_form = |at| text.match_indices(at).map(|(start, at)| (start, start + at.len()));
    let mut ats: Vec<_> = AT.into_iter().flat_map(of_form).collect();
    ats.sort_unstable();
    ats
}

/// Where the local part begins that ends with `before`; `before.len()` if none does.
fn local_start(before: &str) -> usize {
    let mut start = before.len();
    while let Some((at, c)) = last_char(&before[..start]) {
        // o'brien@example.com, but not 'ada@example.com'.
        let is_inner =
            c == '\'' && start < before.len() && before[..at].ends_with(char::is_alphanumeric);
        if !(c.is_alphanumeric() || "._+-".contains(c) || is_inner) {
            break;
        }
        start = at;
    }
    // No local part begins with a dot, but a sentence before it may end with one.
    let local = before[start..].trim_start_matches('.');
    let quoted = if local.is_empty() { quoted_start(before) } else { None };
    quoted.unwrap_or(before.len() - local.len())
}

/// Where the local part in quotes begins that ends with `before`: `"ada lovelace"`, or in JSON
/// `\"ada lovelace\"`.
fn quoted_start(before: &str) -> Option<usize> {
    let quote = if before.ends_with(r#"\""#) { r#"\""# } else { "\"" };
    let opened = before.strip_suffix(quote)?;
    let start = opened.rfind(quote)?;
    let local = &opened[start + quote.len()..];
    let is_local = (1..=MOST_LOCAL_BYTES).contains(&local.len())
        && local.chars().all(|c| c.is_alphanumeric() || " ._+-".contains(c));
    // A quote after a letter closes something else.
    (is_local && !before[..start].ends_with(char::is_alphanumeric)).then_some(start)
}

/// The last character and where it begins, with the escapes of URLs and JSON decoded.
fn last_char(text: &str) -> Option<(usize, char)> {
    let hex = |prefix: &str, digits: usize| {
        let start = text.len().checked_sub(prefix.len() + digits)?;
        let code = text.get(start..)?.strip_prefix(prefix)?;
        let is_hex = code.bytes().all(|byte| byte.is_ascii_hexdigit());
        let c = char::from_u32(u32::from_str_radix(code, 16).ok().filter(|_| is_hex)?);
        // One byte of a character, or half of a pair, belongs to a letter.
        Some((start, c.filter(|c| digits == 4 || c.is_ascii()).unwrap_or('x')))
    };
    let plain = || {
        let (start, c) = text.char_indices().next_back()?;
        let backslashes = text[..start].bytes().rev().take_while(|byte| *byte == b'\\').count();
        let is_escape = backslashes % 2 == 1 && "bfnrt".contains(c);
        Some((start, if is_escape { ' ' } else { c }))
    };
    hex(r"\u", 4).or_else(|| hex("%25", 2)).or_else(|| hex("%", 2)).or_else(plain)
}

#[cfg(test)]
mod tests;
