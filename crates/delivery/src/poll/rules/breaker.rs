//! The circuit breaker in one window: its probe, and whether a failed send counts as an attempt.
//!
//! A breaker that probes lets one mail through, sent by the one poller that the ledger made the prober. A
//! breaker that allows is told how many sends failed; while it watches, a failure counts as an attempt only
//! if the breaker still allows, so the ledger is asked anew once a second.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_core::breaker::{Outcomes, Permit};
use tidegate_core::config::DECIDED;
use tidegate_core::control::Control;
use tidegate_core::outcome::Outcome;

use super::{Effect, EndedSend, Kept, Leave, MailStep, NextRule, SendStep};
use crate::poll::context::Context;
use crate::poll::control_record;
use crate::poll::sources::message::Message;
use crate::ports::{Environment, Monotonic};

/// Once the breaker has a reason to block, an older look at it is not relied on.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(crate) struct BreakerRule<'a, E: Environment> {
    ctx: &'a Context<'a, E>,
    state: Rc<RefCell<BreakerState>>,
}

struct BreakerState {
    /// A mail was taken for the probe.
    is_taken: bool,
    /// Whether the breaker allows, and when the ledger last said so.
    allowing: (bool, Monotonic),
    /// Failed sends that wait for a look at the breaker.
    undecided: Vec<EndedSend>,
    outcomes: Outcomes,
    /// Whether the probe showed that SES works; none if no probe ended.
    probed: Option<bool>,
}

impl BreakerState {
    /// Hands on the failed sends that waited for a look at the breaker.
    fn decide(&mut self, counts: bool, effects: &mut Vec<Effect>) {
        for mut send in std::mem::take(&mut self.undecided) {
            send.counts &= counts;
            effects.push(Effect::Ended(Box::new(send)));
        }
    }
}

impl<'a, E: Environment> BreakerRule<'a, E> {
    pub(crate) fn new(ctx: &'a Context<'a, E>) -> Self {
        let state = BreakerState {
            is_taken: false,
            allowing: (true, ctx.monotonic()),
            undecided: Vec::new(),
            outcomes: Outcomes::default(),
            probed: None,
        };
        Self { ctx, state: Rc::new(RefCell::new(state)) }
    }

    fn is_probing(&self) -> bool {
        self.ctx.plan.permit == Permit::Probe
    }

    /// Notes a send's outcome; `None` is an acceptance.
    fn note(&self, outcome: Option<Outcome>, effects: &mut Vec<Effect>) {
        let Some(failed) = has_failed(outcome, self.is_probing()) else { return };
        let mut state = self.state.borrow_mut();
        if self.is_probing() {
            state.probed = Some(!failed);
            effects.push(Effect::Stop);
        } else {
            state.outcomes.all += 1;
            state.outcomes.failures += u64::from(failed);
        }
    }

    /// Whether the breaker watches, allowed, and was asked too long ago to be relied on.
    fn has_to_look(&self) -> bool {
        let (allowing, seen) = self.state.borrow().allowing;
        let is_old = self.ctx.monotonic().saturating_since(seen) > LOOK_EVERY;
        self.ctx.plan.is_watched() && allowing && is_old
    }

