//! Mails as producers put them on the queues.

use std::sync::LazyLock;

use tidegate_core::compression::compress;
use tidegate_core::identity::EpochMillis;

/// A mail to be put on a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedMail {
    pub id: String,
    pub recipients: u32,
    /// The body's `priority`; `None` omits it.
    pub priority: Option<&'static str>,
    /// The body's `not_before`; `None` omits it.
    pub not_before: Option<EpochMillis>,
    pub domain: String,
    pub sender: String,
    /// The length of its text, in bytes.
    pub text: usize,
    pub body: BodyForm,
}

/// How the body looks to a compressor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// A text of random letters: its compressed form is no smaller.
    Random,
    /// A text of one word, like a newsletter's: its compressed form has a fiftieth.
    Repeated,
    /// The repeated text, which the producer sends in the compressed form (if it has 4 KB).
    Compressed,
    /// A text message, with as many parts as the mail would have recipients.
    TextMessage,
}

impl ProducedMail {
    pub fn new(id: impl Into<String>) -> Self {
        let domain = "example.com".to_owned();
        Self {
            id: id.into(),
            recipients: 1,
            priority: None,
            not_before: None,
            domain,
            sender: "news@example.org".to_owned(),
            text: 5,
            body: BodyForm::Repeated,
        }
    }

    /// `count` mails with `recipients` recipients each; their ids are `prefix-0`, `prefix-1` and so
    /// on.
    pub fn several(prefix: &str, count: usize, recipients: u32) -> Vec<Self> {
        let numbered = |n| Self { recipients, ..Self::new(format!("{prefix}-{n}")) };
        (0..count).map(numbered).collect()
    }

    pub fn body(&self) -> String {
        if self.body == BodyForm::TextMessage {
            return self.text_message();
        }
        let (id, domain, sender) = (&self.id, &self.domain, &self.sender);
        let words = self.text.div_ceil(5);
        let text = match self.body {
            BodyForm::Random => letters(5 * words).to_owned(),
            _ => "Text.".repeat(words),
        };
        let to: Vec<String> =
            (0..self.recipients).map(|n| format!(r#""{id}.{n}@{domain}""#)).collect();
        let priority = self.priority();
        let body = format!(
            r#"{{"id": "{id}", "to": [{}], "from": "{sender}", "subject": "Hello", "text": "{text}"{priority}}}"#,
            to.join(", ")
        );
        let compressed = matches!(self.body, BodyForm::Compressed).then(|| compress(&body));
        compressed.flatten().unwrap_or(body)
    }

    /// The phone number that a text message with this id goes to.
    pub fn phone(id: &str) -> String {
        let number = id.bytes().fold(7_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
        format!("+1206{:07}", number % 10_000_000)
    }

    fn text_message(&self) -> String {
        let (id, priority, phone) = (&self.id, self.priority(), Self::phone(&self.id));
        // Of the country that the text goes to, where a mail would have a domain.
        let to = match self.domain.strip_prefix('+') {
            Some(country) => phone.replacen("1206", country, 1),
            None => phone,
        };
        let text = "a".repeat(153 * self.recipients as usize);
        format!(r#"{{"id": "{id}", "to_phone": "{to}", "text": "{text}"{priority}}}"#)
    }

    /// The members for priority and time.
    fn priority(&self) -> String {
        let priority = self.priority.map(|p| format!(r#", "priority": "{p}""#));
        let not_before = self.not_before.map(|at| format!(r#", "not_before": "{at}""#));
        priority.into_iter().chain(not_before).collect()
    }
}

/// Letters of a linear congruential generator (Knuth's MMIX), the same each time; 1 MiB at most, which is SQS's limit.
fn letters(count: usize) -> &'static str {
    static ALL: LazyLock<String> = LazyLock::new(|| generate(1 << 20));
    &ALL[..count.min(ALL.len())]
}

fn generate(count: usize) -> String {
    let next = |state: &u64| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    };
    let letter = |state: u64| char::from(b'0' + (state >> 58) as u8);
    std::iter::successors(Some(1), next).map(letter).filter(|c| *c != '\\').take(count).collect()
}
