//! Reads a tenant by `GetTenant` and `ListTenantResources`.

use std::collections::BTreeSet;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::types::SendingStatus;
use tidegate_core::control::TenantStatus;
use tidegate_delivery::ports::{FailureKind, PortError};

use crate::aws::error::{incomplete, port_error};

pub(super) async fn tenant(client: &Client, name: &str) -> Result<Option<TenantStatus>, PortError> {
    const OPERATION: &str = "GetTenant";
    let answer = client.get_tenant().tenant_name(name).send().await;
    let answer = match answer.map_err(|error| port_error(OPERATION, name, error)) {
        Err(PortError { kind: FailureKind::NotFound, .. }) => return Ok(None),
        answer => answer?,
    };
    let status = answer.tenant().and_then(|tenant| tenant.sending_status());
    let status = status.ok_or_else(|| incomplete(OPERATION, name, "SendingStatus"))?;
    // A status that this version does not know may let it send; if not, SES's refusal says so.
    let sends = *status != SendingStatus::Disabled;
    Ok(Some(TenantStatus { sends, resources: resources(client, name).await? }))
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

#[cfg(test)]
mod tests {
    use tidegate_delivery::ports::Account as _;

    use super::*;
    use crate::aws::ses::SesAccount;
    use crate::aws::tests::fake::{Fake, FakeAnswer};

    fn answer(body: &str) -> FakeAnswer {
        FakeAnswer::Http(200, &[], body.to_owned())
    }

    fn with_status(status: &str) -> FakeAnswer {
        answer(&format!(r#"{{"Tenant":{{"TenantName":"acme","SendingStatus":"{status}"}}}}"#))
    }

    #[tokio::test]
    async fn a_tenant_is_read_with_all_pages_of_its_resources() {
        let first = r#"{"NextToken":"more","TenantResources":[{"ResourceArn":"arn:1","ResourceType":"AWS::SES::EmailIdentity"}]}"#;
        let second = r#"{"TenantResources":[{"ResourceArn":"arn:2"}]}"#;
        let ses = Fake::new([with_status("REINSTATED"), answer(first), answer(second)]);
        let found = SesAccount::new(&ses.ses()).tenant("acme").await.unwrap().unwrap();
        let resources = ["arn:1".to_owned(), "arn:2".to_owned()].into();
        assert_eq!(found, TenantStatus { sends: true, resources });
        let seen = ses.seen();
        assert!(seen[0].path.ends_with("/v2/email/tenants/get"));
        assert!(seen[1].path.ends_with("/v2/email/tenants/resources/list"));
        assert_eq!(seen[2].body["NextToken"], "more");
        assert!(seen.iter().all(|request| request.body["TenantName"] == "acme"));
    }

    #[tokio::test]
    async fn only_a_disabled_tenant_may_not_send() {
        for (status, sends) in [("ENABLED", true), ("DISABLED", false), ("SOMETHING_NEW", true)] {
            let ses = Fake::new([with_status(status), answer("{}")]);
            let found = SesAccount::new(&ses.ses()).tenant("acme").await.unwrap().unwrap();
            assert_eq!(found.sends, sends, "{status}");
        }
    }

    #[tokio::test]
    async fn an_unknown_tenant_and_a_denied_question_are_told_apart() {
        let refused = |status, code| {
            let body = r#"{"message":"Tenant acme not found."}"#.to_owned();
            Fake::new([FakeAnswer::Http(status, code, body)])
        };
        let unknown = refused(404, &[("x-amzn-errortype", "NotFoundException")]);
        assert_eq!(SesAccount::new(&unknown.ses()).tenant("acme").await.unwrap(), None);
        let denied = refused(403, &[("x-amzn-errortype", "AccessDeniedException")]);
        let error = SesAccount::new(&denied.ses()).tenant("acme").await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Denied("AccessDeniedException".to_owned()));
        let empty = Fake::once(200, "{}");
        assert!(SesAccount::new(&empty.ses()).tenant("acme").await.is_err());
    }
}
