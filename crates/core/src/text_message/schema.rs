//! The JSON Schema of a text message, from the parser's list of members and its limits.

use serde_json::{Value, json};

use super::MessageType;
use super::parts::{BASIC, EXTENDED, MOST_SEPTETS, MOST_UTF_16};
use super::read::{MAX_NAME, MAX_TAGS, MEMBERS};
use crate::email::listed::Shape;
use crate::email::schema::{compressible, object, shape};

/// Rules of the parser that JSON Schema has no words for.
const UNSAID: &str = "The parser refuses more than this schema: a member that stands twice in one object; a text that is too long \
    because characters of GSM-7's extension table, or those of two units of UTF-16, count twice; gzip that holds no message.";

/// A character that is no white space.
const INK: &str = r"[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

/// The JSON Schema (draft 2020-12) of a text message. It accepts what the poller accepts; what it cannot say stands in
/// its `$comment`.
pub fn text_schema() -> Value {
    let described = |(name, means): (&str, &str)| {
        let mut schema = member(name);
        schema["description"] = json!(means);
        (name.to_owned(), schema)
    };
    let text = object(MEMBERS.map(described).into_iter().collect(), &["to_phone", "text"]);
    compressible("text", "text", &text, UNSAID)
}

fn member(name: &str) -> Value {
    let one_of = |class: &str| json!({ "type": "string", "pattern": format!("^[{class}]{{1,{MAX_NAME}}}$") });
    match name {
        "to_phone" => json!({ "type": "string", "pattern": r"^\+[1-9][0-9]{6,14}$" }),
        "text" => text(),
        "origination" => one_of("A-Za-z0-9+_:/-"),
        "configuration_set" => one_of("A-Za-z0-9_:/-"),
        "type" => json!({ "enum": MessageType::ALL.map(MessageType::as_str) }),
        "id" => shape(Shape::Id),
        "priority" => shape(Shape::Priority),
        _ => {
            let mut tags = shape(Shape::Tags);
            tags["maxProperties"] = json!(MAX_TAGS);
            tags
        }
    }
}

fn text() -> Value {
    let escaped = |c| format!(r"\u{:04x}", u32::from(c));
    let class: Vec<String> = BASIC.chars().chain(EXTENDED.chars()).map(escaped).collect();
    json!({
        "type": "string",
        "pattern": INK,
        "if": { "pattern": format!("^[{}]*$", class.concat()) },
        "then": { "maxLength": MOST_SEPTETS },
        "else": { "maxLength": MOST_UTF_16 },
    })
}

#[cfg(test)]
mod tests {
    use snapbox::{assert_data_eq, file};

    use super::*;

    #[test]
    fn the_schema_in_the_docs_is_the_one_that_is_made() {
        let text = format!("{:#}\n", text_schema());
        assert_data_eq!(text, file!["../../../../docs/text.schema.json"].raw());
    }
}
