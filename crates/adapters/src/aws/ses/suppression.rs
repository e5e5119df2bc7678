//! `SuppressionList` by `ListSuppressedDestinations` and `GetSuppressedDestination`, with the SDK's retries.

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::primitives::DateTime;
use aws_sdk_sesv2::types::{SuppressionListReason, SuppressionListScope};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{
    FailureKind, PortError, SuppressedAddress, SuppressionList, SuppressionPage, SuppressionReason,
};

use crate::aws::error::{incomplete, port_error};

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
