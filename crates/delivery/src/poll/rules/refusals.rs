//! Refusals in a row: ten mails of one campaign that SES refuses with one code, or 25 messages that are no valid mail,
//! hold the campaign. Fewer are added to the count of the windows before when the window ends, which may reach the
//! number too. Every half minute one mail of a campaign that is held so is sent; if SES accepts it, the hold is lifted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::limiter::Line;
use tidegate_core::outcome::Outcome;
use tidegate_core::refusals::{INVALID, Refusal, Run};

use super::{Effect, EndedSend, Kept, MailStep};
use crate::poll::context::Context;
use crate::poll::settle::Job;
use crate::poll::sources::message::{Message, Rejected, receipt};
use crate::ports::Environment;

pub(crate) struct RefusalsInARow<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    runs: RefCell<BTreeMap<String, Run>>,
    /// Held campaigns of which this window sends a mail, and whether SES accepted it; none until it has an answer.
    probes: RefCell<BTreeMap<String, Option<bool>>>,
}

impl<'a, E: Environment> RefusalsInARow<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        Self { ctx, runs: RefCell::default(), probes: RefCell::default() }
    }

    fn note(&self, campaign: &str, change: impl FnOnce(&mut Run)) {
        change(self.runs.borrow_mut().entry(campaign.to_owned()).or_default());
    }

    /// Counts a send that SES refused; returns the hold's text if it makes the streak long enough.
    fn refused(&self, send: &EndedSend) -> Option<String> {
        let (campaign, content) = (&send.message.envelope.campaign, &send.message.content);
        let Err((failure, outcome)) = &send.result else { return None };
        let counts = matches!(outcome, Outcome::Permanent | Outcome::NotReady);
        if !counts || send.is_held || self.ctx.plan.is_probed(campaign) {
            return None;
        }
        let code = failure.code.as_deref().unwrap_or_default();
        let to = content.to().next().unwrap_or_default();
        let said = format!("{code}: {}, to {to}", failure.message);
        let id = send.message.envelope.identity.id();
        self.note(campaign, |run| run.refused(Refusal { code, id: &id, said: &said }));
        let mut runs = self.runs.borrow_mut();
        let words = runs.get(campaign)?.last().filter(|streak| streak.holds())?.in_words();
        runs.remove(campaign);
        Some(words)
    }

    pub(super) fn collected(&self, mail: &Message) {
        self.note(&mail.envelope.campaign, Run::valid);
    }

    /// Not once 25 in a row were, as long as no valid one came; the window's end writes the hold.
    pub(super) fn may_reject(&self, rejected: &Rejected) -> bool {
        let campaign = &rejected.envelope.campaign;
        let before = self.ctx.plan.control.refusals.get(campaign);
        let mut may = true;
        self.note(campaign, |run| {
            may = !run.after(before).is_some_and(|streak| streak.code == INVALID && streak.holds());
            if may {
                let said = &rejected.reason.provider_message;
                run.refused(Refusal { code: INVALID, id: &rejected.held.message_id, said });
            }
        });
        may
    }

    /// Of a held campaign one mail passes in the window that probes.
    pub(super) fn received(&self, mail: Box<Message>, effects: &mut Vec<Effect>) -> MailStep<'a> {
        let campaign = &mail.envelope.campaign;
        if mail.line == Line::Express {
            self.note(campaign, Run::valid);
        }
        if !self.ctx.plan.is_probed(campaign) {
            return Ok(mail);
        }
        if self.probes.borrow_mut().insert(campaign.clone(), None).is_some() {
            let job = Job::Show(receipt(&mail.held, true), Duration::ZERO);
            effects.push(Effect::Settle(mail, job));
            return Err(Kept::Gone);
        }
        Ok(mail)
    }

    pub(super) fn ended(&self, send: &mut EndedSend, effects: &mut Vec<Effect>) {
        let campaign = &send.message.envelope.campaign;
        if send.outcome() != Some(Outcome::NotSent)
            && let Some(accepted) = self.probes.borrow_mut().get_mut(campaign)
        {
            *accepted = Some(send.result.is_ok());
        }
        if send.result.is_ok() {
            self.note(campaign, Run::accepted);
        } else if let Some(detail) = self.refused(send) {
            let (campaign, reason) = (Some(campaign.clone()), HoldReason::Refusals);
            effects.push(Effect::Hold { campaign, reason, detail });
        }
        // A probe is no attempt.
        send.counts &= !self.ctx.plan.is_probed(&send.message.envelope.campaign);
    }

    pub(super) fn concludes(&self, control: &mut Control) {
        let now = self.ctx.now();
        for (campaign, accepted) in &*self.probes.borrow() {
            match (accepted, control.campaign_holds.get_mut(campaign)) {
                (Some(true), _) => drop(control.lift(Some(campaign), HoldReason::Refusals)),
                (Some(false), Some(holds)) => holds.note_probe(HoldReason::Refusals, now.into()),
                (Some(false), None) | (None, _) => {}
            }
        }
        for (campaign, run) in &*self.runs.borrow() {
            let streak = run.after(control.refusals.get(campaign));
            if let Some(streak) = streak.as_ref().filter(|streak| streak.holds()) {
                let hold = Hold::new(&streak.in_words(), now);
                control.hold(Some(campaign), HoldReason::Refusals, hold);
            }
            // Once the hold is lifted refusals count anew. Of invalid messages none more is dead-lettered before a valid one.
            match streak.filter(|streak| !streak.holds() || streak.code == INVALID) {
                Some(streak) => drop(control.refusals.insert(campaign.clone(), streak)),
                None => drop(control.refusals.remove(campaign)),
            }
        }
    }
}
