//! The environment: what is accepted is in the table of `docs/configuration.md`, what is refused is named.

use std::collections::BTreeSet;

use tidegate_core::config::{
    BucketUrl, Campaign, Campaigns, ConfigError, FeedbackConfig, LedgerKind, PollerConfig,
    SchedulerConfig, SharedBucketConfig,
};
use tidegate_core::cycle::Cycle;
use tidegate_core::email::AllowedSenders;
use tidegate_core::rate::Rate;

use crate::lines::Lines;

/// Bytes that a refusal of one variable may have: what is allowed, and 120 characters.
const MAX_ERROR: usize = 1_200;

/// Oracle for the configuration, from environment variables in lines `NAME=value`.
pub fn configuration(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines = Lines::read(text);
    let lookup = |name: &str| lines.get(name).map(str::to_owned);
    match PollerConfig::from_variables(lookup) {
        Ok(config) => poller(&config, &lines),
        Err(error) => refused(&error, &lines),
    }
    match SchedulerConfig::from_variables(lookup) {
        Ok(config) => {
            assert!(!config.poller_function.is_empty() && config.overlap_windows <= 20);
            assert!((1..=60).contains(&config.idle_wake));
            shared(&config.ledger, config.cap.quota);
            if let Some(read) = &config.feedback {
                feedback(read);
            }
        }
        Err(error) => refused(&error, &lines),
    }
    lines.all("TIDEGATE_ALLOWED_SENDERS").for_each(senders);
}

/// Each variable is named once, with its value and what is allowed; a value that is not there is
/// one that is needed.
fn refused(error: &ConfigError, lines: &Lines<'_>) {
    let names: BTreeSet<_> = error.0.iter().map(|invalid| invalid.name).collect();
    assert!(!names.is_empty() && names.len() == error.0.len(), "{error}");
    for invalid in &error.0 {
        let text = invalid.to_string();
        assert!(text.starts_with("TIDEGATE_") && text.contains("; allowed is "), "{text}");
        assert!(text.len() <= MAX_ERROR, "{} bytes: {text}", text.len());
        let value = lines.get(invalid.name).map(str::trim).filter(|value| !value.is_empty());
        if invalid.name == "TIDEGATE_SHARED_BUCKET" {
            // A password may stand in it: nothing of it is shown.
            let login =
                value.and_then(|value| value.rsplit_once('@')).map_or("", |(login, _)| login);
            assert!(login.len() < 16 || !text.contains(login), "{text}");
            continue;
        }
        let shown: String = value.unwrap_or("not set").chars().take(120).collect();
        assert!(text.contains(&shown), "{text}");
    }
}

fn shared(ledger: &LedgerKind, quota_cap: Option<Rate>) {
    assert!(*ledger != LedgerKind::DynamoDb(String::new()));
    let allowed = |rate: Rate| (0.001..=10_000.0).contains(&rate.as_per_second());
    assert!(quota_cap.is_none_or(allowed), "{quota_cap:?}");
}

fn feedback(config: &FeedbackConfig) {
    let policy = &config.policy;
    assert!((1_000..=1_000_000).contains(&policy.bounce_share));
    assert!((100..=1_000_000).contains(&policy.complaint_share));
    assert!((100..=1_000_000).contains(&policy.minimum));
    assert!(config.queue_url.starts_with("http"));
    assert!(config.queue_url.rsplit_once('.').is_none_or(|(_, end)| end != "fifo"));
}

fn poller(config: &PollerConfig, lines: &Lines<'_>) {
    if let Campaigns::Listed(list) = &config.campaigns {
        campaigns(list);
    }
    shared(&config.ledger, config.cap.quota);
    let fifo = |url: &Option<String>, is: bool| {
        assert!(url.as_ref().is_none_or(|url| is_url(url) && is_fifo(url) == is));
    };
    fifo(&config.merge_queue_url, true);
    fifo(&config.express_queue_url, false);
    fifo(&Some(config.dead_letter_queue_url.clone()), false);
    assert!((0.005..=0.5).contains(&f64::from(config.rate_margin)), "{:?}", config.rate_margin);
    let (lead, send) = (config.lead.as_millis(), config.send_timeout.as_millis());
    assert!(lead <= 1_000 && (100..=5_200).contains(&send), "{lead} ms and {send} ms");
    assert!(config.max_in_flight.is_none_or(|most| (1..=900).contains(&most)));
    assert!(config.campaign_floor.percent() <= 90, "{:?}", config.campaign_floor);
    assert!((1..=100).contains(&config.max_attempts) && (1..=60).contains(&config.idle_windows));
    let breaker = &config.breaker;
    assert!((10_000..=1_000_000).contains(&breaker.share) && breaker.outcomes >= 1);
    assert!(breaker.after >= 15 && breaker.probe >= 12 && breaker.stop >= 1, "{breaker:?}");
    let days = config.mark_kept.as_secs() / 86_400;
    assert!((1..=90).contains(&days), "{days} days");
    let word = |name: &String| (1..=64).contains(&name.len()) && !name.contains(['.', ' ', '@']);
    assert!(config.configuration_set.as_ref().is_none_or(word));
    if let Some(shared) = &config.shared_bucket {
        bucket(shared);
    }
    assert!(config.cap.daily.open_to_campaigns(1_000) <= 1_000);
    let listed = lines.get("TIDEGATE_ALLOWED_SENDERS").is_some_and(|list| !list.trim().is_empty());
    assert!(listed || config.rules.senders == AllowedSenders::everyone());
}

