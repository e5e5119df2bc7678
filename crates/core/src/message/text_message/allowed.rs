//! Where texts may come from and go to: `TIDEGATE_ORIGINS` and `TIDEGATE_ALLOWED_COUNTRIES`.

use std::str::FromStr;

use super::TextMessage;
use super::read::is_origin;
use crate::email::{EmailError, EmailErrorKind};
use crate::text::InvalidText;

/// The origination identities that texts may name: phone numbers, sender ids and pools. The first one is that of texts
/// that name none; without a list AWS chooses one, and texts may name any.
///
/// ```
/// use tidegate_core::text_message::Origins;
/// let origins: Origins = "+12065550100, NEWS".parse().unwrap();
/// assert_eq!(origins.0[0], "+12065550100");
/// assert!("two words".parse::<Origins>().is_err());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(pub Vec<String>);

/// The countries that texts may go to, as the beginnings of their phone numbers: `+49` is Germany, `+1340` the US Virgin
/// Islands. Without a list every country is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Countries(pub Vec<String>);

/// The texts that a stack may send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedTexts {
    /// `TIDEGATE_ORIGINS`.
    pub origins: Origins,
    /// `TIDEGATE_ALLOWED_COUNTRIES`.
    pub countries: Countries,
}

impl AllowedTexts {
    /// Checks a text's origin and country, and gives it the first origin if it names none.
    ///
    /// # Errors
    /// [`EmailErrorKind::SenderNotAllowed`] on `origination`, or [`EmailErrorKind::CountryNotAllowed`] on `to_phone`.
    pub fn admit(&self, mut text: TextMessage) -> Result<TextMessage, EmailError> {
        let Self { origins, countries } = self;
        let origination = text.origination.take();
        text.origination = origination.or_else(|| origins.0.first().cloned());
        if let Some(origin) = text.origination.as_deref().filter(|_| !origins.0.is_empty())
            && !origins.0.iter().any(|allowed| allowed == origin)
        {
            let problem = "must be an origin that TIDEGATE_ORIGINS names";
            let error = EmailError::new(EmailErrorKind::SenderNotAllowed, "origination", problem);
            return Err(error.with_value(origin));
        }
        let allowed = countries.0.iter().any(|code| text.to.starts_with(code));
        if !allowed && !countries.0.is_empty() {
            let problem = "must be in a country that TIDEGATE_ALLOWED_COUNTRIES names";
            let error = EmailError::new(EmailErrorKind::CountryNotAllowed, "to_phone", problem);
            return Err(error.with_value(&text.to));
        }
        Ok(text)
    }
}

fn listed(
    list: &str,
    allows: fn(&str) -> bool,
    allowed: &'static str,
) -> Result<Vec<String>, InvalidText> {
    if list.trim() == "*" {
        return Ok(Vec::new());
    }
    let entries = list.split(',').map(|entry| match entry.trim() {
        entry if allows(entry) => Ok(entry.to_owned()),
        entry => Err(InvalidText::new(entry, allowed)),
    });
    entries.collect()
}

impl FromStr for Origins {
    type Err = InvalidText;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "is not allowed: a comma list of phone numbers (+12065550100), sender ids (NEWS), pools (pool-…) and their \
                               ARNs or * for any is";
        listed(list, is_origin, ALLOWED).map(Self)
    }
}

impl FromStr for Countries {
    type Err = InvalidText;

    fn from_str(list: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str = "is not allowed: a comma list of country codes such as +49, or longer beginnings of numbers such as +1340, \
                               or * for all countries is";
        let is_code = |entry: &str| entry.strip_prefix('+').is_some_and(is_calling_code);
        listed(list, is_code, ALLOWED).map(Self)
    }
}

/// Whether `digits` begin phone numbers: 1 to 7 of them, the first not 0.
pub(crate) fn is_calling_code(digits: &str) -> bool {
    (1..=7).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && !digits.starts_with('0')
}

/// The country code of a number in E.164, without `+`: [ITU's list] has one digit for zones 1 and 7, two for the codes
/// below, and three for all others.
///
/// [ITU's list]: https://www.itu.int/pub/T-SP-E.164D
pub(crate) fn calling_code(phone: &str) -> &str {
    const OF_TWO_DIGITS: [&str; 44] = [
        "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46",
        "47", "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63",
        "64", "65", "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98",
    ];
    let digits = phone.strip_prefix('+').unwrap_or(phone);
    let length = match digits.get(..2) {
        Some(first) if first.starts_with(['1', '7']) => 1,
        Some(first) if OF_TWO_DIGITS.contains(&first) => 2,
        _ => 3,
    };
    digits.get(..length).unwrap_or(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(origins: &str, countries: &str, body: &str) -> Result<TextMessage, EmailError> {
        let (origins, countries) = (origins.parse().unwrap(), countries.parse().unwrap());
        AllowedTexts { origins, countries }.admit(TextMessage::parse(body).unwrap())
    }

    const TEXT: &str = r#"{"to_phone": "+4917012345678", "text": "Hello"}"#;
    const FROM_NEWS: &str =
        r#"{"to_phone": "+4917012345678", "text": "Hello", "origination": "NEWS"}"#;

    #[test]
    fn a_text_comes_from_the_first_origin_unless_it_names_another_one_of_the_list() {
        let origin = |origins, body| admit(origins, "*", body).map(|text| text.origination);
        assert_eq!(origin("*", TEXT), Ok(None));
        assert_eq!(origin("*", FROM_NEWS), Ok(Some("NEWS".to_owned())));
        assert_eq!(origin("+12065550100,NEWS", TEXT), Ok(Some("+12065550100".to_owned())));
        assert_eq!(origin("+12065550100,NEWS", FROM_NEWS), Ok(Some("NEWS".to_owned())));
        let refused = origin("+12065550100", FROM_NEWS).unwrap_err();
        assert_eq!(refused.kind, EmailErrorKind::SenderNotAllowed);
        let said = "origination: must be an origin that TIDEGATE_ORIGINS names, not \"NEWS\"";
        assert_eq!(refused.to_string(), said);
    }

    #[test]
    fn a_text_goes_to_the_allowed_countries_alone() {
        assert!(admit("*", "+1, +49", TEXT).is_ok());
        assert!(admit("*", "+49170", TEXT).is_ok());
        let refused = admit("*", "+1,+44", TEXT).unwrap_err();
        assert_eq!(refused.kind, EmailErrorKind::CountryNotAllowed);
        assert!(!refused.redacted().contains("170"), "{}", refused.redacted());
    }

    #[test]
    fn the_country_code_of_a_number_has_one_to_three_digits() {
        for (phone, code) in [
            ("+12065550100", "1"),
            ("+79161234567", "7"),
            ("+4917012345678", "49"),
            ("+420601123456", "420"),
            ("+3581234567", "358"),
            ("+9812345678", "98"),
            ("+971501234567", "971"),
        ] {
            assert_eq!(calling_code(phone), code);
        }
    }

    #[test]
    fn entries_of_another_form_are_refused() {
        for wrong in ["", "+49,", "49", "DE", "+049", "+4917012345"] {
            assert!(wrong.parse::<Countries>().is_err(), "{wrong}");
        }
        for wrong in ["", "NEWS,", "two words", "a@b"] {
            assert!(wrong.parse::<Origins>().is_err(), "{wrong}");
        }
    }
}
