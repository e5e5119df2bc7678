//! How values are written: as text in HTML, and never so that they change where a link leads.

use minijinja::value::{Value, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, Output, State, escape_formatter, filters,
};

use super::TemplatePart;
use super::syntax::{found, outside, pieces};

/// The function through which each value inside a link goes.
const IN_LINK: &str = "in_link";
const HTML_LINK: &str = r#"(?i)[\s"'](?:href|src|action|formaction|background|poster|cite)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))|\burl\(\s*["']?([^"')]*)"#;
const TEXT_LINK: &str = r#"(?i)https?://[^\s<>"')\]]*"#;

/// Sets how the environment writes values.
pub(super) fn prepare(environment: &mut Environment<'_>) {
    environment.set_formatter(write);
    for name in ["escape", "e"] {
        environment.add_filter(name, |value: &Value| {
            if value.is_safe() { value.clone() } else { Value::from_safe_string(escaped(value)) }
        });
    }
    // An encoded value is not encoded again, and may stand in a link.
    environment.add_filter("urlencode", |value: &Value| {
        filters::urlencode(value).map(Value::from_safe_string)
    });
    environment.add_function(IN_LINK, in_link);
}

/// Booleans and lists are written as JSON has them: `true`, not `True`.
fn write(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if matches!(value.kind(), ValueKind::Bool | ValueKind::Seq | ValueKind::Map) {
        let json = serde_json::to_string(value).unwrap_or_default();
        return write(out, state, &json.into());
    }
    if *state.auto_escape() == AutoEscape::Html && !value.is_safe() {
        return out.write_str(&escaped(value)).map_err(Error::from);
    }
    escape_formatter(out, state, value)
}

/// The value as HTML. A slash is left alone: mail programs that follow links as they are written would follow
/// `&#x2f;`.
fn escaped(value: &Value) -> String {
    let html = value.to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    html.replace('"', "&quot;").replace('\'', "&#39;")
}

/// Refuses a value that would be read as another part of the address that it stands in. Whether it is one value
/// or encoded already only the template's author knows, so it is not encoded here.
fn in_link(value: Value) -> Result<Value, Error> {
    let text = if value.is_safe() { String::new() } else { value.to_string() };
    let odd = |c: &char| c.is_whitespace() || c.is_control() || "+&#=%?\"<>\\^`{|}".contains(*c);
    let refused = |c| Error::new(ErrorKind::BadEscape, format!("{c:?}"));
    text.chars().find(odd).map_or(Ok(value), |c| Err(refused(c)))
}

/// The source, with a check of each value that stands in an address behind its beginning.
pub(super) fn guarded(part: TemplatePart, source: &str) -> String {
    let outside = outside(source);
    let links = match part {
        TemplatePart::Html => found(HTML_LINK, &outside),
        TemplatePart::Text => found(TEXT_LINK, &outside),
        TemplatePart::UnsubscribeUrl | TemplatePart::UnsubscribeMailto => found("(?s).+", &outside),
        TemplatePart::Subject => Vec::new(),
    };
    let mut guarded = source.to_owned();
    for (piece, expression) in pieces(source).into_iter().rev() {
        let link = links.iter().find(|link| link.contains(&piece.start));
        let Some((link, expression)) = link.zip(expression) else { continue };
        let is_empty = source[expression.clone()].trim().is_empty();
        if !is_empty && is_inside(&outside[link.start..piece.start]) {
            guarded.insert(expression.end, ')');
            guarded.insert_str(expression.start, &format!("{IN_LINK}("));
        }
    }
    guarded
}

/// Whether a value behind this beginning of an address is a part of its path or query. With nothing before it,
/// the value is the address or its beginning; `mailto:` and `tel:` have neither before a `?`.
fn is_inside(before: &str) -> bool {
    let before = before.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    let is_other = before.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http")
    });
    !before.is_empty() && (!is_other || before.contains('?'))
}

/// An expression as the template has it, without the check.
pub(super) fn as_written(expression: &str) -> &str {
    let inner = expression.strip_prefix(IN_LINK).and_then(|inner| inner.strip_prefix('('));
    inner.and_then(|inner| inner.strip_suffix(')')).unwrap_or(expression).trim()
}
