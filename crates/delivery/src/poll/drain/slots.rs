//! Mail that waits for slots, and the slots that it acquires.

use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::limiter::{Gates, Limiter, NextSend, Waiting};

use crate::poll::limits::LimitWindow;
use crate::poll::plan::Plan;
use crate::poll::sources::message::Message;
use crate::ports::Monotonic;

/// The slots of one window, and the mails that wait for them.
pub(super) struct Slots<'a> {
    plan: &'a Plan,
    limits: &'a LimitWindow,
    pub(super) limiter: Limiter<usize>,
    /// The mails by ticket; none once they have left.
    messages: Vec<Option<Box<Message>>>,
    /// The ticket of a mail with more recipients than the window has slots; it waits until its further
    /// windows are claimed.
    oversize: Option<usize>,
    claims_more: bool,
}

/// The next step for the slots.
pub(super) enum Wake {
    /// Send this mail at this slot, its request written not later than the given instant.
    Start(Box<Message>, u64, Monotonic),
    /// Mail waits for a slot at this instant.
    At(Timestamp),
    /// No mail waits. Until this instant the current slot can still be used by mail that arrives.
    NothingWaits(Timestamp),
    /// The bound on sends in flight is reached: one has to end first.
    Full,
    Over,
}

/// A mail may start at a slot if its limits admit it.
struct LimitedSlots<'g, 'a> {
    limits: &'a LimitWindow,
    messages: &'g [Option<Box<Message>>],
}

impl LimitedSlots<'_, '_> {
    fn message(&self, ticket: usize) -> Option<&Message> {
        self.messages.get(ticket).and_then(Option::as_deref)
    }
}

impl Gates<usize> for LimitedSlots<'_, '_> {
    fn admits(&self, ticket: usize, slot: u64) -> bool {
        let admits =
            |mail: &Message| mail.demands.is_empty() || self.limits.admits(&mail.demands, slot);
        self.message(ticket).is_none_or(admits)
    }

    fn take(&mut self, ticket: usize, slot: u64) {
        if let Some(mail) = self.message(ticket) {
            self.limits.take(&mail.demands, slot);
        }
    }
}

impl<'a> Slots<'a> {
    pub(super) fn new(plan: &'a Plan, limits: &'a LimitWindow, limiter: Limiter<usize>) -> Self {
        Self { plan, limits, limiter, messages: Vec::new(), oversize: None, claims_more: false }
    }

    /// The next mail to send and its slot, or else the next thing to wait for.
    pub(super) fn next(&mut self, now: Timestamp) -> Result<(Box<Message>, u64), Wake> {
        loop {
            let mut gates = LimitedSlots { limits: self.limits, messages: &self.messages };
            let (waits, at) = match self.limiter.next(now, &mut gates) {
                NextSend::Start(acquired) => match self.take(acquired.message.ticket) {
                    Some(message) => return Ok((message, acquired.slot)),
                    None => continue,
                },
                NextSend::At(at) => (self.limiter.recipients_waiting() > 0, at),
                NextSend::Idle(until) => {
                    (self.limiter.waits_for_a_gate(), until + Duration::from_nanos(1))
                }
                NextSend::Over => return Err(Wake::Over),
            };
            return Err(if waits { Wake::At(at) } else { Wake::NothingWaits(at) });
        }
    }

    /// The latest start of a mail that acquired `slot`. A mail under a limit has to start within its window: where
    /// the limit changes, three slots at the next window's begin are all that separates the old limit's slots
    /// from the new one's.
    pub(super) fn latest(&self, slot: u64, message: &Message) -> Timestamp {
        let latest = self.plan.grid.latest(slot);
        if message.demands.is_empty() {
            return latest;
        }
        latest.min(self.plan.window.closes().saturating_sub(Duration::from_nanos(1)))
    }

    /// Lets a mail wait for a slot.
    pub(super) fn wait(&mut self, message: Box<Message>) {
        let waiting = self.begin(&message);
        self.limiter.wait(waiting);
        self.messages.push(Some(message));
    }

    /// Lets a mail wait that has more recipients than the window has slots, until further windows are
    /// claimed for it.
    pub(super) fn wait_oversize(&mut self, message: Box<Message>) {
        self.oversize = Some(self.begin(&message).ticket);
        self.claims_more = true;
        self.messages.push(Some(message));
    }

    /// Whether further windows were asked for in this one.
    pub(super) const fn claims_more(&self) -> bool {
        self.claims_more
    }

    fn begin(&self, message: &Message) -> Waiting<usize> {
        self.limits.wait(&message.demands);
        waiting(self.messages.len(), message)
    }

    /// Lets the oversize mail wait for all slots that are left here if its further windows are claimed (`advanced`), or else
    /// returns it.
    pub(super) fn advanced(&mut self, advanced: bool) -> Option<Box<Message>> {
        let ticket = self.oversize.take()?;
        if !advanced {
            return self.take(ticket);
        }
        let message = self.messages.get(ticket).and_then(Option::as_deref)?;
        self.limiter.wait_oversize(waiting(ticket, message));
        None
    }

    /// All mail that got no slot.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Message>> {
        let waiting = self.limiter.drain();
        waiting.into_iter().filter_map(|waiting| self.take(waiting.ticket))
    }

    fn take(&mut self, ticket: usize) -> Option<Box<Message>> {
        self.messages.get_mut(ticket).and_then(Option::take)
    }
}

fn waiting(ticket: usize, message: &Message) -> Waiting<usize> {
    let Message { content, line, priority, .. } = message;
    Waiting { ticket, line: *line, priority: *priority, recipients: content.slots() }
}
