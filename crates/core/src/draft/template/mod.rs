//! Templates for subject, HTML, text and unsubscribe addresses, rendered with a row's columns.
//! A subject may also be the title of the HTML.

mod escape;
mod mistakes;
mod syntax;

use std::collections::BTreeMap;

use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use syntax::{found, pieces, without};

use super::fault::{FileLine, InputFault, column_names};
use super::row::InputRow;

/// The source of a template, with the name that faults use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateSource {
    /// The file's name, or the option's.
    pub name: String,
    /// The text.
    pub text: String,
}

impl TemplateSource {
    /// A template that is called `name`.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// The part of a message that a template makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TemplatePart {
    /// The subject.
    Subject,
    /// The HTML body: values are escaped.
    Html,
    /// The text body, or a text message.
    Text,
    /// The address of `List-Unsubscribe`.
    UnsubscribeUrl,
    /// The `mailto:` address beside it.
    UnsubscribeMailto,
}

impl TemplatePart {
    /// The option of `tidegate send`.
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
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "TemplateSources")]
pub struct Templates {
    #[serde(flatten)]
    sources: TemplateSources,
    #[serde(skip)]
    environment: Environment<'static>,
    /// Their names in faults, by the member of the message that they make.
    #[serde(skip)]
    names: BTreeMap<&'static str, String>,
}

/// The templates as they are stored.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct TemplateSources {
    parts: Vec<(TemplatePart, TemplateSource)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allowed: Vec<String>,
}

impl TryFrom<TemplateSources> for Templates {
    type Error = String;

    fn try_from(sources: TemplateSources) -> Result<Self, String> {
        let compiled = Self::compile(sources.parts, &sources.allowed);
        compiled.map_err(|faults| faults.first().map(ToString::to_string).unwrap_or_default())
    }
}

impl Templates {
    /// Compiles the templates. What is never meant in one is refused, unless it is `allowed`.
    ///
    /// # Errors
    /// The faults of what is no template, and the mistakes: the name, the line, and what is wrong there.
    pub fn compile(
        parts: impl IntoIterator<Item = (TemplatePart, TemplateSource)>,
        allowed: &[String],
    ) -> Result<Self, Vec<InputFault>> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // Errors have a position in their template only in debug mode.
        environment.set_debug(true);
        environment.set_auto_escape_callback(|key| {
            if key == TemplatePart::Html.key() { AutoEscape::Html } else { AutoEscape::None }
        });
        escape::prepare(&mut environment);
        let (mut names, mut faults) = (BTreeMap::new(), Vec::new());
        let sources =
            TemplateSources { parts: parts.into_iter().collect(), allowed: allowed.to_vec() };
        for (part, source) in &sources.parts {
            // A title is read twice: in the HTML, and as the subject.
            let (known, wrong) = (faults.clone(), mistakes::read(*part, source, allowed));
            faults.extend(wrong.into_iter().filter(|fault| !known.contains(fault)));
            let guarded = escape::guarded(*part, &source.text);
            let added = environment.add_template_owned(part.key(), guarded);
            faults.extend(added.err().map(|error| mistakes::syntax_fault(source, &error)));
            names.insert(part.key(), source.name.clone());
        }
        if faults.is_empty() { Ok(Self { sources, environment, names }) } else { Err(faults) }
    }

    /// These templates with `others` in place of, or beside, those of their parts. A subject that was the title of the
    /// HTML is the title of the new one, if that has one.
    ///
    /// # Errors
    /// As those of [`Templates::compile`].
    pub fn replaced(
        &self,
        mut others: Vec<(TemplatePart, TemplateSource)>,
        allowed: &[String],
    ) -> Result<Self, Vec<InputFault>> {
        let TemplateSources { parts, allowed: before } = &self.sources;
        let of = |part| move |named: &&(TemplatePart, TemplateSource)| named.0 == part;
        let subject = parts.iter().find(of(TemplatePart::Subject));
        let is_title = subject.is_some_and(|(part, source)| source.name != part.option());
        let html = others.iter().find(of(TemplatePart::Html));
        if is_title && !others.iter().any(|(part, _)| *part == TemplatePart::Subject) {
            let title = html.and_then(|(_, html)| html.title());
            others.extend(title.map(|title| (TemplatePart::Subject, title)));
        }
        let is_kept = |(part, _): &&(TemplatePart, TemplateSource)| {
            !others.iter().any(|(other, _)| other == part)
        };
        let kept: Vec<_> = parts.iter().filter(is_kept).cloned().collect();
        Self::compile(kept.into_iter().chain(others), &[before.as_slice(), allowed].concat())
    }

    /// The name of the template that makes this member of the message.
    pub(super) fn name_of(&self, member: &str) -> Option<&str> {
        self.names.get(member).map(String::as_str)
    }

    /// Renders `part` with the columns of a row; `None` if there is no such template.
    ///
    /// # Errors
    /// A column that is not there, or whatever else the template does that cannot be done.
    pub fn render(
        &self,
        part: TemplatePart,
        columns: &Columns<'_>,
    ) -> Result<Option<String>, InputFault> {
        let Some(name) = self.names.get(part.key()) else { return Ok(None) };
        let template = self.environment.get_template(part.key());
        let rendered = template.and_then(|template| template.render(columns.values.clone()));
        rendered.map(Some).map_err(|error| fault(&error, name, columns.row))
    }
}

