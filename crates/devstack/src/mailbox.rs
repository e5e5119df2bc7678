//! The mailbox of a run: what its sandbox tells, and what arrived so far.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};
use tidegate_core::format::percent;

use super::error::LocalError;
use super::figures::MailArrival;
use super::fill::is_of_plan;
use super::http::Http;
use super::plan::LocalPlan;

/// The tag that names a mail's campaign.
const CAMPAIGN_TAG: &str = "tidegate_campaign";
/// Mails of one page: the most that the sandbox gives.
const PAGE: usize = 10_000;

/// Reads mails and counters from a running `ses-sandbox`.
#[derive(Clone, Debug)]
pub struct SesSandboxClient {
    http: Http,
}

/// The sandbox's counters that a report shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SandboxStats {
    /// Refusals by error code, injected ones too.
    pub refused: BTreeMap<String, u64>,
    pub faults: BTreeMap<String, u64>,
    /// The most recipients accepted in any half-open second.
    pub worst_sliding_second: u64,
    /// The most recipients that arrived in any half-open second, refused or not.
    pub worst_sliding_second_offered: u64,
}

#[derive(Debug, Deserialize)]
struct MailboxEntry {
    seq: u64,
    arrived_ns: u64,
    to: Vec<String>,
    recipients: u32,
    tags: BTreeMap<String, String>,
}

impl SesSandboxClient {
    /// The sandbox at `url`, such as `http://127.0.0.1:4579`.
    pub fn at(url: &str) -> Self {
        Self { http: Http::new(url) }
    }

    /// The sandbox's address; a browser shows the mailbox there.
    pub fn url(&self) -> &str {
        self.http.base()
    }

    /// The mails after number `seq` (0: all that are kept), and the number of the last one.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it does not answer.
    pub async fn mails_after(&self, mut seq: u64) -> Result<(Vec<MailArrival>, u64), LocalError> {
        let mut arrivals = Vec::new();
        loop {
            let path = format!("/_sandbox/mails?after={seq}&limit={PAGE}");
            let mails: Vec<MailboxEntry> = self.http.get(&path).await?;
            let full = mails.len() == PAGE;
            for mut mail in mails {
                seq = mail.seq;
                arrivals.push(MailArrival {
                    at_ns: mail.arrived_ns,
                    campaign: mail.tags.remove(CAMPAIGN_TAG).unwrap_or_default(),
                    key: mail.to.into_iter().next().unwrap_or_default(),
                    recipients: mail.recipients,
                });
            }
            if !full {
                return Ok((arrivals, seq));
            }
        }
    }

    /// Refusals, faults, and the fullest seconds.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it does not answer.
    pub async fn stats(&self) -> Result<SandboxStats, LocalError> {
        self.http.get("/_sandbox/stats").await
    }

    /// Changes settings while it runs; `change` is the JSON of `PATCH /_sandbox/config`, such as
    /// `{"quota": 200}`.
    ///
    /// # Errors
    /// [`LocalError::Http`] where it refuses the change, with the reason, or does not answer.
    pub async fn change(&self, change: &serde_json::Value) -> Result<(), LocalError> {
        let body = change.to_string();
        self.http.call(Method::PATCH, "/_sandbox/config", &[], body).await.map(drop)
    }
}

/// Rate and shares are those of so many seconds before the newest arrival.
const RECENT_SECONDS: f64 = 10.0;

/// The arrivals of a run so far, and the sandbox's counters.
#[derive(Debug)]
pub(super) struct Mailbox {
    sandbox: SesSandboxClient,
    seq: u64,
    pub(super) arrivals: Vec<MailArrival>,
    /// The keys of the plan's mails that arrived.
    seen: HashSet<String>,
    /// Of those, by campaign.
    arrived: BTreeMap<String, u64>,
    twice: u64,
    pub(super) stats: SandboxStats,
}

impl Mailbox {
    pub(super) fn new(sandbox: SesSandboxClient) -> Self {
        Self {
            sandbox,
            seq: 0,
            arrivals: Vec::new(),
            seen: HashSet::new(),
            arrived: BTreeMap::new(),
            twice: 0,
            stats: SandboxStats::default(),
        }
    }

    /// Reads what arrived since the last look; whether that is anything.
    pub(super) async fn look(&mut self, plan: &LocalPlan) -> Result<bool, LocalError> {
        let (new, seq) = self.sandbox.mails_after(self.seq).await?;
        // Both or nothing: what was read before a failure is read again.
        (self.seq, self.stats) = (seq, self.sandbox.stats().await?);
        let any = !new.is_empty();
        self.take(plan, new);
        Ok(any)
    }

    fn take(&mut self, plan: &LocalPlan, new: Vec<MailArrival>) {
        for arrival in &new {
            let planned = is_of_plan(plan, &arrival.campaign, &arrival.key);
            match planned.then(|| self.seen.insert(arrival.key.clone())) {
                Some(true) => *self.arrived.entry(arrival.campaign.clone()).or_default() += 1,
                Some(false) => self.twice += 1,
                None => {}
            }
        }
        self.arrivals.extend(new);
    }

