//! Mails as producers put them on the queues.

use std::time::Duration;

use tidegate_delivery::ports::{Body, Outgoing};

/// A mail to be put on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedMail {
    pub id: String,
    pub recipients: u32,
    /// The body's `priority`; `None` omits it.
    pub priority: Option<&'static str>,
    pub domain: String,
    /// The length of its text, in bytes.
    pub text: usize,
}

impl ProducedMail {
    pub fn new(id: impl Into<String>) -> Self {
        let domain = "example.com".to_owned();
        Self { id: id.into(), recipients: 1, priority: None, domain, text: 5 }
    }

    /// `count` mails with `recipients` recipients each; their ids are `prefix-0`, `prefix-1` and so
    /// on.
    pub fn several(prefix: &str, count: usize, recipients: u32) -> Vec<Self> {
        let numbered = |n| Self { recipients, ..Self::new(format!("{prefix}-{n}")) };
        (0..count).map(numbered).collect()
    }

    pub fn at(mut self, priority: &'static str) -> Self {
        self.priority = Some(priority);
        self
    }

    /// This mail to recipients of a domain.
    pub fn to(mut self, domain: &str) -> Self {
        domain.clone_into(&mut self.domain);
        self
    }

    /// Sets the length of the text in bytes, rounded up to a multiple of five.
    pub fn of_bytes(mut self, bytes: usize) -> Self {
        self.text = bytes;
        self
    }

    pub fn body(&self) -> String {
        let (id, domain, text) = (&self.id, &self.domain, "Text.".repeat(self.text.div_ceil(5)));
        let to: Vec<String> =
            (0..self.recipients).map(|n| format!(r#""{id}.{n}@{domain}""#)).collect();
        let priority = self.priority.map(|p| format!(r#", "priority": "{p}""#)).unwrap_or_default();
        format!(
            r#"{{"id": "{id}", "to": [{}], "from": "news@example.org", "subject": "Hello", "text": "{text}"{priority}}}"#,
            to.join(", ")
        )
    }
}

/// A message as a producer sends it: a body without attributes or delay.
pub fn produced(body: impl Into<Body>) -> Outgoing {
    Outgoing { body: body.into(), attributes: Vec::new(), delay: Duration::ZERO, fifo: None }
}
