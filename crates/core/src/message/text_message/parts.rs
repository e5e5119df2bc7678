//! The parts of a text: SMS carries 140 bytes at a time, and AWS counts, limits and bills parts.
//!
//! [3GPP TS 23.038](https://www.3gpp.org/dynareport/23038.htm) defines both alphabets.
//! [AWS](https://docs.aws.amazon.com/sms-voice/latest/userguide/sms-limitations-character.html) takes the first one
//! that has all characters of the text.

/// The basic alphabet of GSM-7: one septet each.
const BASIC: &str = "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà";
/// The extension table of GSM-7: an escape and a septet each.
const EXTENDED: &str = "\u{c}^{}\\[~]|€";

/// The most septets, and the most units of UTF-16, of a text that AWS takes.
const MOST_SEPTETS: u32 = 1_530;
const MOST_UTF_16: u32 = 630;

/// How a text's characters are written in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Septets: 160 in a single part, 153 in each of several.
    Gsm7,
    /// UTF-16 units: 70 in a single part, 67 in each of several.
    Ucs2,
}

/// The length of a text as SMS counts it.
///
/// ```
/// use tidegate_core::text_message::{Alphabet, TextLength};
/// let of = |text: &str| TextLength::of(text).parts;
/// assert_eq!((of(&"a".repeat(160)), of(&"a".repeat(161))), (1, 2));
/// assert_eq!((of(&"ж".repeat(70)), of(&"ж".repeat(71))), (1, 2));
/// assert_eq!(TextLength::of("5 €"), TextLength { alphabet: Alphabet::Gsm7, units: 4, parts: 1 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextLength {
    /// The alphabet that AWS chooses for the text.
    pub alphabet: Alphabet,
    /// Septets or UTF-16 units.
    pub units: u32,
    /// Parts, at least 1.
    pub parts: u32,
}

impl Alphabet {
    /// The name that AWS uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gsm7 => "GSM-7",
            Self::Ucs2 => "UCS-2",
        }
    }
}

impl TextLength {
    /// Counts a text's units and parts.
    pub fn of(text: &str) -> Self {
        let gsm: Option<Vec<u32>> = text.chars().map(septets).collect();
        match gsm {
            Some(widths) => Self::filled(Alphabet::Gsm7, &widths, 160, 153),
            None => {
                let widths: Vec<u32> = text.chars().map(utf16_units).collect();
                Self::filled(Alphabet::Ucs2, &widths, 70, 67)
            }
        }
    }

    /// The first character that GSM-7 does not have, because of which the text is written in UCS-2; `None` if there is
    /// none.
    ///
    /// ```
    /// use tidegate_core::text_message::TextLength;
    /// assert_eq!(TextLength::outside_gsm7("5 € for “you”"), Some('“'));
    /// ```
    pub fn outside_gsm7(text: &str) -> Option<char> {
        text.chars().find(|c| septets(*c).is_none())
    }

    /// Fills parts in order. A character of two units stands in one part: no phone joins the halves of an escape or
    /// of a surrogate pair.
    fn filled(alphabet: Alphabet, widths: &[u32], alone: u32, each: u32) -> Self {
        let units = widths.iter().sum();
        let fill = |(parts, used), width: &u32| match used + width {
            more if more > each => (parts + 1, *width),
            fits => (parts, fits),
        };
        let parts = if units <= alone { 1 } else { widths.iter().fold((1, 0), fill).0 };
        Self { alphabet, units, parts }
    }

    /// True if AWS takes the text: at most 1,530 septets or 630 UTF-16 units.
    pub const fn is_allowed(&self) -> bool {
        let most = match self.alphabet {
            Alphabet::Gsm7 => MOST_SEPTETS,
            Alphabet::Ucs2 => MOST_UTF_16,
        };
        self.units <= most
    }
}

/// Septets of a character; `None` if GSM-7 does not have it.
fn septets(c: char) -> Option<u32> {
    if c.is_ascii_alphanumeric() || BASIC.contains(c) {
        Some(1)
    } else {
        EXTENDED.contains(c).then_some(2)
    }
}

