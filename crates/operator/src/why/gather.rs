use tidegate_core::config::{EXPRESS, PollerConfig};
use tidegate_core::identity::Identity;
use tidegate_delivery::ports::{Marks, PortError};

use super::{MailFacts, MailQuery};
use crate::dead::{Letter, LetterSnapshot};
use crate::status;

/// Reads the mail's marks, under all identities that it can have, and its dead letters.
///
/// # Errors
/// [`PortError`] of the marks.
pub async fn gather(
    query: MailQuery,
    status: status::StackFacts,
    poller: PollerConfig,
    reading: &LetterSnapshot,
    marks: &impl Marks,
) -> Result<MailFacts, PortError> {
    let of_campaign = |letter: &&Letter| {
        let own = letter.entry().map(|entry| entry.campaign.as_str());
        query.campaign.is_none() || own == query.campaign.as_deref()
    };
    let meant = reading.letters.iter().filter(|letter| letter.is(&query.id)).filter(of_campaign);
    let letters: Vec<Letter> = meant.cloned().collect();
    let mut identities = identities(&query, &status);
    identities.extend(letters.iter().filter_map(Letter::identity));
    identities.sort();
    identities.dedup();
    let mut found = Vec::new();
    for batch in identities.chunks(100) {
        let marks = marks.find(batch).await?;
        let pairs = batch.iter().zip(marks);
        found.extend(pairs.filter_map(|(identity, mark)| Some((identity.clone(), mark?))));
    }
    Ok(MailFacts { query, status, poller, marks: found, letters, coverage: reading.coverage })
}

/// The identities that the mail may have.
fn identities(query: &MailQuery, status: &status::StackFacts) -> Vec<Identity> {
    if let Ok(identity) = Identity::parse(&query.id) {
        return vec![identity];
    }
    let all = status.campaigns.iter().map(|campaign| campaign.name.as_str()).chain([EXPRESS]);
    let campaigns: Vec<&str> =
        query.campaign.as_deref().map_or_else(|| all.collect(), |one| vec![one]);
    let both = |campaign: &str| {
        [
            Identity::from_body_id(campaign, &query.id),
            Identity::from_message_id(campaign, &query.id),
        ]
    };
    campaigns.into_iter().flat_map(both).collect()
}
