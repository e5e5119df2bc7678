//! The mail at hand, by which the sources decide how much to receive.

use tidegate_core::limiter::{Limiter, Line};

use crate::poll::sources::message::Message;

/// Mail that rules keep until the ledger has answered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptMail {
    /// Express mails.
    pub(crate) express: u64,
    /// Recipients of campaign mail, mail from limit queues included.
    pub(crate) campaigns: u64,
}

impl KeptMail {
    pub(crate) fn of(mail: &Message) -> Self {
        match mail.line {
            Line::Express => Self { express: 1, campaigns: 0 },
            Line::Campaign(_) | Line::Limited(_) => {
                Self { express: 0, campaigns: mail.recipients() }
            }
        }
    }

    pub(crate) const fn plus(self, more: Self) -> Self {
        Self { express: self.express + more.express, campaigns: self.campaigns + more.campaigns }
    }

    pub(crate) const fn less(self, other: Self) -> Self {
        Self {
            express: self.express.saturating_sub(other.express),
            campaigns: self.campaigns.saturating_sub(other.campaigns),
        }
    }
}

/// The mail at hand, and the slots that it may take.
pub(crate) struct MailAtHand<'h> {
    pub(crate) limiter: &'h Limiter<usize>,
    pub(crate) kept: KeptMail,
    /// Messages received and not yet settled.
    pub(crate) buffered: u64,
}

impl MailAtHand<'_> {
    pub(crate) fn slots_left(&self) -> u64 {
        self.limiter.slots_left()
    }

    /// Recipients of campaign mail, mail from limit queues included.
    pub(crate) fn campaigns(&self) -> u64 {
        let waiting = self.limiter.recipients_waiting();
        waiting.saturating_sub(self.limiter.express_waiting()) + self.kept.campaigns
    }

    /// Recipients of campaign mail without mail from limit queues, which waits for slots of its own limit.
    pub(crate) fn unlimited(&self) -> u64 {
        self.limiter.campaigns_waiting() + self.kept.campaigns
    }

    /// Express mails that wait for a slot or are kept.
    pub(crate) fn express(&self) -> u64 {
        self.limiter.express_mails() + self.kept.express
    }

    /// Slots of the express floor that are still ahead.
    pub(crate) fn floor(&self) -> u64 {
        self.limiter.floor_ahead(u64::MAX)
    }
}
