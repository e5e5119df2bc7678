//! The SES account, its identities, and the campaigns' tenants.

use std::collections::BTreeMap;
use std::iter::successors;

use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::error::ProvideErrorMetadata as _;
use tidegate_adapters::aws::SesAccount;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::Campaign;
use tidegate_core::control::TenantStatus;
use tidegate_core::format::{count, rate};
use tidegate_core::in_full;
use tidegate_core::number::whole;
use tidegate_delivery::ports::Account as _;

use super::finding::{Finding, ReadResult, answered};

const NOT_FOUND: Option<&str> = Some("NotFoundException");

/// The facts about SES.
#[derive(Clone, Debug)]
pub(super) struct SesFacts {
    pub(super) account: ReadResult<AccountHealth>,
    /// The allowed senders, and whether SES has verified them.
    pub(super) senders: Vec<SenderIdentity>,
    /// The configuration set of mails that name none, and whether SES has it.
    pub(super) configuration_set: Option<(String, ReadResult<bool>)>,
    /// The SES tenants of the campaigns.
    pub(super) tenants: Vec<TenantFacts>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccountHealth {
    pub(super) production: bool,
    pub(super) sending: bool,
    pub(super) enforcement: String,
    pub(super) max_send_rate: f64,
    pub(super) max_24_hour_send: f64,
    /// SES's price plan; `None` where SES does not tell it.
    pub(super) price_plan: Option<String>,
}

/// An identity that mails may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SenderIdentity {
    pub(super) identity: String,
    /// Whether SES has verified it; `None` if SES does not know it.
    pub(super) verified: ReadResult<Option<bool>>,
}

/// An SES tenant for which campaigns send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TenantFacts {
    pub(super) name: String,
    pub(super) campaigns: Vec<String>,
    /// SES's answers about it; `None` if SES does not know it.
    pub(super) status: ReadResult<Option<TenantStatus>>,
}

pub(super) async fn read(stack: &Stack, account: &SesAccount, campaigns: &[Campaign]) -> SesFacts {
    let client = Client::new(stack.clients().ses_config());
    let mut senders = Vec::new();
    for identity in stack.poller.rules.senders.identities() {
        let verified = verified(&client, identity).await;
        senders.push(SenderIdentity { identity: identity.to_owned(), verified });
    }
    SesFacts {
        account: health(&client).await,
        senders,
        configuration_set: configuration_set(stack, &client).await,
        tenants: tenants(account, campaigns).await,
    }
}

async fn health(client: &Client) -> ReadResult<AccountHealth> {
    let answer = answered("GetAccount", "SES", client.get_account().send().await)?;
    let quota = answer.send_quota().ok_or("the answer has no SendQuota")?;
    let plan = answer.pricing_attributes().and_then(|pricing| pricing.current_plan());
    Ok(AccountHealth {
        production: answer.production_access_enabled(),
        sending: answer.sending_enabled(),
        enforcement: answer.enforcement_status().unwrap_or_default().to_owned(),
        max_send_rate: quota.max_send_rate(),
        max_24_hour_send: quota.max24_hour_send(),
        price_plan: plan.map(|plan| plan.as_str().to_owned()),
    })
}

/// An address is verified by itself, or by its domain; a domain by itself, or by one above it.
async fn verified(client: &Client, identity: &str) -> ReadResult<Option<bool>> {
    let mut found = None;
    for name in names(identity) {
        let verified = match client.get_email_identity().email_identity(name).send().await {
            Ok(answer) => Some(answer.verified_for_sending_status()),
            Err(error) if error.code() == NOT_FOUND => None,
            Err(error) => return answered("GetEmailIdentity", name, Err(error)),
        };
        found = found.or(verified);
        if verified == Some(true) {
            return Ok(verified);
        }
    }
    Ok(found)
}

/// An identity, its domain, and the domains above that one, down to two labels.
fn names(identity: &str) -> impl Iterator<Item = &str> {
    let (address, domain) = match identity.rsplit_once('@') {
        Some((_, domain)) => (Some(identity), domain),
        None => (None, identity),
    };
    let above = successors(Some(domain), |name| Some(name.split_once('.')?.1));
    address.into_iter().chain(above.filter(|name| name.contains('.')))
}

async fn configuration_set(stack: &Stack, client: &Client) -> Option<(String, ReadResult<bool>)> {
    let name = stack.poller.configuration_set.clone()?;
    let there = match client.get_configuration_set().configuration_set_name(&name).send().await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == NOT_FOUND => Ok(false),
        Err(error) => answered("GetConfigurationSet", &name, Err(error)),
    };
    Some((name, there))
}

/// The tenants of the campaigns, each asked for once.
async fn tenants(account: &SesAccount, campaigns: &[Campaign]) -> Vec<TenantFacts> {
    let mut by_tenant: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for campaign in campaigns {
        if let Some(tenant) = &campaign.tenant {
            by_tenant.entry(tenant).or_default().push(campaign.name.clone());
        }
    }
    let mut found = Vec::new();
    for (name, campaigns) in by_tenant {
        let status = account.tenant(name).await.map_err(|error| in_full(&error));
        found.push(TenantFacts { name: name.to_owned(), campaigns, status });
    }
    found
}

pub(super) fn judge(facts: &SesFacts) -> Vec<Finding> {
    let mut findings = match &facts.account {
        Ok(account) => of_account(account),
        Err(why) => vec![Finding::unread("SES account", why)],
    };
    findings.extend(facts.senders.iter().map(of_sender));
    if facts.senders.is_empty() {
        let found =
            "any sender is allowed (TIDEGATE_ALLOWED_SENDERS is not set), so none is checked";
        let remedy = "set AllowedSenders to the addresses or domains that may send";
        findings.push(Finding::warning("senders", found, remedy));
    }
    if let Some((name, there)) = &facts.configuration_set {
        findings.push(Finding::on(format!("configuration set {name}"), there, |check, there| {
            let found = "SES does not know it: every mail that names none is refused";
            let remedy = "create it, or deploy without TIDEGATE_CONFIGURATION_SET";
            Finding::failed(check, found, remedy).unless(*there, "there")
        }));
    }
    findings.extend(facts.tenants.iter().flat_map(|tenant| of_tenant(tenant, facts)));
    findings
}

