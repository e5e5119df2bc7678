//! The subject of an HTML template: the title of its document.

use regex_lite::Regex;

use super::TemplateSource;
use super::syntax::{found, pieces, without};

impl TemplateSource {
    /// The subject of an HTML template: its document's `<title>`, as a template of text. Character references
    /// are decoded, but not in values. Line breaks before it make faults show the line on which it begins.
    ///
    /// ```
    /// use tidegate_operator::send::TemplateSource;
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
