//! The window's record for the log, by which `tidegate audit` judges the run.

use tidegate_core::audit::{
    AuditRecord, CampaignRecord, ClaimRecord, SendOutcome, SendRecord, identity_hash,
};
use tidegate_core::counters::{Counter, WindowCounts};
use tidegate_core::outcome::Outcome;
use tidegate_core::trace::{MOST_SPANS, SendSpan, WindowSpans};

use super::claim::ClaimedWindow;
use super::context::Context;
use super::plan::Plan;
use super::rules::EndedSend;
use crate::ports::Environment;

/// Failures that leave a message where it was, too.
const UNDONE: [Counter; 3] = [Counter::DeleteFailed, Counter::MoveFailed, Counter::StoreFailed];

/// The record of a window in which nothing was sent yet.
pub(super) fn begin(plan: &Plan, claimed: &ClaimedWindow) -> Box<AuditRecord> {
    // Where campaigns take turns, a window tells nothing of the shares, and there may be a thousand; where limits hold,
    // mail may wait for them.
    let tells_shares = !plan.turns.in_batches && plan.limits.table.is_empty();
    let lanes = plan.lanes().zip(plan.turns.cycle.weights()).filter(|_| tells_shares);
    let campaigns = lanes
        .map(|(campaign, weight)| CampaignRecord { name: campaign.name.clone(), weight: *weight });
    Box::new(AuditRecord {
        audit: 1,
        window: plan.window,
        request: claimed.request.token.clone(),
        part: 0,
        rate: plan.rate,
        margin: plan.rate_margin,
        claim: ClaimRecord {
            previous: claimed.standing.previous.map(|previous| previous.window),
            missed: claimed.can_miss.then(|| claimed.arrival.of(Counter::WindowsMissed)),
            early_ms: claimed.arrival.of(Counter::TicksEarly),
            took_ms: claimed.took.as_millis().try_into().unwrap_or(u64::MAX),
        },
        undone: 0,
        campaigns: campaigns.collect(),
        sends: Vec::new(),
    })
}

/// Notes a send as a span, if its request was written and its producer records its trace.
pub(super) fn note_span<E: Environment>(ctx: &Context<'_, E>, send: &EndedSend) {
    let (sends, envelope) = (&ctx.notes.sends, &send.message.envelope);
    let trace = ctx.trace_of(envelope).filter(|trace| trace.is_sampled());
    let (Some(trace), Some(start)) = (trace, send.start) else { return };
    if sends.borrow().len() < MOST_SPANS {
        sends.borrow_mut().push(SendSpan {
            trace: trace.clone(),
            campaign: envelope.campaign.clone(),
            id: envelope.identity.id().into_owned(),
            start,
            end: start + send.latency,
            result: send.result.clone().map_err(|(_, outcome)| outcome.as_str()),
        });
    }
}

/// Notes a send, if its request was written.
pub(super) fn note<E: Environment>(ctx: &Context<'_, E>, send: &EndedSend) {
    let (Some(record), Some(start)) = (&mut *ctx.notes.record.borrow_mut(), send.start) else {
        return;
    };
    let (plan, message) = (ctx.plan, &send.message);
    let after_ns = start.as_nanos().wrapping_sub(plan.grid.at(send.slot).as_nanos()).cast_signed();
    let is_merged = plan.merge.as_ref() == Some(&message.held.queue);
    let waited = start.saturating_since(message.held.put_at.into()).as_secs() / 60;
    let campaign = record.place_of(&message.envelope.campaign);
    record.sends.push(SendRecord {
        slot: send.slot.saturating_sub(plan.grid.first_from(plan.window.opens())),
        after_us: after_ns.div_euclid(1_000),
        campaign,
        recipients: message.content.slots(),
        outcome: match send.outcome() {
            None => SendOutcome::Accepted,
            Some(Outcome::RateExceeded) => SendOutcome::Refused,
            Some(Outcome::Ambiguous) => SendOutcome::Possible,
            Some(_) => SendOutcome::Failed,
        },
        waited_min: if is_merged { waited.min(254) } else { 255 },
        pass: message.envelope.pass,
        identity: identity_hash(&message.envelope.identity),
    });
}

/// The window's spans, as its work ends.
pub(super) fn spans<E: Environment>(ctx: &Context<'_, E>, counts: &WindowCounts) -> WindowSpans {
    let counts = Counter::ALL.iter().map(|counter| (counter.name(), counts.of(*counter)));
    WindowSpans {
        window: ctx.plan.window,
        token: ctx.token.clone(),
        start: ctx.time.began(),
        end: ctx.now(),
        counts: counts.filter(|(_, count)| *count > 0).collect(),
        sends: ctx.notes.sends.take(),
    }
}

/// Completes a record. `had_mail` says by lane whether its campaign had as much mail as its share.
pub(super) fn end(record: &mut AuditRecord, had_mail: Vec<bool>, counts: &WindowCounts) {
    record.undone = UNDONE.iter().map(|counter| counts.of(*counter)).sum();
    for (campaign, had_mail) in record.campaigns.iter_mut().zip(had_mail) {
        campaign.weight *= u64::from(had_mail);
    }
}
