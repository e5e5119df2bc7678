//! The sandbox's own pages: what arrived.

use std::collections::BTreeMap;

use http::Method;
use serde::{Deserialize, Serialize};

use super::error::LocalError;
use super::figures::MailArrival;
use super::http::Http;

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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidegate_fakes::sandbox::ses::{SesSandbox, SesSandboxConfig};

    use super::*;

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
}
