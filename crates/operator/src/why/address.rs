//! The answer for an address: the mails that are known to go to it, and whether SES delivers to it at all.

use serde::Serialize;
use tidegate_core::email::plain_address;
use tidegate_delivery::ports::SuppressedAddress;

use super::explain::FIND_ID;
use super::{Explanation, MailVerdict};
use crate::dead::LetterSnapshot;
use crate::page::{Page, Span, Tone, View};
use crate::redact::AddressVisibility;
use crate::send::recipient;
use crate::suppression::{in_words, list_of};
use tidegate_core::format::{counted, time};

/// Everything that is known of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct AddressReport {
    pub address: String,
    pub summary: String,
    /// Why and since when SES delivers nothing to it, from each suppression list that has it.
    pub suppressed: Vec<String>,
    /// The mails to it, each with its own answer.
    pub mails: Vec<Explanation>,
    /// Rows to it that were not enqueued, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<String>,
    /// The journals whose input was searched.
    pub searched: Vec<String>,
    /// Journals that could not be searched, with the reason.
    pub not_searched: Vec<String>,
}

impl AddressReport {
    /// Puts the answers together.
    ///
    /// A mail that neither a mark nor a dead letter names, and that no journal has, is left out: its id was only
    /// guessed to be the address.
    pub fn new(
        address: &str,
        addresses: AddressVisibility,
        suppressed: &[SuppressedAddress],
        mails: Vec<Explanation>,
        searched: Vec<String>,
    ) -> Self {
        let said = |entry: &SuppressedAddress| {
            let (list, since, why) = (list_of(entry), time(entry.since), in_words(entry.reason));
            format!("on {list} since {since}: {why}. SES accepts mail to it and delivers none")
        };
        let suppressed = suppressed.iter().map(said).collect();
        let searched_in = counted(searched.len() as u64, "journal");
        let summary = if mails.is_empty() {
            format!("No message to it is known: neither {searched_in} nor a dead letter has one.")
        } else {
            let known = counted(mails.len() as u64, "message");
            format!("{known} to it in {searched_in} and the dead letters.")
        };
        let address = addresses.one(address);
        Self { address, summary, suppressed, mails, searched, ..Self::default() }
    }
}

/// Whether `text` is an address or a phone number rather than a mail's id.
pub fn is_address(text: &str) -> bool {
    text.contains(['@', '+']) && !text.contains('/') && recipient(text).is_ok()
}

/// The campaigns and ids of the dead letters to an address.
pub fn dead_to(reading: &LetterSnapshot, address: &str) -> Vec<(String, String)> {
    let meant = plain_address(address);
    let to = |entry: &tidegate_core::dead_letter::DeadLetter| {
        entry.to.iter().any(|to| plain_address(to) == meant)
    };
    let letters = reading.letters.iter();
    let named = letters.filter_map(|letter| Some((letter.entry()?, letter.id())));
    named.filter(|(entry, _)| to(entry)).map(|(entry, id)| (entry.campaign.clone(), id)).collect()
}

impl View for AddressReport {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Strong, format!("{}: {}", self.address, self.summary));
        for suppressed in &self.suppressed {
            page.line(Tone::Warning, format!("It is {suppressed}."));
        }
        for mail in &self.mails {
            page.heading(format!("{} of {}", mail.id, mail.campaign.as_deref().unwrap_or("?")));
            let tone = if mail.verdict == MailVerdict::Sent { Tone::Good } else { Tone::Plain };
            page.line(tone, format!("  {}", mail.summary));
            if let Some(lets_go) = &mail.lets_go {
                page.fields([("next", Span::from(lets_go))]);
            }
        }
        for row in &self.rows {
            page.line(Tone::Warning, format!("Not enqueued: {row}."));
        }
        if self.mails.is_empty() && self.rows.is_empty() {
            page.fields([("next", Span::from(FIND_ID))]);
        }
        for journal in &self.not_searched {
            page.line(Tone::Warning, format!("not searched: {journal}"));
        }
    }
}
