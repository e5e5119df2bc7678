//! The prices of a part of a text, as the operator gives them.

use std::str::FromStr;

use tidegate_core::text_message::Countries;

/// Where AWS publishes its prices, which it changes without notice; Tidegate therefore has none of its own.
pub(super) const AWS_PRICES: &str = "https://aws.amazon.com/end-user-messaging/pricing/";

/// Prices of a part in US dollars, by the beginning of the recipient's number.
///
/// ```
/// use tidegate_operator::send::PartPrices;
/// let prices = PartPrices::of(["0.1".parse()?, "+49=0.2".parse()?, "+4917=0.3".parse()?]);
/// let of = |phone| prices.of_number(phone);
/// assert_eq!((of("+12065550100"), of("+4930123456"), of("+4917012345")), (Some(0.1), Some(0.2), Some(0.3)));
/// assert!("+49".parse::<tidegate_operator::send::PartPrice>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartPrices(Vec<PartPrice>);

/// The price of a part to the numbers that begin with `code`, such as `+49`; to all other numbers if that is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct PartPrice {
    code: String,
    dollars: f64,
}

impl PartPrices {
    /// These prices, of which the one with the longest beginning of a number counts.
    pub fn of(prices: impl IntoIterator<Item = PartPrice>) -> Self {
        Self(prices.into_iter().collect())
    }

    /// The price of a part to a number, in US dollars; `None` if it is not known.
    pub fn of_number(&self, phone: &str) -> Option<f64> {
        let fit = self.0.iter().filter(|price| phone.starts_with(&price.code));
        fit.max_by_key(|price| price.code.len()).map(|price| price.dollars)
    }
}

impl FromStr for PartPrice {
    type Err = String;

    /// `0.0075`, or `+49=0.0075`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const ALLOWED: &str =
            "allowed are US dollars such as 0.0075, or those to a country such as +49=0.0075";
        let (code, dollars) = text.split_once('=').unwrap_or(("", text));
        // Rust reads a sign, too: `+49` alone would be a price of 49 dollars.
        let has_sign = dollars.trim().starts_with('+');
        let dollars: f64 = dollars.trim().parse().map_err(|_| ALLOWED)?;
        let is_code = code.is_empty() || code != "*" && code.parse::<Countries>().is_ok();
        if is_code && !has_sign && (0.0..1_000.0).contains(&dollars) {
            Ok(Self { code: code.to_owned(), dollars })
        } else {
            Err(ALLOWED.to_owned())
        }
    }
}
