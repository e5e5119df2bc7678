//! SES's tenants: whether a mail may be sent for one.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_core::control::TenantStatus;
use tidegate_core::identity::EpochMillis;
use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::{
    PortError, SuppressedAddress, SuppressionList, SuppressionPage, SuppressionReason,
};

use super::failures::{self, answered};
use crate::faults::{Fake, Operation};
use crate::value::ValueError;

/// The beginning of the ARN of any resource of the account.
const ARN: &str = "arn:aws:ses:us-east-1:123456789012:";
const ALLOWED: &str = "a tenant such as `acme`, `acme,paused` or \
    `acme,identity/example.org,configuration-set/news,template/welcome`";

/// A tenant of the account, with the resources that are associated with it.
///
/// ```
/// use tidegate_fakes::SesTenant;
/// let tenant: SesTenant = "acme,paused,identity/example.org".parse()?;
/// assert!(tenant.paused);
/// # Ok::<(), tidegate_fakes::ValueError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SesTenant {
    pub name: String,
    /// `SendingStatus` is `DISABLED`.
    pub paused: bool,
    /// Such as `identity/example.org` and `configuration-set/news`.
    pub resources: BTreeSet<String>,
}

impl FromStr for SesTenant {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let refused = || ValueError::new(format_args!("`{text}`"), ALLOWED);
        let mut parts = text.split(',').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        if !tidegate_core::config::is_word(&name) {
            return Err(refused());
        }
        let (mut paused, mut resources) = (false, BTreeSet::new());
        for part in parts {
            let (kind, rest) = part.split_once('/').unwrap_or((part, ""));
            match kind {
                "paused" if rest.is_empty() => paused = true,
                "identity" | "configuration-set" | "template" if !rest.is_empty() => {
                    resources.insert(part.to_owned());
                }
                _ => return Err(refused()),
            }
        }
        Ok(Self { name, paused, resources })
    }
}

impl TryFrom<String> for SesTenant {
    type Error = ValueError;

    fn try_from(text: String) -> Result<Self, ValueError> {
        text.parse()
    }
}

impl From<SesTenant> for String {
    fn from(SesTenant { name, paused, resources }: SesTenant) -> Self {
        let paused = paused.then(|| "paused".to_owned());
        let parts: Vec<String> = [name].into_iter().chain(paused).chain(resources).collect();
        parts.join(",")
    }
}

impl SesTenant {
    /// The answers of `GetTenant` and `ListTenantResources` about it.
    pub(crate) fn status(&self) -> TenantStatus {
        let resources = self.resources.iter().map(|resource| format!("{ARN}{resource}"));
        TenantStatus { sends: !self.paused, resources: resources.collect() }
    }
}

/// Refuses a mail from `sender` that uses these resources, unless `name` is a tenant that may send it. A paused
/// tenant's refusal is that of a paused account, since SES's reference has no other.
pub(crate) fn admit(
    tenants: &[SesTenant],
    name: &str,
    sender: &str,
    used: impl IntoIterator<Item = String>,
) -> Result<(), Failure> {
    let Some(tenant) = tenants.iter().find(|tenant| tenant.name == name) else {
        let message = format!("Tenant {name} for AwsAccountId 123456789012 not found.");
        return Err(answered(404, "NotFoundException", message));
    };
    if tenant.paused {
        return Err(failures::sending_paused());
    }
    let has = |resource: &String| tenant.resources.contains(resource);
    let domain = sender.rsplit_once('@').map_or(sender, |(_, domain)| domain);
    let identity = format!("identity/{domain}");
    let lacks_sender = !has(&format!("identity/{sender}")) && !has(&identity);
    let used = used.into_iter().filter(|resource| !has(resource));
    let missing = lacks_sender.then_some(identity).into_iter().chain(used);
    let missing: Vec<String> = missing.map(|resource| format!("{ARN}{resource}")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("Tenant not associated with resources [{}].", missing.join(", "));
    Err(answered(403, "AccessDeniedException", message))
}

/// A suppression list in memory. A clone is the same list.
///
/// As AWS, it finds an address only in the spelling in which it was put. AWS does not promise that a page with a successor has an address: here the first one has none.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidegate_core::identity::EpochMillis;
/// use tidegate_delivery::ports::{SuppressionList, SuppressionReason};
/// use tidegate_fakes::MemorySuppressionList;
/// let list = MemorySuppressionList::default();
/// list.put("Ada@example.com", SuppressionReason::Bounce, EpochMillis::new(7));
/// assert!(list.find("Ada@example.com").await.unwrap().is_some());
/// assert!(list.find("ada@example.com").await.unwrap().is_none());
/// # }
/// ```
pub type MemorySuppressionList = Fake<BTreeMap<String, SuppressedAddress>>;

impl MemorySuppressionList {
    /// Puts an address on the list, or changes its entry.
    pub fn put(&self, address: &str, reason: SuppressionReason, since: EpochMillis) {
        let address = address.to_owned();
        let entry = SuppressedAddress { address: address.clone(), reason, since, tenant: None };
        self.state.with(|all| all.insert(address, entry));
    }

    /// Takes an address off the list, if it is there.
    pub(crate) fn remove(&self, address: &str) -> Option<SuppressedAddress> {
        self.state.with(|all| all.remove(address))
    }

    /// At most `size` addresses after the cursor.
    pub(crate) fn page_of(&self, size: usize, after: Option<&str>) -> SuppressionPage {
        self.state.with(|all| page_of(all, size, after))
    }

    pub(crate) fn entry(&self, address: &str) -> Option<SuppressedAddress> {
        self.state.with(|all| all.get(address).cloned())
    }
}

impl SuppressionList for MemorySuppressionList {
    async fn page(&self, after: Option<&str>) -> Result<SuppressionPage, PortError> {
        const SIZE: usize = 2;
        self.call(Operation::ListSuppressed, "", |all| page_of(all, SIZE, after)).await
    }

    async fn find(&self, address: &str) -> Result<Option<SuppressedAddress>, PortError> {
        self.call(Operation::FindSuppressed, address, |all| all.get(address).cloned()).await
    }
}

fn page_of(
    all: &BTreeMap<String, SuppressedAddress>,
    size: usize,
    after: Option<&str>,
) -> SuppressionPage {
    let Some(after) = after else {
        return SuppressionPage { addresses: Vec::new(), next: Some(String::new()) };
    };
    let mut rest = all.iter().filter(|(key, _)| key.as_str() > after);
    let addresses: Vec<_> = rest.by_ref().take(size).map(|(_, entry)| entry.clone()).collect();
    let last = addresses.last().map(|entry| entry.address.clone());
    SuppressionPage { addresses, next: last.filter(|_| rest.next().is_some()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_is_written_as_it_is_read_and_a_wrong_one_is_refused() {
        for text in ["acme", "acme,paused", "acme,paused,configuration-set/news,identity/a.example"]
        {
            assert_eq!(String::from(text.parse::<SesTenant>().unwrap()), text);
        }
        for wrong in ["", "acme corp", "acme,slow", "acme,identity/", "acme,paused/yes"] {
            let error = wrong.parse::<SesTenant>().unwrap_err().to_string();
            assert!(error.contains("such as `acme`"), "{error}");
        }
    }
}
