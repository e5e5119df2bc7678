//! SES v2: the body of a `SendEmail` request for one mail, `Account`, what SES makes of a template, and `SuppressionList` by
//! `ListSuppressedDestinations` and `GetSuppressedDestination`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::config::retry::RetryConfig;
use aws_sdk_sesv2::error::ProvideErrorMetadata as _;
use aws_sdk_sesv2::primitives::DateTime;
use aws_sdk_sesv2::types::{SendingStatus, SuppressionListReason, SuppressionListScope};
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use tidegate_core::control::TenantStatus;
use tidegate_core::email::{self, Address, Email, TextLiteral, ses_tag_value};
use tidegate_core::identity::EpochMillis;
use tidegate_core::reputation::LIMIT_TAG;
use tidegate_core::trace::TRACE_TAG;
use tidegate_delivery::ports::{
    Account, AccountStatus, FailureKind, Mail, PortError, SuppressedAddress, SuppressionList,
    SuppressionPage, SuppressionReason,
};

use super::error::{incomplete, port_error, time_limits};

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::aws) struct Request<'a> {
    from_email_address: String,
    destination: BTreeMap<&'static str, Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reply_to_addresses: Vec<String>,
    content: SesContent<'a>,
    email_tags: Vec<NamedValue<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration_set_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant_name: Option<&'a str>,
}

#[derive(Serialize)]
enum SesContent<'a> {
    #[serde(rename_all = "PascalCase")]
    Simple {
        subject: TextPart<&'a str>,
        body: ContentBody<'a>,
        #[serde(flatten)]
        beside: HeadersAndAttachments<'a>,
    },
    #[serde(rename_all = "PascalCase")]
    Template {
        template_name: &'a str,
        template_data: &'a str,
        #[serde(flatten)]
        beside: HeadersAndAttachments<'a>,
    },
    #[serde(rename_all = "PascalCase")]
    Raw { data: &'a str },
    /// Content that was not fetched: such a request cannot be written.
    #[serde(skip)]
    Unfetched,
}

/// Members that simple and templated content share.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HeadersAndAttachments<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<NamedValue<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attachments: Vec<AttachmentBody<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ContentBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<TextPart<Literal<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    html: Option<TextPart<Literal<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct TextPart<T> {
    data: T,
    charset: &'static str,
}

impl<T> TextPart<T> {
    fn of(data: T) -> Self {
        // Without a charset SES assumes 7-bit ASCII.
        Self { data, charset: "UTF-8" }
    }
}

/// A text that is JSON already, and is copied.
struct Literal<'a>(&'a TextLiteral);

impl Serialize for Literal<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let literal = sonic_rs::from_str::<sonic_rs::LazyValue<'_>>(self.0.literal());
        literal.map_err(S::Error::custom)?.serialize(serializer)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct NamedValue<'a> {
    name: &'a str,
    value: Cow<'a, str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AttachmentBody<'a> {
    file_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    content_transfer_encoding: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_disposition: Option<String>,
    #[serde(serialize_with = "base64")]
    raw_content: &'a [u8],
}

/// The request for the mail `email`; `configuration_set` is used if the mail names none.
pub(in crate::aws) fn request<'a>(
    mail: &Mail<'a>,
    email: &'a Email,
    configuration_set: Option<&'a str>,
) -> Request<'a> {
    Request {
        from_email_address: email.from.header_value(),
        destination: [
            ("ToAddresses", &email.to),
            ("CcAddresses", &email.cc),
            ("BccAddresses", &email.bcc),
        ]
        .into_iter()
        .filter(|(_, listed)| !listed.is_empty())
        .map(|(name, listed)| (name, addresses(listed)))
        .collect(),
        reply_to_addresses: addresses(&email.reply_to),
        content: content(email),
        email_tags: tags(mail, email),
        configuration_set_name: mail.configuration_set().or(configuration_set),
        tenant_name: mail.tenant,
    }
}

fn addresses(addresses: &[Address]) -> Vec<String> {
    addresses.iter().map(Address::header_value).collect()
}

