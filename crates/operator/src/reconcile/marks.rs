//! Reconciles mail by mail, by the marks of deduplication.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::Range;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tidegate_core::Timestamp;
use tidegate_core::deduplication::{Mark, MarkState};
use tidegate_core::identity::{EpochMillis, Identity};
use tidegate_delivery::ports::{Marks, PortError, VISIBILITY_TIMEOUT};

use super::ReconcileError;
use super::inputs::{CampaignFacts, LAG, MailCounts};
use super::report::{CampaignAccount, Method};
use crate::send::JournalReader;

/// Marks that are asked for at once.
const MARKS_PER_CALL: usize = 100;
/// Such calls under way at once.
const PARALLEL_CALLS: usize = 8;

/// Looks up the mark of every mail in `records`. `times` are the begin of the run and now.
pub(super) async fn tally<R: BufRead>(
    marks: &impl Marks,
    times: &Range<EpochMillis>,
    campaign: &str,
    dead: &BTreeSet<Identity>,
    mut records: JournalReader<R>,
    found: &mut MailCounts,
    checked: &impl Fn(u64),
) -> Result<(), ReconcileError> {
    let mut under_way = FuturesUnordered::new();
    let mut pending: Vec<Identity> = Vec::new();
    let mut open = true;
    loop {
        while open && under_way.len() < PARALLEL_CALLS {
            while open && pending.len() < MARKS_PER_CALL {
                match records.next_batch()? {
                    Some(batch) => {
                        let identity = |id: &String| Identity::from_body_id(campaign, id);
                        pending.extend(batch.ids.iter().map(identity));
                    }
                    None => open = false,
                }
            }
            let excess = pending.split_off(pending.len().min(MARKS_PER_CALL));
            let batch = std::mem::replace(&mut pending, excess);
            if !batch.is_empty() {
                under_way.push(find(marks, batch));
            }
            // Identities above one call's limit are looked up before the loop ends.
            open |= !pending.is_empty();
        }
        let Some(answered) = under_way.next().await else { return Ok(()) };
        let (identities, answers) = answered?;
        for (identity, mark) in identities.iter().zip(&answers) {
            count(found, mark.as_ref(), dead.contains(identity), times);
        }
        checked(identities.len() as u64);
    }
}

async fn find(
    marks: &impl Marks,
    identities: Vec<Identity>,
) -> Result<(Vec<Identity>, Vec<Option<Mark>>), PortError> {
    let answers = marks.find(&identities).await?;
    Ok((identities, answers))
}

/// Counts one mail by its mark and whether it is dead-lettered.
fn count(found: &mut MailCounts, mark: Option<&Mark>, is_dead: bool, times: &Range<EpochMillis>) {
    // The clocks of producer and poller may differ, so a mark just before the begin is ours.
    let is_older =
        |mark: &Mark| Timestamp::from(times.start).saturating_since(mark.since.into()) > LAG;
    let counter = match mark {
        Some(mark) if mark.state == MarkState::Sent && is_older(mark) => &mut found.sent_before,
        Some(Mark { state: MarkState::Sent, .. }) => &mut found.sent,
        Some(Mark { state: MarkState::Parked, .. }) => &mut found.unknown,
        Some(mark) => {
            // A poller sends within the visibility timeout, so an older mark has no outcome.
            let age = Timestamp::from(times.end).saturating_since(mark.since.into());
            match (age > VISIBILITY_TIMEOUT, is_dead) {
                (false, _) => &mut found.sending,
                // The poller could not remove the mark after the failure; the dead letter decides.
                (true, true) => &mut found.dead,
                (true, false) => &mut found.unknown,
            }
        }
        None if is_dead => &mut found.dead,
        None => &mut found.unaccounted,
    };
    *counter += 1;
}

/// The account of a campaign from its mails' marks.
///
/// Mails without a mark were cancelled or excluded, or must be on a queue or deferred, where they cannot be searched
/// for. They are assigned to the cancelled and excluded ones first, then to the delayed messages, then to the campaign's queue, to its deferred mail, and to
/// the queues that all campaigns share; those that find no place are missing. Example: 10 unmarked
/// mails, 2 delayed, 5 on the campaign's queue and 1 on the merge queue leave 2 missing.
pub(super) fn account(facts: CampaignFacts) -> CampaignAccount {
    let CampaignFacts { found, queued, shared, .. } = facts;
    let mut missing = found.unaccounted;
    let mut assigned = |most: u64| {
        let part = missing.min(most);
        missing -= part;
        part
    };
    let (cancelled, excluded) = (assigned(found.cancelled), assigned(found.excluded));
    let (retrying, on_campaign) = (assigned(queued.retrying), assigned(queued.waiting));
    let (deferred, on_shared) = (assigned(queued.deferred), assigned(shared));
    CampaignAccount {
        waiting: found.sending + on_campaign + on_shared,
        retrying,
        deferred,
        cancelled,
        excluded,
        unmarked: found.unaccounted - cancelled - excluded,
        difference: i64::try_from(missing).unwrap_or(i64::MAX),
        on_shared,
        ..facts.account(Method::Marks)
    }
}
