//! Makes a message from a row: renders it, and parses it as the poller will.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tidegate_core::email::{Address, AllowedSenders, Email, Priority};
use tidegate_core::identity::{CAMPAIGN_QUEUE_BYTES, Envelope, EpochMillis, Identity};

use super::address_list::RecipientFilter;
use super::fault::InputFault;
use super::fingerprint::hex;
use super::rows::InputRow;
use super::template::{Columns, TemplatePart, Templates};
use crate::suggest::quoted;

/// The parts that all mails of a run share, and the columns and templates of the others.
#[derive(Debug)]
pub struct CampaignDraft {
    pub campaign: String,
    /// The run's name. The ids are derived from it, the campaign, the row's number and the mail's
    /// content.
    pub run: String,
    pub from: String,
    pub reply_to: Vec<String>,
    /// `priority`, if it is not the default.
    pub priority: Option<String>,
    pub tags: BTreeMap<String, String>,
    pub configuration_set: Option<String>,
    pub content: DraftContent,
    /// The column of the recipient; `None` for `to` or `email`.
    pub to_column: Option<String>,
    /// The column of the id; `None` for `id` if there is such a column.
    pub id_column: Option<String>,
    pub senders: AllowedSenders,
    /// The recipients that get no mail.
    pub recipients: RecipientFilter,
}

#[derive(Debug)]
pub enum DraftContent {
    Templates(Templates),
    /// A template stored in SES, which gets the row's columns as data, and local templates for the
    /// unsubscribe headers.
    SesTemplate {
        name: String,
        /// Templates of the headers, without subject and body.
        headers: Templates,
    },
}

/// A message, ready for its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedMessage {
    pub row: u64,
    /// The line of the input on which the row begins.
    pub line: u64,
    pub id: String,
    /// Whether the id is given in the input.
    pub id_given: bool,
    pub body: String,
}

#[derive(Serialize)]
struct MessageJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a str>,
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    reply_to: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    template: Option<SesTemplateJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    list_unsubscribe: Option<UnsubscribeJson>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct SesTemplateJson<'a> {
    name: &'a str,
    data: &'a BTreeMap<String, Value>,
}

#[derive(Serialize)]
struct UnsubscribeJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailto: Option<String>,
}

impl CampaignDraft {
    /// The priority of the mails. An invalid name gives the default here; the first row's check
    /// refuses it.
    pub fn parsed_priority(&self) -> Priority {
        let given = self.priority.as_deref();
        let named = given.and_then(|name| Priority::ALL.into_iter().find(|p| p.as_str() == name));
        named.unwrap_or_default()
    }

    /// The message of `row`, and the mail as the poller will read it.
    ///
    /// # Errors
    /// An error if the poller would refuse the mail, a column is missing, or a template cannot be rendered.
    pub fn message(
        &self,
        file: &str,
        row: &InputRow,
    ) -> Result<(RenderedMessage, Email), InputFault> {
        let (column, to) = self.recipient(file, row)?;
        let given = self.given_id(file, row)?;
        let body = self.body(file, row, &to)?;
        let id = given.clone().unwrap_or_else(|| self.derived_id(row, &body));
        let body = with_id(&id, &body).map_err(|error| {
            InputFault::bare(file, row.line, "row", format!("must be writable as JSON: {error}"))
        })?;
        let email = self.read(file, row, &body).map_err(|fault| {
            // Faults name the input's column instead of the message's member `to`.
            if fault.field == "to" { InputFault { field: column, ..fault } } else { fault }
        })?;
        let message = RenderedMessage {
            row: row.number,
            line: row.line,
            id,
            id_given: given.is_some(),
            body,
        };
        Ok((message, email))
    }

    /// The body of the mail of `row`, to another recipient and under another id.
    ///
    /// # Errors
    /// As those of [`CampaignDraft::message`].
    pub(super) fn test_body(
        &self,
        file: &str,
        row: &InputRow,
        to: &Address,
        id: &str,
    ) -> Result<String, InputFault> {
        self.recipient(file, row)?;
        let body = self.body(file, row, &to.to_string())?;
        let body = with_id(id, &body).map_err(|error| {
            InputFault::bare(file, row.line, "row", format!("must be writable as JSON: {error}"))
        })?;
        self.read(file, row, &body).map(|_| body)
    }

