//! Templates for subject, HTML, text and unsubscribe addresses, rendered with a row's columns.

use std::collections::BTreeMap;

use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, escape_formatter};

use super::fault::{FileLine, InputFault, column_names};
use super::rows::InputRow;

/// The source of a template, with the name that faults use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSource {
    /// The file's name, or the option's.
    pub name: String,
    pub text: String,
}

impl TemplateSource {
    /// A template that is called `name`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// The subject of an HTML template: its first `<title>`, preceded by line breaks so that faults
    /// show the right line.
    ///
    /// ```
    /// use tidegate_operate::send::TemplateSource;
    /// let html = TemplateSource::new("mail.html", "<html>\n<title>Hello {{ name }} &amp; all</title>");
    /// assert_eq!(html.title().unwrap().text, "\nHello {{ name }} & all");
    /// assert_eq!(TemplateSource::new("mail.html", "<p>Hello</p>").title(), None);
    /// ```
    pub fn title(&self) -> Option<Self> {
        let lower = self.text.to_ascii_lowercase();
        let open = lower.find("<title")?;
        let start = open + lower[open..].find('>')? + 1;
        let end = start + lower[start..].find("</title")?;
        // Line breaks before the title keep the line numbers of faults right.
        let lines = "\n".repeat(self.text[..start].matches('\n').count());
        let title = unescaped(&self.text[start..end]);
        Some(Self::new(self.name.clone(), lines + &title))
    }
}

/// Replaces HTML's five named character references.
fn unescaped(html: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")]
        .iter()
        .fold(html.to_owned(), |text, (name, character)| text.replace(name, character))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    Subject,
    /// The HTML body: values are escaped.
    Html,
    Text,
    UnsubscribeUrl,
    UnsubscribeMailto,
}

impl TemplatePart {
    pub const fn option(self) -> &'static str {
        match self {
            Self::Subject => "--subject",
            Self::Html => "--template",
            Self::Text => "--text",
            Self::UnsubscribeUrl => "--list-unsubscribe",
            Self::UnsubscribeMailto => "--unsubscribe-mailto",
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::Subject => "subject",
            Self::Html => "html",
            Self::Text => "text",
            Self::UnsubscribeUrl => "list_unsubscribe",
            Self::UnsubscribeMailto => "list_unsubscribe.mailto",
        }
    }
}

/// Compiled templates. A missing column is a fault instead of an empty text.
#[derive(Debug)]
pub struct Templates {
    environment: Environment<'static>,
    names: Vec<(TemplatePart, String)>,
}

impl Templates {
    /// Compiles the templates.
    ///
    /// # Errors
    /// The first that is no template: its name, the line, and what is wrong there.
    pub fn compile(
        parts: impl IntoIterator<Item = (TemplatePart, TemplateSource)>,
    ) -> Result<Self, InputFault> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Errors have a position in their template only in debug mode.
        environment.set_debug(true);
        environment.set_auto_escape_callback(|key| {
            if key == TemplatePart::Html.key() { AutoEscape::Html } else { AutoEscape::None }
        });
        // As JSON writes it: `true`, not `True`.
        environment.set_formatter(|out, state, value| match value.kind() {
            ValueKind::Bool | ValueKind::Seq | ValueKind::Map => {
                let json = serde_json::to_string(value).unwrap_or_default();
                escape_formatter(out, state, &json.into())
            }
            _ => escape_formatter(out, state, value),
        });
        let mut names = Vec::new();
        for (part, source) in parts {
            let added = environment.add_template_owned(part.key(), source.text);
            added.map_err(|error| {
                let line = error.line().unwrap_or(1) as u64;
                let said = error.detail().unwrap_or("a syntax error").to_owned();
                InputFault::bare(&source.name, line, "template", format!("must be valid: {said}"))
            })?;
            names.push((part, source.name));
        }
        Ok(Self { environment, names })
    }

    pub fn has(&self, part: TemplatePart) -> bool {
        self.names.iter().any(|(named, _)| *named == part)
    }

    /// The name of the template that makes this member of the message.
    pub(super) fn name_of(&self, member: &str) -> Option<&str> {
        let is_it = |(part, _): &&(TemplatePart, String)| part.key() == member;
        self.names.iter().find(is_it).map(|(_, name)| name.as_str())
    }

    /// Renders `part` with the `columns` of `row`; `None` if there is no such template.
    ///
    /// # Errors
    /// A column that is not there, or whatever else the template does that cannot be done.
    pub fn render(
        &self,
        part: TemplatePart,
        columns: &Columns,
        (file, row): (&str, &InputRow),
    ) -> Result<Option<String>, InputFault> {
        let Some((_, name)) = self.names.iter().find(|(named, _)| *named == part) else {
            return Ok(None);
        };
        let rendered = self
            .environment
            .get_template(part.key())
            .and_then(|template| template.render(columns.0.clone()));
        rendered.map(Some).map_err(|error| fault(&error, name, file, row))
    }
}

