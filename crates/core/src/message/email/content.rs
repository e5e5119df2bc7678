//! The content of a mail (subject with text and HTML, an SES template, or a MIME message) and its attachments.

use serde_json::value::RawValue;

use super::error::EmailError;
use super::json::{Node, TextLiteral};
use super::members::{BASE64, Members, base64};
use super::raw::RawMail;
use super::stored::StoredContent;
use crate::text::{has_control, is_word_of};

/// Most bytes of template data that SES takes (256 KiB).
const MAX_TEMPLATE_DATA: usize = 262_144;
/// Most characters of a template's name that SES takes.
const MAX_TEMPLATE_NAME: usize = 256;
/// Most characters of an attachment's file name that SES takes.
const MAX_FILE_NAME: usize = 255;
/// Most characters of an attachment's content type that SES takes.
const MAX_CONTENT_TYPE: usize = 78;
/// Most characters of an attachment's content id that SES takes.
const MAX_CONTENT_ID: usize = 78;
/// Extensions of files that SES refuses: <https://docs.aws.amazon.com/ses/latest/dg/mime-types.html>.
const REFUSED_EXTENSIONS: &str = "ade adp app asp bas bat cer chm cmd com cpl crt csh der exe fxp gadget hlp hta inf \
    ins isp its js jse ksh lib lnk mad maf mag mam maq mar mas mat mau mav maw mda mdb mde mdt mdw mdz msc msh msh1 \
    msh2 mshxml msh1xml msh2xml msi msp mst ops pcd pif plg prf prg reg scf scr sct shb shs sys ps1 ps1xml ps2 \
    ps2xml psc1 psc2 tmp url vb vbe vbs vps vsmacros vss vst vsw vxd ws wsc wsf wsh xnk";

/// The content of a mail, in one of three forms of SES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// SES's `Simple` content. At least one of `text` and `html` is present and not empty.
    Simple {
        /// The subject line: not empty, without control characters.
        subject: String,
        /// The plain-text body, as a JSON string literal.
        text: Option<TextLiteral>,
        /// The HTML body, as a JSON string literal.
        html: Option<TextLiteral>,
    },
    /// SES's `Template` content; SES fills the template with the data.
    Template {
        /// The template's name in SES, 1 to 256 characters.
        name: String,
        /// A JSON object without white space between its tokens; numbers keep their original text.
        data: String,
    },
    /// SES's `Raw` content.
    Raw(RawMail),
    /// One of the others, in an object of the store that was not read yet.
    Stored(StoredContent),
}

/// A file that is attached to the mail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// File name of 1 to 255 characters with an extension that SES takes, without path separators, double quotes or control characters.
    pub name: String,
    /// MIME type of at most 78 characters; if it is none, SES derives it from the file name.
    pub content_type: Option<String>,
    /// The file's bytes, decoded from base64; there is at least one.
    pub content: Vec<u8>,
    /// The name by which the HTML shows it: `cid:logo` is the attachment with the id `logo`.
    pub content_id: Option<String>,
    /// `inline` or `attachment`; SES's default is `attachment`.
    pub disposition: Option<String>,
}

/// Reads `subject`, `html` and the member called `text` (`text` in the long form, `body` in the short
/// form).
pub(super) fn read_simple(members: &mut Members, text: &str) -> Result<Content, EmailError> {
    const NEEDED: &str = "is missing: SES needs a subject and at least one of text and html (or a \
                          template)";
    let subject = members.take_text("subject")?.unwrap_or_default();
    if subject.is_empty() {
        return Err(EmailError::missing("subject", NEEDED));
    }
    if has_control(&subject) {
        let problem = "must not hold CR, LF or other control characters";
        return Err(EmailError::invalid("subject", problem).with_value(&subject));
    }
    let body = members.take_literal(text)?.filter(|body| !body.is_empty());
    let html = members.take_literal("html")?.filter(|body| !body.is_empty());
    if body.is_none() && html.is_none() {
        return Err(EmailError::missing(text, NEEDED));
    }
    Ok(Content::Simple { subject, text: body, html })
}

/// Reads `template`. The data is copied from `body`, the whole message, so that numbers stay as
/// written.
pub(super) fn read_template(node: Node, body: &str) -> Result<Content, EmailError> {
    let mut members = Members::known("template", node, &["name", "data"])?;
    let name = members.take_text("name")?.unwrap_or_default();
    if name.is_empty() || name.chars().count() > MAX_TEMPLATE_NAME || has_control(&name) {
        let problem = "must be the name of an SES template: 1 to 256 characters, no control \
                       characters";
        return Err(EmailError::invalid("template.name", problem).with_value(&name));
    }
    let data = match members.take("data") {
        None => "{}".to_owned(),
        Some(Node::Object(_)) => compact(raw_template_data(body)?),
        Some(other) => {
            let problem = "must be a JSON object";
            return Err(EmailError::invalid("template.data", problem).with_found(other.kind()));
        }
    };
    if data.len() > MAX_TEMPLATE_DATA {
        let problem = "must be at most 262144 bytes of compact JSON";
        let found = format!("{} bytes", data.len());
        return Err(EmailError::invalid("template.data", problem).with_found(found));
    }
    Ok(Content::Template { name, data })
}

/// The original text of `template.data`. Parsing and writing numbers would change them: 19.90 would
/// become 19.9, and 1e30 its 31 digits.
fn raw_template_data(body: &str) -> Result<&str, EmailError> {
    #[derive(serde::Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        template: Template<'a>,
    }
    #[derive(serde::Deserialize)]
    struct Template<'a> {
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let body: Result<Body<'_>, _> = serde_json::from_str(body);
    body.map(|body| body.template.data.get()).map_err(|fault| {
        EmailError::invalid("template.data", format!("must be a JSON object ({fault})"))
    })
}

