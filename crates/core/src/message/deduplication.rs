//! Deduplication: a mark in the ledger says *sending* before a mail goes to SES and *sent* after SES
//! took it. A second copy of the mail finds the mark.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::identity::EpochMillis;
use crate::timestamp::Timestamp;

/// `TIDEGATE_DEDUPLICATION`: whether mails are marked, and how a mail is treated that may or may not
/// have been sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum Deduplication {
    /// No marks. A mail may be sent more than once.
    #[default]
    Off,
    /// The mail is sent again, perhaps for the second time.
    Resend,
    /// The mail is dead-lettered with the code `unknown`, so it is sent at most once.
    Park,
}

/// The state in a mail's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum MarkState {
    /// A poller started to send it; the result is not known yet.
    Sending,
    /// SES accepted the mail; copies of it are deleted.
    Sent,
    /// The mail is on the dead-letter queue; whether SES accepted it is unknown.
    Parked,
}

impl MarkState {
    /// The state's name in the ledger.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The mark of one mail in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The state of the mail when the mark was last written.
    pub state: MarkState,
    /// Token of the poller that wrote the mark.
    pub token: String,
    /// The mail's pass when it was marked; for a parked mail the pass that [`Envelope::parked`] gives
    /// it.
    ///
    /// [`Envelope::parked`]: crate::identity::Envelope::parked
    pub pass: u32,
    /// Time at which the state became *sending*.
    pub since: EpochMillis,
    /// SES's acceptance of a sent mail; `None` for other states.
    pub accepted: Option<Acceptance>,
}

/// The time at which SES accepted a mail, and SES's message id of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acceptance {
    /// Time of SES's answer.
    pub at: EpochMillis,
    /// SES's message id, which SES's events name too.
    pub ses_message_id: String,
}

/// Action for a mail that already has a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Delete this copy; the mail was sent.
    Delete,
    /// Leave this copy to its visibility timeout: another poller may be sending the mail now.
    LeaveAlone,
    /// Send the mail; this poller's mark replaces the old one.
    TakeOver,
    /// Dead-letter the mail with the code `unknown`.
    Park,
}

impl Deduplication {
    /// The action for a mail in its `pass`-th pass whose mark is `found`.
    ///
    /// No send lasts longer than the `visibility` timeout, because a send that could is not started. An
    /// older *sending* therefore means a crash or a lost answer. Example with 30 s: a mark of 30.000 s
    /// is left alone; one of 30.001 s is resent or parked. A parked mail with a higher pass was
    /// replayed by an operator, so it is sent.
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
        let found = Mark {
            state,
            token: "a".to_owned(),
            pass: 3,
            since: EpochMillis::new(1_000_000),
            accepted: None,
        };
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
            accepted: None,
        };
        let now = Timestamp::from_millis(1_000_000);
        assert_eq!(Deduplication::Park.verdict(&found, 0, now, VISIBILITY), Verdict::LeaveAlone);
    }
}
