use tidegate_core::outcome::Failure;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Fault, Latency, Operation, Rule, SeededEntropy, failures};

use std::time::Duration;

/// Draws a world's settings and faults from a seed.
#[derive(Debug)]
pub(super) struct Draw(SeededEntropy);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(SeededEntropy::new(seed))
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.0.bits() % bound
    }

    pub(super) fn one_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<T: Copy>(&self, of: &[T]) -> T {
        let index = usize::try_from(self.below(of.len() as u64)).unwrap_or(0);
        of[index]
    }

    /// Draws a fault of calls to queues, ledger or Invoke.
    pub(super) fn fault(&self) -> Rule<FailureKind> {
        let soon = Latency::between(Duration::ZERO, Duration::from_secs(40));
        let slow = Latency::between(Duration::ZERO, Duration::from_millis(700));
        let failed = || match self.below(2) {
            0 => Fault::Before(FailureKind::TimedOut),
            _ => Fault::After(FailureKind::TimedOut),
        };
        let batch = [Operation::Send, Operation::Delete, Operation::SetVisibility];
        let marks = [Operation::Mark, Operation::SetMark, Operation::Unmark];
        let control = [Operation::SetControl, Operation::SetFactor, Operation::Read];
        let rule = match self.below(13) {
            0 => Rule::new(failed()).on(Operation::Receive),
            1 => Rule::new(failed()).on(Operation::Send),
            2 => Rule::new(failed()).on(Operation::Delete),
            3 => {
                let of_entries = [&Fault::RefuseEntries(0.4), &Fault::LoseEntries(0.4)];
                Rule::new(self.pick(&of_entries).clone()).on(self.pick(&batch))
            }
            4 => Rule::new(Fault::Nothing).on(Operation::Receive),
            5 => Rule::new(Fault::Duplicate(soon)).on(Operation::Receive),
            6 => Rule::new(failed()).on(Operation::Claim),
            7 => Rule::new(failed()).on(Operation::Report),
            8 => Rule::new(Fault::Slow(slow)).on(Operation::Receive).on(Operation::Delete),
            9 => Rule::new(Fault::Duplicate(Latency::NONE)).on(Operation::Tick),
            10 => Rule::new(failed()).on(self.pick(&marks)),
            11 => Rule::new(failed()).on(self.pick(&control)),
            _ => Rule::new(if self.one_in(2) { Fault::Nothing } else { failed() })
                .on(Operation::Tick),
        };
        rule.chance(self.pick(&[0.05, 0.2, 0.5]))
    }

    /// Draws a fault of sends.
    pub(super) fn mail_fault(&self) -> Rule<Failure> {
        let fault = match self.below(8) {
            0 | 1 => Fault::Before(failures::server_error()),
            2 => Fault::Before(failures::connection_refused()),
            3 => Fault::After(failures::answer_lost()),
            4 => Fault::Before(failures::rate_exceeded()),
            5 => Fault::Before(failures::not_verified()),
            6 => Fault::Before(failures::access_denied()),
            _ => Fault::Before(failures::rejected()),
        };
        Rule::new(fault).on(Operation::Mail).chance(self.pick(&[0.02, 0.1, 0.4, 1.0]))
    }
}
