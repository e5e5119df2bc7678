use serde::{Deserialize, Serialize};

/// A campaign from when its queue fills until it is empty again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Run {
    /// What had been sent when it began.
    base: u64,
    /// The tenths of it that were told; none while nothing waits.
    tenths: Option<u64>,
    /// How often in a row nothing waited: SQS counts approximately, so once means nothing.
    empty: u8,
}

/// Looks without a message in a row that end a run.
const EMPTY_LOOKS: u8 = 2;

/// What is said of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// So many wait.
    Begun(u64),
    /// So many tenths are sent.
    Tenths(u64),
    /// All of it, so many recipients.
    Ended(u64),
}

impl Run {
    /// Takes a look: so many recipients sent since the ledger began, so many messages waiting.
    pub(super) fn look(&mut self, sent: u64, waiting: u64) -> Option<Said> {
        if waiting == 0 {
            self.empty = self.empty.saturating_add(1);
            if self.empty < EMPTY_LOOKS {
                return None;
            }
            let of_run = sent.saturating_sub(std::mem::replace(&mut self.base, sent));
            return self.tenths.take().map(|_| Said::Ended(of_run));
        }
        self.empty = 0;
        let of_run = sent.saturating_sub(self.base);
        let tenths = of_run.saturating_mul(10) / of_run.saturating_add(waiting);
        match self.tenths {
            None => {
                self.tenths = Some(tenths);
                Some(Said::Begun(waiting))
            }
            Some(told) if tenths > told => {
                self.tenths = Some(tenths);
                Some(Said::Tenths(tenths))
            }
            // What is put on the queue meanwhile takes it back; that is told by the figures.
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
        let mut run = Run::default();
        let looks =
            [(0, 1_000), (50, 950), (100, 900), (350, 650), (360, 640), (990, 10), (1_000, 0)];
        let said: Vec<_> = looks.map(|(sent, waiting)| run.look(sent, waiting)).into();
        let tenths = |tenths| Some(Said::Tenths(tenths));
        assert_eq!(
            said,
            [Some(Said::Begun(1_000)), None, tenths(1), tenths(3), None, tenths(9), None]
        );
        assert_eq!(run.look(1_000, 0), Some(Said::Ended(1_000)));
        assert_eq!(run.look(1_000, 0), None);
        // The next one counts from there.
        assert_eq!(run.look(1_000, 100), Some(Said::Begun(100)));
        assert_eq!(run.look(1_050, 50), tenths(5));
    }

    #[test]
    fn a_queue_that_is_counted_empty_once_has_not_ended() {
        let mut run = Run::default();
        run.look(0, 100);
        assert_eq!(run.look(20, 0), None);
        assert_eq!(run.look(30, 70), Some(Said::Tenths(3)));
    }
}
