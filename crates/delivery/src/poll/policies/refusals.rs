//! Permanent refusals in a row. Ten of one campaign with one code hold the campaign: the fault is the
//! campaign's, not its mails'. Fewer are added to the count of the windows before when the window ends,
//! which may reach ten too.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_core::outcome::Outcome;
use tidegate_core::refusals::Run;

use super::policy::{Effect, EndedSend, Policy, PolicyStep};
use crate::environment::Environment;
use crate::poll::context::Context;

pub(in crate::poll) struct RefusalsInARow<'a, E> {
    ctx: &'a Context<'a, E>,
    runs: RefCell<BTreeMap<String, Run>>,
}

impl<'a, E: Environment> RefusalsInARow<'a, E> {
    pub(in crate::poll) fn new(ctx: &'a Context<'a, E>) -> Self {
        Self { ctx, runs: RefCell::default() }
    }
}

impl<'a, E: Environment> Policy<'a> for RefusalsInARow<'a, E> {
    fn ended(
        &self,
        send: Box<EndedSend>,
        effects: &mut Vec<Effect>,
    ) -> PolicyStep<'a, Box<EndedSend>> {
        let campaign = &send.message.envelope.campaign;
        let mut runs = self.runs.borrow_mut();
        match &send.result {
            Ok(_) => runs.entry(campaign.clone()).or_default().accepted(),
            Err((failure, Outcome::Permanent)) if !send.is_held => {
                let run = runs.entry(campaign.clone()).or_default();
                run.refused(failure.code.as_deref().unwrap_or_default());
                if let Some(streak) = run.last().filter(|streak| streak.holds()) {
                    let (reason, detail) = (HoldReason::Refusals, streak.in_words());
                    runs.remove(campaign);
                    let campaign = Some(campaign.clone());
                    effects.push(Effect::Hold { campaign, reason, detail });
                }
            }
            Err(_) => {}
        }
        drop(runs);
        PolicyStep::Pass(send)
    }

    fn concludes(&self, control: &mut Control) {
        for (campaign, run) in &*self.runs.borrow() {
            match run.after(control.refusals.get(campaign)) {
                Some(streak) if streak.holds() => {
                    let hold = Hold::new(&streak.in_words(), self.ctx.now());
                    control.refusals.remove(campaign);
                    control.hold(Some(campaign), HoldReason::Refusals, hold);
                }
                Some(streak) => drop(control.refusals.insert(campaign.clone(), streak)),
                None => drop(control.refusals.remove(campaign)),
            }
        }
    }
}