const fn utf16_units(c: char) -> u32 {
    if c as u32 > 0xFFFF { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> u32 {
        TextLength::of(text).parts
    }

    #[test]
    fn the_tables_are_those_of_the_standard() {
        // 128 codes, of which one is the escape; ten are defined behind it.
        assert_eq!((BASIC.chars().count(), EXTENDED.chars().count()), (127, 10));
        assert_eq!(TextLength::of(BASIC).units, 127);
        assert_eq!(TextLength::of(EXTENDED).units, 20);
        for missing in ["ç", "`", "“", "–", "á", "🌊", "\t"] {
            assert_eq!(TextLength::of(missing).alphabet, Alphabet::Ucs2, "{missing}");
        }
    }

    #[test]
    fn parts_have_the_lengths_of_the_standard() {
        let of = |unit: &str, counts: [usize; 6]| counts.map(|count| parts(&unit.repeat(count)));
        assert_eq!(of("a", [1, 160, 161, 306, 307, 459]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(of("ж", [1, 70, 71, 134, 135, 201]), [1, 1, 2, 2, 3, 3]);
        // Two units each: 76 escapes fit beside one another in 153 septets, 33 pairs in 67 units.
        assert_eq!(of("€", [1, 80, 81, 152, 153, 228]), [1, 1, 2, 2, 3, 3]);
        assert_eq!(of("🌊", [1, 35, 36, 66, 67, 99]), [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_character_of_two_units_never_lies_in_two_parts() {
        assert_eq!(parts(&format!("{}€{}", "a".repeat(152), "a".repeat(152))), 3);
        assert_eq!(parts(&format!("{}€{}", "a".repeat(151), "a".repeat(153))), 2);
        assert_eq!(parts(&format!("{}🌊{}", "ж".repeat(66), "ж".repeat(66))), 3);
        assert_eq!(parts(&format!("{}🌊{}", "ж".repeat(65), "ж".repeat(67))), 2);
    }

    #[test]
    fn aws_takes_1530_septets_or_630_units() {
        let allowed = |text: String| TextLength::of(&text).is_allowed();
        assert!(allowed("a".repeat(1_530)) && !allowed("a".repeat(1_531)));
        assert!(allowed("ж".repeat(630)) && !allowed("ж".repeat(631)));
    }

    /// The parts of a text, cut as a phone would see them: the longest beginning that fits, again and again.
    fn cut(text: &str) -> Vec<String> {
        let gsm = text.chars().all(|c| BASIC.contains(c) || EXTENDED.contains(c));
        let extended = |part: &str| part.chars().filter(|c| EXTENDED.contains(*c)).count();
        let width = |part: &str| {
            if gsm { part.chars().count() + extended(part) } else { part.encode_utf16().count() }
        };
        let (alone, each) = if gsm { (160, 153) } else { (70, 67) };
        if width(text) <= alone {
            return vec![text.to_owned()];
        }
        let mut parts = vec![String::new()];
        for c in text.chars() {
            let last = parts.last_mut().unwrap();
            last.push(c);
            if width(last) > each {
                last.pop();
                parts.push(c.to_string());
            }
        }
        parts
    }

    proptest! {
        #[test]
        fn a_text_has_as_many_parts_as_a_phone_receives(
            text in prop_oneof!["[a-z €{}\\[\\]~^]{0,700}", "[a-zж🌊€]{0,400}", any::<String>()]
        ) {
            let cut = cut(&text);
            prop_assert_eq!(parts(&text) as usize, cut.len());
            prop_assert_eq!(cut.concat(), text);
        }

        #[test]
        fn a_longer_text_has_no_fewer_parts(text in "[a-zж🌊€]{1,300}", at in 0_usize..300) {
            let beginning: String = text.chars().take(at).collect();
            prop_assert!(parts(&beginning) <= parts(&text) || TextLength::of(&beginning).alphabet == Alphabet::Ucs2);
        }
    }
}