/// The size of a mail as SES counts it: attachments in base64, a MIME message as it is.
pub(super) fn bytes(content: &Content, attachments: &[Attachment]) -> usize {
    let literal = |text: &Option<TextLiteral>| text.as_ref().map_or(0, |text| text.literal().len());
    let own = match content {
        Content::Simple { text, html, .. } => literal(text) + literal(html),
        Content::Template { data, .. } => data.len(),
        Content::Raw(raw) => raw.base64().len() / 4 * 3,
        Content::Stored(_) => 0,
    };
    own + attachments.iter().map(|file| file.content.len().div_ceil(3) * 4).sum::<usize>()
}

/// Removes the white space between the tokens of valid JSON. Strings stay as they are.
fn compact(json: &str) -> String {
    let (mut in_string, mut escaped) = (false, false);
    json.chars()
        .filter(|&c| {
            if in_string {
                // A quote ends the string unless a backslash precedes it that is not itself escaped.
                in_string = escaped || c != '"';
                escaped = !escaped && c == '\\';
                return true;
            }
            in_string = c == '"';
            !c.is_ascii_whitespace()
        })
        .collect()
}

pub(super) fn read_attachments(node: Node) -> Result<Vec<Attachment>, EmailError> {
    let read = |(i, item): (usize, Node)| read_attachment(&format!("attachments[{i}]"), item);
    match node {
        Node::List(items) => items.into_iter().enumerate().map(read).collect(),
        other => Err(EmailError::invalid("attachments", "must be a list of objects")
            .with_found(other.kind())),
    }
}

fn read_attachment(path: &str, node: Node) -> Result<Attachment, EmailError> {
    const MEMBERS: [&str; 5] = ["name", "content_type", "content", "content_id", "disposition"];
    let mut members = Members::known(path, node, &MEMBERS)?;
    let name = members.take_text("name")?.unwrap_or_default();
    if let Some(problem) = file_name_fault(&name) {
        return Err(EmailError::invalid(members.path_of("name"), problem).with_value(&name));
    }
    let content_type = members.take_allowed(
        "content_type",
        is_content_type,
        "must be a MIME type like application/pdf, at most 78 characters",
    )?;
    let field = members.path_of("content");
    let content = match members.take_text("content")? {
        None => return Err(EmailError::missing(field, BASE64)),
        Some(encoded) => base64(&field, &encoded)?,
    };
    if content.is_empty() {
        return Err(EmailError::invalid(field, BASE64));
    }
    let id = "must be 1 to 78 letters, digits, . _ @ + and -, without angle brackets";
    let content_id =
        members.take_allowed("content_id", |id| is_word_of(id, MAX_CONTENT_ID, "._@+-"), id)?;
    let is_known = |text: &str| ["attachment", "inline"].contains(&text);
    let given = members.take_allowed("disposition", is_known, "must be inline or attachment")?;
    // A file with an id is there to be shown in the HTML.
    let disposition = given.or_else(|| content_id.as_ref().map(|_| "inline".to_owned()));
    Ok(Attachment { name, content_type, content, content_id, disposition })
}

/// The fault of a file's name that SES refuses; `None` if it takes the name.
pub fn file_name_fault(name: &str) -> Option<&'static str> {
    let is_long = !(1..=MAX_FILE_NAME).contains(&name.chars().count());
    if is_long || has_control(name) || name.contains(['/', '\\', '"']) {
        return Some(
            "must be a file name of 1 to 255 characters without path separators, double quotes or \
             control characters",
        );
    }
    match name.rsplit_once('.') {
        Some((stem, end)) if !stem.is_empty() && !end.is_empty() && !end.contains(' ') => {
            let mut refused = REFUSED_EXTENSIONS.split_ascii_whitespace();
            let is_refused = refused.any(|refused| refused.eq_ignore_ascii_case(end));
            is_refused.then_some("must have another extension: SES takes no file with this one")
        }
        _ => Some("must have an extension such as .pdf: SES takes no file without"),
    }
}

/// Refuses two attachments with one id, and HTML that shows an id which no attachment has.
pub(super) fn check_ids(content: &Content, attachments: &[Attachment]) -> Result<(), EmailError> {
    let ids: Vec<&str> = attachments.iter().filter_map(|file| file.content_id.as_deref()).collect();
    if let Some(again) = (1..ids.len()).find(|at| ids[..*at].contains(&ids[*at])) {
        let problem = "must not have one content_id twice";
        return Err(EmailError::invalid("attachments", problem).with_value(ids[again]));
    }
    let Content::Simple { html: Some(html), .. } = content else { return Ok(()) };
    let written = html.literal();
    if !written.contains("cid:") && !written.contains("CID:") {
        return Ok(());
    }
    let html = html.decode();
    for (at, _) in html.to_ascii_lowercase().match_indices("cid:") {
        let ends = |c: char| c.is_whitespace() || "\"'<>)".contains(c);
        let id = html[at + "cid:".len()..].split(ends).next().unwrap_or_default();
        let id = id.replace("%40", "@");
        if html[..at].ends_with(['"', '\'', '=', '(']) && !ids.contains(&id.as_str()) {
            let problem = "must have an attachment with its content_id for each image cid:…";
            return Err(EmailError::invalid("html", problem));
        }
    }
    Ok(())
}

/// True for `type/subtype`, with or without parameters, of at most 78 characters.
fn is_content_type(text: &str) -> bool {
    let main = text.split(';').next().unwrap_or_default().trim_end();
    let is_token = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "!#$&-^_.+".contains(c))
    };
    text.len() <= MAX_CONTENT_TYPE
        && text.chars().all(|c| c == ' ' || c.is_ascii_graphic())
        && main.split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
}