/// The bucket's URL as it is logged parses as the same place, and does not contain the password.
fn bucket(shared: &SharedBucketConfig) {
    let (url, shown) = (&shared.url, shared.url.to_string());
    assert!(url.port > 0 && !url.host.is_empty() && !shared.prefix.is_empty());
    assert!(url.user.is_none() || url.password.is_some());
    let tail = format!("{}/{}", url.authority(), url.database);
    assert!(shown.ends_with(&tail) && format!("{shared:?}").contains(&shown), "{shown}");
    let scheme = if url.tls { "rediss://" } else { "redis://" };
    let again: BucketUrl = format!("{scheme}{tail}").parse().unwrap();
    assert_eq!((&again.host, again.port, again.database), (&url.host, url.port, url.database));
    let login = url.user.as_deref().unwrap_or_default();
    let masked = url.password.as_ref().map_or(String::new(), |_| format!("{login}:***@"));
    assert_eq!(shown, format!("{scheme}{masked}{tail}"));
}

/// As `docs/configuration.md` says; and the list gives a cycle that is exact.
fn campaigns(list: &[Campaign]) {
    assert!(Campaign::valid(list) && (1..=1_000).contains(&list.len()));
    let names: BTreeSet<_> = list.iter().map(|campaign| campaign.name.as_str()).collect();
    let queues: BTreeSet<_> = list.iter().map(|campaign| campaign.queue_url.as_str()).collect();
    assert!(names.len() == list.len() && queues.len() == list.len() && !names.contains("express"));
    for campaign in list {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        for name in std::iter::once(&campaign.name).chain(&campaign.tenant) {
            assert!((1..=64).contains(&name.len()) && name.bytes().all(legal), "{name:?}");
        }
        let url = &campaign.queue_url;
        assert!(is_url(url) && !is_fifo(url), "{url:?}");
        assert!(campaign.weight <= 10_000);
    }
    let weights: Vec<u32> = list.iter().map(|campaign| campaign.weight).collect();
    let cycle = Cycle::new(&weights).unwrap();
    let length = cycle.length();
    assert!((1..=10_000).contains(&length));
    assert_eq!(cycle.shares(7..7 + length), cycle.weights());
    let json = serde_json::to_string(list).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Campaign>>(&json).unwrap(), list);
}

#[expect(clippy::case_sensitive_file_extension_comparisons, reason = "SQS compares by case")]
fn is_fifo(url: &str) -> bool {
    url.ends_with(".fifo")
}

fn is_url(text: &str) -> bool {
    let web = text.starts_with("https://") || text.starts_with("http://");
    web && !text.contains(char::is_whitespace)
}

/// Senders on the list are allowed in upper and lower case; all others are refused, also
/// subdomains.
fn senders(list: &str) {
    let senders: AllowedSenders = match list.parse() {
        Ok(senders) => senders,
        Err(error) => return assert!(error.to_string().len() <= MAX_ERROR, "{error}"),
    };
    let entries: Vec<&str> = list.split(',').map(str::trim).collect();
    if entries.contains(&"*") {
        return assert!(senders.allows("any@oracle.invalid"));
    }
    let listed = |text: &str| entries.iter().any(|entry| entry.eq_ignore_ascii_case(text));
    let everyone_of = |text: &str| [format!("@{text}"), format!("*@{text}")];
    let domain = |text: &str| listed(text) || everyone_of(text).iter().any(|entry| listed(entry));
    assert_eq!(
        senders.allows("any@oracle.invalid"),
        domain("oracle.invalid") || listed("any@oracle.invalid")
    );
    for entry in &entries {
        let domain_alone = entry.strip_prefix('*').filter(|rest| rest.starts_with('@'));
        let bare = domain_alone.unwrap_or(entry);
        let bare = bare.strip_prefix('@').unwrap_or(bare);
        let (address, host) = match bare.rsplit_once('@') {
            Some((_, host)) => (bare.to_owned(), host),
            None => (format!("any@{bare}"), bare),
        };
        assert!(senders.allows(&address) && senders.allows(&address.to_uppercase()), "{address}");
        assert_eq!(senders.spelling(&address).as_deref(), Some(address.as_str()));
        let below = format!("any@oracle.{host}");
        assert_eq!(senders.allows(&below), domain(&format!("oracle.{host}")) || listed(&below));
        let other = format!("oracle-any@{host}");
        assert_eq!(senders.allows(&other), domain(host) || listed(&other));
    }
}
