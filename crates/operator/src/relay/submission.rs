//! A mail that a client hands over, and the messages of the stack that it becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tidegate_core::channel::{Content, MessageRules};
use tidegate_core::email::{
    EmailErrorKind, HeaderField, LargeObject, MAX_RECIPIENTS, Priority, SizedBody, TooLarge,
    header_fields, without_fields,
};
use tidegate_core::identity::EpochMillis;
use tidegate_core::ses_request::{
    NameValue, SesAttachment, SesContent, SesDestination, SesRequest, SesSimple, SesText,
    address_of,
};
use tidegate_delivery::ports::{Body, Outgoing, QueueUrl};

use super::campaign::{CampaignChoice, CampaignHints, CampaignRules, Targets};
use super::logins::{KeyPair, Logins};
use super::refusal::{Refusal, TRY_AGAIN_SECONDS};
use crate::send::{fingerprint, for_sqs};

/// A mail as one call or dialogue hands it over.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    /// The SMTP user or the access key; none without credentials.
    pub(crate) user: Option<String>,
    /// The same text for all attempts of one call, by which a retry is recognised; none if the client gives none.
    pub(crate) retry_key: Option<String>,
    pub(crate) request: SesRequest,
}

/// A mail as a dialogue of SMTP hands it over.
#[derive(Clone, Debug)]
pub(crate) struct SmtpMail {
    /// None without a login.
    pub(crate) user: Option<String>,
    /// The envelope's sender.
    pub(crate) from: String,
    /// The envelope's recipients, 1 or more.
    pub(crate) to: Vec<String>,
    /// The MIME message as received, dots unstuffed.
    pub(crate) data: Vec<u8>,
}

/// Takes the mails of SMTP's dialogues.
pub(crate) trait Submit {
    /// Puts the mail onto its queue; answers with its identity once SQS has acknowledged it.
    fn submit(&self, mail: SmtpMail) -> impl Future<Output = Result<String, Refusal>> + Send;
}

/// A mail that may go onto its queue.
#[derive(Clone, Debug)]
pub(crate) struct PreparedMail {
    /// The identity within the campaign: the message's `id`, the answered `MessageId`, and the SES tag `tidegate_id`.
    pub(crate) id: String,
    pub(crate) choice: CampaignChoice,
    pub(crate) queue: QueueUrl,
    pub(crate) message: Outgoing,
    /// The content of a mail that is too large for its queue.
    pub(crate) object: Option<LargeObject>,
    /// Hash of the content: a retry has the same.
    pub(crate) content: [u8; 32],
}

/// The settings by which submissions become messages.
#[derive(Clone)]
pub(crate) struct SubmissionRules {
    pub(crate) campaigns: CampaignRules,
    pub(crate) targets: Targets,
    /// The stack's own checks of messages.
    pub(crate) messages: MessageRules,
    /// Who may send what; none if everybody may send everything.
    pub(crate) logins: Option<Arc<Logins>>,
    /// Whether mail of low priority is taken: not under back-pressure.
    pub(crate) takes_low: bool,
}