fn content(email: &Email) -> SesContent<'_> {
    let headers = email.headers().map(|(name, value)| NamedValue { name, value: value.into() });
    let attachments = email.attachments.iter().map(AttachmentBody::of);
    let beside =
        HeadersAndAttachments { headers: headers.collect(), attachments: attachments.collect() };
    match &email.content {
        email::Content::Simple { subject, text: plain, html } => SesContent::Simple {
            subject: TextPart::of(&**subject),
            body: ContentBody {
                text: plain.as_ref().map(Literal).map(TextPart::of),
                html: html.as_ref().map(Literal).map(TextPart::of),
            },
            beside,
        },
        email::Content::Template { name, data } => {
            SesContent::Template { template_name: name, template_data: data, beside }
        }
        email::Content::Raw(raw) => SesContent::Raw { data: raw.base64() },
        email::Content::Stored(_) => SesContent::Unfetched,
    }
}

/// Most tags of a mail that SES takes. A producer may give 48; then the tags of the limits and the trace are left out.
const MAX_TAGS: usize = 50;

/// The tags `tidegate_campaign` and `tidegate_id` that every mail carries, the producer's, and those of limits and trace.
fn tags<'a>(mail: &Mail<'a>, email: &'a Email) -> Vec<NamedValue<'a>> {
    let own = [("tidegate_campaign", mail.campaign), ("tidegate_id", mail.id)];
    let own = own.map(|(name, value)| NamedValue { name, value: ses_tag_value(value) });
    let limits =
        mail.limits.map(|value| NamedValue { name: LIMIT_TAG, value: ses_tag_value(value) });
    let trace = mail.trace.map(|value| NamedValue { name: TRACE_TAG, value: value.into() });
    let producers = email.tags.iter();
    let producers = producers.map(|(name, value)| NamedValue { name, value: value.into() });
    own.into_iter().chain(producers).chain(limits).chain(trace).take(MAX_TAGS).collect()
}

impl<'a> AttachmentBody<'a> {
    fn of(file: &'a email::Attachment) -> Self {
        Self {
            file_name: &file.name,
            content_type: file.content_type.as_deref(),
            // SES's default is 7-bit, which corrupts binary files.
            content_transfer_encoding: "BASE64",
            content_id: file.content_id.as_deref(),
            content_disposition: file.disposition.as_deref().map(str::to_ascii_uppercase),
            raw_content: &file.content,
        }
    }
}

fn base64<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Base64Display::new(bytes, &STANDARD))
}

/// The time limit of a call with its retries. The scheduler calls `GetAccount` once, before its first tick.
const ACCOUNT_TIMEOUT: Duration = Duration::from_secs(2);
const ACCOUNT_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Asks SES v2 for the account's quota and state, and for its tenants': each call within 2 s and with the SDK's
/// standard retries.
#[derive(Clone, Debug)]
pub struct SesAccount {
    client: Client,
}

impl SesAccount {
    /// The account to which `client`'s credentials belong; its retries and time limits are replaced.
    pub fn new(client: &Client) -> Self {
        let limits = time_limits(ACCOUNT_ATTEMPT_TIMEOUT, ACCOUNT_TIMEOUT);
        let config = client.config().to_builder().retry_config(RetryConfig::standard());
        Self { client: Client::from_conf(config.timeout_config(limits).build()) }
    }

    /// Why SES cannot render its template `name` with `data`, a JSON object, in SES's words; `None` if it can.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer, or refuses for another reason.
    pub async fn template_fault(
        &self,
        name: &str,
        data: &str,
    ) -> Result<Option<String>, PortError> {
        let call = self.client.test_render_email_template().template_name(name);
        let Err(error) = call.template_data(data).send().await else { return Ok(None) };
        let of_template = ["BadRequestException", "NotFoundException"].map(Some);
        match error.message() {
            Some(said) if of_template.contains(&error.code()) => Ok(Some(said.to_owned())),
            _ => Err(port_error("TestRenderEmailTemplate", name, error)),
        }
    }
}

