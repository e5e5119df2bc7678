//! A text in the preview.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::text_message::{MessageType, TextLength, TextMessage};

use crate::page::{Page, Span, Tone, View};
use crate::redact::AddressVisibility;
use tidegate_core::format::counted;

/// A text as AWS will get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewedText {
    /// The line of the input that it comes from.
    pub line: u64,
    pub id: String,
    /// The origin; `None` if AWS chooses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub message_type: Option<&'static str>,
    pub tags: BTreeMap<String, String>,
    pub text: String,
    pub parts: u32,
    pub encoding: &'static str,
    /// The first character that GSM-7 does not have; `None` if the text is written in GSM-7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ucs2_character: Option<char>,
}

impl PreviewedText {
    pub(in crate::send) fn of(
        line: u64,
        id: &str,
        text: &TextMessage,
        addresses: AddressVisibility,
    ) -> Self {
        Self {
            line,
            id: addresses.within(id),
            // The origin is no recipient's number.
            from: text.origination.clone(),
            to: addresses.within(&text.to),
            message_type: text.message_type.map(MessageType::as_str),
            tags: text.tags.clone(),
            text: addresses.within(&text.text),
            parts: text.parts,
            encoding: TextLength::of(&text.text).alphabet.as_str(),
            ucs2_character: TextLength::outside_gsm7(&text.text),
        }
    }
}

impl View for PreviewedText {
    fn view(&self, page: &mut Page) {
        page.heading(format!("The text of line {}", self.line));
        let from = self.from.as_deref().unwrap_or("what AWS chooses");
        let mut fields = vec![("from", Span::from(from)), ("to", Span::from(&self.to))];
        fields.extend(self.message_type.map(|of| ("type", Span::from(of))));
        let tag = |(name, value)| ("tag", Span::from(format!("{name}={value}")));
        fields.extend(self.tags.iter().map(tag));
        fields.push(("id", Span::from(&self.id)));
        let because = self.ucs2_character.map_or_else(String::new, |c| format!(" because of {c}"));
        let parts = counted(u64::from(self.parts), "part");
        fields.push(("size", Span::from(format!("{parts} in {}{because}", self.encoding))));
        page.fields(fields);
        page.line(Tone::Faint, "--- text");
        for line in self.text.lines() {
            page.line(Tone::Plain, line);
        }
    }
}
