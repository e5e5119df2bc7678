//! The calls of version 1: AWS's query protocol, a form whose parameters are paths, such as
//! `Destination.ToAddresses.member.1=ada%40example.com`. They are read as the calls of version 2 that they correspond to.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::json::{NO_CONTENT, SesBulk, read_send_bulk_email, read_send_email};
use super::{SesRequest, bad_request};
use crate::outcome::{Failure, answered};
use crate::text::{SHOWN, cut};

/// Most parameters of a call. A bulk of 50 mails to 50 recipients with 20 tags each has 4,600.
const MOST_PARAMETERS: usize = 10_000;
/// Most parts of a parameter's name: `Destinations.member.1.Destination.ToAddresses.member.1` has seven.
const MOST_PARTS: usize = 8;

/// The calls that send mail (all, where none is named), their parameters, and the members of version 2 that these are;
/// first the parameter that is a call's content. The others are called the same.
const NAMES: [[&str; 3]; 11] = [
    ["SendEmail", "Message", "Content.Simple"],
    ["SendRawEmail", "RawMessage", "Content.Raw"],
    ["SendRawEmail", "Destinations", "Destination.ToAddresses"],
    ["SendTemplatedEmail", "Template", "Content.Template.TemplateName"],
    ["SendTemplatedEmail", "TemplateData", "Content.Template.TemplateData"],
    ["SendBulkTemplatedEmail", "Template", "DefaultContent.Template.TemplateName"],
    ["SendBulkTemplatedEmail", "DefaultTemplateData", "DefaultContent.Template.TemplateData"],
    ["SendBulkTemplatedEmail", "DefaultTags", "DefaultEmailTags"],
    ["SendBulkTemplatedEmail", "Destinations", "BulkEmailEntries"],
    ["", "Source", "FromEmailAddress"],
    ["", "Tags", "EmailTags"],
];
const DATA: &str = ".ReplacementTemplateData";
const DATA_OF_ENTRIES: &str =
    ".ReplacementEmailContent.ReplacementTemplate.ReplacementTemplateData";

/// A call of version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryCall {
    /// The operation, such as `SendEmail`.
    pub action: String,
    /// The body that the call has in version 2, as JSON; of other calls than those that send mail, the parameters.
    pub body: Vec<u8>,
}

/// The mails of a call.
#[derive(Debug)]
pub enum SesMails {
    /// One mail.
    One(SesRequest),
    /// The mails of a `SendBulkTemplatedEmail`.
    Bulk(SesBulk),
}

impl QueryCall {
    /// Reads a form.
    ///
    /// # Errors
    /// `MissingAction` (400), and `BadRequestException` (400) for a parameter that cannot be read.
    pub fn read(form: &[u8]) -> Result<Self, Failure> {
        let not_text = || bad_request("The request is not a form in UTF-8.");
        let form = std::str::from_utf8(form).map_err(|_| not_text())?;
        let mut parameters = Vec::new();
        let (mut action, text) = (String::new(), |text| decoded(text).ok_or_else(not_text));
        for pair in form.trim().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (text(name)?, text(value)?);
            match &*name {
                "Action" => action = value,
                "Version" => {}
                // An empty list is written as `ReplyToAddresses=`.
                list if value.is_empty()
                    && (list.ends_with("Addresses") || list.ends_with("Tags")) => {}
                _ if parameters.len() == MOST_PARAMETERS => {
                    return Err(bad_request(format!("More than {MOST_PARAMETERS} parameters.")));
                }
                _ => parameters.push([name, value]),
            }
        }
        if action.is_empty() {
            return Err(answered(400, "MissingAction", "Missing parameter Action."));
        }
        // The members of a list come in any order: some SDKs sort names, so that 10 stands before 2.
        parameters.sort_by_cached_key(|[name, _]| place(name));
        let mut body = Value::Object(Map::new());
        for [name, value] in parameters {
            let member = renamed(&action, &name, 1, 2).replace(DATA, DATA_OF_ENTRIES);
            if !put(&mut body, &member.splitn(MOST_PARTS, '.').collect::<Vec<_>>(), value) {
                let name = cut(&name, SHOWN);
                let message = format!("{name}: must stand once; list members count from 1.");
                return Err(bad_request(message));
            }
        }
        Ok(Self { action, body: body.to_string().into_bytes() })
    }

    /// The mails that the call sends; none if it sends none.
    ///
    /// # Errors
    /// `BadRequestException` (400) with the parameter that is wrong.
    pub fn mails(&self) -> Result<Option<SesMails>, Failure> {
        let Some([_, content, _]) = NAMES.iter().find(|[action, ..]| *action == self.action) else {
            return Ok(None);
        };
        let read = if self.action == "SendBulkTemplatedEmail" {
            read_send_bulk_email(&self.body).map(SesMails::Bulk)
        } else {
            read_send_email(&self.body).map(SesMails::One)
        };
        read.map(Some).map_err(|failure| match &*failure.message {
            NO_CONTENT => bad_request(format!("{content} must be given.")),
            said => bad_request(renamed(&self.action, said, 2, 1)),
        })
    }
}

/// A text that begins with a name of one version, with that of the other in its place.
fn renamed<'a>(action: &str, text: &'a str, from: usize, to: usize) -> Cow<'a, str> {
    let mut names = NAMES.iter().filter(|row| row[0].is_empty() || row[0] == action);
    let rest = |row: &[&str; 3]| {
        text.strip_prefix(row[from]).filter(|rest| !rest.starts_with(char::is_alphanumeric))
    };
    let found = names.find_map(|row| rest(row).map(|rest| format!("{}{rest}", row[to])));
    found.map_or(Cow::Borrowed(text), Cow::Owned)
}

/// Orders a list's members by number.
fn place(name: &str) -> Vec<(u32, String)> {
    let part = |part: &str| (part.parse().unwrap_or_default(), part.to_owned());
    name.splitn(MOST_PARTS, '.').map(part).collect()
}

fn decoded(text: &str) -> Option<String> {
    let blanks = text.replace('+', " ");
    percent_decode_str(&blanks).decode_utf8().ok().map(Cow::into_owned)
}

/// Puts a parameter's value where its path leads; false if something else stands there, or a list has a gap before it.
fn put(at: &mut Value, path: &[&str], value: String) -> bool {
    match path {
        [] => {
            at.is_null() && {
                *at = Value::String(value);
                true
            }
        }
        ["member", number, rest @ ..] => {
            if at.is_null() {
                *at = Value::Array(Vec::new());
            }
            let (Value::Array(list), Ok(number @ 1..)) = (at, number.parse::<usize>()) else {
                return false;
            };
            if number == list.len() + 1 {
                list.push(Value::Null);
            }
            list.get_mut(number - 1).is_some_and(|item| put(item, rest, value))
        }
        [name, rest @ ..] => {
            if at.is_null() {
                *at = Value::Object(Map::new());
            }
            let Value::Object(members) = at else { return false };
            put(members.entry(*name).or_insert(Value::Null), rest, value)
        }
    }
}
