//! The calls of version 2 (restJson1).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::check::{check, check_data, check_shared, decode, tags};
use super::{
    MOST_OTHERS, NameValue, RawHeader, SesContent, SesDestination, SesRequest, SesSimple,
    SesTemplate, SesText, bad_request,
};
use crate::outcome::Failure;
use crate::text::{cut, is_plain_name};

/// Most characters of a reader's error, which may repeat a value.
const MOST_FAULT_CHARS: usize = 300;
/// Most entries of a bulk call.
const MOST_ENTRIES: usize = 50;
/// Members that say how a text or a file was to travel. It arrives the same.
const OF_THE_WAY: [&str; 2] = [".Charset", ".ContentTransferEncoding"];
pub(super) const NO_CONTENT: &str =
    "Content: exactly one of Simple, Raw and Template must be given.";

/// Reads the body of a `SendEmail` and checks it as SES does.
///
/// # Errors
/// `BadRequestException` (400) with the member that is wrong. Its message may repeat an address.
pub fn read_send_email(body: &[u8]) -> Result<SesRequest, Failure> {
    let (mut mail, destination) = parse(body)?;
    mail.destination = destination;
    if let SesContent::Raw(message) = &mail.content {
        let header = RawHeader::read(message);
        if mail.from.is_empty() {
            mail.from = header.from;
        }
        // The destination decides who gets the mail; the header only where there is none.
        if mail.destination == SesDestination::default() {
            mail.destination = header.destination;
        }
    }
    check_shared(&mail)?;
    check(&mail)?;
    Ok(mail)
}

/// Reads the body of a `SendBulkEmail`.
///
/// # Errors
/// `BadRequestException` (400) for what concerns all entries.
pub fn read_send_bulk_email(body: &[u8]) -> Result<SesBulk, Failure> {
    let (shared, entries) = parse::<Vec<BulkEntry>>(body)?;
    if !matches!(shared.content, SesContent::Template(_)) {
        return Err(bad_request("DefaultContent: Template must be given."));
    }
    check_shared(&shared)?;
    if !(1..=MOST_ENTRIES).contains(&entries.len()) {
        let message = format!("1 to {MOST_ENTRIES} entries are allowed, not {}.", entries.len());
        return Err(bad_request(message));
    }
    Ok(SesBulk { shared, entries })
}

/// The mails of one call: they share sender, template and settings.
#[derive(Debug)]
pub struct SesBulk {
    /// All that they share, with no recipient and the template's default data.
    shared: SesRequest,
    entries: Vec<BulkEntry>,
}

impl SesBulk {
    /// The mails in the call's order, each of them checked alone. Each is made when it is asked for, since attachments
    /// are in all of them.
    pub fn into_mails(self) -> impl Iterator<Item = Result<SesRequest, Failure>> {
        let Self { shared, entries } = self;
        entries.into_iter().map(move |entry| entry.mail(shared.clone()))
    }
}

