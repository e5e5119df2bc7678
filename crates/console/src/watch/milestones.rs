use serde::{Deserialize, Serialize};

/// A campaign's run: from the moment at which its queue fills until it is empty again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SendingRun {
    /// Value of the counter of sent recipients when the run began.
    base: u64,
    /// The tenths that the run has reached; lower again when mail is enqueued; none while nothing waits.
    tenths: Option<u64>,
    /// Number of consecutive looks at which nothing waited. SQS's counts are approximate, so a
    /// single zero is no end.
    empty: u8,
}

/// Number of consecutive looks without a message after which a run has ended.
const EMPTY_LOOKS: u8 = 2;

/// Progress that is worth an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Milestone {
    /// A backlog of this many messages appeared.
    Started(u64),
    /// This many tenths of the run are sent.
    Tenths(u64),
    /// The queue is empty after this many recipients.
    Finished(u64),
}

impl SendingRun {
    /// A run that is under way when the console looks first: what was sent before, `sent` recipients, is no
    /// part of it.
    pub(super) fn first_seen(sent: u64) -> Self {
        Self { base: sent, ..Self::default() }
    }

    /// Takes the counters of a look: recipients sent since the ledger was created, messages waiting and dead letters.
    ///
    /// Example: 2,000 recipients had been sent to when the run began (`base`), 2,350 are now, and 650 messages
    /// wait: 350 of 1,000, so 3 tenths. A message counts as one recipient here.
    /// Mail that is enqueued meanwhile lowers the tenths: they are then published a second time on the
    /// way up.
    pub(super) fn look(&mut self, sent: u64, waiting: u64, dead: u64) -> Option<Milestone> {
        if waiting == 0 {
            self.empty = self.empty.saturating_add(1);
            if self.empty < EMPTY_LOOKS {
                return None;
            }
            let of_run = sent.saturating_sub(std::mem::replace(&mut self.base, sent));
            return self.tenths.take().map(|_| Milestone::Finished(of_run));
        }
        self.empty = 0;
        let of_run = sent.saturating_sub(self.base);
        let tenths =
            of_run.saturating_mul(10) / of_run.saturating_add(waiting).saturating_add(dead);
        match self.tenths {
            None => {
                self.tenths = Some(tenths);
                Some(Milestone::Started(waiting))
            }
            Some(told) if tenths > told => {
                self.tenths = Some(tenths);
                Some(Milestone::Tenths(tenths))
            }
            // Mail was enqueued meanwhile: the figures show it, no event is needed.
            Some(told) => {
                self.tenths = Some(told.min(tenths));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_told_by_its_tenths_and_by_its_end() {
        let mut run = SendingRun::default();
        let looks =
            [(0, 1_000), (50, 950), (100, 900), (350, 650), (360, 640), (990, 10), (1_000, 0)];
        let said: Vec<_> = looks.map(|(sent, waiting)| run.look(sent, waiting, 0)).into();
        let tenths = |tenths| Some(Milestone::Tenths(tenths));
        assert_eq!(
            said,
            [Some(Milestone::Started(1_000)), None, tenths(1), tenths(3), None, tenths(9), None]
        );
        assert_eq!(run.look(1_000, 0, 0), Some(Milestone::Finished(1_000)));
        assert_eq!(run.look(1_000, 0, 0), None);
        // The next one counts from there.
        assert_eq!(run.look(1_000, 100, 0), Some(Milestone::Started(100)));
        assert_eq!(run.look(1_050, 50, 0), tenths(5));
    }

    #[test]
    fn a_run_that_is_under_way_at_the_first_look_counts_from_there() {
        let mut run = SendingRun::first_seen(1_000_000);
        assert_eq!(run.look(1_000_000, 1_000, 0), Some(Milestone::Started(1_000)));
        assert_eq!(run.look(1_000_350, 650, 0), Some(Milestone::Tenths(3)));
        assert_eq!(run.look(1_001_000, 0, 0), None);
        assert_eq!(run.look(1_001_000, 0, 0), Some(Milestone::Finished(1_000)));
    }

    #[test]
    fn a_queue_that_is_counted_empty_once_has_not_ended() {
        let mut run = SendingRun::default();
        run.look(0, 100, 0);
        assert_eq!(run.look(20, 0, 0), None);
        assert_eq!(run.look(30, 70, 0), Some(Milestone::Tenths(3)));
    }
}