    /// Mails of the plan that arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.seen.len() as u64
    }

    /// Rate, mails by campaign with their share, and faults in one line, such as
    /// `13.7/s of 14  big 412/900 (90.1 %)  small 45/100 (9.9 %)  0 twice, 0 refused`.
    pub(super) fn line(&self, plan: &LocalPlan) -> String {
        let refused: u64 = self.stats.refused.values().sum();
        let (rate, shares) = self.recent();
        let campaigns = plan.campaigns.iter().map(|campaign| {
            let arrived = self.arrived.get(&campaign.name).copied().unwrap_or_default();
            let share = percent(shares.get(campaign.name.as_str()).copied().unwrap_or_default());
            format!("{} {arrived}/{} ({share})", campaign.name, campaign.mails)
        });
        let campaigns = campaigns.collect::<Vec<_>>().join("  ");
        format!(
            "{rate:.1}/s of {}  {campaigns}  {} twice, {refused} refused",
            plan.quota, self.twice
        )
    }

    /// Recipients a second, and each campaign's share of them.
    fn recent(&self) -> (f64, BTreeMap<&str, f64>) {
        let Some((first, newest)) = self.arrivals.first().zip(self.arrivals.last()) else {
            return (0.0, BTreeMap::new());
        };
        let since =
            |from: u64| Duration::from_nanos(newest.at_ns.saturating_sub(from)).as_secs_f64();
        let mut shares = BTreeMap::new();
        let recent = self.arrivals.iter().rev().take_while(|a| since(a.at_ns) < RECENT_SECONDS);
        for arrival in recent {
            *shares.entry(arrival.campaign.as_str()).or_default() += f64::from(arrival.recipients);
        }
        let sum: f64 = shares.values().sum();
        for share in shares.values_mut() {
            *share /= sum;
        }
        (sum / since(first.at_ns).clamp(1.0, RECENT_SECONDS), shares)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};

    use super::*;
    use crate::plan::{LocalCampaign, LocalChannel};

    async fn send(http: &Http, to: &[&str], id: &str) {
        let mail = json!({
            "FromEmailAddress": "news@example.org",
            "Destination": { "ToAddresses": to },
            "Content": { "Simple": { "Subject": { "Data": "x" }, "Body": { "Text": { "Data": "x" } } } },
            "EmailTags": [{ "Name": CAMPAIGN_TAG, "Value": "big" }, { "Name": "tidegate_id", "Value": id }],
        });
        let headers = [("content-type", "application/json")];
        let path = "/v2/email/outbound-emails";
        http.call(Method::POST, path, &headers, mail.to_string()).await.unwrap();
    }

    #[tokio::test]
    async fn what_arrived_is_read_once_with_campaign_and_recipients() {
        let config = SesSandboxConfig::default();
        let running = SesSandbox::start(config, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let sandbox = SesSandboxClient::at(running.url());
        assert_eq!(sandbox.mails_after(0).await.unwrap(), (Vec::new(), 0));
        send(&sandbox.http, &["a@example.com", "b@example.com"], "1").await;
        let (first, seq) = sandbox.mails_after(0).await.unwrap();
        assert_eq!((first[0].campaign.as_str(), first[0].key.as_str()), ("big", "a@example.com"));
        assert_eq!(first[0].recipients, 2);
        send(&sandbox.http, &["c@example.com"], "2").await;
        let (second, _) = sandbox.mails_after(seq).await.unwrap();
        assert_eq!(
            second.iter().map(|mail| mail.key.as_str()).collect::<Vec<_>>(),
            ["c@example.com"]
        );
        assert_eq!(sandbox.stats().await.unwrap().worst_sliding_second, 3);
        let refused = sandbox.change(&json!({ "qouta": 1 })).await.unwrap_err().to_string();
        assert!(refused.contains("unknown field `qouta`"), "{refused}");
        running.shutdown().await;
    }

    #[test]
    fn a_mail_counts_once_and_what_is_not_planned_completes_nothing() {
        let big = LocalCampaign { name: "big".to_owned(), weight: 90, mails: 3, recipients: 1 };
        let plan = LocalPlan { quota: 14.0, channel: LocalChannel::Email, campaigns: vec![big] };
        let arrival = |campaign: &str, number: u64| MailArrival {
            at_ns: 1_795_206_967_000_000_000,
            campaign: campaign.to_owned(),
            key: format!("{campaign}-r{number:06}@example.com"),
            recipients: 1,
        };
        let mut mailbox = Mailbox::new(SesSandboxClient::at("http://127.0.0.1:9"));
        mailbox.take(&plan, vec![arrival("big", 0), arrival("big", 1)]);
        mailbox.take(&plan, vec![arrival("big", 0), arrival("big", 3), arrival("other", 2)]);
        assert_eq!(mailbox.arrivals.len(), 5);
        assert_eq!(mailbox.arrived(), 2);
        assert_eq!(mailbox.line(&plan), "5.0/s of 14  big 2/3 (80.0 %)  1 twice, 0 refused");
    }

    #[test]
    fn rate_and_shares_are_those_of_the_last_ten_seconds() {
        let campaign = |name: &str| LocalCampaign {
            name: name.to_owned(),
            weight: 50,
            mails: 90,
            recipients: 1,
        };
        let campaigns = vec![campaign("big"), campaign("small")];
        let plan = LocalPlan { quota: 4.0, channel: LocalChannel::Email, campaigns };
        let mut mailbox = Mailbox::new(SesSandboxClient::at("http://127.0.0.1:9"));
        // Both send one a second for half a minute, then big alone sends three a second.
        for quarter in 0..160_u64 {
            let second = quarter / 4;
            let name = match (quarter % 4, second) {
                (0, _) | (1..3, 30..) => "big",
                (1, _) => "small",
                _ => continue,
            };
            mailbox.take(
                &plan,
                vec![MailArrival {
                    at_ns: quarter * 250_000_000,
                    campaign: name.to_owned(),
                    key: format!("{name}-r{quarter:06}@example.com"),
                    recipients: 1,
                }],
            );
        }
        let line = mailbox.line(&plan);
        assert!(line.starts_with("3.0/s of 4  big "), "{line}");
        assert!(line.contains("(100.0 %)") && line.contains("(0.0 %)"), "{line}");
    }
}
