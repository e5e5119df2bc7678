//! Mails that differ from the plain one, and what else stands on a queue.

use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{Body, Outgoing};
use tidegate_simulator::{BodyForm, ProducedMail};

/// A mail that differs from the plain one.
pub trait MailVariation: Sized {
    /// `count` text messages of `parts` parts each; their ids are `prefix-0`, `prefix-1` and so on.
    fn texts(prefix: &str, count: usize, parts: u32) -> Vec<Self>;

    fn at(self, priority: &'static str) -> Self;

    /// This mail not before a time.
    fn not_before(self, at: impl Into<EpochMillis>) -> Self;

    /// This mail to recipients of a domain.
    fn to(self, domain: &str) -> Self;

    /// This mail with another sender.
    fn from(self, sender: &str) -> Self;

    /// Sets the length of the text in bytes, rounded up to a multiple of five.
    fn of_bytes(self, bytes: usize, body: BodyForm) -> Self;
}

impl MailVariation for ProducedMail {
    fn texts(prefix: &str, count: usize, parts: u32) -> Vec<Self> {
        let text = |mail| Self { body: BodyForm::TextMessage, ..mail };
        Self::several(prefix, count, parts).into_iter().map(text).collect()
    }

    fn at(self, priority: &'static str) -> Self {
        Self { priority: Some(priority), ..self }
    }

    fn not_before(self, at: impl Into<EpochMillis>) -> Self {
        Self { not_before: Some(at.into()), ..self }
    }

    fn to(self, domain: &str) -> Self {
        Self { domain: domain.to_owned(), ..self }
    }

    fn from(self, sender: &str) -> Self {
        Self { sender: sender.to_owned(), ..self }
    }

    fn of_bytes(self, bytes: usize, body: BodyForm) -> Self {
        Self { text: bytes, body, ..self }
    }
}

/// A message as a producer sends it: a body without attributes or delay.
pub fn produced(body: impl Into<Body>) -> Outgoing {
    Outgoing::new(body)
}
