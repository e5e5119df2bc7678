//! Deferred mail: lists what is stored, and replays it.

#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::{DeferralStore, DeferredObject, PortError};
use tidegate_delivery::replay::BroughtBack;

/// Objects whose progress is asked for at once.
const AT_ONCE: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Deferred {
    pub objects: u64,
    /// Mails; an object that is partly replayed counts with all of its mails.
    pub mails: u64,
    pub bytes: u64,
    /// The window of the oldest object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Window>,
}

impl Deferred {
    fn add(&mut self, window: Window, mails: u64, bytes: u64) {
        self.objects += 1;
        self.mails += mails;
        self.bytes += bytes;
        self.oldest = Some(self.oldest.map_or(window, |oldest| oldest.min(window)));
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeferredList {
    pub location: String,
    #[serde(flatten)]
    pub all: Deferred,
    pub campaigns: BTreeMap<String, Deferred>,
    /// Campaigns with deferred mail that the stack does not have, so that the mail cannot be
    /// replayed.
    pub unknown_campaigns: Vec<String>,
    pub strange: Vec<String>,
    #[serde(skip)]
    pub now: Option<EpochMillis>,
}

/// Lists all objects.
///
/// # Errors
/// [`PortError`]; never a part of the list.
pub async fn list(
    deferral: &impl DeferralStore,
    location: &str,
    campaigns: &[String],
    now: EpochMillis,
) -> Result<DeferredList, PortError> {
    let mut listed =
        DeferredList { location: location.to_owned(), now: Some(now), ..DeferredList::default() };
    let mut after = None;
    loop {
        let page = deferral.list(after.as_deref()).await?;
        for object in page.objects {
            let (name, bytes) = (object.name, object.bytes);
            listed.all.add(name.window, name.mails, bytes);
            let of = listed.campaigns.entry(name.campaign).or_default();
            of.add(name.window, name.mails, bytes);
        }
        listed.strange.extend(page.strange);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let unknown = listed.campaigns.keys().filter(|name| !campaigns.contains(name));
    listed.unknown_campaigns = unknown.cloned().collect();
    Ok(listed)
}

/// Counts the mails by campaign that no replay has brought back yet, also those of objects that are
/// partly replayed.
///
/// # Errors
/// [`PortError`]; never a part of the counts.
pub async fn left(deferral: &impl DeferralStore) -> Result<BTreeMap<String, u64>, PortError> {
    let mut left = BTreeMap::new();
    let mut after = None;
    loop {
        let page = deferral.list(after.as_deref()).await?;
        let of = async |object: DeferredObject| {
            let progress = deferral.progress(&object.name).await?;
            let back = progress.map_or(0, |(progress, _)| progress.count() as u64);
            Ok((object.name.campaign, object.name.mails.saturating_sub(back)))
        };
        let mut counts = stream::iter(page.objects).map(of).buffer_unordered(AT_ONCE);
        while let Some((campaign, mails)) = counts.next().await.transpose()? {
            *left.entry(campaign).or_insert(0) += mails;
        }
        drop(counts);
        after = page.next;
        if after.is_none() {
            return Ok(left);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeferralReplayReport {
    /// The mails that were replayed, and those that were left.
    #[serde(flatten)]
    pub done: BroughtBack,
    pub interrupted: bool,
}
