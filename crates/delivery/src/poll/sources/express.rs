//! Express mail and campaign mail side by side: how much of each is received.
//!
//! Express takes slots first, beyond the express floor. Campaign mail that is received and then displaced
//! by express stays invisible for its visibility timeout. So while express mail comes, campaign mail is
//! received only for the slots just ahead that express will probably leave.
//!
//! The express queue is asked by one long poll after the other, and passes from one window's poller to the
//! next without a gap: a poller starts its first poll 50 ms before its window opens, and its last one at
//! least 50 ms before the window closes. A poll is open for a second, so the last one mostly outlives the
//! window. If it brings a mail too late for a slot, the mail is shown again at once, and the next poller,
//! whose poll is open, receives it one call later. A window costs one poll beside those that bring mail,
//! and one call for a mail that is handed over.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::allocation::BATCH;
use tidegate_core::breaker::Permit;
use tidegate_core::prefetch::Outlook;

use super::mail_at_hand::MailAtHand;
use super::message::Source;
use super::receive::{LAST_RECEIVE, NextReceive, ReceiveOrigin, Wait};
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
    /// Too many of the queue's receives failed.
    fails: bool,
    /// It gave mail in this window.
    seen: bool,
    /// Whether the last answer was as full as was asked, and when it came; none before the first.
    full: Option<(bool, Timestamp)>,
    /// When it last gave mail, or was first asked.
    gave: Timestamp,
}

impl<'a, E: Environment> ExpressQueue<'a, E> {
    /// The queue should have mail if it had some in the last windows.
    pub(super) fn new(ctx: &'a Context<'a, E>, queue: QueueUrl) -> Self {
        let expected = u64::from(ctx.running_means.express_share() >= NOTABLE);
        let supply = QueueSupply::expecting(expected);
        let gave = ctx.plan.window.opens().saturating_sub(LAST_RECEIVE);
        Self {
            ctx,
            source: Source::express(queue),
            supply,
            fails: false,
            seen: false,
            full: None,
            gave,
        }
    }

    /// The next receive, while `for_campaigns` slots are left to campaigns.
    pub(super) fn next(
        &mut self,
        hand: &MailAtHand<'_>,
        for_campaigns: u64,
    ) -> Option<NextReceive> {
        let messages = self.wanted(hand, for_campaigns);
        let left = self.ctx.left_until(LAST_RECEIVE);
        if self.fails || messages == 0 || left.is_zero() || !self.supply.may_ask(left) {
            return None;
        }
        let opens = self.ctx.plan.window.opens().saturating_sub(LAST_RECEIVE);
        let pause = self.supply.pause().max(opens.saturating_since(self.ctx.now()));
        let (origin, queue) = (ReceiveOrigin::Express, self.source.queue.clone());
        self.supply.asked(messages);
        Some(NextReceive { origin, queue, messages, pause, wait: Wait::Past })
    }

    /// Messages to ask for now, 0 to 10.
    ///
    /// Example: 50 slots are left, 5 of them kept for campaigns, 30 express mails are at hand and 10 are
    /// asked for: 50 − 5 − 30 − 10 = 5 messages.
    fn wanted(&self, hand: &MailAtHand<'_>, for_campaigns: u64) -> u64 {
        let open = hand.slots_left().saturating_sub(for_campaigns);
        let most = match self.ctx.plan.permit {
            _ if self.ctx.plan.probes_express && self.seen => 0,
            Permit::Probe => open.min(1),
            Permit::Send | Permit::Nothing => open,
        };
        most.saturating_sub(hand.express() + self.supply.outstanding()).min(BATCH)
    }

    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive.
    pub(super) fn answered(&mut self, asked: u64, got: Option<u64>, verdict: PollVerdict) {
        self.fails |= verdict == PollVerdict::Failing;
        self.seen |= verdict == PollVerdict::Mail;
        if let Some(got) = got {
            self.full = Some((got >= asked, self.ctx.now()));
            self.gave = if got > 0 { self.ctx.now() } else { self.gave };
        }
    }

    /// The expectation for the slots ahead; none if no express mail is expected. Campaigns' mails have
    /// `recipients_per_mail` on average.
    pub(super) fn outlook(
        &self,
        hand: &MailAtHand<'_>,
        recipients_per_mail: f64,
    ) -> Option<Outlook> {
        // Although its receives fail, a long poll under way may still bring mail.
        if self.fails && self.supply.outstanding() == 0 {
            return None;
        }
        let (now, opens) = (self.ctx.now(), self.ctx.plan.window.opens());
        let lately = self.ctx.running_means.express_share();
        if !self.seen && lately < NOTABLE && now >= opens {
            return None;
        }
        let rate = self.ctx.plan.rate;
        let ahead = Outlook::slots_ahead(rate, hand.slots_left(), recipients_per_mail);
        Some(Outlook {
            rate,
            slots_left: hand.slots_left(),
            express_waiting: hand.limiter.express_waiting(),
            express_share: lately,
            express_gives: match self.full {
                // A queue that gave its last mail and is silent for longer than `WORD` has no more.
                Some((full, at)) => full && now < at + WORD,
                None => now + LAST_RECEIVE / 2 < opens,
            },
            express_silent: now.saturating_since(self.gave),
            is_last: self.is_last(now),
            floor: hand.limiter.floor_ahead(ahead),
            recipients_per_mail,
        })
    }

    /// Whether a receive that starts now is the last that can fill the window's slots: it takes about as
    /// long as is left until the last one may start.
    fn is_last(&self, now: Timestamp) -> bool {
        now + 2 * LAST_RECEIVE >= self.ctx.plan.window.closes()
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
