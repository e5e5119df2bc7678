//! A Lambda environment's running means, which it keeps from window to window. They only tune; nothing is wrong
//! without them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tidegate_core::config::MOST_SENDS;
use tidegate_core::number::whole;
use tidegate_core::{Timestamp, Window};

use super::room::{Ahead, ContentKey, Room};
use crate::ports::{Monotonic, VISIBILITY_TIMEOUT};

/// The longest delay of a message: 15 minutes (SQS's `DelaySeconds`).
pub(super) const LONGEST_DELAY: Duration = Duration::from_mins(15);
/// Weight of a new observation in a running mean.
const GAIN: f64 = 0.1;
/// The same for express's share of the slots. It rises fast, since campaign mail that a flood of express
/// displaces is invisible for 30 s; it falls slower, since too high a share only costs some receives.
const EXPRESS_RISES: f64 = 0.7;
const EXPRESS_FALLS: f64 = 0.3;
/// SES's latency, in seconds, before any was observed.
const ASSUMED_LATENCY: f64 = 0.2;

/// The most windows from one content to the next.
const MOST_APART: u64 = 64;

/// When the next window may fetch content. Where work for content kept the processor from the slots of other mail, eight
/// times as many windows pass until the next one, else half as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentPace {
    /// Windows from one with content to the next: 1 to 64.
    pub(super) apart: u64,
    last: Window,
}

impl Default for ContentPace {
    fn default() -> Self {
        Self { apart: 1, last: Window::default() }
    }
}

impl ContentPace {
    pub(super) fn is_due(self, window: Window) -> bool {
        window >= self.last.plus(self.apart)
    }

    /// The pace after a window with content, in which so many of its slots passed while mail waited.
    pub(super) fn after(self, window: Window, skipped: u64, slots: u64) -> Self {
        let is_in_the_way = skipped > 1 && skipped * 50 > slots;
        let apart = if is_in_the_way { self.apart * 8 } else { self.apart / 2 };
        Self { apart: apart.clamp(1, MOST_APART), last: window }
    }
}

/// Content of a large mail that was not sent in its window.
#[derive(Debug)]
pub(super) struct UnsentContent {
    pub(super) key: ContentKey,
    pub(super) ahead: Rc<Ahead>,
    pub(super) since: Monotonic,
}

#[derive(Debug, Default)]
pub(super) struct RunningMeans {
    pub(super) room: Room,
    /// Bounded by the room for contents, and given up where a fetch needs that room.
    unsent: RefCell<VecDeque<UnsentContent>>,
    pub(super) content_pace: Cell<ContentPace>,
    latency: Cell<Option<f64>>,
    recipients: RefCell<BTreeMap<String, f64>>,
    last_sent: Cell<Option<Monotonic>>,
    express_share: Cell<f64>,
    /// Recipients of limit queues that got a slot in their campaigns' turn, mean of a window.
    in_turn: Cell<f64>,
    /// The most mails of each queue of limited mail that may find slots in a window, by its URL.
    limited: RefCell<BTreeMap<String, u64>>,
    /// By limit, the time from which no mail was told to come back for its slots.
    reserved: RefCell<BTreeMap<String, Timestamp>>,
}

impl RunningMeans {
    /// Means without observations, and room for `bytes` bytes of mail.
    pub(super) fn nothing(bytes: u64) -> Self {
        Self { room: Room::of(bytes), ..Self::default() }
    }

    pub(super) fn keep_unsent(&self, content: UnsentContent) {
        self.unsent.borrow_mut().push_back(content);
    }

    pub(super) fn take_unsent(&self, key: &ContentKey) -> Option<UnsentContent> {
        let mut unsent = self.unsent.borrow_mut();
        let place = unsent.iter().position(|content| content.key == *key)?;
        unsent.remove(place)
    }

    /// Gives up the content that came first; false if there is none.
    pub(super) fn give_up_unsent(&self) -> bool {
        let first = self.unsent.borrow_mut().pop_front();
        first.is_some()
    }

    /// Gives up content whose mail another poller will have received by `now`.
    pub(super) fn forget_unsent(&self, now: Monotonic) {
        let is_new =
            |content: &UnsentContent| now.saturating_since(content.since) < VISIBILITY_TIMEOUT;
        self.unsent.borrow_mut().retain(is_new);
    }

    /// Notes that SES answered at `now`, after `latency`.
    pub(super) fn answered(&self, latency: Duration, now: Monotonic) {
        let seen = latency.as_secs_f64();
        let mean = self.latency.get().map_or(seen, |mean| mean + GAIN * (seen - mean));
        self.latency.set(Some(mean));
        self.last_sent.set(Some(now));
    }

    /// Notes the recipients of a mail of `lane`: a campaign's name, or the URL of a shared queue.
    pub(super) fn received(&self, lane: &str, recipients: u64) {
        let seen = u32::try_from(recipients).map_or(f64::MAX, f64::from);
        let mut means = self.recipients.borrow_mut();
        match means.get_mut(lane) {
            Some(mean) => *mean += GAIN * (seen - *mean),
            None => {
                means.insert(lane.to_owned(), seen);
            }
        }
    }

