//! The channel of a stack, e-mail or SMS, and what the poller asks of a message of either.

use schemars::JsonSchema;
use serde::Serialize;
use strum::EnumString;

use crate::email::{Address, AllowedSenders, Email, EmailError, Priority, StoredContent, wrapped};
use crate::identity::EpochMillis;
use crate::outcome::{Failure, Outcome, classify, classify_for_tenant, names_recipients_alone};
use crate::text_message::{AllowedTexts, TextMessage, classify_text};

/// `TIDEGATE_CHANNEL`: what a stack sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema, Serialize, EnumString)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Channel {
    /// E-mail, through SES.
    #[default]
    Email,
    /// Text messages, through AWS End User Messaging.
    Sms,
}

/// The words that people read for what a stack sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Words {
    /// One message; an `s` makes it several.
    pub message: &'static str,
    /// Any number of messages.
    pub messages: &'static str,
    /// The thing that takes a slot; an `s` makes it several.
    pub unit: &'static str,
    /// The service that sends, which has a quota.
    pub service: &'static str,
    /// A recipient's address or number; `es` and `s` make it several.
    pub address: &'static str,
    /// The service's limit of a period.
    pub limit: &'static str,
}

impl Channel {
    /// The words for this channel.
    pub const fn words(self) -> Words {
        match self {
            Self::Email => Words {
                message: "mail",
                messages: "mail",
                unit: "recipient",
                service: "SES",
                address: "address",
                limit: "daily quota",
            },
            Self::Sms => Words {
                message: "text",
                messages: "texts",
                unit: "part",
                service: "End User Messaging",
                address: "number",
                limit: "spend limit",
            },
        }
    }
}

/// The messages that a stack sends: its channel, and where they may come from and go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageRules {
    /// `TIDEGATE_CHANNEL`.
    pub channel: Channel,
    /// `TIDEGATE_ALLOWED_SENDERS`: sender addresses and domains of mails.
    pub senders: AllowedSenders,
    /// `TIDEGATE_ORIGINS` and `TIDEGATE_ALLOWED_COUNTRIES`, of text messages.
    pub texts: AllowedTexts,
    /// Whether there is a store, for mail that is too large for a queue.
    pub has_store: bool,
}

impl MessageRules {
    /// Checks that a message may be sent from where and to where it wants.
    ///
    /// # Errors
    /// [`EmailError`] with the field that is not allowed.
    pub fn admit(&self, content: Content) -> Result<Content, EmailError> {
        match content {
            Content::Email(email) => self.senders.admit(*email).map(Content::from),
            Content::Text(text) => self.texts.admit(text).map(Content::Text),
        }
    }

    /// Reads a message body and checks it, as the poller does.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn read(&self, body: &str) -> Result<Content, EmailError> {
        Content::parse(self.channel, body).and_then(|content| self.admit(content))
    }

    /// The same for a mail whose body points to `object`.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn read_with_object(&self, body: &str, object: &[u8]) -> Result<Content, EmailError> {
        Email::with_object(body, object).and_then(|email| self.admit(email.into()))
    }
}

impl From<AllowedSenders> for MessageRules {
    /// The rules of a stack for e-mail.
    fn from(senders: AllowedSenders) -> Self {
        Self { channel: Channel::Email, senders, texts: AllowedTexts::default(), has_store: false }
    }
}

/// The content of a message: a mail or a text message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A mail.
    Email(Box<Email>),
    /// A text message.
    Text(TextMessage),
}

impl Content {
    /// Reads a message body of the channel.
    ///
    /// # Errors
    /// [`EmailError`] for the first fault, with the field.
    pub fn parse(channel: Channel, body: &str) -> Result<Self, EmailError> {
        let parsed = match channel {
            Channel::Email => Email::parse(body).map(Self::from),
            Channel::Sms => TextMessage::parse(body).map(Self::Text),
        };
        parsed.map_err(|error| wrapped::named(body, error))
    }

    /// The slots that it uses: a mail's recipients (1 to 50), a text's parts (1 to 11).
    pub fn slots(&self) -> u32 {
        match self {
            Self::Email(email) => email.recipients(),
            Self::Text(text) => text.parts,
        }
    }

    /// The producer's id of 1 to 256 characters; none if the message has none.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Email(email) => email.id.as_deref(),
            Self::Text(text) => text.id.as_deref(),
        }
    }

    /// The priority within its campaign.
    pub const fn priority(&self) -> Priority {
        match self {
            Self::Email(email) => email.priority,
            Self::Text(text) => text.priority,
        }
    }

    /// The time before which it may not be sent; none if it may be sent at once.
    pub const fn not_before(&self) -> Option<EpochMillis> {
        match self {
            Self::Email(email) => email.not_before,
            Self::Text(text) => text.not_before,
        }
    }

    /// Where a large mail's content is, if it was not read yet.
    pub const fn stored(&self) -> Option<&StoredContent> {
        match self {
            Self::Email(email) => email.stored(),
            Self::Text(_) => None,
        }
    }

    /// The bytes of what is read, written and signed to send it: texts and files, not addresses and headers.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Email(email) => email.content_bytes(),
            Self::Text(text) => text.text.len(),
        }
    }

    /// The addresses in a mail's `to`, without display names, or a text's phone number.
    pub fn to(&self) -> impl Iterator<Item = &str> {
        let (addresses, phone) = match self {
            Self::Email(email) => (&email.to[..], None),
            Self::Text(text) => (&[][..], Some(text.to.as_str())),
        };
        addresses.iter().map(Address::addr_spec).chain(phone)
    }

    /// As [`Content::to`], with the addresses in `cc` and `bcc`.
    pub fn recipients(&self) -> impl Iterator<Item = &str> {
        let (cc, bcc) = match self {
            Self::Email(email) => (&email.cc[..], &email.bcc[..]),
            Self::Text(_) => (&[][..], &[][..]),
        };
        self.to().chain(cc.iter().chain(bcc).map(Address::addr_spec))
    }

    /// The sender's address without display name, or a text's origin; none if AWS chooses that.
    pub fn sender(&self) -> Option<&str> {
        match self {
            Self::Email(email) => Some(email.from.addr_spec()),
            Self::Text(text) => text.origination.as_deref(),
        }
    }

    /// The configuration set; none if the message names none.
    pub fn configuration_set(&self) -> Option<&str> {
        match self {
            Self::Email(email) => email.configuration_set.as_deref(),
            Self::Text(text) => text.configuration_set.as_deref(),
        }
    }

    /// Classifies the failure of its send, which may have been made for a `tenant` of SES.
    pub fn classify(&self, failure: &Failure, tenant: Option<&str>) -> Outcome {
        let Self::Email(email) = self else { return classify_text(failure) };
        let outcome = match tenant {
            Some(_) => classify_for_tenant(failure),
            None => classify(failure),
        };
        let sender = email.from.addr_spec();
        let is_recipients = || names_recipients_alone(&failure.message, sender, self.recipients());
        if outcome == Outcome::NotReady && is_recipients() { Outcome::Permanent } else { outcome }
    }
}

impl From<Email> for Content {
    fn from(email: Email) -> Self {
        Self::Email(Box::new(email))
    }
}
