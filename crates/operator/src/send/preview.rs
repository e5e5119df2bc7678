//! A preview of the first mails.

use serde::Serialize;
use tidegate_core::channel::Content;
use tidegate_core::email::{Content as MailContent, Email, TextLiteral};

use super::text::PreviewedText;
use crate::page::{Page, Span, Tone, View};
use crate::redact::AddressVisibility;
use tidegate_core::draft::RenderedMessage;

/// The first mails or texts of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Preview {
    pub mails: Vec<PreviewedMail>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<PreviewedText>,
    #[serde(skip)]
    most: usize,
    #[serde(skip)]
    addresses: AddressVisibility,
}

/// A mail as SES will get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewedMail {
    /// The line of the input that it comes from.
    pub line: u64,
    pub id: String,
    pub from: String,
    pub to: Vec<String>,
    pub reply_to: Vec<String>,
    pub headers: Vec<(String, String)>,
    pub tags: std::collections::BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// The template of SES's, and its data as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<(String, String)>,
    pub bytes: usize,
}

impl Preview {
    /// A preview of the first `most` mails.
    pub fn new(most: usize, addresses: AddressVisibility) -> Self {
        Self { most, addresses, ..Self::default() }
    }

    /// Adds a message if the preview has room.
    pub fn see(&mut self, message: &RenderedMessage, content: &Content) {
        match content {
            _ if self.mails.len() + self.texts.len() >= self.most => {}
            Content::Email(email) => self.see_mail(message, email),
            Content::Text(text) => {
                let (line, id) = (message.line, &message.id);
                self.texts.push(PreviewedText::of(line, id, text, self.addresses));
            }
        }
    }

    fn see_mail(&mut self, message: &RenderedMessage, email: &Email) {
        let addresses = self.addresses;
        let one = |address: &tidegate_core::email::Address| addresses.one(&address.to_string());
        let shown = |text: &str| addresses.within(text);
        let long = |text: &TextLiteral| addresses.within(&text.decode());
        let (subject, text, html, template) = match &email.content {
            MailContent::Simple { subject, text, html } => {
                (Some(shown(subject)), text.as_ref().map(long), html.as_ref().map(long), None)
            }
            MailContent::Template { name, data } => {
                (None, None, None, Some((name.clone(), shown(data))))
            }
            // No template or list makes one.
            MailContent::Raw(_) | MailContent::Stored(_) => (None, None, None, None),
        };
        let header = |(name, value): (&str, &str)| (name.to_owned(), addresses.within(value));
        self.mails.push(PreviewedMail {
            line: message.line,
            id: addresses.within(&message.id),
            // The sender's own address is no recipient's.
            from: email.from.to_string(),
            to: email.to.iter().map(one).collect(),
            reply_to: email.reply_to.iter().map(ToString::to_string).collect(),
            headers: email.headers().map(header).collect(),
            tags: email.tags.clone(),
            subject,
            text,
            html,
            template,
            bytes: message.body.len(),
        });
    }
}

impl View for Preview {
    fn view(&self, page: &mut Page) {
        self.mails.iter().for_each(|mail| mail.view(page));
        self.texts.iter().for_each(|text| text.view(page));
    }
}

impl View for PreviewedMail {
    fn view(&self, page: &mut Page) {
        page.heading(format!("The mail of line {}", self.line));
        let mut fields = vec![("From", Span::from(&self.from))];
        fields.extend(self.to.iter().map(|to| ("To", Span::from(to))));
        fields.extend(self.reply_to.iter().map(|to| ("Reply-To", Span::from(to))));
        fields.extend(self.subject.iter().map(|subject| ("Subject", Span::from(subject))));
        fields.extend(self.headers.iter().map(|(name, value)| (name.as_str(), Span::from(value))));
        let tag =
            |(name, value): (&String, &String)| ("tag", Span::from(format!("{name}={value}")));
        fields.extend(self.tags.iter().map(tag));
        fields.push(("id", Span::from(&self.id)));
        fields.push(("size", tidegate_core::format::bytes(self.bytes as u64).into()));
        if let Some((name, _)) = &self.template {
            fields.push(("template", Span::from(name)));
        }
        page.fields(fields);
        let data = self.template.as_ref().map(|(_, data)| data);
        let parts = [("text", self.text.as_ref()), ("HTML", self.html.as_ref()), ("data", data)];
        for (name, body) in parts {
            let Some(body) = body else { continue };
            page.line(Tone::Faint, format!("--- {name}"));
            for line in body.trim_end().lines() {
                page.line(Tone::Plain, line);
            }
        }
    }
}