    /// Checks what all mails share, with a mail that has nothing else.
    ///
    /// # Errors
    /// The first option that the poller would refuse.
    pub(super) fn check_options(&self) -> Result<(), InputFault> {
        const OPTIONS: [(&str, &str); 6] = [
            ("from", "--from"),
            ("reply_to", "--reply-to"),
            ("priority", "--priority"),
            ("tags", "--tag"),
            ("configuration_set", "--configuration-set"),
            ("template", "--template-name"),
        ];
        let data = BTreeMap::new();
        let template = match &self.content {
            DraftContent::Templates(_) => None,
            DraftContent::SesTemplate { name, .. } => Some(SesTemplateJson { name, data: &data }),
        };
        let content = template.is_none().then(|| "-".to_owned());
        let shared = self.shared("recipient@example.com");
        let body = MessageJson { subject: content.clone(), text: content, template, ..shared };
        let body = serde_json::to_string(&body).unwrap_or_default();
        let parsed = Email::parse(&body).and_then(|email| self.senders.admit(email));
        parsed.map(drop).map_err(|error| {
            let of = |(member, _): &&(&str, &str)| error.field().starts_with(member);
            let option = OPTIONS.iter().find(of).map_or("the mail's options", |(_, option)| option);
            InputFault::of_option(option, &error)
        })
    }

    /// Checks that a CSV has the columns of recipient and id.
    ///
    /// # Errors
    /// The one that is missing, and how to name it.
    pub(super) fn check_columns(&self, file: &str, columns: &[String]) -> Result<(), InputFault> {
        let has = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        let missing = |field: &str, hint: String| {
            let problem = format!("is missing; there are: {}{hint}", columns.join(", "));
            Err(InputFault::bare(file, 1, format!("column {field}"), problem))
        };
        let named = self.recipient_columns();
        if !named.iter().any(|name| has(name)) {
            return missing(&named.join(" or "), column_hint(columns).unwrap_or_default());
        }
        match &self.id_column {
            Some(column) if !has(column) => missing(column, String::new()),
            _ => Ok(()),
        }
    }

    fn recipient_columns(&self) -> Vec<&str> {
        match &self.to_column {
            Some(column) => vec![column.as_str()],
            None => vec!["to", "email"],
        }
    }

    /// The column of the recipient, and the recipient.
    fn recipient(&self, file: &str, row: &InputRow) -> Result<(String, String), InputFault> {
        let named = self.recipient_columns();
        let found = named.iter().find_map(|name| Some(((*name).to_owned(), row.text(name)?)));
        match found {
            Some((column, to)) if to.trim().is_empty() => {
                let problem = "must not be empty: the recipient, one address";
                Err(InputFault::bare(file, row.line, column, problem))
            }
            // Checked before rendering, so that a template's fault does not hide it.
            Some((column, to)) => match Address::parse(&to) {
                Ok(_) => Ok((column, to)),
                Err(error) => Err(InputFault::new(file, row.line, column, error.to_string(), to)),
            },
            None => {
                let columns: Vec<&str> = row.columns.keys().map(String::as_str).collect();
                let columns = columns.join(", ");
                let field = format!("column {}", named.join(" or "));
                Err(InputFault::bare(
                    file,
                    row.line,
                    field,
                    format!("is missing: the recipient, one address; there are: {columns}"),
                ))
            }
        }
    }

    /// The id from the row, if it has one.
    fn given_id(&self, file: &str, row: &InputRow) -> Result<Option<String>, InputFault> {
        let column = self.id_column.as_deref().unwrap_or("id");
        match row.text(column) {
            Some(id) => Ok(Some(id)),
            None if self.id_column.is_none() && !row.columns.contains_key(column) => Ok(None),
            None => {
                let problem = "is missing: the mail's id, a text or a number";
                Err(InputFault::bare(file, row.line, column, problem))
            }
        }
    }

