//! Reconciles by counts: the ledger's counters against those at the begin of the first run. Used if
//! deduplication is off or its marks have expired.
//!
//! Counters tell how many recipients the campaign was sent to, not which mails. So mails that other
//! producers enqueued count too, and an answer of SES that got lost is counted as possibly sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::identity::Identity;

use super::ReconcileError;
use super::inputs::{CampaignFacts, MailCounts};
use super::report::{CampaignAccount, Method};
use crate::send::JournalReader;

/// Counts which of the mails in `records` are dead-lettered.
pub(super) fn tally<R: BufRead>(
    campaign: &str,
    dead: &BTreeSet<Identity>,
    mut records: JournalReader<R>,
    found: &mut MailCounts,
    checked: &impl Fn(u64),
) -> Result<(), ReconcileError> {
    while let Some(batch) = records.next_batch()? {
        for id in &batch.ids {
            let is_dead = dead.contains(&Identity::from_body_id(campaign, id));
            *(if is_dead { &mut found.dead } else { &mut found.unaccounted }) += 1;
        }
        checked(batch.ids.len() as u64);
    }
    Ok(())
}

/// The account of a campaign from the growth of its counters and the queues' depths.
pub(super) fn account(facts: CampaignFacts, counters: &BTreeMap<String, i64>) -> CampaignAccount {
    let CampaignFacts { found, queued, shared, .. } = facts;
    let before = facts.runs.before();
    let grown = |now: i64, from: i64| at_least_0(now.saturating_sub(from));
    let sent = grown(Counter::Sent.sum_of(&facts.campaign, counters), before.sent);
    let on_campaign = queued.waiting + queued.retrying;
    // Mails that were on the queue before the first run cannot be told from ours, so both sides of
    // the equation include them.
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let left = signed(facts.runs.enqueued() + before.queued)
        .saturating_sub(signed(sent + found.dead + on_campaign));
    let unaccounted = u64::try_from(left).unwrap_or(0);
    let cancelled = unaccounted.min(found.cancelled);
    let excluded = (unaccounted - cancelled).min(found.excluded);
    let deferred = (unaccounted - cancelled - excluded).min(queued.deferred);
    let on_shared = (unaccounted - cancelled - excluded - deferred).min(shared);
    let account = CampaignAccount {
        sent,
        waiting: queued.waiting + on_shared,
        retrying: queued.retrying,
        deferred,
        cancelled,
        excluded,
        difference: left.saturating_sub(signed(cancelled + excluded + deferred + on_shared)),
        on_shared,
        ..facts.account(Method::Counts { queued_before: before.queued })
    };
    account
        .allowing(
            before.merging,
            "stood on the merge queue or a limit queue as the first run began, of any campaign",
        )
        .allowing(
            grown(Counter::PossiblySent.sum(counters), before.possibly_sent),
            "had no answer from SES, of any campaign: sent once, twice or not at all",
        )
}
