//! Addresses are masked unless they are asked for.

/// Whether addresses are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Only the domain: `***@example.com`.
    #[default]
    Masked,
    /// As they are (`--show-addresses`).
    Shown,
}

impl Addresses {
    /// An address as it is shown: masked, all but what follows the last `@`.
    ///
    /// ```
    /// use tidegate_operate::redact::Addresses;
    /// assert_eq!(Addresses::Masked.one("Ada <ada@example.com>"), "***@example.com");
    /// assert_eq!(Addresses::Shown.one("ada@example.com"), "ada@example.com");
    /// assert_eq!(Addresses::Masked.one("no address"), "***");
    /// ```
    #[must_use]
    pub fn one(self, address: &str) -> String {
        if self == Self::Shown {
            return address.to_owned();
        }
        let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
        let domain = domain.trim_end_matches(['>', ' ']);
        if domain.is_empty() { "***".to_owned() } else { format!("***@{domain}") }
    }

    /// A text in which addresses may stand: masked, each word with an `@` in it.
    ///
    /// ```
    /// use tidegate_operate::redact::Addresses;
    /// let said = "Address <ada@example.com> is on the suppression list";
    /// assert_eq!(Addresses::Masked.within(said), "Address ***@example.com is on the suppression list");
    /// ```
    #[must_use]
    pub fn within(self, text: &str) -> String {
        if self == Self::Shown || !text.contains('@') {
            return text.to_owned();
        }
        let masked = |word: &str| if word.contains('@') { self.one(word) } else { word.to_owned() };
        text.split(' ').map(masked).collect::<Vec<_>>().join(" ")
    }
}
