//! The mails of a run, and putting them onto the queues.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::{self, TryStreamExt as _};
use serde_json::{Value, json};
use tidegate_delivery::ports::{BATCH, Outgoing, QueueUrl, Queues};

use super::error::LocalError;
use super::plan::{LocalCampaign, LocalChannel, LocalPlan};

/// Number of batches that are sent concurrently.
const AT_ONCE: usize = 8;
/// The domain of all recipients. RFC 2606 reserves it, so no mail can reach anybody.
const DOMAIN: &str = "example.com";
/// Characters of each of several parts of a text.
const SEPTETS: usize = 153;

/// The first recipient of a campaign's mail `number`, which no other mail has; of a text its phone number, from the
/// exchange 555 of an area code of the campaign.
fn key(plan: &LocalPlan, campaign: usize, number: u64) -> String {
    let prefix = prefix(plan, campaign);
    match plan.channel {
        LocalChannel::Email => format!("{prefix}{number:06}@{DOMAIN}"),
        LocalChannel::Sms => format!("{prefix}{number:06}"),
    }
}

fn prefix(plan: &LocalPlan, campaign: usize) -> String {
    match plan.channel {
        LocalChannel::Email => format!("{}-r", plan.campaigns[campaign].name),
        LocalChannel::Sms => format!("+1206{campaign}"),
    }
}

/// Whether `key` is the first recipient of one of the mails of this plan.
pub fn is_of_plan(plan: &LocalPlan, campaign: &str, key: &str) -> bool {
    let Some(position) = plan.position(campaign) else { return false };
    let Some(rest) = key.strip_prefix(&prefix(plan, position)) else { return false };
    let number = match plan.channel {
        LocalChannel::Email => rest.strip_suffix(DOMAIN).and_then(|rest| rest.strip_suffix('@')),
        LocalChannel::Sms => Some(rest),
    };
    let number = number.and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number < plan.campaigns[position].mails)
}

/// The body of a campaign's mail or text `number`: the short form, or the long form if it has several recipients.
pub fn body(plan: &LocalPlan, campaign: usize, number: u64) -> Value {
    let LocalCampaign { name, recipients, .. } = &plan.campaigns[campaign];
    let subject = format!("News {number} of {name}");
    let text = format!("Hello,\n\nthis is mail {number} of the campaign {name}.\n");
    let from = "news@example.org";
    let id = format!("{name}-{number}");
    let first = key(plan, campaign, number);
    if plan.channel == LocalChannel::Sms {
        let text = format!("{subject}. ").repeat(SEPTETS);
        let text: String = text.chars().take(SEPTETS * *recipients as usize).collect();
        return json!({ "id": id, "to_phone": first, "text": text });
    }
    if *recipients == 1 {
        return json!({
            "id": id, "to_address": first, "from_address": from, "subject": subject, "body": text,
        });
    }
    let others = (1..*recipients).map(|other| format!("copy{other}-{first}"));
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
    let batches = plan.campaigns.iter().zip(urls).enumerate().flat_map(|(place, (of, url))| {
        let starts = (0..of.mails).step_by(BATCH);
        starts.map(move |start| (url, place, start..of.mails.min(start + BATCH as u64)))
    });
    let mut sent = stream::iter(batches)
        .map(|(url, campaign, numbers)| async move {
            let messages: Vec<_> =
                numbers.map(|number| outgoing(body(plan, campaign, number).to_string())).collect();
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
    use tidegate_core::text_message::TextMessage;

    use super::*;

    fn plan(channel: LocalChannel, recipients: u32) -> LocalPlan {
        let named =
            |name: &str| LocalCampaign { name: name.to_owned(), weight: 10, mails: 42, recipients };
        LocalPlan { quota: 14.0, channel, campaigns: vec![named("big"), named("small")] }
    }

    #[test]
    fn a_mail_is_known_again_by_its_first_recipient() {
        for (channel, member) in
            [(LocalChannel::Email, "to_address"), (LocalChannel::Sms, "to_phone")]
        {
            let plan = plan(channel, 1);
            let first = |number| body(&plan, 1, number)[member].as_str().unwrap().to_owned();
            assert!(is_of_plan(&plan, "small", &first(0)));
            assert!(is_of_plan(&plan, "small", &first(41)));
            assert!(!is_of_plan(&plan, "small", &first(42)));
            assert!(!is_of_plan(&plan, "big", &first(0)));
            assert!(!is_of_plan(&plan, "small", "ada@example.com"));
        }
    }

    #[test]
    fn every_mail_is_one_that_tidegate_takes() {
        let several = body(&plan(LocalChannel::Email, 50), 0, 7);
        assert_eq!(several["to"].as_array().unwrap().len(), 50);
        for body in [several, body(&plan(LocalChannel::Email, 1), 0, 7)] {
            assert!(email::Email::parse(&body.to_string()).is_ok(), "{body}");
        }
        for parts in [1, 3] {
            let body = body(&plan(LocalChannel::Sms, parts), 1, 999_999);
            let text = TextMessage::parse(&body.to_string());
            assert_eq!(text.map(|text| text.parts), Ok(parts), "{body}");
        }
    }
}