/// A row's columns for templates: by name, and all of them as `row`, for names that are not
/// identifiers: `row["first name"]`.
#[derive(Clone, Debug)]
pub struct Columns<'a> {
    row: &'a InputRow,
    values: minijinja::Value,
}

impl<'a> Columns<'a> {
    /// The columns of a row.
    pub fn of(row: &'a InputRow) -> Self {
        // What is empty is missing, so that `default` is what stands there.
        let given = row.columns.iter().filter(|(_, value)| !value.is_null());
        let named = given.map(|(name, value)| (name.clone(), minijinja::Value::from(Serde(value))));
        let mut columns: BTreeMap<String, minijinja::Value> = named.collect();
        let all = minijinja::Value::from(columns.clone());
        columns.insert("row".to_owned(), all);
        Self { row, values: columns.into() }
    }
}

fn fault(error: &minijinja::Error, template: &str, row: &InputRow) -> InputFault {
    let at = FileLine { file: template.to_owned(), line: error.line().unwrap_or(1) as u64 };
    let source = error.template_source().zip(error.range());
    let expression = source.and_then(|(text, range)| text.get(range)).unwrap_or("…");
    let expression = escape::as_written(expression);
    let field = format!("{{{{ {expression} }}}}");
    let problem = match error.kind() {
        ErrorKind::BadEscape => format!(
            "must hold no {} inside a link, which would change where it leads: write {{{{ {expression}|urlencode }}}}, \
             or {{{{ {expression}|safe }}}} if the list has it as it must stand there",
            error.detail().unwrap_or_default()
        ),
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
    InputFault { template: Some(Box::new(at)), ..row.fault(field, problem) }
}

impl TemplateSource {
    /// The subject of an HTML template: its document's `<title>`, as a template of text. Character references
    /// are decoded, but not in values. Line breaks before it make faults show the line on which it begins.
    ///
    /// ```
    /// use tidegate_core::draft::TemplateSource;
    /// let html = TemplateSource::new("mail.html", "<html>\n<title>Hello {{ name }} &amp; all</title>");
    /// assert_eq!(html.title().unwrap().text, "\nHello {{ name }} & all");
    /// assert_eq!(TemplateSource::new("mail.html", "<p>Hello</p>").title(), None);
    /// ```
    pub fn title(&self) -> Option<Self> {
        const OTHERS: &str = r"(?is)\{#.*?#\}|<!--.*?-->|<svg\b.*?</svg\s*>|<style\b.*?</style\s*>|<script\b.*?</script\s*>";
        const TITLE: &str = r"(?is)<title(?:\s[^>]*)?>(.*?)</title\s*>";
        let document = without(&self.text, found(OTHERS, &self.text));
        let title = found(TITLE, &document).into_iter().next()?;
        let mut text = "\n".repeat(self.text[..title.start].matches('\n').count());
        let mut at = title.start;
        for (piece, _) in pieces(&document) {
            if title.contains(&piece.start) {
                text += &decoded(&document[at..piece.start]);
                text += &document[piece.clone()];
                at = piece.end;
            }
        }
        text += &decoded(&document[at..title.end]);
        Some(Self::new(self.name.clone(), text))
    }
}

/// A part of a title as a template of text: white space is one blank, as a browser shows it, and no reference is
/// Jinja.
fn decoded(html: &str) -> String {
    let text = htmlize::unescape(html);
    let text = Regex::new(r"\s+").map_or(text.clone(), |blanks| blanks.replace_all(&text, " "));
    let is_jinja = ["{{", "{%", "{#"].iter().any(|begin| text.contains(begin));
    if is_jinja { text.replace('{', "{{ '{' }}") } else { text.into_owned() }
}

#[cfg(test)]
mod tests;
