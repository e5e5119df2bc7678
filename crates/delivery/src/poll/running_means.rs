//! What an environment remembers from window to window. Nothing correct depends on it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use super::room::Room;
use crate::ports::Monotonic;

/// The weight of a new observation.
const GAIN: f64 = 0.1;
/// The same of express's share: quickly up, since what a flood displaces is out of reach for 30 s, and
/// slowly down, since too high a share costs a few receives only.
const EXPRESS_RISES: f64 = 0.7;
const EXPRESS_FALLS: f64 = 0.3;
/// SES's latency before anything was observed.
const ASSUMED_LATENCY: f64 = 0.2;

/// Running means, and the room for mail.
#[derive(Debug)]
pub(super) struct RunningMeans {
    pub(super) room: Room,
    latency: Cell<Option<f64>>,
    recipients: RefCell<BTreeMap<String, f64>>,
    last_sent: Cell<Option<Monotonic>>,
    express_share: Cell<f64>,
    /// Recipients of recipient domains' queues that got a slot in their campaigns' turn, a window.
    in_turn: Cell<f64>,
    /// How many mails of a domain's queue may find slots, by its place.
    limited: RefCell<BTreeMap<usize, u64>>,
}

impl RunningMeans {
    /// Nothing yet, with room for so many bytes of mail.
    pub(super) fn nothing(bytes: u64) -> Self {
        Self {
            room: Room::of(bytes),
            latency: Cell::default(),
            recipients: RefCell::default(),
            last_sent: Cell::default(),
            express_share: Cell::default(),
            in_turn: Cell::default(),
            limited: RefCell::default(),
        }
    }

    /// Notes how long SES took to answer, at `now`.
    pub(super) fn answered(&self, latency: Duration, now: Monotonic) {
        let seen = latency.as_secs_f64();
        let mean = self.latency.get().map_or(seen, |mean| mean + GAIN * (seen - mean));
        self.latency.set(Some(mean));
        self.last_sent.set(Some(now));
    }

    /// Notes the recipients of a mail of `lane`: a campaign's name, or the merge queue's URL.
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

    /// The mean recipients of a lane's mails; 1 before anything was observed.
    pub(super) fn recipients_per_mail(&self, lane: &str) -> f64 {
        self.recipients.borrow().get(lane).copied().unwrap_or(1.0).max(1.0)
    }

    /// Notes the share of a window's slots that express mail took.
    pub(super) fn express_took(&self, share: f64) {
        let mean = self.express_share.get();
        let gain = if share > mean { EXPRESS_RISES } else { EXPRESS_FALLS };
        self.express_share.set(mean + gain * (share - mean));
    }

    /// The share of the slots that express mail took lately, 0 to 1.
    pub(super) fn express_share(&self) -> f64 {
        self.express_share.get()
    }

    /// Notes what recipient domains' queues took of one window in their campaigns' turn.
    pub(super) fn took_in_turn(&self, recipients: u64) {
        let seen = u32::try_from(recipients).map_or(f64::MAX, f64::from);
        self.in_turn.set(self.in_turn.get() + (seen - self.in_turn.get()) / 2.0);
    }

    /// What recipient domains' queues take of a window in their campaigns' turn.
    pub(super) fn limited_in_turn(&self) -> u64 {
        whole(self.in_turn.get().round()) as u64
    }

    /// Notes that so many mails of a domain's queue were received, and that so many got no slot.
    pub(super) fn served_domain(&self, place: usize, got: u64, left: u64) {
        let next = if left > 0 { got.saturating_sub(left).max(1) } else { 2 * got + 1 };
        self.limited.borrow_mut().insert(place, next);
    }

    /// The most mails of a domain's queue that may find slots in a window.
    pub(super) fn domain_most(&self, place: usize) -> u64 {
        self.limited.borrow().get(&place).copied().unwrap_or(u64::MAX)
    }

    /// Whether connections may have gone idle: nothing was sent for 20 s.
    pub(super) fn is_cold(&self, now: Monotonic) -> bool {
        const KEPT: Duration = Duration::from_secs(20);
        self.last_sent.get().is_none_or(|sent| now.saturating_since(sent) > KEPT)
    }

    /// How many sends may be in flight at `rate` a second: four times what the observed latency
    /// takes, at least a second's worth, at most 900 (an environment has 1,024 file descriptors).
    pub(super) fn max_in_flight(&self, rate: f64, timeout: Duration) -> usize {
        let latency = self.latency.get().unwrap_or(ASSUMED_LATENCY) * 4.0;
        whole(rate * latency.clamp(1.0, timeout.as_secs_f64().max(1.0))).clamp(16, 900)
    }

    /// Windows whose pollers may still be at work, or on their way to report, as a window is claimed.
    pub(super) fn unreported_windows(&self) -> u64 {
        2 + whole(self.latency.get().unwrap_or(ASSUMED_LATENCY)) as u64
    }

    /// How many connections the sends of a window at `rate` will need.
    pub(super) fn connections(&self, rate: f64) -> usize {
        whole(rate * self.latency.get().unwrap_or(ASSUMED_LATENCY) * 1.2) + 1
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate up to 10,000 times a latency up to 10 s"
)]
fn whole(value: f64) -> usize {
    value.max(0.0).ceil() as usize
}
