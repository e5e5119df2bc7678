use std::collections::BTreeSet;
use std::fmt::{self, Display};

use clap::Args;
use serde::Serialize;
use tidegate_adapters::aws::SystemClock;
use tidegate_core::control::CANCELLED;
use tidegate_core::dead_letter::DeadLetter;
use tidegate_core::email::id_of;
use tidegate_core::identity::{Envelope, EpochMillis, Identity};
use tidegate_delivery::ports::{Clock as _, Received};

/// The code of mails that deduplication parked: it is unknown whether they were sent.
pub(super) const UNKNOWN: &str = "unknown";

/// A message of the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// SQS's id of it on this queue.
    pub message_id: String,
    pub since: EpochMillis,
    pub content: LetterContent,
    /// The mail's envelope; `None` if the message has none or an invalid one.
    pub envelope: Option<Envelope>,
}

/// The content of a message on the dead-letter queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LetterContent {
    Entry(Box<DeadLetter>),
    Foreign { why: String, body: String },
}

/// Whether the mail of a dead letter may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Doubt {
    /// It never left, or SES refused it.
    None,
    /// SES may have accepted the last send: no answer came, or none that refuses.
    Perhaps,
    /// Deduplication parked it: a poller began to send it, and its outcome is unknown.
    Unknown,
}

impl Letter {
    pub fn of(received: &Received) -> Self {
        let attribute = |name: &str| received.attributes.get(name).map(String::as_str);
        let content = match DeadLetter::from_queue_message(&received.body, attribute) {
            Ok(entry) => LetterContent::Entry(Box::new(entry)),
            Err(error) => {
                LetterContent::Foreign { why: error.to_string(), body: received.body.to_string() }
            }
        };
        let envelope = Envelope::from_attributes(attribute).ok().flatten();
        let since = EpochMillis::new(received.sent_at_millis);
        Self { message_id: received.message_id.clone(), since, content, envelope }
    }

    /// The dead letter; `None` if Tidegate did not write the message.
    pub fn entry(&self) -> Option<&DeadLetter> {
        match &self.content {
            LetterContent::Entry(entry) => Some(entry),
            LetterContent::Foreign { .. } => None,
        }
    }

    /// Why it is a dead letter, as a code.
    pub fn code(&self) -> Option<&str> {
        self.entry()?.last_error.code.as_deref()
    }

    /// The mail's identity: from its envelope, else the one that a poller would derive.
    pub fn identity(&self) -> Option<Identity> {
        if let Some(envelope) = &self.envelope {
            return Some(envelope.identity.clone());
        }
        let entry = self.entry()?;
        Some(Identity::of(&entry.campaign, id_of(&entry.message).as_deref(), &entry.message_id))
    }

    /// The mail's `id`, or the SQS message id that replaces it.
    pub fn id(&self) -> String {
        self.identity()
            .map_or_else(|| self.message_id.clone(), |identity| identity.id().into_owned())
    }

    /// Whether `text` is the mail's id, its identity, or one of its SQS message ids.
    pub fn is(&self, text: &str) -> bool {
        self.message_id == text
            || self.entry().is_some_and(|entry| entry.message_id == text)
            || self.identity().is_some_and(|known| known.as_str() == text || known.id() == text)
    }

    /// Whether the mail may have been sent, by its dead letter alone.
    pub fn doubt(&self) -> Doubt {
        let Some(entry) = self.entry() else { return Doubt::None };
        if entry.last_error.code.as_deref() == Some(UNKNOWN) {
            return Doubt::Unknown;
        }
        // Only an answer with an error status proves that the mail was not sent.
        let answered = entry.last_error.http_status.is_some_and(|status| status >= 300);
        if entry.last_attempt_at.is_some() && !answered { Doubt::Perhaps } else { Doubt::None }
    }