fn of_account(account: &AccountHealth) -> Vec<Finding> {
    let mut findings = Vec::new();
    let found = "the account is in SES's sandbox: 1 recipient a second, 200 a day, verified recipients only";
    let remedy = "request production access: SES console, Account dashboard";
    let sandbox = Finding::failed("SES production access", found, remedy);
    findings.push(sandbox.unless(account.production, "granted"));
    findings.push(match (account.sending, account.enforcement.as_str()) {
        (true, "HEALTHY" | "") => Finding::ok("SES sending", "enabled"),
        (true, status) => Finding::warning(
            "SES sending",
            format!("enabled, but the account's status is {status}"),
            "look at the reputation dashboard: SES may pause the account",
        ),
        (false, status) => Finding::failed(
            "SES sending",
            format!("paused by SES ({status})"),
            "answer the case in the Support Center; the hold `account` goes when SES lets go",
        ),
    });
    let daily = match account.max_24_hour_send {
        none if none < 0.0 => "no daily limit".to_owned(),
        most => format!("{} a day", count(whole(most))),
    };
    let none = Finding::failed("SES quota", "0/s", "ask SES for a sending quota");
    let quota = format!("{}, {daily}", rate(account.max_send_rate));
    findings.push(none.unless(account.max_send_rate > 0.0, quota));
    let check = "SES price plan";
    findings.extend(account.price_plan.as_deref().map(|plan| match plan {
        "NONE" => Finding::ok(check, "NONE: a price per recipient"),
        plan => Finding::warning(
            check,
            format!("{plan}: forecasts and the console calculate with SES's price without a plan"),
            "give them yours, per 1,000 recipients: --ses-price (https://aws.amazon.com/ses/pricing/)",
        ),
    }));
    findings
}

fn of_sender(sender: &SenderIdentity) -> Finding {
    let check = format!("sender {}", sender.identity);
    Finding::on(check, &sender.verified, |check, verified| match verified {
        Some(true) => Finding::ok(check, "verified"),
        Some(false) => Finding::failed(
            check,
            "SES has not verified it: its mails are refused",
            "publish the DKIM records that SES shows for it, or follow the link in SES's mail",
        ),
        None => Finding::failed(
            check,
            "SES does not know this identity in this region: its mails are refused",
            "create the identity in SES, in the stack's region, or verify its domain",
        ),
    })
}

fn of_tenant(tenant: &TenantFacts, facts: &SesFacts) -> Vec<Finding> {
    let check = |what: &str| format!("tenant {}: {what}", tenant.name);
    let campaigns = format!("it holds {}", tenant.campaigns.join(", "));
    let status = match &tenant.status {
        Ok(Some(status)) => status,
        Ok(None) => {
            let found = format!("SES does not know it in this region: {campaigns}");
            let remedy = "create it in SES, or correct the campaigns' tenant";
            return vec![Finding::failed(check("existence"), found, remedy)];
        }
        Err(why) => return vec![Finding::unread(check("state"), why)],
    };
    let found = format!("SES has paused it: {campaigns}");
    let remedy =
        "look at its reputation findings, and reinstate it in SES; the holds `tenant` then go";
    let paused = Finding::failed(check("sending"), found, remedy);
    let mut findings = vec![paused.unless(status.sends, "allowed")];
    if let Some((set, _)) = &facts.configuration_set {
        let found = format!("{set} is not associated: its mails that name no other are refused");
        let remedy =
            "aws sesv2 create-tenant-resource-association, with the configuration set's ARN";
        let other = Finding::failed(check("configuration set"), found, remedy);
        let is_associated = has(status, &format!(":configuration-set/{set}"));
        findings.push(other.unless(is_associated, format!("{set} is associated")));
    }
    findings.push(senders_of(status, &facts.senders, &check("senders")));
    findings
}

fn has(status: &TenantStatus, end: &str) -> bool {
    status.resources.iter().any(|arn| arn.ends_with(end))
}

/// A tenant needs only its own senders, so another one's that it lacks is no fault.
fn senders_of(status: &TenantStatus, allowed: &[SenderIdentity], check: &str) -> Finding {
    let may_send = |name: &&str| names(name).any(|name| has(status, &format!(":identity/{name}")));
    let identities = status.resources.iter().any(|arn| arn.contains(":identity/"));
    let allowed = allowed.iter().map(|sender| sender.identity.as_str());
    let (own, others): (Vec<&str>, Vec<&str>) = allowed.partition(may_send);
    match (own.is_empty(), others.is_empty()) {
        (_, true) if identities => Finding::ok(check, "associated"),
        (false, false) => {
            let (own, others) = (own.join(", "), others.join(", "));
            Finding::ok(check, format!("{own} associated; its mails from {others} are refused"))
        }
        _ => Finding::failed(
            check,
            "no allowed sender is associated: all its mails are refused",
            "aws sesv2 create-tenant-resource-association, with the sender's ARN",
        ),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_sender_may_be_verified_by_any_domain_above_it() {
        let names = |identity| super::names(identity).collect::<Vec<_>>();
        assert_eq!(
            names("ada@news.example.org"),
            ["ada@news.example.org", "news.example.org", "example.org"]
        );
        assert_eq!(names("example.org"), ["example.org"]);
    }
}