impl SubmissionRules {
    /// The messages of a submission: one for each 50 recipients. `random` makes the identity of a mail that has no
    /// retry key.
    ///
    /// # Errors
    /// [`Refusal`]: a member that is not carried, no campaign, a message that the stack would not take.
    pub(crate) fn prepare(
        &self,
        submission: Submission,
        random: &str,
    ) -> Result<Vec<PreparedMail>, Refusal> {
        let Submission { user, retry_key, mut request } = submission;
        request.others.extend(request.tenant.take().map(|_| "TenantName".to_owned()));
        if !request.others.is_empty() {
            let others = request.others.join(", ");
            return Err(Refusal::Invalid(format!(
                "{others}: Tidegate does not carry this; send the mail without it"
            )));
        }
        let header = MailHeader::take(&mut request)?;
        let (named, priority) = (header.campaign.clone(), header.priority);
        let not_before = header.not_before;
        let retry_key = retry_key.or_else(|| header.message_id.clone());
        header.complete(&mut request);
        let choice = self.campaigns.choose(
            CampaignHints {
                named: named.as_ref().or(request.tags.get("campaign")).map(String::as_str),
                configuration_set: request.configuration_set.as_deref(),
                user: user.as_deref(),
                sender: address_of(&request.from),
            },
            &self.targets,
        )?;
        let pair = self.key_pair(user.as_deref(), &choice)?;
        let priority = priority.or(choice.priority).unwrap_or_default();
        if priority == Priority::Low && !self.takes_low {
            return Err(Refusal::Busy(format!(
                "the stack is overloaded and takes no mail of low priority; try again in {TRY_AGAIN_SECONDS} s"
            )));
        }
        let queue = self.targets.queue(&choice, priority).ok_or_else(|| {
            Refusal::Busy(format!("the campaign {:?} is gone; try again later", choice.campaign))
        })?;
        let recipients = if is_raw(&request) {
            let all: Vec<&str> = request.destination.all().collect();
            all.chunks(MAX_RECIPIENTS).map(|part| json_of(&part)).collect::<Result<_, _>>()?
        } else {
            vec![json_of(&request.destination.to)?]
        };
        // Programs send the same MIME message, with one Message-ID, to one recipient after another.
        let of_mail = if is_raw(&request) { json_of(&recipients)? } else { json_of(&"")? };
        let content = content_hash(&request, &of_mail);
        let mut message = message(request)?;
        message.insert("priority", json_of(&priority)?);
        if let Some(at) = not_before {
            message.insert("not_before", json_of(&at)?);
        }
        let number = recipients.len();
        let retry_key = retry_key.unwrap_or_else(|| random.to_owned());
        let of_part = |(part, to): (usize, Box<RawValue>)| {
            let part = if number > 1 { part.to_string() } else { String::new() };
            let user = user.as_deref().unwrap_or_default();
            let id = identity(&[user, &retry_key, of_mail.get(), &part]);
            message.insert("to", to);
            message.insert("id", json_of(&id)?);
            let body = for_sqs(serde_json::to_string(&message).map_err(invalid)?);
            self.check(&body, pair)?;
            let has_store = self.messages.has_store;
            let sized = SizedBody::of(body, &choice.campaign, &id, has_store, random);
            let SizedBody { body, object } =
                sized.map_err(|TooLarge { bytes, most }| Refusal::TooLarge { bytes, most })?;
            // Each of them would have an object, and all be in memory at once.
            if object.is_some() && number > 1 {
                let most = format!("a mail of this size has at most {MAX_RECIPIENTS} recipients");
                return Err(Refusal::Invalid(most));
            }
            let message = Outgoing::new(Body::from(body).compress().to_queue());
            let (choice, queue) = (choice.clone(), queue.clone());
            Ok(PreparedMail { id, choice, queue, message, object, content })
        };
        recipients.into_iter().enumerate().map(of_part).collect()
    }

    /// The key pair of a user, if there are any; it may send to the campaign.
    fn key_pair(
        &self,
        user: Option<&str>,
        choice: &CampaignChoice,
    ) -> Result<Option<&KeyPair>, Refusal> {
        let Some((user, logins)) = user.zip(self.logins.as_ref()) else { return Ok(None) };
        let refused = |what: &str| Err(Refusal::NotAllowed(format!("{user} may not send {what}")));
        let Some(pair) = logins.keys.get(user) else { return refused("any more") };
        let campaigns = pair.campaigns.as_deref();
        if campaigns.is_some_and(|campaigns| !campaigns.contains(&choice.campaign)) {
            return refused(&format!("to {}", choice.campaign));
        }
        Ok(Some(pair))
    }

    /// Checks that the poller would take the message, from a sender that the key pair has.
    fn check(&self, body: &str, pair: Option<&KeyPair>) -> Result<(), Refusal> {
        let read = self.messages.read(body).and_then(|content| match (content, pair) {
            (Content::Email(mail), Some(pair)) => pair.senders.admit(*mail).map(drop),
            _ => Ok(()),
        });
        read.map_err(|error| match error.kind {
            EmailErrorKind::SenderNotAllowed => Refusal::NotAllowed(error.to_string()),
            _ => Refusal::Invalid(error.to_string()),
        })
    }
}

/// The identity of all attempts of one mail: 32 hexadecimal digits.
fn identity(parts: &[&str]) -> String {
    let mut id = fingerprint(parts.join("\0").as_bytes());
    id.truncate(32);
    id
}

