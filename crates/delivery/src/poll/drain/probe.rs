//! The breaker's probe: one mail, sent by the one poller that the ledger made the prober.

use tidegate_core::breaker::Permit;
use tidegate_core::outcome::Outcome;

use super::state::Drain;
use crate::environment::Environment;
use crate::poll::changes::Change;
use crate::poll::message::Message;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Probe {
    /// No mail was received for it yet.
    #[default]
    Wanted,
    /// The mail with this ticket waits for the ledger to say whether this poller is the prober.
    Asked(usize),
    /// It is decided whether this poller is the prober.
    Decided,
}

impl<E: Environment> Drain<'_, E> {
    pub(super) fn is_probing(&self) -> bool {
        self.ctx.plan.permit == Permit::Probe
    }

    /// Takes the first mail for the probe and asks the ledger to make this poller the prober; leaves
    /// further mail. Returns the recipients that will use slots.
    pub(super) fn offer(&mut self, message: Box<Message>) -> u64 {
        if self.probe != Probe::Wanted {
            self.leave(&message);
            return 0;
        }
        let recipients = message.recipients();
        self.probe = Probe::Asked(self.messages.len());
        self.messages.push(Some(message));
        self.changes.push(Change::Probe);
        recipients
    }

    /// Notes whether this poller is the prober: its mail is sent, or left and the window ends.
    pub(super) fn prober(&mut self, is_prober: bool) {
        let Probe::Asked(ticket) = std::mem::replace(&mut self.probe, Probe::Decided) else {
            return;
        };
        let Some(message) = self.messages.get_mut(ticket).and_then(Option::take) else { return };
        if is_prober {
            self.wait_for_slot(message);
        } else {
            self.leave(&message);
            self.stop();
        }
    }

    /// Notes a send's outcome for the breaker; `None` is an acceptance. A permanent refusal is no failure
    /// of SES.
    pub(super) fn note(&mut self, outcome: Option<Outcome>) {
        let failed = match outcome {
            Some(Outcome::NotSent) => return,
            None | Some(Outcome::Permanent) => false,
            Some(Outcome::RateExceeded | Outcome::Transient | Outcome::Ambiguous) => true,
            // These outcomes (daily quota, account, credentials, deployment) show that SES works; the hold
            // that each causes stops sending by itself.
            Some(_) if self.is_probing() => false,
            Some(_) => return,
        };
        if self.is_probing() {
            self.done.noted.probe = Some(!failed);
            return self.stop();
        }
        self.done.noted.outcomes.all += 1;
        self.done.noted.outcomes.failures += u64::from(failed);
    }
}