    /// A message with the members that all mails of the run have.
    fn shared<'a>(&'a self, to: &'a str) -> MessageJson<'a> {
        MessageJson {
            priority: self.priority.as_deref(),
            from: &self.from,
            to,
            reply_to: &self.reply_to,
            subject: None,
            text: None,
            html: None,
            template: None,
            configuration_set: self.configuration_set.as_deref(),
            list_unsubscribe: None,
            tags: &self.tags,
        }
    }

    fn body(&self, file: &str, row: &InputRow, to: &str) -> Result<String, InputFault> {
        let (templates, ses) = match &self.content {
            DraftContent::Templates(templates) => (templates, None),
            DraftContent::SesTemplate { name, headers } => {
                (headers, Some(SesTemplateJson { name, data: &row.columns }))
            }
        };
        let columns = Columns::of(row);
        let render = |part| templates.render(part, &columns, (file, row));
        let url = render(TemplatePart::UnsubscribeUrl)?;
        let mailto = render(TemplatePart::UnsubscribeMailto)?;
        let unsubscribing = url.is_some() || mailto.is_some();
        let body = MessageJson {
            subject: render(TemplatePart::Subject)?.map(|subject| subject.trim().to_owned()),
            text: render(TemplatePart::Text)?,
            html: render(TemplatePart::Html)?,
            template: ses,
            list_unsubscribe: unsubscribing.then_some(UnsubscribeJson { url, mailto }),
            ..self.shared(to)
        };
        let json = serde_json::to_string(&body).map_err(|error| {
            InputFault::bare(file, row.line, "row", format!("must be writable as JSON: {error}"))
        })?;
        Ok(for_sqs(json))
    }

    /// Derives an id from campaign, run, row number and content. A repeated run gets the same ids,
    /// so deduplication recognises its mails.
    fn derived_id(&self, row: &InputRow, body: &str) -> String {
        let mut hash = Sha256::new();
        for part in [self.campaign.as_str(), &self.run, &row.number.to_string(), body] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex(&hash.finalize()[..16])
    }

    /// Reads the body as the poller does.
    fn read(&self, file: &str, row: &InputRow, body: &str) -> Result<Email, InputFault> {
        let parsed = Email::parse(body).and_then(|email| self.senders.admit(email));
        let email = parsed.map_err(|error| InputFault::of_mail(file, row.line, &error))?;
        let identity = Identity::from_body_id(&self.campaign, email.id().unwrap_or_default());
        let envelope = Envelope::fresh(&self.campaign, identity, EpochMillis::MAX);
        let allowed = CAMPAIGN_QUEUE_BYTES.saturating_sub(envelope.most_bytes());
        if body.len() > allowed {
            let problem = format!(
                "must be at most {allowed} bytes, so that Tidegate's attributes fit beside it"
            );
            let bare = InputFault::bare(file, row.line, "body", problem);
            return Err(InputFault { value: Some(format!("{} bytes", body.len())), ..bare });
        }
        Ok(email)
    }
}

/// The body with its id as the first member.
fn with_id(id: &str, body: &str) -> Result<String, serde_json::Error> {
    let id = for_sqs(serde_json::to_string(id)?);
    Ok(format!("{{\"id\":{id},{}", &body[1..]))
}

/// Says how to name the recipient's column, as far as the first line of the CSV shows it.
fn column_hint(columns: &[String]) -> Option<String> {
    let first = columns.first()?;
    let separator = [';', '\t', '|', ','].into_iter().find(|&separator| first.contains(separator));
    if let Some(separator) = separator.filter(|_| columns.len() == 1) {
        let value =
            if separator == '\t' { "tab".to_owned() } else { quoted(&separator.to_string()) };
        return Some(format!("; if that is the separator, add --delimiter {value}"));
    }
    if columns.iter().any(|column| column.contains('@')) {
        return Some("; the first line has to name the columns, such as: to,first_name".to_owned());
    }
    let is_address = |column: &&String| {
        let name = column.to_lowercase();
        ["mail", "address", "recipient"].iter().any(|word| name.contains(word))
    };
    let column = quoted(columns.iter().find(is_address)?);
    Some(format!("; if it is that one, add --to-column {column}"))
}

/// Escapes U+FFFE and U+FFFF, which JSON allows and SQS refuses.
fn for_sqs(json: String) -> String {
    if json.contains(['\u{fffe}', '\u{ffff}']) {
        return json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    json
}