/// Hash of all that is the same in each attempt: a server that hands a mail on may add to its header.
fn content_hash(request: &SesRequest, recipients: &RawValue) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(recipients.get());
    match &request.content {
        SesContent::Raw(data) => {
            let fields = header_fields(data).unwrap_or_default();
            let end = fields.last().map_or(0, |field| field.place.end);
            let is_own =
                |name: &str| ["From", "Subject"].iter().any(|own| own.eq_ignore_ascii_case(name));
            let own = fields.iter().filter(|field| is_own(field.name));
            own.for_each(|field| hash.update(field.value));
            hash.update(&data[end..]);
        }
        _ => hash.update(format!("{request:?}")),
    }
    hash.finalize().into()
}

fn is_raw(request: &SesRequest) -> bool {
    matches!(request.content, SesContent::Raw(_))
}

fn json_of(value: &(impl Serialize + ?Sized)) -> Result<Box<RawValue>, Refusal> {
    serde_json::value::to_raw_value(value).map_err(invalid)
}

/// Members of a message by name. Values are JSON texts, since a template's numbers stay as they were written.
type Members = BTreeMap<&'static str, Box<RawValue>>;

/// The request as a message without `id`, `priority` and, if it is raw, `to`.
fn message(request: SesRequest) -> Result<Members, Refusal> {
    let mut message = Members::new();
    let mut set = |name, value: Value| set_in(&mut message, name, &value);
    set("from", request.from.into())?;
    set("configuration_set", request.configuration_set.into())?;
    set("tags", json!(request.tags))?;
    set("reply_to", json!(request.reply_to))?;
    let (own_headers, attachments) = match request.content {
        SesContent::Raw(data) => {
            set("raw", STANDARD.encode(data).into())?;
            return Ok(message);
        }
        SesContent::Simple(SesSimple { subject, body, headers, attachments }) => {
            let text = |text: Option<SesText>| Value::from(text.map(|text| text.data));
            set("subject", subject.data.into())?;
            set("text", text(body.text))?;
            set("html", text(body.html))?;
            (headers, attachments)
        }
        SesContent::Template(template) => {
            let Some(name) = template.template_name else {
                return Err(invalid(
                    "Tidegate sends by a template's name; TemplateArn and TemplateContent are not carried",
                ));
            };
            let data = Some(&*template.template_data).filter(|data| !data.is_empty());
            let data: Box<RawValue> =
                serde_json::from_str(data.unwrap_or("{}")).map_err(invalid)?;
            message.insert("template", json_of(&Template { name, data })?);
            (template.headers, template.attachments)
        }
    };
    let mut set = |name, value: Value| set_in(&mut message, name, &value);
    let SesDestination { to, cc, bcc } = request.destination;
    set("to", to.into())?;
    set("cc", cc.into())?;
    set("bcc", bcc.into())?;
    set("headers", headers(own_headers)?)?;
    set("attachments", attachments.iter().map(attachment).collect())?;
    Ok(message)
}

/// Sets a member, unless there is nothing in it.
fn set_in(message: &mut Members, name: &'static str, value: &Value) -> Result<(), Refusal> {
    let is_empty = match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    if !is_empty {
        message.insert(name, json_of(value)?);
    }
    Ok(())
}

/// A template in a message.
#[derive(Serialize)]
struct Template {
    name: String,
    data: Box<RawValue>,
}

fn attachment(file: &SesAttachment) -> Value {
    json!({
        "name": file.file_name,
        "content_type": file.content_type,
        "content": file.raw_content,
        "content_id": file.content_id,
        // SES's default, where ours is inline for a file with an id.
        "disposition": file.content_disposition.as_deref().unwrap_or("attachment").to_ascii_lowercase(),
    })
}

/// An object of names and values; a name that stands twice would lose one value.
fn headers(list: Vec<NameValue>) -> Result<Value, Refusal> {
    let mut members = Map::new();
    for NameValue { name, value } in list {
        if members.contains_key(&name) {
            return Err(Refusal::Invalid(format!("the header {name:?} stands twice")));
        }
        members.insert(name, value.into());
    }
    Ok(Value::Object(members))
}