impl Account for SesAccount {
    async fn account(&self) -> Result<AccountStatus, PortError> {
        const OPERATION: &str = "GetAccount";
        const RESOURCE: &str = "the account";
        let answer = self.client.get_account().send().await;
        let answer = answer.map_err(|error| port_error(OPERATION, RESOURCE, error))?;
        let quota =
            answer.send_quota().ok_or_else(|| incomplete(OPERATION, RESOURCE, "SendQuota"))?;
        Ok(AccountStatus {
            max_send_rate: quota.max_send_rate(),
            max_24_hour_send: quota.max24_hour_send(),
            sent_last_24_hours: quota.sent_last24_hours(),
            sending_enabled: answer.sending_enabled(),
            spend_limit: None,
        })
    }

    async fn tenant(&self, name: &str) -> Result<Option<TenantStatus>, PortError> {
        const OPERATION: &str = "GetTenant";
        let answer = self.client.get_tenant().tenant_name(name).send().await;
        let answer = match answer.map_err(|error| port_error(OPERATION, name, error)) {
            Err(PortError { kind: FailureKind::NotFound, .. }) => return Ok(None),
            answer => answer?,
        };
        let status = answer.tenant().and_then(|tenant| tenant.sending_status());
        let status = status.ok_or_else(|| incomplete(OPERATION, name, "SendingStatus"))?;
        // A status that this version does not know may let it send; if not, SES's refusal says so.
        let sends = *status != SendingStatus::Disabled;
        Ok(Some(TenantStatus { sends, resources: resources(&self.client, name).await? }))
    }
}

/// The ARNs of the resources that are associated with a tenant.
async fn resources(client: &Client, name: &str) -> Result<BTreeSet<String>, PortError> {
    let call = client.list_tenant_resources().tenant_name(name);
    let mut pages = call.into_paginator().send();
    let mut found = BTreeSet::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| port_error("ListTenantResources", name, error))?;
        let arns = page.tenant_resources().iter().filter_map(|resource| resource.resource_arn());
        found.extend(arns.map(str::to_owned));
    }
    Ok(found)
}

const RESOURCE: &str = "the suppression list";
/// Addresses per page, the most that SES gives.
const PAGE: i32 = 1_000;

/// The suppression list of the account to which the client's credentials belong, or of one of its tenants.
#[derive(Clone, Debug)]
pub struct SesSuppressionList {
    client: Client,
    page: i32,
    tenant: Option<String>,
}

impl SesSuppressionList {
    /// Reads the list through `client`, with its retries and time limits.
    pub fn new(client: Client) -> Self {
        Self { client, page: PAGE, tenant: None }
    }

    /// The list that counts for mail of a tenant: its own if its suppression scope is `TENANT`, else this one. A
    /// configuration set may have a scope of its own, which is not asked for.
    ///
    /// # Errors
    /// [`PortError`] if SES does not answer, refuses, or has no such tenant.
    pub async fn of_tenant(self, tenant: Option<&str>) -> Result<Self, PortError> {
        let Some(tenant) = tenant else { return Ok(self) };
        let answer = self.client.get_tenant().tenant_name(tenant).send().await;
        let answer = answer.map_err(|error| port_error("GetTenant", tenant, error))?;
        let settings = answer.tenant().and_then(|tenant| tenant.suppression_attributes());
        let scope = settings.and_then(|settings| settings.suppression_scope());
        let own = scope == Some(&SuppressionListScope::Tenant);
        Ok(Self { tenant: own.then(|| tenant.to_owned()), ..self })
    }

    /// Sets the number of addresses per page, from 1 to 1,000.
    pub fn with_pages_of(self, page: i32) -> Self {
        Self { page: page.clamp(1, PAGE), ..self }
    }
}

impl SuppressionList for SesSuppressionList {
    async fn page(&self, after: Option<&str>) -> Result<SuppressionPage, PortError> {
        const OPERATION: &str = "ListSuppressedDestinations";
        let call = self.client.list_suppressed_destinations().page_size(self.page);
        let call = call.set_tenant_name(self.tenant.clone());
        let answer = call.set_next_token(after.map(str::to_owned)).send().await;
        let answer = answer.map_err(|error| port_error(OPERATION, RESOURCE, error))?;
        let read = |listed: &aws_sdk_sesv2::types::SuppressedDestinationSummary| {
            self.entry(listed.email_address(), listed.reason(), listed.last_update_time())
        };
        let addresses = answer.suppressed_destination_summaries().iter().map(read).collect();
        Ok(SuppressionPage { addresses, next: answer.next_token })
    }

