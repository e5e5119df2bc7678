//! Masks e-mail addresses in output, unless they are requested.

use tidegate_core::identity::Identity;

/// The forms of an `@`: plain, in a URL, in JSON.
const AT: [&str; 3] = ["@", "%40", r"\u0040"];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressVisibility {
    #[default]
    Masked,
    Shown,
}

impl AddressVisibility {
    /// Shows an address; masked, only the part after the last `@` (or `%40`, as in a URL) remains.
    ///
    /// ```
    /// use tidegate_operate::redact::AddressVisibility;
    /// assert_eq!(AddressVisibility::Masked.one("Ada <ada@example.com>"), "***@example.com");
    /// assert_eq!(AddressVisibility::Shown.one("ada@example.com"), "ada@example.com");
    /// assert_eq!(AddressVisibility::Masked.one("ada%40example.com"), "***@example.com");
    /// assert_eq!(AddressVisibility::Masked.one("no address"), "***");
    /// ```
    pub fn one(self, address: &str) -> String {
        if self == Self::Shown {
            return address.to_owned();
        }
        let after = |at: &&str| address.rfind(at).map(|place| place + at.len());
        let domain = AT.iter().filter_map(after).max().map_or("", |start| &address[start..]);
        let domain = domain.trim_end_matches(['>', ' ']);
        if domain.is_empty() { "***".to_owned() } else { format!("***@{domain}") }
    }

    /// Shows a text that may contain addresses; each word with an `@` (or `%40`) is masked.
    ///
    /// ```
    /// use tidegate_operate::redact::AddressVisibility;
    /// let said = "Address <ada@example.com> is on the suppression list";
    /// assert_eq!(AddressVisibility::Masked.within(said), "Address ***@example.com is on the suppression list");
    /// ```
    pub fn within(self, text: &str) -> String {
        if self == Self::Shown || !holds(text) {
            return text.to_owned();
        }
        let masked = |piece: &str| {
            let word = piece.trim_end_matches(char::is_whitespace);
            let after = &piece[word.len()..];
            if holds(word) { self.one(word) + after } else { piece.to_owned() }
        };
        text.split_inclusive(char::is_whitespace).map(masked).collect()
    }

    /// Shows an identity. Its id may be an address, which is masked; the campaign stays.
    ///
    /// ```
    /// use tidegate_core::identity::Identity;
    /// use tidegate_operate::redact::AddressVisibility;
    /// let identity = Identity::from_body_id("news", "ada@example.com");
    /// assert_eq!(AddressVisibility::Masked.identity(&identity), "news/id/***@example.com");
    /// ```
    pub fn identity(self, identity: &Identity) -> String {
        let (text, id) = (identity.as_str(), identity.id());
        if self == Self::Shown || !holds(&id) {
            return text.to_owned();
        }
        let before = text.rsplit_once('/').map_or("", |(before, _)| before);
        format!("{before}/{}", self.within(&id))
    }
}

/// Whether the text may contain an address.
fn holds(text: &str) -> bool {
    AT.iter().any(|at| text.contains(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_masked_however_its_at_is_written() {
        let masked = AddressVisibility::Masked;
        assert_eq!(masked.within("id ada%40example.com is"), "id ***@example.com is");
        assert_eq!(masked.within(r"ada\u0040example.com"), "***@example.com");
        assert_eq!(masked.one("a@example.net%40example.com"), "***@example.com");
        assert_eq!(masked.within("one\nada@example.com\n\ttwo"), "one\n***@example.com\n\ttwo");
        assert_eq!(masked.within("40% of 4711"), "40% of 4711");
        let shown = AddressVisibility::Shown.within("ada%40example.com");
        assert_eq!(shown, "ada%40example.com");
    }

    #[test]
    fn an_identity_keeps_its_campaign() {
        let of = |id| AddressVisibility::Masked.identity(&Identity::from_body_id("news", id));
        assert_eq!(of("ada%40example.com"), "news/id/***@example.com");
        assert_eq!(of("11/ada@example.com"), "news/id/***@example.com");
        assert_eq!(of("11/4711"), "news/id/11%2F4711");
    }
}
