//! The mail at hand, by which the sources decide how much to receive.

use tidegate_core::limiter::{Limiter, Line};

use crate::poll::sources::message::Message;

/// Mail that rules keep until the ledger has answered.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::poll) struct KeptMail {
    /// Express mails.
    pub(in crate::poll) express: u64,
    /// Recipients of campaign mail, mail from limit queues included.
    pub(in crate::poll) campaigns: u64,
}

impl KeptMail {
    pub(in crate::poll) fn of(mail: &Message) -> Self {
        match mail.line {
            Line::Express => Self { express: 1, campaigns: 0 },
            Line::Campaign(_) | Line::Limited(_) => {
                Self { express: 0, campaigns: mail.recipients() }
            }
        }
    }

    pub(in crate::poll) const fn plus(self, more: Self) -> Self {
        Self { express: self.express + more.express, campaigns: self.campaigns + more.campaigns }
    }

    pub(in crate::poll) const fn less(self, other: Self) -> Self {
        Self {
            express: self.express.saturating_sub(other.express),
            campaigns: self.campaigns.saturating_sub(other.campaigns),
        }
    }
}

/// The mail at hand, and the slots that it may take.
pub(in crate::poll) struct MailAtHand<'h> {
    pub(in crate::poll) limiter: &'h Limiter<usize>,
    pub(in crate::poll) kept: KeptMail,
    /// Messages received and not yet settled.
    pub(in crate::poll) buffered: u64,
}

impl MailAtHand<'_> {
    pub(in crate::poll) fn slots_left(&self) -> u64 {
        self.limiter.slots_left()
    }

    /// Recipients of campaign mail, mail from limit queues included.
    pub(in crate::poll) fn campaigns(&self) -> u64 {
        let waiting = self.limiter.recipients_waiting();
        waiting.saturating_sub(self.limiter.express_waiting()) + self.kept.campaigns
    }

    /// Recipients of campaign mail without mail from limit queues, which waits for slots of its own limit.
    pub(in crate::poll) fn unlimited(&self) -> u64 {
        self.limiter.campaigns_waiting() + self.kept.campaigns
    }

    /// Express mails that wait for a slot or are kept.
    pub(in crate::poll) fn express(&self) -> u64 {
        self.limiter.express_mails() + self.kept.express
    }

    /// Slots of the express floor that are still ahead.
    pub(in crate::poll) fn floor(&self) -> u64 {
        self.limiter.floor_ahead(u64::MAX)
    }
}
