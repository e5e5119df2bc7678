//! Makes a message from a row of a list: renders it, and parses it as the poller will.

mod fault;
mod form;
mod row;
mod template;
mod text;
mod time;

use std::collections::BTreeMap;

use fault::column_names;
pub use fault::{FileLine, InputFault, column_name};
use form::MessageForm;
pub use row::{InputFormat, InputRow};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
pub use template::{Columns, TemplatePart, TemplateSource, Templates};
pub use text::{PartPrice, TextDraft};
use text::{TEXT_FORM, TextJson};

use crate::channel::{Channel, Content, MessageRules};
use crate::email::{Address, AllowedSenders, LargeObject, Priority, SizedBody, TooLarge};
use crate::identity::{EpochMillis, hex};
use crate::store::refill::LONGEST_WAIT;

/// The parts that all messages of a run share, and the columns and templates of the others.
#[derive(Clone, Debug, Deserialize, Serialize)]
// More than 12 fields: one for each option that all messages share.
pub struct CampaignDraft {
    /// The campaign.
    pub campaign: String,
    /// The run's name. The ids are derived from it, the campaign, the row's number and the mail's
    /// content.
    pub run: String,
    /// A mail's sender, or a text's origin; `None` for a text that is sent from the stack's first origin.
    pub from: Option<String>,
    /// Where answers go.
    pub reply_to: Vec<String>,
    /// `priority`, if it is not the default.
    pub priority: Option<String>,
    /// The tags.
    pub tags: BTreeMap<String, String>,
    /// The configuration set; `None` for the stack's.
    pub configuration_set: Option<String>,
    /// The content of the messages.
    pub content: DraftContent,
    /// The column of the recipient; `None` for `to` or `email`, or a text's `to_phone`.
    pub to_column: Option<String>,
    /// The column of the id; `None` for `id` if there is such a column.
    pub id_column: Option<String>,
    /// The time before which no message is sent, in the forms of the column `not_before`; that of a row counts
    /// before it.
    pub not_before: Option<String>,
    /// When the run began, for times such as `local 09:00`.
    pub began: EpochMillis,
    /// Whether the stack makes the messages. Their ids then come from the rows' values instead of the mails' content,
    /// so that a corrected template leaves them as they are.
    pub uploaded: bool,
    /// The messages that the stack may send. They are not stored: the poller has its own.
    #[serde(skip, default = "any")]
    pub rules: MessageRules,
}

/// The content of the messages.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftContent {
    /// Templates of a mail.
    Templates(Templates),
    /// A template stored in SES, which gets the row's columns as data, and local templates for the
    /// unsubscribe headers.
    SesTemplate {
        /// The name in SES.
        name: String,
        /// Templates of the headers, without subject and body.
        headers: Templates,
    },
    /// A text message.
    Text(TextDraft),
}

const MAIL_FORM: MessageForm = MessageForm {
    recipient: "to",
    columns: &["to", "email"],
    column_words: &["mail", "address", "recipient"],
    one: "one address",
    example: "recipient@example.com",
    options: &[
        ("from", "--from"),
        ("reply_to", "--reply-to"),
        ("priority", "--priority"),
        ("tags", "--tag"),
        ("configuration_set", "--configuration-set"),
        ("template", "--template-name"),
    ],
    plain: |to| match Address::parse(to) {
        Ok(address) => Ok(address.addr_spec().to_owned()),
        Err(error) => Err(error.to_string()),
    },
};

/// A message, ready for its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedMessage {
    /// The row's number.
    pub row: u64,
    /// The line of the input on which the row begins.
    pub line: u64,
    /// The id.
    pub id: String,
    /// Whether the id is given in the input.
    pub id_given: bool,
    /// The body as JSON.
    pub body: String,
    /// The content of a mail that is too large for its queue.
    pub object: Option<LargeObject>,
}

impl RenderedMessage {
    /// Bytes of the body, and of the content beside it.
    pub fn bytes(&self) -> usize {
        self.body.len() + self.object.as_ref().map_or(0, |object| object.bytes.len())
    }
}

