//! Looks for a mail in the store.

use tidegate_core::control::Control;
use tidegate_core::format::time;
use tidegate_core::identity::Identity;
use tidegate_core::store::{ObjectName, StoredMail, Waits, unpack};
use tidegate_delivery::ports::{PortError, Store};

use super::{Explanation, MailVerdict};
use crate::store::stored;

/// Objects that are read for one mail at most, those that come back first.
const SEARCHED: usize = 500;

/// A mail that was found in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailInStore {
    pub object: ObjectName,
    pub identity: Identity,
    pub mail: StoredMail,
    /// Whether a cancel of its campaign concerns it.
    pub cancelled: bool,
}

/// Looks for a mail under any of `identities`. `None` if the first 500 objects of their campaigns do not
/// have it.
///
/// # Errors
/// [`PortError`] if the store does not answer.
pub async fn find(
    store: &impl Store,
    identities: &[Identity],
    control: &Control,
) -> Result<Option<MailInStore>, PortError> {
    let campaigns: Vec<String> = identities.iter().filter_map(Identity::campaign).collect();
    let objects = stored(store).await?.0.into_iter().map(|(name, _)| name);
    // A row is no mail yet.
    let is_meant =
        |name: &ObjectName| name.waits != Waits::Rows && campaigns.contains(&name.campaign);
    for object in objects.filter(is_meant).take(SEARCHED) {
        let Some((bytes, _)) = store.get(&object.to_string()).await? else { continue };
        let mails = unpack(&bytes).unwrap_or_default().into_iter();
        let found = mails.into_iter().find(|(_, envelope)| identities.contains(&envelope.identity));
        if let Some((mail, envelope)) = found {
            let cancel = control.cancels.get(&envelope.campaign);
            let cancelled = cancel.is_some_and(|cancel| cancel.concerns(envelope.enqueued_at));
            return Ok(Some(MailInStore { object, identity: envelope.identity, mail, cancelled }));
        }
    }
    Ok(None)
}

impl Explanation {
    /// The explanation of a mail that no record names, and that was found in the store.
    pub fn found_in_store(self, found: &MailInStore) -> Self {
        let at = found.mail.not_before.unwrap_or_else(|| found.object.window.opens().into());
        let (summary, lets_go) = match found.object.waits {
            _ if found.cancelled => (
                "It was cancelled, and stands in the store still.".to_owned(),
                "not: it is taken out when it comes back".to_owned(),
            ),
            Waits::Timed => (
                format!("It waits in the store for its time, {}.", time(at)),
                format!("at {}, unless its campaign is held then", time(at)),
            ),
            Waits::Deferred | Waits::Rows => (
                format!("It is deferred: in the store since {}.", time(at)),
                "once the level has been clear for ten minutes, the oldest first".to_owned(),
            ),
        };
        let until = (found.object.waits == Waits::Timed && !found.cancelled).then_some(at);
        let campaign = Some(found.object.campaign.clone());
        let (id, facts) = (self.id, self.facts);
        let verdict = MailVerdict::Stored;
        let (summary, lets_go) = (summary, Some(lets_go));
        Self { id, campaign, verdict, summary, lets_go, until, facts, ..Self::default() }
    }
}