    /// Mean recipients a mail of this lane; 1 before the first observation, never less.
    pub(super) fn recipients_per_mail(&self, lane: &str) -> f64 {
        self.recipients.borrow().get(lane).copied().unwrap_or(1.0).max(1.0)
    }

    /// Notes the share of a window's slots that express mail took, 0 to 1.
    pub(super) fn express_took(&self, share: f64) {
        let mean = self.express_share.get();
        let gain = if share > mean { EXPRESS_RISES } else { EXPRESS_FALLS };
        self.express_share.set(mean + gain * (share - mean));
    }

    /// Running mean of the share of the slots that express mail took, 0 to 1.
    pub(super) fn express_share(&self) -> f64 {
        self.express_share.get()
    }

    /// Notes the recipients of limit queues that got a slot in their campaigns' turn in one window.
    pub(super) fn took_in_turn(&self, recipients: u64) {
        let seen = u32::try_from(recipients).map_or(f64::MAX, f64::from);
        self.in_turn.set(self.in_turn.get() + (seen - self.in_turn.get()) / 2.0);
    }

    /// Recipients of limit queues that probably get a slot in their campaigns' turn in a window.
    pub(super) fn limited_in_turn(&self) -> u64 {
        whole(self.in_turn.get().round())
    }

    /// Notes that `got` mails of a queue of limited mail were received and `left` of them got no slot. Example:
    /// after 10 received and 4 left, 6 may be received; after 6 and none left, 13.
    pub(super) fn served_limited(&self, queue: &str, got: u64, left: u64) {
        let next = if left > 0 { got.saturating_sub(left).max(1) } else { 2 * got + 1 };
        self.limited.borrow_mut().insert(queue.to_owned(), next);
    }

    /// The most mails of such a queue to receive in a window; unbounded before the first observation.
    pub(super) fn limited_most(&self, queue: &str) -> u64 {
        self.limited.borrow().get(queue).copied().unwrap_or(u64::MAX)
    }

    /// Reserves `time` of a limit's slots for a mail that is over it, after those reserved before, and returns
    /// when that time begins. Mail then comes back at the limit's rate, and not all of it in the next second.
    pub(super) fn reserve(&self, limit: &str, now: Timestamp, time: Duration) -> Timestamp {
        let mut reserved = self.reserved.borrow_mut();
        let next = now + Duration::from_secs(1);
        let begin = reserved.get(limit).copied().unwrap_or(next).clamp(next, now + LONGEST_DELAY);
        reserved.insert(limit.to_owned(), begin + time);
        begin
    }

    /// Whether connections to SES may have been closed: nothing was sent for 20 s.
    pub(super) fn is_cold(&self, now: Monotonic) -> bool {
        const KEPT: Duration = Duration::from_secs(20);
        self.last_sent.get().is_none_or(|sent| now.saturating_since(sent) > KEPT)
    }

    /// The most sends in flight at `rate` a second: as many as start in four times the observed latency, in
    /// a second at least and in the send timeout at most. Bounds are 16 and [`MOST_SENDS`]. Example: 100 a second at 0.2 s: 100.
    pub(super) fn max_in_flight(&self, rate: f64, timeout: Duration) -> usize {
        let latency = self.latency.get().unwrap_or(ASSUMED_LATENCY) * 4.0;
        ceiling(rate * latency.clamp(1.0, timeout.as_secs_f64().max(1.0))).clamp(16, MOST_SENDS)
    }

    /// Windows whose pollers may not have reported when a window is claimed: 2 and the latency in seconds,
    /// rounded up.
    pub(super) fn unreported_windows(&self) -> u64 {
        2 + whole(self.latency.get().unwrap_or(ASSUMED_LATENCY).ceil())
    }

    /// Connections that the sends of a window at `rate` will need, with a fifth to spare. Example: 100 a
    /// second at 0.2 s: 25.
    pub(super) fn connections(&self, rate: f64) -> usize {
        ceiling(rate * self.latency.get().unwrap_or(ASSUMED_LATENCY) * 1.2) + 1
    }
}

fn ceiling(value: f64) -> usize {
    usize::try_from(whole(value.ceil())).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_that_costs_other_mail_its_slots_comes_ever_less_often_and_again_where_it_costs_none()
    {
        let at = Window::from_epoch_second;
        let mut pace = ContentPace::default();
        let mut windows = Vec::new();
        for second in 100..1_000 {
            if pace.is_due(at(second)) {
                let skipped = if second < 400 { 3 } else { 2 };
                pace = pace.after(at(second), skipped, 100);
                windows.push(second);
            }
        }
        let seen = [100, 108, 172, 236, 300, 364, 428, 460, 476, 484, 488, 490, 491, 492, 493];
        assert_eq!(windows.get(..15), Some(&seen[..]));
        assert_eq!(windows.last(), Some(&999));
    }

    #[test]
    fn without_content_there_is_none_to_give_up() {
        assert!(!RunningMeans::nothing(1).give_up_unsent());
    }

    #[test]
    fn a_single_slot_that_was_lost_says_nothing_at_a_slow_rate() {
        let pace = ContentPace::default().after(Window::default(), 1, 2);
        assert_eq!(pace.apart, 1);
    }
}
