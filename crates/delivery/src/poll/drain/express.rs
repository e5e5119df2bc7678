//! Express mail beside the campaigns': how much of either is received.

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

/// How long the express queue's next word may take while it has mail: a long poll is silent for a second.
const WORD: Duration = Duration::from_millis(150);
/// Express mail that takes less of the slots than this is none.
const NOTABLE: f64 = 0.002;

/// What the express queue was like in this window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Express {
    /// It had nothing more to give.
    pub(super) dry: bool,
    /// It gave mail.
    pub(super) seen: bool,
    /// Whether the last answer was as full as was asked, and when it came; none before the first.
    full: Option<(bool, Timestamp)>,
    /// Mails whose mark is being made.
    pub(super) marking: u64,
}

impl Express {
    /// Notes an answer of so many messages, none where the receive failed.
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

/// The express queue's supply: mail that came lately suggests that there is some.
pub(super) fn supply<E: Environment>(ctx: &Context<'_, E>) -> QueueSupply {
    QueueSupply::expecting(u64::from(ctx.running_means.express_share() >= NOTABLE))
}

impl<E: Environment> Drain<'_, E> {
    /// Recipients of campaigns' mail in hand, that of recipient domains' queues included.
    fn campaigns_in_hand(&self) -> u64 {
        let waiting = self.limiter.recipients_waiting();
        waiting.saturating_sub(self.limiter.express_waiting()) + self.campaigns_marking
    }

    /// The same without recipient domains', which waits for slots of its own.
    fn unlimited_in_hand(&self) -> u64 {
        self.limiter.campaigns_waiting() + self.campaigns_marking
    }

    /// Slots that are kept from express: the floor's, as far as campaigns may have mail for them.
    fn kept_for_campaigns(&self) -> u64 {
        let wanted = if self.intake.all_dry() { 0 } else { self.intake.still_wanted() };
        self.limiter.floor_ahead(u64::MAX).min(self.campaigns_in_hand() + wanted)
    }

    /// Express mails that were received and wait.
    pub(super) fn express_held(&self) -> u64 {
        self.limiter.state().express as u64 + self.express.marking
    }

    /// Messages to ask of the express queue now; 0 for none.
    pub(super) fn express_wanted(&self, outstanding: u64) -> u64 {
        let slots = self.limiter.slots_left();
        let open = slots.saturating_sub(self.kept_for_campaigns());
        let held = self.express_held() + outstanding;
        let most = if self.ctx.plan.permit == Permit::Probe { open.min(1) } else { open };
        most.saturating_sub(held).min(BATCH)
    }

    /// Slots that passed or that express took are not asked for; the floor's are not express's.
    pub(super) fn give_up_slots(&mut self) {
        let slots = self.limiter.slots_left();
        let domains = self.kept_for_domains();
        let campaigns = self.intake.still_wanted() + self.campaigns_in_hand() + domains;
        let over = (campaigns + self.limiter.express_waiting()).saturating_sub(slots);
        let floor = self.limiter.floor_ahead(u64::MAX);
        self.intake.reduce(over.min(campaigns.saturating_sub(floor)));
    }

    /// The next receive from campaigns or merge queue: where express mail comes, for the slots just
    /// ahead only.
    pub(super) fn ask_campaigns(&mut self) -> Option<Ask> {
        let most = match self.outlook() {
            None => u64::MAX,
            Some(outlook) => {
                let target = outlook.campaigns_in_hand();
                let room =
                    target.saturating_sub(self.unlimited_in_hand() + self.intake.under_way());
                // Not a receive for every slot that goes by.
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

    /// What is known of the slots ahead; `None` where no express mail is to be reckoned with.
    fn outlook(&self) -> Option<Outlook> {
        let ctx = self.ctx;
        let (_, supply) = self.express_queue.as_ref()?;
        // Dry, a long poll that is still under way may bring some all the same.
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
                // Whoever has given and is silent has nothing more.
                Some((full, at)) => full && now < at + WORD,
                None => now + WORD < opens,
            },
            floor: self.limiter.floor_ahead(ahead),
            recipients_per_mail,
        })
    }

    /// Of the lane with the largest mails.
    fn recipients_per_mail(&self) -> f64 {
        let name = |source: &crate::poll::message::Source| match &source.campaign {
            Some(campaign) => self.ctx.running_means.recipients_per_mail(campaign),
            None => self.ctx.running_means.recipients_per_mail(source.queue.as_str()),
        };
        self.lanes.iter().map(|(source, _)| name(source)).fold(1.0, f64::max)
    }

    /// Remembers the share of the slots that express took in this window.
    #[expect(clippy::cast_precision_loss, reason = "slots of one window")]
    pub(super) fn learn_express(&self) {
        let taken = self.done.sent.get(EXPRESS).copied().unwrap_or(0);
        if self.express_queue.is_some() && self.ctx.plan.slot_count() > 0 {
            self.ctx.running_means.express_took(taken as f64 / self.ctx.plan.slot_count() as f64);
        }
    }
}
