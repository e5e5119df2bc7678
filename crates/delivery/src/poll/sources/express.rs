//! Express mail and campaign mail side by side: how much of each is received.
//!
//! Express takes slots first, beyond the express floor. Campaign mail that is received and then displaced
//! by express stays invisible for its visibility timeout. So while express mail comes, campaign mail is
//! received only for the slots just ahead that express will probably leave.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::allocation::BATCH;
use tidegate_core::breaker::Permit;
use tidegate_core::prefetch::Outlook;

use super::mail_at_hand::MailAtHand;
use super::message::Source;
use super::receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin};
use super::supply::{PollVerdict, QueueSupply};
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::ports::QueueUrl;

/// While the express queue has mail, its next answer comes within this time; an empty long poll is silent
/// for a second. So silence for longer means that it is empty.
const WORD: Duration = Duration::from_millis(150);
/// A share of the slots below this, 0.2 %, counts as no express mail.
const NOTABLE: f64 = 0.002;

/// The express queue in this window.
pub(super) struct ExpressQueue<'a, E> {
    ctx: &'a Context<'a, E>,
    pub(super) source: Source,
    pub(super) supply: QueueSupply,
    /// It counted as empty, or failed too often.
    dry: bool,
    /// It gave mail in this window.
    seen: bool,
    /// Whether the last answer was as full as was asked, and when it came; none before the first.
    full: Option<(bool, Timestamp)>,
}

impl<'a, E: Environment> ExpressQueue<'a, E> {
    /// The queue should have mail if it had some in the last windows.
    pub(super) fn new(ctx: &'a Context<'a, E>, queue: QueueUrl) -> Self {
        let expected = u64::from(ctx.running_means.express_share() >= NOTABLE);
        let supply = QueueSupply::expecting(expected);
        Self { ctx, source: Source::express(queue), supply, dry: false, seen: false, full: None }
    }

    /// The next receive, while `for_campaigns` slots are left to campaigns.
    pub(super) fn next(
        &mut self,
        hand: &MailAtHand<'_>,
        for_campaigns: u64,
    ) -> Option<NextReceive> {
        let messages = self.wanted(hand, for_campaigns);
        let may_ask = self.supply.may_ask(self.ctx.left_until(LAST_RECEIVE));
        if self.dry || !may_ask || messages == 0 {
            return None;
        }
        let (queue, pause) = (self.source.queue.clone(), self.supply.pause());
        let (origin, wait) = (ReceiveOrigin::Express, self.ctx.wait_after(pause));
        self.supply.asked(messages);
        Some(NextReceive { origin, queue, messages, pause, wait })
    }

    /// Messages to ask for now, 0 to 10.
    ///
    /// Example: 50 slots are left, 5 of them kept for campaigns, 30 express mails are at hand and 10 are
    /// asked for: 50 − 5 − 30 − 10 = 5 messages.
    fn wanted(&self, hand: &MailAtHand<'_>, for_campaigns: u64) -> u64 {
        let open = hand.slots_left().saturating_sub(for_campaigns);
        let most = if self.ctx.plan.permit == Permit::Probe { open.min(1) } else { open };
        most.saturating_sub(hand.express() + self.supply.outstanding()).min(BATCH)
    }

    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive.
    pub(super) fn answered(&mut self, asked: u64, got: Option<u64>, verdict: PollVerdict) {
        self.dry |= verdict.is_dry();
        self.seen |= verdict == PollVerdict::Mail;
        if let Some(got) = got {
            self.full = Some((got >= asked, self.ctx.now()));
        }
    }

    /// The expectation for the slots ahead; none if no express mail is expected. Campaigns' mails have
    /// `recipients_per_mail` on average.
    pub(super) fn outlook(
        &self,
        hand: &MailAtHand<'_>,
        recipients_per_mail: f64,
    ) -> Option<Outlook> {
        // Although the queue counts as empty, a long poll under way may still bring mail.
        if self.dry && self.supply.outstanding() == 0 {
            return None;
        }
        let (now, opens) = (self.ctx.now(), self.ctx.plan.window.opens());
        let lately = self.ctx.running_means.express_share();
        if !self.seen && lately < NOTABLE && now >= opens {
            return None;
        }
        let rate = self.ctx.plan.rate;
        let ahead = Outlook::slots_ahead(rate, recipients_per_mail);
        Some(Outlook {
            rate,
            slots_left: hand.slots_left(),
            express_waiting: hand.limiter.express_waiting(),
            express_share: lately,
            express_gives: match self.full {
                // A queue that gave its last mail and is silent for longer than `WORD` has no more.
                Some((full, at)) => full && now < at + WORD,
                None => now + WORD < opens,
            },
            floor: hand.limiter.floor_ahead(ahead),
            recipients_per_mail,
        })
    }

    /// Notes for the next windows the share of the slots that express mail took.
    #[expect(clippy::cast_precision_loss, reason = "slots of one window")]
    pub(super) fn learn(&self, sent: u64) {
        let slots = self.ctx.plan.slot_count();
        if slots > 0 {
            self.ctx.running_means.express_took(sent as f64 / slots as f64);
        }
    }
}