/// A row's columns for templates: by name, and all of them as `row`, for names that are not
/// identifiers: `row["first name"]`.
#[derive(Clone, Debug)]
pub struct Columns(minijinja::Value);

impl Columns {
    pub fn of(row: &InputRow) -> Self {
        // What is empty is missing, so that `default` is what stands there.
        let given = row.columns.iter().filter(|(_, value)| !value.is_null());
        let named = given.map(|(name, value)| (name.clone(), minijinja::Value::from(Serde(value))));
        let mut columns: BTreeMap<String, minijinja::Value> = named.collect();
        let all = minijinja::Value::from(columns.clone());
        columns.insert("row".to_owned(), all);
        Self(columns.into())
    }
}

fn fault(error: &minijinja::Error, template: &str, file: &str, row: &InputRow) -> InputFault {
    let at = FileLine { file: template.to_owned(), line: error.line().unwrap_or(1) as u64 };
    let source = error.template_source().zip(error.range());
    let expression = source.and_then(|(text, range)| text.get(range)).unwrap_or("…").trim();
    let field = format!("{{{{ {expression} }}}}");
    let problem = match error.kind() {
        ErrorKind::UndefinedError if row.text(expression).is_some_and(|text| text.is_empty()) => {
            format!(
                "is empty in this row: {{{{ {expression}|default('friend') }}}} says what stands there then"
            )
        }
        ErrorKind::UndefinedError => {
            format!("must be a column of the row: {}", column_names(row.columns.keys()))
        }
        // The detail may quote a value, which may be an address, so only the kind is shown.
        kind => format!("must be what can be rendered: {kind}"),
    };
    InputFault { template: Some(Box::new(at)), ..InputFault::bare(file, row.line, field, problem) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(columns: &serde_json::Value) -> InputRow {
        let columns: BTreeMap<String, serde_json::Value> =
            serde_json::from_value(columns.clone()).unwrap();
        InputRow { number: 1, line: 14, columns }
    }

    fn rendered(
        part: TemplatePart,
        text: &str,
        columns: &serde_json::Value,
    ) -> Result<String, String> {
        let templates = Templates::compile([(part, TemplateSource::new("mail.html", text))]);
        let rendered = templates.map_err(|fault| fault.to_string())?;
        let row = row(columns);
        let rendered = rendered.render(part, &Columns::of(&row), ("in.csv", &row));
        rendered.map(Option::unwrap_or_default).map_err(|fault| fault.to_string())
    }

    #[test]
    fn values_are_escaped_in_html_and_nowhere_else() {
        let columns = json!({"name": "<b> & \"Ada\""});
        let html = rendered(TemplatePart::Html, "<p>{{ name }}</p>", &columns).unwrap();
        assert_eq!(html, "<p>&lt;b&gt; &amp; &quot;Ada&quot;</p>");
        for part in [TemplatePart::Text, TemplatePart::Subject, TemplatePart::UnsubscribeUrl] {
            assert_eq!(rendered(part, "{{ name }}", &columns).unwrap(), "<b> & \"Ada\"");
        }
    }

    #[test]
    fn a_missing_column_is_named_with_the_template_its_line_and_the_inputs_line() {
        for text in ["a\n<p>{{ first }}</p>", "a\n{% if first %}x{% endif %}"] {
            let fault = rendered(TemplatePart::Html, text, &json!({"to": "a@x.de", "name": "A"}));
            let said =
                "mail.html:2: {{ first }}: must be a column of the row: name, to (in.csv:14)";
            assert_eq!(fault.unwrap_err(), said, "{text}");
        }
        let nested =
            rendered(TemplatePart::Text, "{{ order.total }}", &json!({"order": {"id": 1}}));
        assert!(
            nested.unwrap_err().starts_with("mail.html:1: {{ order.total }}: must be a column")
        );
    }

    #[test]
    fn a_column_may_be_left_out_where_the_template_says_what_then() {
        let text = "{{ first|default('friend') }}{% if x is defined %}!{% endif %}";
        assert_eq!(rendered(TemplatePart::Text, text, &json!({})).unwrap(), "friend");
    }

    #[test]
    fn columns_whose_names_are_no_words_and_values_for_an_address_can_be_rendered() {
        let columns = json!({"first name": "Ada", "token": "a b&c"});
        let text = "{{ row['first name'] }} {{ token|urlencode }}";
        assert_eq!(rendered(TemplatePart::Text, text, &columns).unwrap(), "Ada a%20b%26c");
    }

    #[test]
    fn what_is_no_template_is_refused_with_its_line() {
        let fault = rendered(TemplatePart::Text, "a\n{{ name", &json!({})).unwrap_err();
        assert!(fault.starts_with("mail.html:2: template: must be valid: "), "{fault}");
        let fault =
            rendered(TemplatePart::Text, "a\n{{ name + 1 }}", &json!({"name": "Ada"})).unwrap_err();
        assert!(fault.starts_with("mail.html:2: {{ name + 1 }}: must be what can be rendered"));
        assert!(!fault.contains("Ada"), "{fault}");
    }
}