/// The run and the row of a mail, as its `metadata` says.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MailOrigin {
    /// The run's name.
    pub run: String,
    /// The row's number.
    pub row: u64,
}

impl MailOrigin {
    /// Reads it from a message's body; `None` if `send` did not write that.
    pub fn of(body: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Body {
            metadata: MailOrigin,
        }
        serde_json::from_str::<Body>(body).ok().map(|body| body.metadata)
    }
}

#[derive(Default, Serialize)]
struct MessageJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<&'a str>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    tags: Option<&'a BTreeMap<String, String>>,
}

#[derive(Serialize)]
struct SesTemplateJson<'a> {
    name: &'a str,
    data: BTreeMap<&'a str, Value>,
}

#[derive(Serialize)]
struct UnsubscribeJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mailto: Option<String>,
}

fn any() -> MessageRules {
    AllowedSenders::everyone().into()
}

impl CampaignDraft {
    /// The priority of the mails. An invalid name gives the default here; the first row's check
    /// refuses it.
    pub fn parsed_priority(&self) -> Priority {
        let given = self.priority.as_deref();
        let named = given.and_then(|name| Priority::ALL.into_iter().find(|p| p.as_str() == name));
        named.unwrap_or_default()
    }

    /// How recipients and options are called.
    const fn form(&self) -> &'static MessageForm {
        match self.rules.channel {
            Channel::Email => &MAIL_FORM,
            Channel::Sms => &TEXT_FORM,
        }
    }

    /// The message of `row`, and its content as the poller will read it.
    ///
    /// # Errors
    /// An error if the poller would refuse the message, a column is missing, or a template cannot be rendered.
    pub fn message(&self, row: &InputRow) -> Result<(RenderedMessage, Content), InputFault> {
        let (column, to, plain) = self.recipient(row)?;
        let given = self.given_id(row)?;
        let body = self.body(&row.with(&column, plain), &to)?;
        let id = given.clone().unwrap_or_else(|| self.derived_id(row, &body));
        let origin = MailOrigin { run: self.run.clone(), row: row.number };
        let body = with_id(&id, Some(&origin), self.not_before(row)?, &body);
        let content = self.read(row, &body).map_err(|fault| {
            // Faults name the input's column instead of the message's member.
            let is_recipient = fault.field == self.form().recipient;
            if is_recipient { InputFault { field: column, ..fault } } else { fault }
        })?;
        // Another one for each run and row.
        let name = self.derived_id(row, &body);
        let SizedBody { body, object } = self.sized(row, body, &id, self.rules.has_store, &name)?;
        let message = RenderedMessage {
            row: row.number,
            line: row.line,
            id,
            id_given: given.is_some(),
            body,
            object,
        };
        Ok((message, content))
    }

    /// The body of the message of `row`, to another recipient and under another id.
    ///
    /// # Errors
    /// As those of [`CampaignDraft::message`].
    pub fn test_body(&self, row: &InputRow, to: &str, id: &str) -> Result<String, InputFault> {
        (self.form().plain)(to).map_err(|error| InputFault::new("--test", 0, "", error, to))?;
        let (column, _, plain) = self.recipient(row)?;
        let body = with_id(id, None, None, &self.body(&row.with(&column, plain), to)?);
        self.read(row, &body)?;
        self.sized(row, body, id, false, "").map(|sized| sized.body)
    }

    /// The member of a message that has the recipient.
    pub const fn recipient_member(&self) -> &'static str {
        self.form().recipient
    }

    /// The name of the template in SES, and what a row gives it as JSON; none of a run without such a template.
    pub fn template_data(&self, row: &InputRow) -> Option<(&str, String)> {
        let DraftContent::SesTemplate { name, .. } = &self.content else { return None };
        Some((name, serde_json::to_string(&ses_data(row)).ok()?))
    }

    /// Checks what all messages share, with a message that has nothing else.
    ///
    /// # Errors
    /// The first option that the poller would refuse.
    pub fn check_options(&self) -> Result<(), InputFault> {
        let form = self.form();
        let (shared, text) = (self.shared(form.example), Some("-".to_owned()));
        let body = match &self.content {
            DraftContent::Text(text) => self.text_json(text, form.example, "-"),
            DraftContent::SesTemplate { name, .. } => {
                let template = Some(SesTemplateJson { name, data: BTreeMap::new() });
                serde_json::to_string(&MessageJson { template, ..shared })
            }
            DraftContent::Templates(_) => {
                serde_json::to_string(&MessageJson { subject: text.clone(), text, ..shared })
            }
        };
        match self.rules.read(&body.unwrap_or_default()) {
            // The example's country may be none of the stack's.
            Err(error) if error.field != form.recipient => {
                let of = |(member, _): &&(&str, &str)| error.field.starts_with(member);
                let option = form.options.iter().find(of);
                let option = option.map_or("the options", |(_, option)| option);
                // All mails of the run share it: no recipient's.
                Err(InputFault { is_recipient: None, ..InputFault::of_mail(option, 0, &error) })
            }
            _ => Ok(()),
        }
    }

    /// Checks that a CSV has the columns of recipient and id.
    ///
    /// # Errors
    /// The one that is missing, and how to name it.
    pub fn check_columns(&self, file: &str, columns: &[String]) -> Result<(), InputFault> {
        let has = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
        let missing = |field: &str, hint: String| {
            let problem = format!("is missing; there are: {}{hint}", column_names(columns.iter()));
            Err(InputFault::bare(file, 1, format!("column {field}"), problem))
        };
        let named = self.recipient_columns();
        if !named.iter().any(|name| has(name)) {
            return missing(&named.join(" or "), self.form().column_hint(columns));
        }
        match &self.id_column {
            Some(column) if !has(column) => missing(column, String::new()),
            _ => Ok(()),
        }
    }

    fn recipient_columns(&self) -> Vec<&str> {
        match &self.to_column {
            Some(column) => vec![column.as_str()],
            None => self.form().columns.to_vec(),
        }
    }

    /// The column of the recipient, the recipient as the row has it, and its address or number alone.
    fn recipient(&self, row: &InputRow) -> Result<(String, String, String), InputFault> {
        let named = self.recipient_columns();
        let found = named.iter().find_map(|name| Some(((*name).to_owned(), row.text(name)?)));
        match found {
            Some((column, to)) if to.is_empty() => {
                let problem = format!("must not be empty: the recipient, {}", self.form().one);
                Err(row.fault(column, problem))
            }
            // Checked before rendering, so that a template's fault does not hide it.
            Some((column, to)) => match (self.form().plain)(&to) {
                Ok(plain) => Ok((column, to, plain)),
                Err(error) => Err(InputFault::new(&row.file, row.line, column, error, &to)),
            },
            None => {
                let columns = column_names(row.columns.keys());
                let field = format!("column {}", named.join(" or "));
                let one = self.form().one;
                let problem = format!("is missing: the recipient, {one}; there are: {columns}");
                Err(row.fault(field, problem))
            }
        }
    }

    /// The id of a row's message in a run that is uploaded, without rendering it.
    ///
    /// # Errors
    /// As those of [`CampaignDraft::message`] for the column of the id.
    pub fn uploaded_id(&self, row: &InputRow) -> Result<String, InputFault> {
        Ok(self.given_id(row)?.unwrap_or_else(|| self.derived_id(row, "")))
    }

    /// The id from the row, if it has one.
    fn given_id(&self, row: &InputRow) -> Result<Option<String>, InputFault> {
        let column = self.id_column.as_deref().unwrap_or("id");
        match row.text(column) {
            Some(id) => Ok(Some(id)),
            None if self.id_column.is_none() && !row.columns.contains_key(column) => Ok(None),
            None => Err(row.fault(column, "is missing: the message's id, a text or a number")),
        }
    }

    /// The time of the row's message: of its column, or of the run. It is no part of what a derived id is made of.
    fn not_before(&self, row: &InputRow) -> Result<Option<EpochMillis>, InputFault> {
        let (field, text) = match row.text(time::TIME).filter(|text| !text.is_empty()) {
            Some(text) => (time::TIME, text),
            None => match &self.not_before {
                Some(text) => ("--not-before", text.clone()),
                None => return Ok(None),
            },
        };
        let at = time::read(&text, row.text(time::ZONE).as_deref(), self.began);
        let at = at.and_then(|at| {
            let ahead = at.saturating_since(self.began);
            let too_far = || "must be at most 365 days ahead".to_owned();
            (ahead <= LONGEST_WAIT).then_some(at).ok_or_else(too_far)
        });
        at.map(Some).map_err(|error| InputFault::new(&row.file, row.line, field, error, &text))
    }

    fn text_json(&self, draft: &TextDraft, to: &str, text: &str) -> serde_json::Result<String> {
        serde_json::to_string(&TextJson {
            priority: self.priority.as_deref(),
            to_phone: to,
            text,
            origination: self.from.as_deref(),
            message_type: draft.message_type.as_deref(),
            configuration_set: self.configuration_set.as_deref(),
            tags: &self.tags,
        })
    }

    /// A message with the members that all mails of the run have.
    fn shared<'a>(&'a self, to: &'a str) -> MessageJson<'a> {
        MessageJson {
            priority: self.priority.as_deref(),
            from: self.from.as_deref(),
            to,
            reply_to: &self.reply_to,
            configuration_set: self.configuration_set.as_deref(),
            tags: Some(&self.tags).filter(|tags| !tags.is_empty()),
            ..MessageJson::default()
        }
    }

    fn body(&self, row: &InputRow, to: &str) -> Result<String, InputFault> {
        let unwritable = |error: serde_json::Error| {
            row.fault("row", format!("must be writable as JSON: {error}"))
        };
        let (templates, ses) = match &self.content {
            DraftContent::Text(text) => {
                let said = text.render(row)?;
                return self.text_json(text, to, &said).map(for_sqs).map_err(unwritable);
            }
            DraftContent::Templates(templates) => (templates, None),
            DraftContent::SesTemplate { name, headers } => {
                (headers, Some(SesTemplateJson { name, data: ses_data(row) }))
            }
        };
        let columns = Columns::of(row);
        let render = |part| templates.render(part, &columns);
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
        serde_json::to_string(&body).map(for_sqs).map_err(unwritable)
    }

    /// Derives an id from campaign, run, row number, and content or values. A repeated run gets the same ids,
    /// so deduplication recognises its mails.
    fn derived_id(&self, row: &InputRow, body: &str) -> String {
        let mut hash = Sha256::new();
        let values = self.uploaded.then(|| serde_json::to_string(&row.columns).unwrap_or_default());
        let content = values.as_deref().unwrap_or(body);
        for part in [self.campaign.as_str(), &self.run, &row.number.to_string(), content] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        hex(&hash.finalize()[..16])
    }

    /// The body as it fits onto the queue.
    fn sized(
        &self,
        row: &InputRow,
        body: String,
        id: &str,
        has_store: bool,
        name: &str,
    ) -> Result<SizedBody, InputFault> {
        let sized = SizedBody::of(body, &self.campaign, id, has_store, name);
        sized.map_err(|TooLarge { bytes, most }| {
            let problem = format!(
                "must be at most {most} bytes, so that Tidegate's attributes fit beside it"
            );
            InputFault { value: Some(format!("{bytes} bytes")), ..row.fault("body", problem) }
        })
    }

    /// The template of a message's member, which is at fault if many rows have it.
    fn template_of(&self, member: &str) -> Option<FileLine> {
        let templates = match &self.content {
            DraftContent::Templates(templates) => templates,
            DraftContent::SesTemplate { headers, .. } => headers,
            DraftContent::Text(text) => &text.templates,
        };
        templates.name_of(member).map(|file| FileLine { file: file.to_owned(), line: 1 })
    }

    /// Reads the body as the poller does.
    fn read(&self, row: &InputRow, body: &str) -> Result<Content, InputFault> {
        let read = self.rules.read(body);
        read.map_err(|error| {
            let template = self.template_of(&error.field).map(Box::new);
            InputFault { template, ..InputFault::of_mail(&row.file, row.line, &error) }
        })
    }
}

