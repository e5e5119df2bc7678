//! Reconciles by counts: the ledger's counters against those at the begin of the first run. Used if
//! deduplication is off or its marks have expired.
//!
//! Counters tell how many recipients the campaign was sent to, not which mails. So mails that other
//! producers enqueued count too, and an answer of SES that got lost is counted as possibly sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;

use tidegate_core::counters::{Counter, at_least_0};
use tidegate_core::identity::{EpochMillis, Identity};

use super::inputs::{CampaignRuns, MailCounts, QueueCounts};
use super::report::{AccountVerdict, CampaignAccount, Method, Tolerance};
use super::{ReconcileError, StackSettings};
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
pub(super) fn account(
    campaign: String,
    runs: CampaignRuns,
    found: MailCounts,
    queued: QueueCounts,
    now: EpochMillis,
    stack: &StackSettings,
    counters: &BTreeMap<String, i64>,
) -> CampaignAccount {
    let before = runs.before();
    let grown = |now: i64, from: i64| at_least_0(now.saturating_sub(from));
    let sent = grown(Counter::Sent.sum_of(&campaign, counters), before.sent);
    let on_campaign = queued.waiting + queued.retrying;
    // Mails that were on the queue before the first run cannot be told from ours, so both sides of
    // the equation include them.
    let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let left = signed(runs.enqueued() + before.queued)
        .saturating_sub(signed(sent + found.dead + on_campaign));
    let unaccounted = u64::try_from(left).unwrap_or(0);
    let cancelled = unaccounted.min(found.cancelled);
    let excluded = (unaccounted - cancelled).min(found.excluded);
    let deferred = (unaccounted - cancelled - excluded).min(queued.deferred);
    let on_shared = (unaccounted - cancelled - excluded - deferred).min(queued.shared);
    let difference = left.saturating_sub(signed(cancelled + excluded + deferred + on_shared));
    let allowances: Vec<Tolerance> =
        runs.lag(now, queued.is_moving(), stack.quota_per_second).into_iter().collect();
    let account = CampaignAccount {
        campaign,
        method: Method::Counts { queued_before: before.queued },
        enqueued: runs.enqueued(),
        sent,
        sent_before: 0,
        waiting: queued.waiting + on_shared,
        retrying: queued.retrying,
        deferred,
        dead: found.dead,
        cancelled,
        excluded,
        unknown: 0,
        unmarked: 0,
        queued: on_campaign + queued.deferred + queued.shared,
        difference,
        verdict: AccountVerdict::Balanced,
        allowances,
        runs: runs.journals.into_iter().map(|journal_run| journal_run.run).collect(),
        on_shared,
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
