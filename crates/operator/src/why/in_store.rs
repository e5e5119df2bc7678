//! Looks for a mail in the store.

use std::collections::BTreeMap;

use tidegate_core::control::Control;
use tidegate_core::draft::MailOrigin;
use tidegate_core::format::time;
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_core::store::rows::{StoredDrafts, run_of, unpack_rows};
use tidegate_core::store::{ObjectName, Progress, StoredMail, Waits, unpack};
use tidegate_delivery::ports::{PortError, Store};
use tidegate_delivery::schedule::refill::progress;

use super::{Explanation, MailVerdict};
use crate::store::stored;

/// Objects that are read for one mail at most, those that come back first.
const SEARCHED: usize = 500;

/// A mail, or a row of which one is to be made, that was found in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailInStore {
    pub object: ObjectName,
    pub identity: Identity,
    pub not_before: Option<EpochMillis>,
    /// The number of the row in its run.
    pub origin: Option<MailOrigin>,
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
    let objects = stored(store, Waits::ALL).await?.0.into_iter().map(|(name, _)| name);
    let mut drafts = BTreeMap::new();
    for object in objects.filter(|name| campaigns.contains(&name.campaign)).take(SEARCHED) {
        let Some((bytes, _)) = store.get(&object.to_string()).await? else { continue };
        if object.waits == Waits::Rows {
            let token = run_of(&object.token).to_owned();
            if !drafts.contains_key(&token) {
                let stored = store.get(&StoredDrafts::key(&token)).await?;
                let read = stored.and_then(|(bytes, _)| StoredDrafts::unpack(&bytes).ok());
                drafts.insert(token.clone(), read);
            }
            let Some(Some(drafts)) = drafts.get(&token) else { continue };
            let progress = progress(store, &object).await?.map(|(progress, _)| progress);
            let progress = progress.unwrap_or_default();
            let row = row_in(&bytes, drafts, &progress, identities);
            let Some((identity, origin)) = row else { continue };
            let cancel = control.cancels.get(&object.campaign).map(|cancel| cancel.at);
            let cancelled = cancel.is_some() && cancel != drafts.cancelled_at;
            let origin = Some(origin);
            return Ok(Some(MailInStore { object, identity, not_before: None, origin, cancelled }));
        }
        let mails = unpack(&bytes).unwrap_or_default().into_iter();
        let found = mails.into_iter().find(|(_, envelope)| identities.contains(&envelope.identity));
        if let Some((StoredMail { not_before, .. }, envelope)) = found {
            let cancel = control.cancels.get(&envelope.campaign);
            let cancelled = cancel.is_some_and(|cancel| cancel.concerns(envelope.enqueued_at));
            let identity = envelope.identity;
            return Ok(Some(MailInStore { object, identity, not_before, origin: None, cancelled }));
        }
    }
    Ok(None)
}

/// The row of a chunk whose message will have one of `identities`, if it is not enqueued.
fn row_in(
    chunk: &[u8],
    drafts: &StoredDrafts,
    progress: &Progress,
    identities: &[Identity],
) -> Option<(Identity, MailOrigin)> {
    let (draft, list) = (drafts.drafts.last()?, drafts.list.as_str().into());
    let rows = (0..).zip(unpack_rows(chunk).unwrap_or_default());
    let mut waiting = rows.filter(|(line, _)| !progress.has(*line)).map(|(_, row)| row);
    waiting.find_map(|row| {
        let origin = MailOrigin { run: draft.run.clone(), row: row.row };
        let id = draft.uploaded_id(&row.of_list(&list)).ok()?;
        let identity = Identity::from_body_id(&draft.campaign, &id);
        identities.contains(&identity).then_some((identity, origin))
    })
}

impl Explanation {
    /// The explanation of a mail that no record names, and that was found in the store.
    pub fn found_in_store(self, found: &MailInStore) -> Self {
        let at = found.not_before.unwrap_or_else(|| found.object.window.opens().into());
        let (summary, lets_go) = match (found.object.waits, &found.origin) {
            _ if found.cancelled => (
                "It was cancelled, and stands in the store still.".to_owned(),
                "not: it is taken out when it comes back".to_owned(),
            ),
            (_, Some(MailOrigin { run, row })) => (
                format!("It is row {row} of run {run}, which the stack has not enqueued yet."),
                "as soon as there is room on its campaign's queue, in the order of the list"
                    .to_owned(),
            ),
            (Waits::Timed, _) => (
                format!("It waits in the store for its time, {}.", time(at)),
                format!("at {}, unless its campaign is held then", time(at)),
            ),
            (Waits::Deferred | Waits::Rows, None) => (
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
