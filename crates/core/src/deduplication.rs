//! Deduplication: a mail is marked *sending* before SES and *sent* after, so that a copy that
//! comes again is known.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::identity::EpochMillis;
use crate::timestamp::Timestamp;

/// `TIDEGATE_DEDUPLICATION`: whether mails are marked, and what becomes of one of which nobody
/// knows whether it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deduplication {
    /// No marks: delivery is at least once.
    #[default]
    Off,
    /// It is sent, perhaps once more.
    Resend,
    /// It is dead-lettered as `unknown`: sent at most once.
    Park,
}

/// How far a marked mail came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkState {
    /// A poller set out to send it.
    Sending,
    /// SES took it.
    Sent,
    /// It went to the dead-letter queue, and nobody knows whether it was sent.
    Parked,
}

impl MarkState {
    /// Its name in the ledger.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Parked => "parked",
        }
    }
}

/// What stands in the ledger of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// How far it came.
    pub state: MarkState,
    /// Of whoever marked it.
    pub token: String,
    /// The mail's pass then; of a parked mail that of [`Envelope::parked`].
    ///
    /// [`Envelope::parked`]: crate::identity::Envelope::parked
    pub pass: u32,
    /// Since when it is *sending*.
    pub since: EpochMillis,
}

/// What is to be done with a mail that is marked already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was sent: this copy is only deleted.
    Delete,
    /// Someone may be sending it right now: it is left to its visibility timeout.
    LeaveAlone,
    /// It is sent, in the place of whoever marked it.
    TakeOver,
    /// It is dead-lettered as `unknown`.
    Park,
}

impl Deduplication {
    /// What is to be done with a mail of this `pass` whose mark was `found`.
    ///
    /// Longer than the `visibility` timeout nobody sends: a send that could outlast it is not
    /// started. So an older *sending* is a crash, or a lost answer. A parked mail that comes with a
    /// higher pass was replayed by an operator, who had seen it.
    pub fn verdict(self, found: &Mark, pass: u32, now: Timestamp, visibility: Duration) -> Verdict {
        let unknown = if self == Self::Park { Verdict::Park } else { Verdict::TakeOver };
        match found.state {
            MarkState::Sent => Verdict::Delete,
            MarkState::Sending => {
                let age = now.saturating_since(found.since.into());
                if age > visibility { unknown } else { Verdict::LeaveAlone }
            }
            MarkState::Parked if pass > found.pass => Verdict::TakeOver,
            MarkState::Parked => unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VISIBILITY: Duration = Duration::from_secs(30);

    fn verdict(deduplication: Deduplication, state: MarkState, pass: u32, age_ms: u64) -> Verdict {
        let found =
            Mark { state, token: "a".to_owned(), pass: 3, since: EpochMillis::new(1_000_000) };
        deduplication.verdict(&found, pass, Timestamp::from_millis(1_000_000 + age_ms), VISIBILITY)
    }

    #[test]
    fn a_mail_found_sent_is_only_deleted_whatever_its_pass_or_age() {
        for deduplication in [Deduplication::Resend, Deduplication::Park] {
            for (pass, age) in [(0, 0), (3, 40_000), (4, 86_400_000)] {
                assert_eq!(verdict(deduplication, MarkState::Sent, pass, age), Verdict::Delete);
            }
        }
    }

    #[test]
    fn a_mail_found_sending_is_left_alone_for_a_visibility_timeout_then_resent_or_parked() {
        for pass in [3, 4] {
            for (deduplication, then) in
                [(Deduplication::Resend, Verdict::TakeOver), (Deduplication::Park, Verdict::Park)]
            {
                let sending = |age| verdict(deduplication, MarkState::Sending, pass, age);
                assert_eq!(sending(0), Verdict::LeaveAlone);
                assert_eq!(sending(30_000), Verdict::LeaveAlone);
                assert_eq!(sending(30_001), then);
            }
        }
    }

    #[test]
    fn a_parked_mail_is_sent_only_when_an_operator_replayed_it() {
        assert_eq!(verdict(Deduplication::Park, MarkState::Parked, 3, 90_000), Verdict::Park);
        assert_eq!(verdict(Deduplication::Park, MarkState::Parked, 4, 90_000), Verdict::TakeOver);
    }

    #[test]
    fn a_clock_that_lags_behind_the_markers_leaves_it_alone() {
        let found = Mark {
            state: MarkState::Sending,
            token: "a".to_owned(),
            pass: 0,
            since: EpochMillis::new(1_000_200),
        };
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(Deduplication::Park.verdict(&found, 0, now, VISIBILITY), Verdict::LeaveAlone);
    }
}
