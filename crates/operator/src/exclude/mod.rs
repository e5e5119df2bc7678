//! `tidegate exclude`: changes and reads the exclusion list. Campaigns' mail to its addresses is not sent, also mail
//! that is already enqueued.
//!
//! The shards are written first, each on the condition that nobody else wrote it meanwhile; then the control record
//! gets a new version, which makes the pollers read them. A change that breaks off in between is completed by the
//! same command again.

mod view;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use thiserror::Error;
use tidegate_core::control::ChangeRecord;
use tidegate_core::exclusions::{AddressKey, ExclusionList, ExclusionState, MOST_EXCLUSIONS};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::control::change;
use tidegate_delivery::ports::{Clock, Exclusions, History, Ledger, PortError};

use crate::send::InputFault;
use crate::steer::{Author, IN_FORCE_WITHIN_S, MAX_REASON_CHARS};
use tidegate_core::format::{count, counted};

/// Tries of a shard that others write at the same time.
const TRIES: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExcludeAction {
    Add,
    Remove,
}

#[derive(Debug, Error)]
pub enum ExcludeError {
    #[error("the reason has {0} characters; allowed are 1 to {MAX_REASON_CHARS}")]
    Reason(usize),
    #[error("the list would have {0} addresses; allowed are at most {MOST_EXCLUSIONS}")]
    TooMany(u64),
    /// Others kept changing the list.
    #[error(
        "others are changing the exclusion list: part of the change is made; run the command again"
    )]
    Conflict,
    #[error(transparent)]
    Port(#[from] PortError),
}

/// A change of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExcludeReport {
    /// Addresses that were put on the list or taken off it.
    pub changed: u64,
    /// Addresses on the list now.
    pub addresses: u64,
    /// The change, as the history keeps it.
    #[serde(flatten)]
    pub record: ChangeRecord,
    /// The change is in force after at most this many seconds.
    pub in_force_within_s: u64,
    pub recorded: bool,
    /// The lines of files that are no address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_addresses: Vec<InputFault>,
}

/// The list as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExclusionsReport {
    pub addresses: u64,
    pub version: u64,
    /// Whether the address that was asked for is on the list; `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<bool>,
}

/// Adds or removes addresses. `done` is called with the number of addresses of each shard.
///
/// # Errors
/// [`ExcludeError`]. After one of the ledger part of the change may be made, and pollers may not know of it yet:
/// the same call completes it.
pub async fn exclude(
    action: ExcludeAction,
    keys: &BTreeSet<AddressKey>,
    author: &Author,
    ledger: &(impl Ledger + Exclusions + History),
    clock: &impl Clock,
    done: impl Fn(u64),
) -> Result<ExcludeReport, ExcludeError> {
    let length = author.reason.trim().chars().count();
    if !(1..=MAX_REASON_CHARS).contains(&length) {
        return Err(ExcludeError::Reason(length));
    }
    let stands = state(ledger).await?.addresses;
    let most = stands + keys.len() as u64;
    if action == ExcludeAction::Add && most > MOST_EXCLUSIONS {
        return Err(ExcludeError::TooMany(most));
    }
    let mut shards: BTreeMap<u8, Vec<AddressKey>> = BTreeMap::new();
    for key in keys {
        shards.entry(key.shard()).or_default().push(*key);
    }
    let mut changed = 0;
    for (number, keys) in shards {
        changed += set_shard(ledger, number, action, &keys).await?;
        done(keys.len() as u64);
    }
    let addresses = read(ledger).await?.len() as u64;
    let is_new = Cell::new(false);
    let standing = ledger.read().await?;
    let told = change(ledger, standing.control_version, standing.control, |control| {
        let before = control.exclusions.unwrap_or_default();
        is_new.set(changed > 0 || before.addresses != addresses);
        if is_new.get() {
            control.exclusions = Some(ExclusionState { version: before.version + 1, addresses });
        }
    });
    if told.await?.made().is_none() && is_new.get() {
        return Err(ExcludeError::Conflict);
    }
    let record = record(action, changed, addresses, author, EpochMillis::from(clock.wall()));
    // The change has been made. If it cannot be recorded, the report says so, but it is no failure.
    let recorded = is_new.get() && ledger.add(&record).await.is_ok();
    let in_force_within_s = IN_FORCE_WITHIN_S;
    let not_addresses = Vec::new();
    Ok(ExcludeReport { changed, addresses, record, in_force_within_s, recorded, not_addresses })
}

/// Reads the whole list.
///
/// # Errors
/// [`PortError`] if the ledger does not answer.
pub async fn read(ledger: &impl Exclusions) -> Result<ExclusionList, PortError> {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let shards = ledger.shards(&all).await?;
    Ok(ExclusionList::of(shards.into_iter().flat_map(|shard| shard.keys)))
}

/// The list's version and size.
///
/// # Errors
/// [`PortError`] if the ledger does not answer.
pub async fn state(ledger: &impl Ledger) -> Result<ExclusionState, PortError> {
    Ok(ledger.read().await?.control.exclusions.unwrap_or_default())
}

/// Changes one shard; returns how many of the keys were new, or were there.
async fn set_shard(
    ledger: &impl Exclusions,
    number: u8,
    action: ExcludeAction,
    keys: &[AddressKey],
) -> Result<u64, ExcludeError> {
    for _ in 0..TRIES {
        let mut shard = ledger.shards(&[number]).await?.pop().unwrap_or_default();
        let change = |key: &&AddressKey| match action {
            ExcludeAction::Add => shard.keys.insert(**key),
            ExcludeAction::Remove => shard.keys.remove(*key),
        };
        let changed = keys.iter().filter(change).count() as u64;
        if changed == 0 || ledger.set_shard(number, &shard).await? {
            return Ok(changed);
        }
    }
    Err(ExcludeError::Conflict)
}

fn record(
    action: ExcludeAction,
    changed: u64,
    addresses: u64,
    author: &Author,
    at: EpochMillis,
) -> ChangeRecord {
    let (name, how) = match action {
        ExcludeAction::Add => ("exclude", "more"),
        ExcludeAction::Remove => ("include", "fewer"),
    };
    ChangeRecord {
        at,
        by: author.by.clone(),
        action: name.to_owned(),
        campaign: None,
        detail: format!("{} {how}, {} in all", counted(changed, "recipient"), count(addresses)),
        reason: author.reason.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests;
