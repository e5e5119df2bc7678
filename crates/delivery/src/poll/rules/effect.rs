//! A rule neither sends nor settles a mail: it says whether the mail goes on ([`Kept`] if not), and what else it wants
//! done ([`Effect`]).

use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use tidegate_core::Timestamp;
use tidegate_core::control::HoldReason;
use tidegate_core::deduplication::Acceptance;
use tidegate_core::limiter::Line;
use tidegate_core::outcome::{Failure, Outcome};

use crate::poll::settle::Job;
use crate::poll::sources::message::Message;

/// The rule with which a received mail goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NextRule {
    First,
    Limits,
    Marks,
    Breaker,
    /// All have let it through: it waits for a slot.
    None,
}

/// Why a mail, or a send that ended, does not go on to the next rule.
pub(crate) enum Kept<'a> {
    /// The rule keeps it until its question is answered; the answer's effects hand it on.
    Later(LocalBoxFuture<'a, Vec<Effect>>),
    /// It has left the window, or will be handed on by a [`Kept::Later`] under way.
    Gone,
    /// It is left to its visibility timeout, and its queue is asked no more in this window.
    Left,
}

/// A rule's answer on a received mail: it goes on, or is kept.
pub(crate) type MailStep<'a> = Result<Box<Message>, Kept<'a>>;

/// A rule's answer on a send that ended.
pub(crate) type SendStep<'a> = Result<Box<EndedSend>, Kept<'a>>;

/// Something that a rule wants done.
pub(crate) enum Effect {
    /// A mail that a rule kept goes on.
    Pass(Box<Message>, NextRule),
    /// A send that the last rule kept has ended.
    Ended(Box<EndedSend>),
    /// The send never reached SES: its mail waits for a later slot.
    WaitAgain(Box<Message>),
    Leave(Box<Message>, Leave),
    /// The mail is dealt with; the job settles it.
    Settle(Box<Message>, Job),
    /// The slots of a mail that will not be sent go to other mail of its campaign.
    GiveBack(Line, u64),
    /// As many recipients of a campaign were moved out of the way of its other mail.
    MovedAway(Line, u64),
    /// So many mails came into the limit queue at this place.
    Arrived(usize, u64),
    /// Not of a rule, but of the drain itself: further windows were claimed for a mail with more recipients than this one has slots, or not.
    Advanced(bool),
    /// No further send starts in this window.
    Stop,
    /// Hold all sending, or one campaign's.
    Hold {
        campaign: Option<String>,
        reason: HoldReason,
        detail: String,
    },
}

/// How a mail is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// To its visibility timeout, or released, by the settings.
    BySettings,
    /// So, and it was received for a slot and did not get it: its campaign bears its part.
    Unused,
    /// To its visibility timeout whatever the settings: shown at once, it would be received again at once, in vain.
    Hidden,
    /// It is shown again after this time.
    For(Duration),
}

/// A send that ended.
pub(crate) struct EndedSend {
    pub(crate) message: Box<Message>,
    /// The slot at which it started, or should have.
    pub(crate) slot: u64,
    /// When its request was written; `None` if nothing of it was.
    pub(crate) start: Option<Timestamp>,
    /// SES's message id, or the failure with its meaning.
    pub(crate) result: Result<String, (Failure, Outcome)>,
    pub(crate) latency: Duration,
    /// Whether a failure counts as an attempt.
    pub(crate) counts: bool,
    /// The mail's campaign is held, as the window knew when the send ended.
    pub(crate) is_held: bool,
}

impl EndedSend {
    /// The outcome of a send that was not accepted.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.result.as_ref().err().map(|(_, outcome)| *outcome)
    }
}

/// The end of a mail, by which deduplication settles its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// SES accepted the mail: later copies are deleted.
    Sent(Acceptance),
    /// The mail is dead-lettered with this pass, since its outcome is unknown. A copy with a higher pass is
    /// a replay and may be sent.
    Parked(u32),
    /// The mail was not sent.
    Unsent,
}
