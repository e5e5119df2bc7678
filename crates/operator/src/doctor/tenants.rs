use tidegate_core::control::TenantStatus;

use super::{CheckState, Finding, ReadResult, SenderIdentity, SesFacts, unread};

/// An SES tenant for which campaigns send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantFacts {
    pub name: String,
    pub campaigns: Vec<String>,
    /// SES's answers about it; `None` if SES does not know it.
    pub status: ReadResult<Option<TenantStatus>>,
}

pub(super) fn judge(facts: &SesFacts) -> Vec<Finding> {
    facts.tenants.iter().flat_map(|tenant| of_tenant(tenant, facts)).collect()
}

fn of_tenant(tenant: &TenantFacts, facts: &SesFacts) -> Vec<Finding> {
    let check = |what: &str| format!("tenant {}: {what}", tenant.name);
    let failed =
        |what, found: String, remedy| Finding::of(CheckState::Failed, check(what), found, remedy);
    let campaigns = format!("it holds {}", tenant.campaigns.join(", "));
    let status = match &tenant.status {
        Ok(Some(status)) => status,
        Ok(None) => {
            let found = format!("SES does not know it in this region: {campaigns}");
            let remedy = "create it in SES, or correct the campaigns' tenant";
            return vec![failed("existence", found, remedy)];
        }
        Err(why) => return vec![unread(check("state"), why)],
    };
    let mut findings = vec![if status.sends {
        Finding::ok(check("sending"), "allowed")
    } else {
        let remedy =
            "look at its reputation findings, and reinstate it in SES; the holds `tenant` then go";
        failed("sending", format!("SES has paused it: {campaigns}"), remedy)
    }];
    if let Some((set, _)) = &facts.configuration_set {
        findings.push(if has(status, &format!(":configuration-set/{set}")) {
            Finding::ok(check("configuration set"), format!("{set} is associated"))
        } else {
            let found =
                format!("{set} is not associated: its mails that name no other are refused");
            let remedy =
                "aws sesv2 create-tenant-resource-association, with the configuration set's ARN";
            failed("configuration set", found, remedy)
        });
    }
    findings.push(senders(status, &facts.senders, &check("senders")));
    findings
}

fn has(status: &TenantStatus, end: &str) -> bool {
    status.resources.iter().any(|arn| arn.ends_with(end))
}

/// Whether an address or domain, or a domain above it, is associated.
fn may_send(status: &TenantStatus, sender: &str) -> bool {
    let domain = sender.rsplit_once('@').map_or(sender, |(_, domain)| domain);
    let above = std::iter::successors(Some(domain), |name| Some(name.split_once('.')?.1));
    let mut names = std::iter::once(sender).chain(above);
    names.any(|name| has(status, &format!(":identity/{name}")))
}

/// A tenant needs only its own senders, so another one's that it lacks is no fault.
fn senders(status: &TenantStatus, allowed: &[SenderIdentity], check: &str) -> Finding {
    let identities = status.resources.iter().any(|arn| arn.contains(":identity/"));
    let names = allowed.iter().map(|sender| sender.identity.as_str());
    let (own, others): (Vec<&str>, Vec<&str>) = names.partition(|name| may_send(status, name));
    let found = match (own.is_empty(), others.is_empty()) {
        (_, true) if identities => "associated".to_owned(),
        (false, false) => {
            format!(
                "{} associated; its mails from {} are refused",
                own.join(", "),
                others.join(", ")
            )
        }
        _ => {
            let remedy = "aws sesv2 create-tenant-resource-association, with the sender's ARN";
            let found = "no allowed sender is associated: all its mails are refused";
            return Finding::of(CheckState::Failed, check, found, remedy);
        }
    };
    Finding::ok(check, found)
}
