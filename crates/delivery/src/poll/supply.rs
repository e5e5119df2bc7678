//! How many receives of one queue may run at once: few while it may be empty, as many as are
//! wanted while it gives.

use tidegate_core::allocation::{Ask, BATCH};
use tidegate_core::breaker::Permit;

use super::plan::{Plan, PlannedCampaign};

#[derive(Clone, Copy, Debug)]
pub(super) struct Supply {
    /// Messages asked for and not answered.
    outstanding: u64,
    /// Messages it is thought to hold.
    expected: u64,
}

impl Supply {
    /// Of a queue thought to hold `expected` messages.
    pub(super) const fn expecting(expected: u64) -> Self {
        Self { outstanding: 0, expected }
    }

    /// Of a campaign: plenty, unless it was found empty.
    pub(super) fn of(plan: &Plan, campaign: &PlannedCampaign) -> Self {
        let plenty = plan.asks(campaign) && campaign.idle.is_none();
        Self::expecting(if plenty { u64::MAX } else { 0 })
    }

    /// One receive may always run; more while the queue is thought to hold more.
    pub(super) const fn may_ask(&self) -> bool {
        self.outstanding == 0 || self.outstanding < self.expected
    }

    pub(super) const fn outstanding(&self) -> u64 {
        self.outstanding
    }

    pub(super) const fn asked(&mut self, messages: u64) {
        self.outstanding = self.outstanding.saturating_add(messages);
    }

    /// A receive beside the shares, of a campaign that was found empty: of a batch, or of one message
    /// where the circuit breaker wants no more.
    pub(super) fn probe(&mut self, plan: &Plan, lane: usize) -> Ask {
        let messages = if plan.permit == Permit::Probe { 1 } else { BATCH };
        self.asked(messages);
        Ask { lane, messages, recipients: 0 }
    }

    /// Notes an answer: one as full as was asked promises more.
    pub(super) const fn answered(&mut self, asked: u64, got: u64) {
        self.outstanding = self.outstanding.saturating_sub(asked);
        self.expected = self.expected.saturating_sub(got);
        if got >= asked {
            self.expected = self.expected.saturating_add(3 * BATCH);
        }
    }

    /// Notes that so many more came to stand in it.
    pub(super) const fn arrived(&mut self, messages: u64) {
        self.expected = self.expected.saturating_add(messages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_may_be_empty_is_asked_once_until_it_gives() {
        let mut supply = Supply::expecting(0);
        assert!(supply.may_ask());
        supply.asked(10);
        assert!(!supply.may_ask());
        supply.answered(10, 10);
        supply.asked(10);
        assert!(supply.may_ask());
        supply.answered(10, 0);
    }
}
