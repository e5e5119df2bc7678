//! The mails of a run, and putting them onto the queues.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, TryStreamExt as _};
use serde_json::{Value, json};
use tidegate_delivery::ports::{BATCH, Outgoing, QueueUrl, Queues};

use super::error::LocalError;
use super::plan::{LocalCampaign, LocalPlan};

/// Number of batches that are sent concurrently.
const AT_ONCE: usize = 8;
/// The domain of all recipients. RFC 2606 reserves it, so no mail can reach anybody.
const DOMAIN: &str = "example.com";

/// The first recipient of a campaign's mail `number`, which no other mail has.
fn key(campaign: &LocalCampaign, number: u64) -> String {
    format!("{}-r{number:06}@{DOMAIN}", campaign.name)
}

/// Whether `key` is the first recipient of one of the mails of this plan.
pub fn is_of_plan(plan: &LocalPlan, campaign: &str, key: &str) -> bool {
    let Some(campaign) = plan.campaigns.iter().find(|known| known.name == campaign) else {
        return false;
    };
    let number = key
        .strip_prefix(campaign.name.as_str())
        .and_then(|rest| rest.strip_prefix("-r")?.strip_suffix(DOMAIN)?.strip_suffix('@'));
    number.and_then(|number| number.parse::<u64>().ok()).is_some_and(|n| n < campaign.mails)
}

/// The body of a campaign's mail `number`: the short form, or the long form if it has several recipients.
pub fn body(campaign: &LocalCampaign, number: u64) -> Value {
    let name = &campaign.name;
    let subject = format!("News {number} of {name}");
    let text = format!("Hello,\n\nthis is mail {number} of the campaign {name}.\n");
    let from = "news@example.org";
    let id = format!("{name}-{number}");
    let first = key(campaign, number);
    if campaign.recipients == 1 {
        return json!({
            "id": id, "to_address": first, "from_address": from, "subject": subject, "body": text,
        });
    }
    let others = (1..campaign.recipients).map(|other| format!("copy{other}-{first}"));
    let to: Vec<String> = std::iter::once(first.clone()).chain(others).collect();
    json!({ "id": id, "to": to, "from": from, "subject": subject, "text": text })
}

/// Puts every mail of the plan onto its campaign's queue; `urls` are in the order of the
/// campaigns. `done` is called after each batch with its number of mails.
///
/// # Errors
/// [`LocalError`] of the first mail that its queue did not take.
pub async fn fill(
    queues: &impl Queues,
    plan: &LocalPlan,
    urls: &[QueueUrl],
    mut done: impl FnMut(u64),
) -> Result<(), LocalError> {
    let batches = plan.campaigns.iter().zip(urls).flat_map(|(campaign, url)| {
        let starts = (0..campaign.mails).step_by(BATCH);
        starts.map(move |start| (url, campaign, start..campaign.mails.min(start + BATCH as u64)))
    });
    let mut sent = stream::iter(batches)
        .map(|(url, campaign, numbers)| async move {
            let messages: Vec<_> =
                numbers.map(|number| outgoing(body(campaign, number).to_string())).collect();
            for entry in queues.send(url, &messages).await? {
                let queue = url.to_string();
                entry.map_err(|source| LocalError::Fill { queue, source })?;
            }
            Ok::<_, LocalError>(messages.len() as u64)
        })
        .buffer_unordered(AT_ONCE);
    while let Some(mails) = sent.try_next().await? {
        done(mails);
    }
    Ok(())
}

fn outgoing(body: String) -> Outgoing {
    Outgoing { body: body.into(), attributes: Vec::new(), delay: Duration::ZERO, fifo: None }
}

#[cfg(test)]
mod tests {
    use tidegate_core::email;

    use super::*;

    fn campaign(recipients: u32) -> LocalCampaign {
        LocalCampaign { name: "small".to_owned(), weight: 10, mails: 42, recipients }
    }

    #[test]
    fn a_mail_is_known_again_by_its_first_recipient() {
        let plan = LocalPlan { quota: 14.0, campaigns: vec![campaign(1)] };
        let first = |number| body(&campaign(1), number)["to_address"].as_str().unwrap().to_owned();
        assert!(is_of_plan(&plan, "small", &first(0)));
        assert!(is_of_plan(&plan, "small", &first(41)));
        assert!(!is_of_plan(&plan, "small", &first(42)));
        assert!(!is_of_plan(&plan, "big", &first(0)));
        assert!(!is_of_plan(&plan, "small", "ada@example.com"));
    }

    #[test]
    fn every_mail_is_one_that_tidegate_takes() {
        let several = body(&campaign(50), 7);
        assert_eq!(several["to"].as_array().unwrap().len(), 50);
        for body in [several, body(&campaign(1), 7)] {
            assert!(email::Email::parse(&body.to_string()).is_ok(), "{body}");
        }
    }
}