    /// Takes the first mail for the probe and asks the ledger to make this poller the prober: the mail is
    /// sent, or it is left and the window ends. Further mail is left.
    pub(super) fn received(&self, mail: Box<Message>, effects: &mut Vec<Effect>) -> MailStep<'a> {
        if !self.is_probing() {
            return Ok(mail);
        }
        if std::mem::replace(&mut self.state.borrow_mut().is_taken, true) {
            effects.push(Effect::Leave(mail, Leave::BySettings));
            return Err(Kept::Gone);
        }
        let ctx = self.ctx;
        let asking = async move {
            let is_prober = ctx.within(DECIDED, control_record::become_prober(ctx)).await;
            if is_prober.unwrap_or(false) {
                vec![Effect::Pass(mail, NextRule::None)]
            } else {
                vec![Effect::Leave(mail, Leave::BySettings), Effect::Stop]
            }
        };
        Err(Kept::Later(asking.boxed_local()))
    }

    pub(super) fn wants_mail(&self) -> bool {
        !(self.is_probing() && self.state.borrow().is_taken)
    }

    /// Counts the outcome. Failed sends wait for a new look at the breaker if it is time for one.
    pub(super) fn ended(
        &self,
        mut send: Box<EndedSend>,
        effects: &mut Vec<Effect>,
    ) -> SendStep<'a> {
        self.note(send.outcome(), effects);
        if !matches!(send.outcome(), Some(Outcome::Transient | Outcome::Ambiguous)) {
            return Ok(send);
        }
        let last = send.message.envelope.next_attempt() >= self.ctx.config.max_attempts;
        send.counts &= !(last && self.ctx.plan.suspects_an_outage);
        if !self.has_to_look() {
            send.counts &= self.state.borrow().allowing.0 && !self.is_probing();
            return Ok(send);
        }
        let mut state = self.state.borrow_mut();
        state.undecided.push(*send);
        if state.undecided.len() > 1 {
            return Err(Kept::Gone); // the look is under way
        }
        let (ctx, state) = (self.ctx, Rc::clone(&self.state));
        let looking = async move {
            let allows = ctx.within(DECIDED, control_record::allows(ctx)).await.unwrap_or(true);
            let mut effects = Vec::new();
            let mut state = state.borrow_mut();
            state.allowing = (allows, ctx.monotonic());
            state.decide(allows, &mut effects);
            effects
        };
        Err(Kept::Later(looking.boxed_local()))
    }

    /// Failed sends that still wait for a look count as attempts.
    pub(super) fn slots_over(&self) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.state.borrow_mut().decide(true, &mut effects);
        effects
    }

    pub(super) fn concludes(&self, control: &mut Control) {
        let state = self.state.borrow();
        let (window, policy) = (self.ctx.plan.window, &self.ctx.config.breaker);
        let probed = state
            .probed
            .and_then(|worked| control.breaker.probed(window, &self.ctx.token, worked, policy));
        let after = probed.or_else(|| control.breaker.observed(window, state.outcomes, policy));
        if let Some(after) = after {
            control.breaker = after;
        }
    }

    pub(super) fn wrote_control(&self) -> bool {
        self.state.borrow().probed.is_some()
    }
}

/// Whether a send's outcome is a failure of SES; none if it does not count. An `outcome` of `None` is an acceptance. A
/// permanent refusal is no failure of SES.
const fn has_failed(outcome: Option<Outcome>, is_probing: bool) -> Option<bool> {
    match outcome {
        Some(Outcome::NotSent) => None,
        None | Some(Outcome::NotReady | Outcome::Permanent | Outcome::OptedOut) => Some(false),
        Some(
            Outcome::RateExceeded | Outcome::Environment | Outcome::Transient | Outcome::Ambiguous,
        ) => Some(true),
        // These outcomes (daily quota, account, tenant) show that SES works; the hold that each causes stops
        // sending by itself.
        Some(_) if is_probing => Some(false),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_shows_a_probe_that_ses_works_and_says_nothing_of_other_sends() {
        let of = |outcome| [true, false].map(|is_probing| has_failed(outcome, is_probing));
        for outcome in [Outcome::DailyQuotaExceeded, Outcome::AccountPaused, Outcome::Tenant] {
            assert_eq!(of(Some(outcome)), [Some(false), None], "{outcome:?}");
        }
        assert_eq!(of(None), [Some(false); 2]);
        assert_eq!(of(Some(Outcome::Permanent)), [Some(false); 2]);
        assert_eq!(of(Some(Outcome::Transient)), [Some(true); 2]);
        assert_eq!(of(Some(Outcome::NotSent)), [None; 2]);
    }
}