/// A row as the data of a template in SES. It drops mail that lacks a value, so what is empty is an empty text there.
fn ses_data(row: &InputRow) -> BTreeMap<&str, Value> {
    let text = |value: &Value| if value.is_null() { Value::from("") } else { value.clone() };
    row.columns.iter().map(|(name, value)| (name.as_str(), text(value))).collect()
}

/// The body with its id as the first member, and then where it comes from and when it goes.
fn with_id(
    id: &str,
    origin: Option<&MailOrigin>,
    not_before: Option<EpochMillis>,
    body: &str,
) -> String {
    let id = for_sqs(Value::from(id).to_string());
    let origin = origin.map_or_else(String::new, |MailOrigin { run, row }| {
        format!("\"metadata\":{{\"run\":{},\"row\":{row}}},", Value::from(run.as_str()))
    });
    let not_before = not_before.map_or_else(String::new, |at| format!("\"not_before\":\"{at}\","));
    format!("{{\"id\":{id},{origin}{not_before}{}", &body[1..])
}

/// Escapes U+FFFE and U+FFFF, which JSON allows and SQS refuses.
pub fn for_sqs(json: String) -> String {
    if json.contains(['\u{fffe}', '\u{ffff}']) {
        return json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff");
    }
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::email::Email;

    fn draft() -> CampaignDraft {
        let headers = serde_json::from_str(r#"{"parts": []}"#).unwrap();
        CampaignDraft {
            campaign: "spring".to_owned(),
            run: "1".to_owned(),
            from: Some("news@example.org".to_owned()),
            reply_to: Vec::new(),
            priority: None,
            tags: BTreeMap::new(),
            configuration_set: None,
            content: DraftContent::SesTemplate { name: "welcome".to_owned(), headers },
            to_column: None,
            id_column: None,
            not_before: None,
            began: EpochMillis::new(1_795_206_967_042),
            uploaded: false,
            rules: any(),
        }
    }

    fn mail(columns: &str) -> Result<Email, InputFault> {
        let columns = serde_json::from_str(columns).unwrap();
        let row = InputRow { file: "list.jsonl".into(), number: 1, line: 1, columns };
        draft().message(&row).map(|(_, content)| match content {
            Content::Email(email) => *email,
            Content::Text(_) => unreachable!("a mail"),
        })
    }

    #[test]
    fn a_template_in_ses_gets_the_rows_values_and_an_empty_text_for_what_is_missing() {
        let row = r#"{"email": "ada@example.com", "name": "Ada", "shop": null}"#;
        let crate::email::Content::Template { name, data } = mail(row).unwrap().content else {
            unreachable!("a template")
        };
        let expected = r#"{"email":"ada@example.com","name":"Ada","shop":""}"#;
        assert_eq!((&*name, &*data), ("welcome", expected));
    }

    #[test]
    fn an_id_is_derived_from_what_the_row_says() {
        let id = |name: &str| {
            let row = format!(r#"{{"email": "ada@example.com", "name": "{name}"}}"#);
            mail(&row).unwrap().id.unwrap()
        };
        assert_eq!(id("Ada"), id("Ada"));
        assert_ne!(id("Ada"), id("Grace"));
    }

    #[test]
    fn a_mail_may_wait_for_365_days_and_no_longer() {
        let wait = |until: &str| {
            mail(&format!(r#"{{"email": "ada@example.com", "not_before": "{until}"}}"#))
        };
        let until: EpochMillis = "2027-11-20T20:00:00Z".parse().unwrap();
        assert_eq!(wait("2027-11-20T20:00:00Z").unwrap().not_before, Some(until));
        let fault = wait("2027-11-20T21:00:00Z").unwrap_err();
        assert!(fault.problem.contains("at most 365 days ahead"), "{}", fault.problem);
    }
}
