//! The JSON Schema of a message, made from the list of members and the limits that the parser uses.

use serde_json::{Map, Value, json};

use super::content::{
    DISPOSITIONS, MAX_CONTENT_ID, MAX_CONTENT_TYPE, MAX_FILE_NAME, MAX_TEMPLATE_NAME,
};
use super::headers::{
    MAX_HEADERS, MAX_LINE, MAX_NAME, RESERVED, RESERVED_PREFIX as RESERVED_HEADERS, UNSUBSCRIBE,
    UNSUBSCRIBE_POST,
};
use super::listed::{ATTACHMENT, Form, LIST_UNSUBSCRIBE, MEMBERS, Member, Shape, TEMPLATE};
use super::read::MAX_CONFIGURATION_SET;
use super::tags::{MAX_CHARS, MAX_TAGS, RESERVED_PREFIX as RESERVED_TAGS};
use super::{MAX_ID_CHARS, Priority};

/// The version of the message's form. A change that refuses a message which this version takes, or that gives
/// one another meaning, raises it.
pub const MESSAGE_VERSION: u32 = 1;

/// Characters that are not control characters.
const NO_CONTROL: &str = r"[^\u0000-\u001f\u007f-\u009f\u202d\u202e]";
const BASE64: &str =
    "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$";
/// Printable ASCII without space, quote, comma and angle brackets.
const URI: &str = "[!#-+\\--;=?-~]";
/// The same without `/`, `?` and `#`, one of which ends a host.
const HOST_START: &str = "[!$-+\\-.0-;=@-~]";
const MIME_TOKEN: &str = "[A-Za-z0-9!#$&^_.+-]+";

/// Rules of the parser that JSON Schema has no words for.
const UNSAID: &str = "The parser refuses more than this schema: a member that stands twice in one object; a header that stands \
    twice in different spelling; more than 50 recipients in to, cc and bcc together; an address that is none in \
    detail, also in list_unsubscribe.mailto; a header of more than 996 characters with its name; a \
    list_unsubscribe of more than 980 characters with both addresses; template data of more than 262144 bytes; an attachment with an \
    extension that SES refuses; a content_id that two attachments have, and one that the HTML shows and none has; gzip that holds no message.";

/// The JSON Schema (draft 2020-12) of a mail. It accepts what the poller accepts; what it cannot say stands in
/// its `$comment`.
pub fn message_schema() -> Value {
    let mut schema = compressible("message", "mail", &mail(), UNSAID);
    schema["$defs"]["address"] = address();
    schema
}

/// The schema of what is a `message` of its kind `name`, plain or compressed.
pub(crate) fn compressible(id: &str, name: &str, message: &Value, unsaid: &str) -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": format!("urn:tidegate:{id}:{MESSAGE_VERSION}"),
        "title": format!("Tidegate {id}"),
        "description": format!("A {name} as a producer puts it onto a campaign's queue or onto the express queue."),
        "$comment": unsaid,
        "type": "object",
        "if": { "required": ["gzip"] },
        "then": { "$ref": "#/$defs/compressed" },
        "else": { "$ref": format!("#/$defs/{name}") },
        "$defs": { "compressed": compressed(), name: message },
    })
}

fn compressed() -> Value {
    json!({
        "description": "The base64 text of the gzipped JSON of a message.",
        "properties": { "gzip": { "type": "string", "pattern": BASE64 } },
        "additionalProperties": false,
    })
}

fn mail() -> Value {
    let properties: Map<String, Value> =
        MEMBERS.iter().map(|member| (member.name.to_owned(), described(member))).collect();
    let short: Vec<Value> = of(Form::Short).map(|member| present(member.name)).collect();
    let mut mail = object(properties, &[]);
    mail["if"] = json!({ "anyOf": short });
    let mut needed = each(present, &["to_address", "from_address", "subject"]);
    needed.push(filled("body"));
    mail["then"] = json!({
        "description": "The short form.",
        "properties": absent(of(Form::Long).map(|member| member.name)),
        "allOf": needed,
    });
    mail["else"] = long();
    mail
}

