//! The text of text messages, and the prices of their parts.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::fault::InputFault;
use super::form::MessageForm;
use super::row::InputRow;
use super::template::{Columns, TemplatePart, Templates};
use crate::text_message::{Countries, check_phone_number};

pub(super) const TEXT_FORM: MessageForm = MessageForm {
    recipient: "to_phone",
    columns: &["to_phone"],
    column_words: &["phone", "mobile", "cell", "number", "recipient"],
    one: "one phone number",
    example: "+12065550100",
    options: &[
        ("origination", "--from"),
        ("type", "--type"),
        ("priority", "--priority"),
        ("tags", "--tag"),
        ("configuration_set", "--configuration-set"),
    ],
    plain: |to| match check_phone_number(to) {
        Ok(()) => Ok(to.to_owned()),
        Err(error) => Err(error.problem.into_owned()),
    },
};

/// The text of a run's messages, and the prices of their parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TextDraft {
    /// Templates of which [`TemplatePart::Text`] is the text.
    pub templates: Templates,
    /// `type`, if the messages have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_type: Option<String>,
    /// The prices of parts, for the dry run.
    #[serde(skip)]
    pub prices: Vec<PartPrice>,
}

#[derive(Serialize)]
pub(super) struct TextJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<&'a str>,
    pub(super) to_phone: &'a str,
    pub(super) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origination: Option<&'a str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub(super) message_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) configuration_set: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tags: &'a BTreeMap<String, String>,
}

impl TextDraft {
    /// The text of a row, without blanks around it: they would cost parts.
    pub(super) fn render(&self, row: &InputRow) -> Result<String, InputFault> {
        let text = self.templates.render(TemplatePart::Text, &Columns::of(row))?;
        Ok(text.unwrap_or_default().trim().to_owned())
    }
}

/// The price of a part to the numbers that begin with `code`, such as `+49`; to all other numbers if that is empty.
#[derive(Clone, Debug, PartialEq)]
pub struct PartPrice {
    code: String,
    dollars: f64,
}

impl PartPrice {
    /// The price of a part to a number, in US dollars: the one with the longest beginning of the number counts; `None` if
    /// none fits.
    ///
    /// ```
    /// use tidegate_core::draft::PartPrice;
    /// let prices: Vec<PartPrice> = vec!["0.1".parse()?, "+49=0.2".parse()?, "+4917=0.3".parse()?];
    /// let of = |phone| PartPrice::of_number(&prices, phone);
    /// assert_eq!((of("+12065550100"), of("+4930123456"), of("+4917012345")), (Some(0.1), Some(0.2), Some(0.3)));
    /// assert!("+49".parse::<PartPrice>().is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn of_number(prices: &[Self], phone: &str) -> Option<f64> {
        let fit = prices.iter().filter(|price| phone.starts_with(&price.code));
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