    /// The domains of its recipients, each once.
    pub(super) fn domains(&self) -> BTreeSet<String> {
        let to = self.entry().map(|entry| entry.to.as_slice()).unwrap_or_default();
        let domain = |to: &String| {
            let domain = to.rsplit_once('@').map_or("", |(_, domain)| domain);
            domain.trim_end_matches(['>', ' ']).to_ascii_lowercase()
        };
        to.iter().map(domain).collect()
    }
}

/// Which letters: those that meet every condition; a condition given twice is met by either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Which")]
pub struct LetterFilter {
    /// All of them: needed where no condition is given and they are changed
    #[arg(long)]
    pub all: bool,
    /// A mail's `id`, its identity, or an SQS message id
    #[arg(long = "id", value_name = "ID")]
    pub ids: Vec<String>,
    /// Only mail of this campaign
    #[arg(long = "campaign", value_name = "NAME")]
    pub campaigns: Vec<String>,
    /// Why they are dead letters, such as `MessageRejected`, or `cancelled`
    #[arg(long = "code", value_name = "CODE")]
    pub codes: Vec<String>,
    /// Only mail to this recipient domain
    #[arg(long = "domain", value_name = "DOMAIN")]
    pub domains: Vec<String>,
    /// Dead-lettered since: a time such as 2026-11-20T20:00:00Z, or a span such as 2h ago
    #[arg(long, value_name = "TIME", value_parser = time_or_age)]
    pub since: Option<EpochMillis>,
    /// Dead-lettered before: a time, or a span
    #[arg(long, value_name = "TIME", value_parser = time_or_age)]
    pub until: Option<EpochMillis>,
    /// Only those of which it is not known whether they were sent
    #[arg(long)]
    pub unknown: bool,
}

impl LetterFilter {
    /// The mails of a campaign that were taken back.
    pub fn cancelled_of(campaign: &str) -> Self {
        let (campaigns, codes) = (vec![campaign.to_owned()], vec![CANCELLED.to_owned()]);
        Self { campaigns, codes, ..Self::default() }
    }

    /// Whether it says nothing: neither a condition, nor that all are meant.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn admits(&self, letter: &Letter) -> bool {
        let any = |values: &[String], is: &dyn Fn(&str) -> bool| {
            values.is_empty() || values.iter().any(|value| is(value))
        };
        let entry = letter.entry();
        any(&self.ids, &|id| letter.is(id))
            && any(&self.campaigns, &|name| entry.is_some_and(|entry| entry.campaign == name))
            && any(&self.codes, &|code| {
                letter.code().is_some_and(|own| own.eq_ignore_ascii_case(code))
            })
            && any(&self.domains, &|domain| {
                letter.domains().iter().any(|own| own.eq_ignore_ascii_case(domain))
            })
            && self.since.is_none_or(|since| letter.since >= since)
            && self.until.is_none_or(|until| letter.since < until)
            && (!self.unknown || letter.doubt() != Doubt::None)
    }
}

/// A time, or a span before now.
fn time_or_age(text: &str) -> Result<EpochMillis, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let span = humantime::parse_duration(text).map_err(|_| {
        "allowed is a time such as 2026-11-20T20:00:00Z, or a span such as 90s, 30min, 2h or 1day"
    })?;
    Ok(SystemClock::new().wall().saturating_sub(span).into())
}

impl Display for LetterFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said: Vec<String> = Vec::new();
        let lists = [
            ("id", &self.ids),
            ("campaign", &self.campaigns),
            ("code", &self.codes),
            ("domain", &self.domains),
        ];
        for (name, values) in lists {
            if !values.is_empty() {
                said.push(format!("{name} {}", values.join(" or ")));
            }
        }
        said.extend(self.since.map(|since| format!("since {since}")));
        said.extend(self.until.map(|until| format!("until {until}")));
        if self.unknown {
            said.push("perhaps sent".to_owned());
        }
        f.write_str(&if said.is_empty() { "all".to_owned() } else { said.join(", ") })
    }
}