fn long() -> Value {
    json!({
        "description": "The long form.",
        "allOf": [
            present("from"),
            { "anyOf": each(filled, &["to", "cc", "bcc"]) },
            {
                "if": present("template"),
                "then": { "properties": absent(["subject", "text", "html"].into_iter()) },
                "else": { "allOf": [present("subject"), { "anyOf": each(filled, &["text", "html"]) }] },
            },
            {
                "if": present("list_unsubscribe"),
                "then": { "properties": { "headers": {
                    "maxProperties": MAX_HEADERS - 2,
                    "propertyNames": { "not": { "pattern": any_case(&[UNSUBSCRIBE, UNSUBSCRIBE_POST], "$") } },
                } } },
            },
        ],
    })
}

fn each(rule: fn(&str) -> Value, names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| rule(name)).collect()
}

fn of(form: Form) -> impl Iterator<Item = &'static Member> {
    MEMBERS.iter().filter(move |member| member.form == form)
}

/// The member stands and is not `null`, which counts as absent.
fn present(name: &str) -> Value {
    json!({ "required": [name], "properties": { name: { "not": { "type": "null" } } } })
}

/// The member stands and is neither `null` nor an empty text or list.
fn filled(name: &str) -> Value {
    let empty = json!({ "enum": [null, "", []] });
    json!({ "required": [name], "properties": { name: { "not": empty } } })
}

fn absent<'a>(names: impl Iterator<Item = &'a str>) -> Map<String, Value> {
    names.map(|name| (name.to_owned(), json!({ "type": "null" }))).collect()
}

/// An object of these members alone, beside those that are ignored. `null` counts as absent, but for `required`.
pub(crate) fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    let mut properties: Map<String, Value> = properties
        .into_iter()
        .map(|(name, schema)| {
            let schema = if required.contains(&name.as_str()) { schema } else { or_null(&schema) };
            (name, schema)
        })
        .collect();
    properties.insert("metadata".to_owned(), json!({ "description": "Ignored." }));
    let mut made = json!({
        "type": "object",
        "properties": properties,
        "patternProperties": { "^x_": { "description": "Ignored." } },
        "additionalProperties": false,
    });
    if !required.is_empty() {
        made["required"] = json!(required);
    }
    made
}

fn or_null(schema: &Value) -> Value {
    json!({ "anyOf": [{ "type": "null" }, schema] })
}

fn described(member: &Member) -> Value {
    let mut schema = shape(member.shape);
    schema["description"] = json!(member.means);
    schema
}

pub(crate) fn shape(shape: Shape) -> Value {
    match shape {
        Shape::Address => json!({ "$ref": "#/$defs/address" }),
        Shape::Addresses(most) => {
            let mut list = json!({ "type": "array", "items": { "$ref": "#/$defs/address" } });
            if let Some(most) = most {
                list["maxItems"] = json!(most);
            }
            json!({ "anyOf": [{ "$ref": "#/$defs/address" }, list] })
        }
        Shape::Subject => text(1, None),
        Shape::Body => json!({ "type": "string", "pattern": r"^[^\u0000\u202d\u202e]*$" }),
        Shape::Template => template(),
        Shape::Headers => headers(),
        Shape::Attachments => json!({ "type": "array", "items": attachment() }),
        Shape::ConfigurationSet => word(MAX_CONFIGURATION_SET),
        Shape::ListUnsubscribe => list_unsubscribe(),
        Shape::Id => text(1, Some(MAX_ID_CHARS)),
        Shape::Priority => json!({ "enum": Priority::ALL.map(Priority::as_str) }),
        Shape::Tags => json!({
            "type": "object",
            "maxProperties": MAX_TAGS,
            "propertyNames": {
                "pattern": word(MAX_CHARS)["pattern"],
                "not": { "pattern": any_case(&[RESERVED_TAGS], "") },
            },
            "additionalProperties": word(MAX_CHARS),
        }),
    }
}

/// A text of `least` to `most` characters without control characters.
fn text(least: usize, most: Option<usize>) -> Value {
    let mut text =
        json!({ "type": "string", "minLength": least, "pattern": format!("^{NO_CONTROL}*$") });
    if let Some(most) = most {
        text["maxLength"] = json!(most);
    }
    text
}

