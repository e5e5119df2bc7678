//! The lines of a raw mail, which people read and change in the place of its base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    raw: &'a RawValue,
}

/// The member `raw` of a body as JSON.
fn raw_of(body: &str) -> Option<&str> {
    serde_json::from_str(body).ok().map(|body: Body<'_>| body.raw.get())
}

/// The MIME message in base64 in a JSON string; none if it is no text in UTF-8.
fn mime_of(raw: &str) -> Option<String> {
    let base64: String = serde_json::from_str(raw).ok()?;
    String::from_utf8(STANDARD.decode(base64).ok()?).ok()
}

fn end_of_line(mime: &str) -> &'static str {
    if mime.contains('\n') && !mime.contains("\r\n") { "\n" } else { "\r\n" }
}

/// `body` with its raw mail as a list of lines; another body as it is.
pub(super) fn with_lines(body: &str) -> Cow<'_, str> {
    let found = raw_of(body).and_then(|raw| Some((raw, mime_of(raw)?)));
    let Some((raw, mime)) = found else { return body.into() };
    let lines = mime.split(end_of_line(&mime)).map(|line| Value::from(line).to_string());
    let lines = lines.collect::<Vec<_>>().join(",\n");
    replaced(body, raw, &format!("[\n{lines}]")).into()
}

/// The body that `edited` means, in which a raw mail may stand as lines: in base64, their ends those of `original`.
pub(super) fn with_base64(original: &str, edited: &str) -> String {
    let found =
        raw_of(edited).and_then(|raw| Some((raw, serde_json::from_str::<Vec<String>>(raw).ok()?)));
    let Some((raw, lines)) = found else { return edited.to_owned() };
    let end = raw_of(original).and_then(mime_of).map_or("\r\n", |mime| end_of_line(&mime));
    replaced(edited, raw, &format!("\"{}\"", STANDARD.encode(lines.join(end))))
}

/// `body` with another text in the place of `part`, which is a slice of it.
fn replaced(body: &str, part: &str, by: &str) -> String {
    let start = part.as_ptr().addr() - body.as_ptr().addr();
    [&body[..start], by, &body[start + part.len()..]].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn body(mime: &[u8]) -> String {
        format!(
            r#"{{"id": "7", "x_s": "", "x_n": 1.50, "raw": "{}", "to": "ada@example.com"}}"#,
            STANDARD.encode(mime)
        )
    }

    proptest! {
        #[test]
        fn what_is_shown_as_lines_comes_back_byte_for_byte(mime in "([a-cä:\"\\\\ ]|\r\n|\n|\r){0,40}") {
            let body = body(mime.as_bytes());
            let shown = with_lines(&body);
            prop_assert!(!shown.contains(&STANDARD.encode(&mime)) || mime.is_empty());
            prop_assert_eq!(with_base64(&body, &shown), body);
        }
    }

    #[test]
    fn what_is_no_text_stays_in_base64() {
        for other in [
            body(b"\xff"),
            r#"{"raw": "?"}"#.to_owned(),
            r#"{"to": []}"#.to_owned(),
            "raw".to_owned(),
        ] {
            assert_eq!(with_lines(&other), other);
            assert_eq!(with_base64(&other, &other), other);
        }
    }

    #[test]
    fn added_lines_end_as_those_of_the_original() {
        let edited = r#"{"raw": ["A: b", "C: d", "", "Text."]}"#;
        for (mime, meant) in [
            ("A: b\n\nText.", "A: b\nC: d\n\nText."),
            ("A: b\r\n\r\nText.", "A: b\r\nC: d\r\n\r\nText."),
        ] {
            let expected = format!(r#"{{"raw": "{}"}}"#, STANDARD.encode(meant));
            assert_eq!(with_base64(&body(mime.as_bytes()), edited), expected);
        }
    }
}
