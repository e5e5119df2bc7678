//! Reads the state of the SES account and its identities.

use std::collections::BTreeMap;

use crate::doctor::{AccountHealth, ReadResult, SenderIdentity, SesFacts, TenantFacts};
use aws_sdk_sesv2::Client;
use aws_sdk_sesv2::error::ProvideErrorMetadata as _;
use tidegate_adapters::aws::SesAccount;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::config::Campaign;
use tidegate_core::in_full;
use tidegate_delivery::ports::Account as _;

use super::read;

const NOT_FOUND: Option<&str> = Some("NotFoundException");

fn client(stack: &Stack) -> Client {
    Client::new(stack.clients().ses_config())
}

pub(super) async fn facts(stack: &Stack, account: &SesAccount, campaigns: &[Campaign]) -> SesFacts {
    SesFacts {
        account: health(stack).await,
        senders: senders(stack).await,
        configuration_set: configuration_set(stack).await,
        tenants: tenants(account, campaigns).await,
    }
}

async fn health(stack: &Stack) -> ReadResult<AccountHealth> {
    let answer = read("GetAccount", "SES", client(stack).get_account().send().await)?;
    let quota = answer.send_quota().ok_or("the answer has no SendQuota")?;
    Ok(AccountHealth {
        production: answer.production_access_enabled(),
        sending: answer.sending_enabled(),
        enforcement: answer.enforcement_status().unwrap_or_default().to_owned(),
        max_send_rate: quota.max_send_rate(),
        max_24_hour_send: quota.max24_hour_send(),
        price_plan: answer
            .pricing_attributes()
            .and_then(|pricing| Some(pricing.current_plan()?.as_str().to_owned())),
    })
}

async fn senders(stack: &Stack) -> Vec<SenderIdentity> {
    let client = client(stack);
    let mut senders = Vec::new();
    for identity in stack.poller.rules.senders.identities() {
        let verified = verified(&client, identity).await;
        senders.push(SenderIdentity { identity: identity.to_owned(), verified });
    }
    senders
}

/// An address is verified by itself, or by its domain; a domain by itself, or by one above it.
async fn verified(client: &Client, identity: &str) -> ReadResult<Option<bool>> {
    let mut found = None;
    for name in names(identity) {
        let verified = of_identity(client, name).await?;
        found = found.or(verified);
        if verified == Some(true) {
            return Ok(verified);
        }
    }
    Ok(found)
}

/// An identity, its domain, and the domains above that one, down to two labels.
fn names(identity: &str) -> Vec<&str> {
    let domain = identity.rsplit_once('@').map_or(identity, |(_, domain)| domain);
    let above = std::iter::successors(Some(domain), |name| Some(name.split_once('.')?.1));
    let above = above.filter(|name| name.contains('.'));
    identity.contains('@').then_some(identity).into_iter().chain(above).collect()
}

async fn of_identity(client: &Client, identity: &str) -> ReadResult<Option<bool>> {
    match client.get_email_identity().email_identity(identity).send().await {
        Ok(answer) => Ok(Some(answer.verified_for_sending_status())),
        Err(error) if error.code() == NOT_FOUND => Ok(None),
        Err(error) => read("GetEmailIdentity", identity, Err(error)),
    }
}

async fn configuration_set(stack: &Stack) -> Option<(String, ReadResult<bool>)> {
    let name = stack.poller.configuration_set.clone()?;
    let answer = client(stack).get_configuration_set().configuration_set_name(&name).send().await;
    let there = match answer {
        Ok(_) => Ok(true),
        Err(error) if error.code() == NOT_FOUND => Ok(false),
        Err(error) => read("GetConfigurationSet", &name, Err(error)),
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_sender_may_be_verified_by_any_domain_above_it() {
        let names = super::names("ada@news.example.org");
        assert_eq!(names, ["ada@news.example.org", "news.example.org", "example.org"]);
        assert_eq!(super::names("example.org"), ["example.org"]);
    }
}