    async fn find(&self, address: &str) -> Result<Option<SuppressedAddress>, PortError> {
        const OPERATION: &str = "GetSuppressedDestination";
        let call = self.client.get_suppressed_destination().email_address(address);
        let call = call.set_tenant_name(self.tenant.clone());
        let answer = match call.send().await.map_err(|error| port_error(OPERATION, RESOURCE, error))
        {
            Err(PortError { kind: FailureKind::NotFound, .. }) => return Ok(None),
            answer => answer?,
        };
        let found = answer
            .suppressed_destination()
            .ok_or_else(|| incomplete(OPERATION, RESOURCE, "SuppressedDestination"))?;
        let (reason, since) = (found.reason(), found.last_update_time());
        Ok(Some(self.entry(found.email_address(), reason, since)))
    }
}

impl SesSuppressionList {
    fn entry(
        &self,
        address: &str,
        reason: &SuppressionListReason,
        since: &DateTime,
    ) -> SuppressedAddress {
        let reason = match reason {
            SuppressionListReason::Complaint => SuppressionReason::Complaint,
            // SES knows no third reason.
            _ => SuppressionReason::Bounce,
        };
        let since = since.to_millis().ok().and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
        let (address, since) = (address.to_owned(), EpochMillis::new(since));
        SuppressedAddress { address, reason, since, tenant: self.tenant.clone() }
    }
}

#[cfg(test)]
mod account_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    fn answer(body: &str) -> FakeAnswer {
        FakeAnswer::Http(200, &[], body.to_owned())
    }

    fn of_scope(attributes: &str) -> FakeAnswer {
        answer(&format!(
            r#"{{"Tenant":{{"TenantName":"acme","SendingStatus":"ENABLED"{attributes}}}}}"#
        ))
    }

    #[tokio::test]
    async fn the_list_that_counts_for_a_tenants_mail_is_its_own_where_it_has_one() {
        let entry = r#"{"EmailAddress":"Ada@example.com","Reason":"BOUNCE","LastUpdateTime":1.0}"#;
        let listed = format!(r#"{{"SuppressedDestinationSummaries":[{entry}]}}"#);
        let found = format!(r#"{{"SuppressedDestination":{entry}}}"#);
        for (attributes, own) in [
            (r#","SuppressionAttributes":{"SuppressionScope":"TENANT"}"#, Some("acme")),
            (r#","SuppressionAttributes":{"SuppressionScope":"ACCOUNT"}"#, None),
            ("", None),
        ] {
            let ses = Fake::new([of_scope(attributes), answer(&listed), answer(&found)]);
            let list = SesSuppressionList::new(ses.ses()).of_tenant(Some("acme")).await.unwrap();
            let page = list.page(None).await.unwrap();
            let found = list.find("Ada@example.com").await.unwrap();
            assert_eq!(page.addresses.first(), found.as_ref());
            assert_eq!(found.unwrap().tenant.as_deref(), own);
            let asked = ses.seen();
            assert_eq!(asked[0].body["TenantName"], "acme");
            for request in &asked[1..] {
                let names = request.path.contains("TenantName=acme");
                assert_eq!(names, own.is_some(), "{}", request.path);
            }
        }
    }

    #[tokio::test]
    async fn mail_without_a_tenant_has_the_accounts_list_and_an_unknown_tenant_none() {
        let ses = Fake::new([]);
        let list = SesSuppressionList::new(ses.ses()).of_tenant(None).await.unwrap();
        assert!(list.tenant.is_none() && ses.seen().is_empty());
        let unknown = [("x-amzn-errortype", "NotFoundException")].as_slice();
        let ses = Fake::new([FakeAnswer::Http(404, unknown, "{}".to_owned())]);
        let error = SesSuppressionList::new(ses.ses()).of_tenant(Some("acme")).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::NotFound);
    }
}