fn word(most: usize) -> Value {
    json!({ "type": "string", "pattern": format!("^[A-Za-z0-9_-]{{1,{most}}}$") })
}

fn address() -> Value {
    json!({
        "description": "ada@example.com, or Ada <ada@example.com>.",
        "type": "string",
        "pattern": format!("^{NO_CONTROL}*[!-~]@[A-Za-z0-9-]+[.]{NO_CONTROL}*$"),
    })
}

fn properties<const N: usize>(names: [&str; N], schemas: [Value; N]) -> Map<String, Value> {
    names.into_iter().map(str::to_owned).zip(schemas).collect()
}

fn template() -> Value {
    let data = json!({ "description": "What SES fills in.", "type": "object" });
    object(properties(TEMPLATE, [text(1, Some(MAX_TEMPLATE_NAME)), data]), &["name"])
}

fn attachment() -> Value {
    let name = json!({
        "type": "string",
        "maxLength": MAX_FILE_NAME,
        "pattern": r#"^[^\u0000-\u001f\u007f-\u009f\u202d\u202e/\\"]+[.][^\u0000-\u0020\u007f-\u009f\u202d\u202e/\\".]+$"#,
    });
    let content_type = json!({
        "type": "string",
        "maxLength": MAX_CONTENT_TYPE,
        "pattern": format!("^{MIME_TOKEN}/{MIME_TOKEN} *(;[ -~]*)?$"),
    });
    let content = json!({ "description": "Base64 with padding.", "type": "string", "minLength": 4, "pattern": BASE64 });
    let content_id = json!({
        "description": "What cid: in the HTML names.",
        "type": "string",
        "pattern": format!("^[A-Za-z0-9._@+-]{{1,{MAX_CONTENT_ID}}}$"),
    });
    let disposition = json!({ "enum": DISPOSITIONS });
    let members = [name, content_type, content, content_id, disposition];
    object(properties(ATTACHMENT, members), &["name", "content"])
}

fn list_unsubscribe() -> Value {
    // The header's value is the address in angle brackets.
    let most = MAX_LINE - UNSUBSCRIBE.len() - "<>".len();
    let url = json!({
        "description": "An https address.",
        "type": "string",
        "maxLength": most,
        "pattern": format!("^https://{HOST_START}{URI}*$"),
    });
    let mailto = json!({ "type": "string", "pattern": format!("^mailto:{URI}+$") });
    let both = object(properties(LIST_UNSUBSCRIBE, [url.clone(), mailto]), &["url"]);
    json!({ "anyOf": [url, both] })
}

fn headers() -> Value {
    json!({
        "type": "object",
        "maxProperties": MAX_HEADERS,
        "propertyNames": {
            "pattern": format!("^[!-9;-~]{{1,{MAX_NAME}}}$"),
            "not": { "anyOf": [
                { "pattern": any_case(&RESERVED, "$") },
                { "pattern": any_case(&[RESERVED_HEADERS], "") },
            ] },
        },
        "additionalProperties": { "type": "string", "maxLength": MAX_LINE - 1, "pattern": "^[ -~]+$" },
    })
}

/// A pattern for one of `words` at the beginning, in any mixture of upper and lower case; `end` comes after it.
fn any_case(words: &[&str], end: &str) -> String {
    let any_case = |word: &&str| -> String {
        let letter = |c: char| match c {
            c if c.is_ascii_alphabetic() => {
                format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase())
            }
            c => c.to_string(),
        };
        word.chars().map(letter).collect()
    };
    format!("^({}){end}", words.iter().map(any_case).collect::<Vec<_>>().join("|"))
}

#[cfg(test)]
mod tests {
    use snapbox::{assert_data_eq, file};

    use super::*;

    #[test]
    fn the_schema_in_the_docs_is_the_one_that_is_made() {
        let text = format!("{:#}\n", message_schema());
        assert_data_eq!(text, file!["../../../../docs/message.schema.json"].raw());
    }
}
