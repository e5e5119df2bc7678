//! `tidegate domains`: which providers take a list's mail, and the keys of limits for them.
//!
//! Consumers' domains are known from a table ([`ProviderTable`]). A company's domain is hosted by a provider that only its
//! MX record tells; the port [`MailExchangers`] looks those up, for the operator alone: no poller asks the DNS.

mod count;
mod table;
mod view;

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use serde::Serialize;
use thiserror::Error;
use tidegate_core::limits::LimitKey;

pub use count::DomainCounts;
pub use table::{Provider, ProviderTable, SHIPPED};

/// The most domains in a suggested key: pollers read it with the limits.
const MOST_IN_KEY: usize = 100;
/// Lookups under way at once.
const AT_ONCE: usize = 32;

/// Looks up mail exchangers in the DNS.
pub trait MailExchangers {
    /// The hosts of the MX records of `domain` in lower case, the preferred one first; empty without a record.
    ///
    /// # Errors
    /// [`LookupError`].
    fn of_domain(&self, domain: &str) -> impl Future<Output = Result<Vec<String>, LookupError>>;
}

/// The reason why a domain's MX records are not known.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LookupError {
    #[error("there is no such domain")]
    NoDomain,
    /// The resolver's code, such as `ServerFailure`.
    #[error("the resolver says {0}")]
    Refused(String),
    #[error("no answer from the resolver")]
    Silent,
    #[error("the resolver's answer cannot be read")]
    Unreadable,
    #[error("the resolver cannot be reached: {0}")]
    Unreachable(String),
    /// The time for all lookups was over before.
    #[error("not looked up in the time given")]
    TimeOver,
}

/// The mail exchangers that lookups found, by domain.
pub type Found = BTreeMap<String, Result<Vec<String>, LookupError>>;

/// Looks up the domains of `counts` that `table` does not know, most recipients first. Each answer goes to
/// `found` at once, so that none is lost if this future is dropped.
pub async fn look_up(
    counts: &DomainCounts,
    table: &ProviderTable,
    exchangers: &impl MailExchangers,
    mut found: impl FnMut(&str, Result<Vec<String>, LookupError>),
) {
    let unknown = counts.by_size().into_iter().map(|(domain, _)| domain);
    let unknown = unknown.filter(|domain| table.of_domain(domain).is_none());
    let asked = unknown.map(async |domain| (domain, exchangers.of_domain(domain).await));
    let mut answers = futures_util::stream::iter(asked).buffer_unordered(AT_ONCE);
    while let Some((domain, answer)) = answers.next().await {
        found(domain, answer);
    }
}

/// The recipients of a list by provider and domain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DomainsReport {
    pub recipients: u64,
    pub domains: usize,
    /// Providers with recipients in the list, the largest first.
    pub providers: Vec<ProviderShare>,
    /// Domains whose provider is not known, the largest first.
    pub others: Vec<DomainShare>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProviderShare {
    pub name: String,
    pub recipients: u64,
    /// Of all recipients.
    pub share: f64,
    /// The key of a limit with its domains in the list: those of the table, then hosted ones, the largest first.
    pub key: String,
    /// Hosted domains that do not fit into the key.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_in_key: usize,
    pub domains: Vec<DomainShare>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DomainShare {
    pub domain: String,
    pub recipients: u64,
    /// The mail exchangers that the DNS names; absent if it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mx: Option<Vec<String>>,
    /// The reason why the DNS names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl DomainsReport {
    /// Groups `counts` by the providers of `table`; with `found` also the domains that a provider hosts.
    pub fn of(counts: &DomainCounts, table: &ProviderTable, found: Option<&Found>) -> Self {
        let mut groups = BTreeMap::<&str, Vec<DomainShare>>::new();
        let mut others = Vec::new();
        let by_size = counts.by_size();
        for (domain, recipients) in &by_size {
            let listed = table.of_domain(domain);
            let asked = found.filter(|_| listed.is_none());
            let answer =
                asked.map(|found| found.get(*domain).unwrap_or(&Err(LookupError::TimeOver)));
            let (mx, fault) = match answer {
                None => (None, None),
                Some(Ok(hosts)) => (Some(hosts.clone()), None),
                Some(Err(error)) => (None, Some(error.to_string())),
            };
            let first = mx.as_ref().and_then(|hosts| hosts.first());
            let provider = listed.or_else(|| table.of_host(first?));
            let share =
                DomainShare { domain: (*domain).to_owned(), recipients: *recipients, mx, fault };
            match provider {
                Some(provider) => groups.entry(provider.name()).or_default().push(share),
                None => others.push(share),
            }
        }
        let all = counts.recipients();
        let of = |provider: &Provider| {
            Some(ProviderShare::of(provider, groups.remove(provider.name())?, all))
        };
        let mut providers: Vec<ProviderShare> = table.iter().filter_map(of).collect();
        providers.sort_by_key(|provider| std::cmp::Reverse(provider.recipients));
        Self { recipients: all, domains: by_size.len(), providers, others }
    }
}

impl ProviderShare {
    #[expect(clippy::cast_precision_loss, reason = "a share, shown with one decimal")]
    fn of(provider: &Provider, domains: Vec<DomainShare>, all: u64) -> Self {
        let recipients = domains.iter().map(|domain| domain.recipients).sum();
        let listed = |name: &&String| domains.iter().any(|share| share.domain == **name);
        let own = provider.domains().iter().filter(listed).map(String::as_str);
        let hosted = domains.iter().map(|share| &*share.domain);
        let hosted = hosted.filter(|domain| !provider.domains().iter().any(|own| own == domain));
        // An address may have a domain that no limit takes, such as one of more than 100 characters.
        let takes = |name: &&str| format!("domain:{name}").parse::<LimitKey>().is_ok();
        let names: Vec<&str> = own.chain(hosted).filter(takes).take(MOST_IN_KEY).collect();
        Self {
            name: provider.name().to_owned(),
            recipients,
            share: recipients as f64 / all.max(1) as f64,
            key: names.join("+"),
            not_in_key: domains.len() - names.len(),
            domains,
        }
    }
}

#[cfg(test)]
mod tests;