/// A call of one mail, to a destination, or of many, to a list of entries.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Call<D> {
    from_email_address: Option<String>,
    #[serde(alias = "BulkEmailEntries", default)]
    destination: D,
    #[serde(alias = "DefaultContent", default)]
    content: Content,
    #[serde(default)]
    reply_to_addresses: Vec<String>,
    #[serde(alias = "DefaultEmailTags", default)]
    email_tags: Vec<NameValue>,
    configuration_set_name: Option<String>,
    tenant_name: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Content {
    simple: Option<SesSimple>,
    raw: Option<SesText>,
    template: Option<SesTemplate>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BulkEntry {
    destination: SesDestination,
    #[serde(default)]
    replacement_tags: Vec<NameValue>,
    #[serde(default)]
    replacement_email_content: ReplacementContent,
    #[serde(default)]
    replacement_headers: Vec<NameValue>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ReplacementContent {
    replacement_template: ReplacementTemplate,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct ReplacementTemplate {
    replacement_template_data: String,
}

/// Reads a call: a mail without recipients, and those who get it.
fn parse<D: Default + DeserializeOwned>(body: &[u8]) -> Result<(SesRequest, D), Failure> {
    // A list in a struct's place would be read as its members in order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad_request("The request is not a JSON object."));
    }
    let mut others = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_ignored::deserialize(&mut json, |path| note(&mut others, &path.to_string()));
    let call: Call<D> = read.and_then(|call| json.end().map(|()| call)).map_err(|error| {
        if !error.is_data() {
            return bad_request(format!("The request is not JSON: {error}"));
        }
        // Read a second time to name the member: tracking the path would slow down every valid request.
        let mut json = serde_json::Deserializer::from_slice(body);
        let again = serde_path_to_error::deserialize::<_, Call<D>>(&mut json).err();
        let said = again.map_or_else(|| error.to_string(), |placed| placed.to_string());
        bad_request(cut(&said, MOST_FAULT_CHARS))
    })?;
    let content = match call.content {
        Content { simple: Some(simple), raw: None, template: None } => SesContent::Simple(simple),
        Content { simple: None, raw: Some(raw), template: None } => {
            SesContent::Raw(decode(&raw.data, "Content.Raw.Data")?)
        }
        Content { simple: None, raw: None, template: Some(it) } => SesContent::Template(it),
        _ => return Err(bad_request(NO_CONTENT)),
    };
    let mail = SesRequest {
        from: call.from_email_address.unwrap_or_default(),
        destination: SesDestination::default(),
        reply_to: call.reply_to_addresses,
        content,
        tags: tags(call.email_tags)?,
        configuration_set: call.configuration_set_name.filter(|name| !name.is_empty()),
        tenant: call.tenant_name.filter(|name| !name.is_empty()),
        others,
    };
    Ok((mail, call.destination))
}

/// Notes the path of a member that has no field.
fn note(others: &mut Vec<String>, path: &str) {
    if others.len() < MOST_OTHERS && !OF_THE_WAY.iter().any(|name| path.ends_with(name)) {
        // A `?` stands where an optional member's value begins.
        let parts = path.split('.').filter(|part| *part != "?");
        let shown = parts.map(|part| if is_plain_name(part) { part } else { "?" });
        others.push(shown.collect::<Vec<_>>().join("."));
    }
}

impl BulkEntry {
    /// An entry's header or tag goes before a shared one of the same name. SES's reference says so of
    /// [headers](https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_BulkEmailEntry.html), and nothing of tags.
    fn mail(self, mut mail: SesRequest) -> Result<SesRequest, Failure> {
        mail.destination = self.destination;
        mail.tags.extend(tags(self.replacement_tags)?);
        if let SesContent::Template(template) = &mut mail.content {
            for own in self.replacement_headers {
                template.headers.retain(|shared| !shared.name.eq_ignore_ascii_case(&own.name));
                template.headers.push(own);
            }
            let own = self.replacement_email_content.replacement_template.replacement_template_data;
            check_data(&own, "ReplacementTemplateData")?;
            let data = &mut template.template_data;
            if data.is_empty() {
                *data = own;
            } else if !own.is_empty() {
                *data = merged(data, &own).map_err(|error| bad_request(error.to_string()))?;
            }
        }
        check(&mail)?;
        Ok(mail)
    }
}

/// The default data of a template with an entry's own in place of it, member by member: objects in both are merged,
/// everything else is replaced. AWS's guide has it that the default counts only where an entry has none; SES itself was
/// [observed](https://github.com/domdomegg/aws-ses-v2-local/pull/103) to merge. Values are copied as text: 19.90 stays 19.90.
fn merged(default: &str, own: &str) -> Result<String, serde_json::Error> {
    let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(default)?;
    let own: BTreeMap<String, Box<RawValue>> = serde_json::from_str(own)?;
    for (name, mut value) in own {
        if let Some(before) = members.get(&name).filter(|it| it.get().starts_with('{'))
            && value.get().starts_with('{')
        {
            value = RawValue::from_string(merged(before.get(), value.get())?)?;
        }
        members.insert(name, value);
    }
    serde_json::to_string(&members)
}
