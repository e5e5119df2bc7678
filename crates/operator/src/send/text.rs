//! Text messages of a run: the message of a row, its parts and price in the dry run, and its preview.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::draft::PartPrice;
use tidegate_core::format::{count, counted};
use tidegate_core::text_message::{Alphabet, MessageType, TextLength, TextMessage};

use crate::page::{Page, Span, TextTable, Tone, View};
use crate::redact::AddressVisibility;

/// Where AWS publishes its prices, which it changes without notice; Tidegate therefore has none of its own.
const AWS_PRICES: &str = "https://aws.amazon.com/end-user-messaging/pricing/";

/// Rows that are shown; JSON has all of them.
const MOST_ROWS: usize = 10;
/// Characters that are shown, because of which texts are written in UCS-2.
const MOST_CHARACTERS: usize = 5;

/// The texts of an input, counted. It needs about 40 bytes of memory per row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TextTally {
    /// Parts of all texts, which are their slots.
    pub parts: u64,
    /// Texts by their number of parts.
    pub by_parts: BTreeMap<u32, u64>,
    /// Texts in UCS-2 by the first character that GSM-7 does not have.
    pub ucs2_characters: BTreeMap<char, u64>,
    /// US dollars for the texts whose price is known.
    pub dollars: f64,
    /// Texts whose price is not known.
    pub unpriced: u64,
    pub rows: Vec<TextRow>,
}

/// One text.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TextRow {
    /// The line of the input on which the row begins.
    pub line: u64,
    pub parts: u32,
    /// The first character that GSM-7 does not have; `None` if the text is written in GSM-7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ucs2_character: Option<char>,
    /// US dollars; `None` if the price of a part to this number is not known.
    pub dollars: Option<f64>,
}

impl TextTally {
    /// Adds the text of a line.
    pub(in crate::send) fn add(&mut self, line: u64, text: &TextMessage, prices: &[PartPrice]) {
        let (parts, ucs2_character) = (text.parts, TextLength::outside_gsm7(&text.text));
        let dollars = PartPrice::of_number(prices, &text.to).map(|price| price * f64::from(parts));
        self.parts += u64::from(parts);
        *self.by_parts.entry(parts).or_default() += 1;
        if let Some(c) = ucs2_character {
            *self.ucs2_characters.entry(c).or_default() += 1;
        }
        self.dollars += dollars.unwrap_or_default();
        self.unpriced += u64::from(dollars.is_none());
        self.rows.push(TextRow { line, parts, ucs2_character, dollars });
    }

    fn parts_shown(&self) -> String {
        let of = self.by_parts.iter().map(|(parts, texts)| {
            format!("{} of {}", counted(*texts, "text"), counted(u64::from(*parts), "part"))
        });
        let of: Vec<String> = of.collect();
        format!("{}, each a slot: {}", count(self.parts), of.join(", "))
    }

    fn encodings(&self) -> String {
        let ucs2: u64 = self.ucs2_characters.values().sum();
        let gsm7 = self.rows.len() as u64 - ucs2;
        if ucs2 == 0 {
            return format!("{} in GSM-7", counted(gsm7, "text"));
        }
        let mut characters: Vec<_> = self.ucs2_characters.iter().collect();
        characters.sort_by_key(|(_, texts)| Reverse(**texts));
        let shown = characters.iter().take(MOST_CHARACTERS);
        let shown: Vec<_> = shown.map(|(c, texts)| format!("{c} ({})", count(**texts))).collect();
        let more = if characters.len() > MOST_CHARACTERS { ", …" } else { "" };
        let (gsm7, ucs2, shown) = (counted(gsm7, "text"), count(ucs2), shown.join(", "));
        format!("{gsm7} in GSM-7, {ucs2} in UCS-2 because of {shown}{more}")
    }

    fn price(&self) -> Span {
        let priced = self.rows.len() as u64 - self.unpriced;
        let missing =
            format!("--price-per-part DOLLARS, or CODE=DOLLARS by country ({AWS_PRICES})");
        match (priced, self.unpriced) {
            (_, 0) => Span::from(dollars_text(self.dollars)),
            (0, _) => Span::new(Tone::Warning, format!("not known: {missing}")),
            (priced, unpriced) => {
                let (priced, known) = (counted(priced, "text"), dollars_text(self.dollars));
                let said =
                    format!("{known} for {priced}, not known for {}: {missing}", count(unpriced));
                Span::new(Tone::Warning, said)
            }
        }
    }
}

impl View for TextTally {
    fn view(&self, page: &mut Page) {
        let all = self.rows.len();
        page.heading(format!("Parts and price of {}", counted(all as u64, "text")));
        page.fields([
            ("parts", Span::from(self.parts_shown())),
            ("encoding", Span::from(self.encodings())),
            ("price", self.price()),
        ]);
        let mut rows: Vec<&TextRow> = self.rows.iter().collect();
        rows.sort_by_key(|row| (Reverse(row.parts), row.line));
        if all > MOST_ROWS {
            let said = format!("Those with the most parts (--json has all {}):", count(all as u64));
            page.line(Tone::Faint, said);
        }
        let mut table = TextTable::new(["line", "parts", "encoding", "price"]).right(0).right(1);
        for row in rows.into_iter().take(MOST_ROWS) {
            let encoding = row.ucs2_character.map_or_else(
                || Alphabet::Gsm7.as_str().to_owned(),
                |c| format!("{} because of {c}", Alphabet::Ucs2.as_str()),
            );
            let price = row.dollars.map_or_else(|| "not known".to_owned(), dollars_text);
            table.row([row.line.to_string(), row.parts.to_string(), encoding, price]);
        }
        page.table(table);
        if !self.ucs2_characters.is_empty() {
            let said = "A part holds 160 characters of GSM-7, but 70 of UCS-2: one such character makes the whole text UCS-2.";
            page.line(Tone::Faint, said);
        }
    }
}

/// US dollars with two decimals, or below one dollar with up to five.
fn dollars_text(dollars: f64) -> String {
    if dollars >= 1.0 {
        return format!("${dollars:.2}");
    }
    let mut text = format!("${dollars:.5}");
    while text.ends_with('0') && text.len() > "$0.00".len() {
        text.pop();
    }
    text
}

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