fn invalid(fault: impl std::fmt::Display) -> Refusal {
    Refusal::Invalid(fault.to_string())
}

/// The fields by which SES takes settings from a mail's header.
const SETTINGS: [&str; 2] = ["X-SES-CONFIGURATION-SET", "X-SES-MESSAGE-TAGS"];

/// The parts of a MIME message's header that decide where it goes.
#[derive(Clone, Debug, Default)]
struct MailHeader {
    message_id: Option<String>,
    /// `X-Tidegate-Campaign`.
    campaign: Option<String>,
    /// `X-Tidegate-Priority`.
    priority: Option<Priority>,
    /// `X-Tidegate-Not-Before`.
    not_before: Option<EpochMillis>,
    /// `X-SES-CONFIGURATION-SET`, which SES would read.
    configuration_set: Option<String>,
    /// `X-SES-MESSAGE-TAGS`, as SES would read them: `name=value, name=value`.
    tags: Vec<(String, String)>,
}

impl MailHeader {
    /// Takes the settings out of a mail's header, where SES would read some of them, or Tidegate's would leave.
    fn take(request: &mut SesRequest) -> Result<Self, Refusal> {
        let headers = match &mut request.content {
            SesContent::Raw(data) => {
                let fields = header_fields(data).map_err(invalid)?;
                // The words of a field's lines.
                let value = |field: &HeaderField<'_>| {
                    let text = String::from_utf8_lossy(field.value);
                    text.split_whitespace().collect::<Vec<_>>().join(" ")
                };
                let all: Vec<_> =
                    fields.iter().map(|field| (field.name.to_owned(), value(field))).collect();
                let read = Self::read(&all)?;
                let is_setting =
                    |name: &str| SETTINGS.iter().any(|known| known.eq_ignore_ascii_case(name));
                *data = without_fields(data, is_setting).map_err(invalid)?.into_owned();
                return Ok(read);
            }
            SesContent::Simple(simple) => &mut simple.headers,
            SesContent::Template(template) => &mut template.headers,
        };
        let is_own =
            |header: &mut NameValue| header.name.to_ascii_lowercase().starts_with("x-tidegate-");
        let own: Vec<_> = headers.extract_if(.., is_own).map(|own| (own.name, own.value)).collect();
        Self::read(&own)
    }

    fn read(headers: &[(String, String)]) -> Result<Self, Refusal> {
        let values = |name: &'static str| {
            let named = headers.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        let value = |name| match (values(name).next(), values(name).nth(1)) {
            (_, Some(_)) => Err(invalid(format!("the header {name} stands twice"))),
            (value, None) => Ok(value.map(str::to_owned)),
        };
        let priority = value("X-Tidegate-Priority")?.map(|word| {
            let allowed = "allowed are critical, high, normal and low";
            word.parse().map_err(|_| invalid(format!("X-Tidegate-Priority is {word:?}; {allowed}")))
        });
        let not_before = value("X-Tidegate-Not-Before")?.map(|at| {
            let allowed = "allowed is a time with its zone, like 2026-12-24T09:00:00+01:00";
            at.parse().map_err(|_| invalid(format!("X-Tidegate-Not-Before is {at:?}; {allowed}")))
        });
        let tags = values(SETTINGS[1]).flat_map(|tags| tags.split(',')).map(str::trim);
        let tags = tags.filter(|tag| !tag.is_empty()).map(|tag| {
            let wrong = || invalid(format!("{} has {tag:?}; allowed are NAME=VALUE", SETTINGS[1]));
            let (name, value) = tag.split_once('=').ok_or_else(wrong)?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        });
        Ok(Self {
            message_id: value("Message-ID")?,
            campaign: value("X-Tidegate-Campaign")?,
            priority: priority.transpose()?,
            not_before: not_before.transpose()?,
            configuration_set: value(SETTINGS[0])?,
            tags: tags.collect::<Result<_, Refusal>>()?,
        })
    }

    /// Gives a request the settings that SES would take from the header. Those of the call go before them.
    fn complete(self, request: &mut SesRequest) {
        request.configuration_set = request.configuration_set.take().or(self.configuration_set);
        for (name, value) in self.tags {
            request.tags.entry(name).or_insert(value);
        }
    }
}
