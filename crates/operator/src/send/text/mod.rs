//! Text messages of a run: the message of a row, its parts and price in the dry run, and its preview.

mod preview;
mod prices;
mod tally;

use std::collections::BTreeMap;

pub use preview::PreviewedText;
pub use prices::{PartPrice, PartPrices};
use serde::Serialize;
pub use tally::{TextRow, TextTally};
use tidegate_core::text_message::check_phone_number;

use super::fault::InputFault;
use super::form::MessageForm;
use super::rows::InputRow;
use super::template::{Columns, TemplatePart, Templates};

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
#[derive(Debug)]
pub struct TextDraft {
    /// Templates of which [`TemplatePart::Text`] is the text.
    pub templates: Templates,
    /// `type`, if the messages have one.
    pub message_type: Option<String>,
    pub prices: PartPrices,
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
    pub(super) fn render(&self, file: &str, row: &InputRow) -> Result<String, InputFault> {
        let text = self.templates.render(TemplatePart::Text, &Columns::of(row), file, row)?;
        Ok(text.unwrap_or_default().trim().to_owned())
    }
}
