//! Express mail and campaign mail side by side: how much of each is received.
//!
//! Express takes slots first, beyond the express floor. Campaign mail that is received and then displaced
//! by express stays invisible for its visibility timeout. So while express mail comes, campaign mail is
//! received only for the slots just ahead that express will probably leave.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::allocation::{Ask, BATCH};
use tidegate_core::breaker::Permit;
use tidegate_core::config::EXPRESS;
use tidegate_core::prefetch::Outlook;

use super::receive::LAST_RECEIVE;
use super::state::Drain;
use crate::environment::Environment;
use crate::poll::context::Context;
use crate::poll::queue_supply::{PollVerdict, QueueSupply};

/// While the express queue has mail, its next answer comes within this time; an empty long poll is silent
/// for a second. So silence for longer means that it is empty.
const WORD: Duration = Duration::from_millis(150);
/// A share of the slots below this, 0.2 %, counts as no express mail.
const NOTABLE: f64 = 0.002;

/// The express queue's answers in this window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Express {
    /// It counted as empty, or failed too often.
    pub(super) dry: bool,
    pub(super) seen: bool,
    /// Whether the last answer was as full as was asked, and when it came; none before the first.
    full: Option<(bool, Timestamp)>,
    /// Express mails whose mark is being written.
    pub(super) marking: u64,
}

impl Express {
    /// Notes an answer of `got` messages to a receive that asked for `asked`; `None` is a failed receive.
    pub(super) fn answered(
        &mut self,
        asked: u64,
        got: Option<u64>,
        verdict: PollVerdict,
        now: Timestamp,
    ) {
        self.dry |= verdict.is_dry();
        self.seen |= verdict == PollVerdict::Mail;
        if let Some(got) = got {
            self.full = Some((got >= asked, now));
        }
    }
}

/// The express queue's supply: it should have mail if it had some in the last windows.
pub(super) fn supply<E: Environment>(ctx: &Context<'_, E>) -> QueueSupply {
    QueueSupply::expecting(u64::from(ctx.running_means.express_share() >= NOTABLE))
}

impl<E: Environment> Drain<'_, E> {
    /// Recipients of campaign mail at hand, mail from domain queues included.
    fn campaigns_in_hand(&self) -> u64 {
        let waiting = self.limiter.recipients_waiting();
        waiting.saturating_sub(self.limiter.express_waiting()) + self.campaigns_marking
    }

    /// Recipients of campaign mail at hand without mail from domain queues, which waits for slots of its
    /// own limit.
    fn unlimited_in_hand(&self) -> u64 {
        self.limiter.campaigns_waiting() + self.campaigns_marking
    }

    /// Slots that express must leave: the floor's, as far as campaigns have, or may get, mail for them.
    fn kept_for_campaigns(&self) -> u64 {
        let wanted = if self.intake.all_dry() { 0 } else { self.intake.still_wanted() };
        self.limiter.floor_ahead(u64::MAX).min(self.campaigns_in_hand() + wanted)
    }

    /// Express mails that were received and wait for a slot or a mark.
    pub(super) fn express_held(&self) -> u64 {
        self.limiter.state().express as u64 + self.express.marking
    }

    /// Messages to ask of the express queue now, 0 to 10.
    ///
    /// Example: 50 slots are left, 5 of them kept for campaigns, 30 express mails are at hand and 10 are
    /// asked for: 50 − 5 − 30 − 10 = 5 messages.
    pub(super) fn express_wanted(&self, outstanding: u64) -> u64 {
        let slots = self.limiter.slots_left();
        let open = slots.saturating_sub(self.kept_for_campaigns());
        let held = self.express_held() + outstanding;
        let most = if self.ctx.plan.permit == Permit::Probe { open.min(1) } else { open };
        most.saturating_sub(held).min(BATCH)
    }

    /// Reduces the campaigns' intake by the slots that passed or that express took, but not below the
    /// floor.
    ///
    /// Example: 40 slots are left, campaigns want or hold 35 recipients and 12 express mails of one
    /// recipient wait: 35 + 12 − 40 = 7 recipients of campaigns find no slot, and are not asked for.
    pub(super) fn give_up_slots(&mut self) {
        let slots = self.limiter.slots_left();
        let domains = self.kept_for_domains();
        let campaigns = self.intake.still_wanted() + self.campaigns_in_hand() + domains;
        let over = (campaigns + self.limiter.express_waiting()).saturating_sub(slots);
        let floor = self.limiter.floor_ahead(u64::MAX);
        self.intake.reduce(over.min(campaigns.saturating_sub(floor)));
    }

    /// The next receive from the campaigns or the merge queue. While express mail comes, it is limited to
    /// the slots just ahead.
    pub(super) fn ask_campaigns(&mut self) -> Option<Ask> {
        let most = match self.outlook() {
            None => u64::MAX,
            Some(outlook) => {
                let target = outlook.campaigns_in_hand();
                let room =
                    target.saturating_sub(self.unlimited_in_hand() + self.intake.under_way());
                // A receive for each single slot that passes would cost a call a mail: it waits until 10,
                // or half of the target, are missing.
                if room < BATCH.min(target.div_ceil(2)).max(1) {
                    return None;
                }
                room
            }
        };
        let (lanes, left) = (&self.lanes, self.ctx.left_until(LAST_RECEIVE));
        let may_ask = |lane: usize| lanes.get(lane).is_some_and(|(_, supply)| supply.may_ask(left));
        self.intake.ask_within(most, may_ask)
    }

    /// The expectation for the slots ahead; none if no express mail is expected.
    fn outlook(&self) -> Option<Outlook> {
        let ctx = self.ctx;
        let (_, supply) = self.express_queue.as_ref()?;
        // Although the queue counts as empty, a long poll under way may still bring mail.
        if self.express.dry && supply.outstanding() == 0 {
            return None;
        }
        let (now, opens) = (ctx.now(), ctx.plan.window.opens());
        let lately = ctx.running_means.express_share();
        if !self.express.seen && lately < NOTABLE && now >= opens {
            return None;
        }
        let recipients_per_mail = self.recipients_per_mail();
        let rate = ctx.plan.rate;
        let ahead = Outlook::slots_ahead(rate, recipients_per_mail);
        Some(Outlook {
            rate,
            slots_left: self.limiter.slots_left(),
            express_waiting: self.limiter.express_waiting(),
            express_share: lately,
            express_gives: match self.express.full {
                // A queue that gave its last mail and is silent for longer than `WORD` has no more.
                Some((full, at)) => full && now < at + WORD,
                None => now + WORD < opens,
            },
            floor: self.limiter.floor_ahead(ahead),
            recipients_per_mail,
        })
    }

    /// Mean recipients a mail of the lane with the largest mails.
    fn recipients_per_mail(&self) -> f64 {
        let name = |source: &crate::poll::message::Source| match &source.campaign {
            Some(campaign) => self.ctx.running_means.recipients_per_mail(campaign),
            None => self.ctx.running_means.recipients_per_mail(source.queue.as_str()),
        };
        self.lanes.iter().map(|(source, _)| name(source)).fold(1.0, f64::max)
    }

    /// Notes for the next windows the share of the slots that express mail took.
    #[expect(clippy::cast_precision_loss, reason = "slots of one window")]
    pub(super) fn learn_express(&self) {
        let taken = self.done.sent.get(EXPRESS).copied().unwrap_or(0);
        if self.express_queue.is_some() && self.ctx.plan.slot_count() > 0 {
            self.ctx.running_means.express_took(taken as f64 / self.ctx.plan.slot_count() as f64);
        }
    }
}
