//! Text of a template that is hardly ever meant, and that of another language than Jinja.

use super::super::fault::InputFault;
use super::syntax::{found, line, outside, pieces, without};
use super::{TemplatePart, TemplateSource};

/// The mistakes by the names that allow them, with what to write instead.
const MISTAKES: [(&str, &str); 4] = [
    (
        "encoded-placeholder",
        "was encoded by an editor: write {{ name }}, in a link {{ name|urlencode }}",
    ),
    ("foreign-tag", "is a merge tag of another system: a column is {{ first_name }}"),
    ("swallowed-text", "begins a comment that leaves out what follows: in CSS write { #"),
    ("image", "is no image that recipients can load: write its whole address, https://…"),
];
/// `{{` or `{%`, of which a part at least is encoded, up to its end.
const ENCODED: &str = r#"(?i)(?:\{|%(?:25)*7b|&#0*123;|&#x0*7b;|&lbrace;|&lcub;)(?:\{|%(?:25)*7b|&#0*123;|&#x0*7b;|&lbrace;|&lcub;|%(?:25)+|%\s|&#0*37;|&#x0*25;|&percnt;)[^{}<>"\n]{1,200}?(?:\}|%(?:25)*7d|&#0*125;|&#x0*7d;|&rbrace;|&rcub;){1,2}"#;
/// Merge tags of other systems that nothing else is written like.
const FOREIGN: &str = r"\*\|[^|\n<>]{1,80}\|\*|%%=?[A-Za-z_][^%<>\n]{0,60}%%|%recipient(?:\.\w+)?%|[$#]\{[A-Za-z_][\w.]*\}|<%=?[^%]{1,80}%>|\{[$!][A-Za-z_][\w.]*\}";
/// Names that are tags where no column is used; a button `[unsubscribe]` is none.
const FOREIGN_NAME: &str = r"(?i)<a\b[^>]*>\[unsubscribe\]</a>|([\[{%]\s?(?:(?:first|last|full|user)[ _-]?name|[fl]?name|e-?mail(?:[ _-]?address)?|unsub(?:scribe)?(?:[ _-]?(?:url|link))?)\s?[\]}%])";
const SWALLOWED: &str =
    r"(?is)<style\b[^<]*?(\{#).*?#\}|(\{#)[^\s#-](?:[^#]|#[^}])*?(?:<|\{\{|\{%).*?#\}";
const IMAGE: &str = r#"(?i)<(?:img|input|video|source|table|t[hrd]|body|div|v:fill|v:image|v:imagedata)\b[^<>]*?\s(?:src|background|poster)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))|\b(?:background|background-image|list-style|list-style-image)\s*:[^;{}<>"]*?url\(\s*(?:["']|&quot;)?([^"')&]*)"#;

/// The mistakes in a template that are not `allowed`.
pub(super) fn read(
    part: TemplatePart,
    template: &TemplateSource,
    allowed: &[String],
) -> Vec<InputFault> {
    let source = template.text.as_str();
    let outside = outside(source);
    let text = without(&outside, found(r"(?is)<style\b.*?</style|<script\b.*?</script", &outside));
    let html = without(&outside, found(r"(?s)<!--[^\[>].*?-->", &outside));
    let mut tags = found(FOREIGN, &text);
    if pieces(source).iter().all(|(piece, _)| source[piece.clone()].starts_with("{#")) {
        let rest = without(&text, tags.clone());
        let names = found(FOREIGN_NAME, &rest).into_iter();
        tags.extend(names.filter(|name| !text[name.clone()].starts_with('<')));
    }
    let mut images = found(IMAGE, &html);
    let loads = ["\0", "https:", "http:", "data:"];
    images.retain(|image| {
        let address = html[image.clone()].trim().to_ascii_lowercase();
        let is_loaded = address.is_empty() || loads.iter().any(|begin| address.starts_with(begin));
        part == TemplatePart::Html && !is_loaded
    });
    let places = [found(ENCODED, &outside), tags, found(SWALLOWED, source), images];
    let is_refused = |name: &str| allowed.iter().all(|allowed| allowed != name);
    let refused = MISTAKES.into_iter().zip(places).filter(|((name, _), _)| is_refused(name));
    let faults = refused.flat_map(|((name, said), places)| {
        places.into_iter().map(move |place| {
            let shown: String = source[place.clone()].chars().take(60).collect();
            let problem = format!("{said}; if it is meant: --allow {name}");
            InputFault::bare(&template.name, line(source, place.start), shown, problem)
        })
    });
    faults.collect()
}

const HANDLEBARS: &str = r"\{\{(?:\{|[#/^>!~]|&\s*\w+\s*\}|else\s*\})";
const LIQUID: &str = r"\{%-?\s*(?:assign|capture|unless|case|when|elsif|comment|tablerow|cycle|liquid|render)\b|\{%-?\s*if\b[^%]*\scontains\s|\{\{[^{}]*\|\s*\w+\s*:";
const UNCLOSED: &str = r"(\{#)(?:[^#]|#[^}])*#?$";
const HTML_INSIDE: &str = r"(\{[{%])[^{}]*?(?:&#?\w+;|</?[A-Za-z]|\u{a0})[^{}]*\}";
/// Other languages and slips that are no Jinja, with what to write instead.
const NO_JINJA: [(&str, &str); 4] = [
    (HANDLEBARS, "is Handlebars or Mustache; write Jinja: {{ name }}, {% if name %}…{% endif %}"),
    (LIQUID, "is Liquid; write Jinja: {% if not a %}…{% endif %}, {{ a|default('friend') }}"),
    (UNCLOSED, "begins a comment with {#, and no #} ends it: in CSS write { #"),
    (HTML_INSIDE, "has HTML in a placeholder, which an editor put there: leave that out"),
];

/// The fault of a template that is none, with what to write instead.
pub(super) fn syntax_fault(template: &TemplateSource, error: &minijinja::Error) -> InputFault {
    let source = template.text.as_str();
    let other = NO_JINJA.into_iter().find_map(|(pattern, said)| {
        Some((line(source, found(pattern, source).first()?.start), said.to_owned()))
    });
    let (line, said) = other.unwrap_or_else(|| {
        let said = error.detail().unwrap_or("a syntax error");
        let advice = match said {
            said if said.starts_with("unknown") || said.ends_with(" keyword") => {
                "; if {% begins no statement, write { %"
            }
            "unexpected identifier, expected end of variable block" => {
                "; a column whose name is no word is {{ row['first name'] }}"
            }
            _ => "",
        };
        (error.line().unwrap_or(1) as u64, format!("must be valid: {said}{advice}"))
    });
    InputFault::bare(&template.name, line, "template", said)
}
