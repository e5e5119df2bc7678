//! The limiter: which waiting message takes the slot that is due.
//!
//! A waiting message *acquires* a slot. Express goes before all (but in the slots of the campaigns'
//! [`Floor`], where there is one); then the slot's own campaign, then whichever has the next slot of
//! the cycle; within a campaign `priority` decides, then the larger mail (it fits fewer places), then
//! who came first.
//!
//! A message may have to pass a gate beside ([`Gates`]: its recipient domain's limit); while it is shut,
//! others take the slots. Mail of a domain's own queue waits in lines of its own ([`Line::Limited`]),
//! and takes the slots that are its campaign's, and what nobody else can use.

mod floor;
mod gates;
mod turns;
mod waiting;

use std::ops::Range;

use crate::cycle::Cycle;
use crate::grid::SlotGrid;
use crate::timestamp::Timestamp;
pub use floor::{Floor, InvalidFloor};
pub use gates::{Gates, Open};
use turns::DomainTurns;
use waiting::WaitingLane;
pub use waiting::{Line, Waiting};

/// A message and the slots it spends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired<T> {
    /// The message.
    pub message: Waiting<T>,
    /// The slot it starts at: the last of its slots.
    pub slot: u64,
}

/// What a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSend<T> {
    /// Start this send now.
    Start(Acquired<T>),
    /// Nothing is due before this instant.
    At(Timestamp),
    /// A slot is due and nothing fits it: it is good for an arrival until this instant.
    Idle(Timestamp),
    /// The window has no slot left.
    Over,
}

/// The limiter's state, for those who ask why a message waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// Slots that can still be acquired.
    pub slots_left: u64,
    /// Messages that wait in the express line.
    pub express: usize,
    /// Messages that wait in campaigns' lines, by priority: critical, high, normal, low.
    pub waiting: [usize; 4],
    /// Slots that passed while a message waited (too late to start in time).
    pub skipped: u64,
    /// Slots that passed with nothing waiting that fits.
    pub unused: u64,
    /// Slots that mail of the domains' queues took in its campaign's turn.
    pub limited_in_turn: u64,
}

/// The slots of one window, and who waits for them.
///
/// ```
/// use tidegate_core::{Window, cycle::Cycle, email::Priority, grid::SlotGrid, rate::{RateMargin, Rate}};
/// use tidegate_core::limiter::{Limiter, Line, NextSend, Waiting};
/// let grid = SlotGrid::new(Rate::per_second(14.0).unwrap(), RateMargin::default());
/// let slots = grid.slots_of(Window::from_epoch_second(1_000));
/// let mut limiter = Limiter::new(grid, slots.clone(), Cycle::new(&[1]).unwrap());
/// limiter.wait(Waiting { ticket: "a", line: Line::Campaign(0), priority: Priority::Normal, recipients: 1 });
/// let due = grid.at(slots.start);
/// assert_eq!(limiter.next(due.saturating_sub(std::time::Duration::from_millis(5))), NextSend::At(due));
/// assert!(matches!(limiter.next(due), NextSend::Start(acquired) if acquired.message.ticket == "a"));
/// ```
#[derive(Clone, Debug)]
// More than 12 fields: the account's grid, the lanes and the counters change together at each slot.
pub struct Limiter<T> {
    grid: SlotGrid,
    cycle: Cycle,
    cursor: u64,
    end: u64,
    express: WaitingLane<T>,
    lanes: Vec<WaitingLane<T>>,
    limited: DomainTurns<T>,
    /// Slots each campaign took of others that waited, to be given back from its own.
    debts: Vec<u64>,
    floor: Floor,
    /// Slots that express owes the campaigns; that they owe it where below 0.
    floor_owed: i64,
    placed: Option<Acquired<T>>,
    skipped: u64,
    unused: u64,
}

impl<T: Copy> Limiter<T> {
    /// A limiter over `slots` of `grid`, which belong to campaigns as `cycle` says.
    pub fn new(grid: SlotGrid, slots: Range<u64>, cycle: Cycle) -> Self {
        let campaigns = cycle.weights().len();
        Self {
            grid,
            cycle,
            cursor: slots.start,
            end: slots.end.max(slots.start),
            express: WaitingLane::default(),
            lanes: (0..campaigns).map(|_| WaitingLane::default()).collect(),
            limited: DomainTurns::new(Cycle::single(), Vec::new()),
            debts: vec![0; campaigns],
            floor: Floor::default(),
            floor_owed: 0,
            placed: None,
            skipped: 0,
            unused: 0,
        }
    }

    /// With these turns for the mail of the domains' queues: whose slot is whose among all campaigns;
    /// `lines` says of each which lane may hold other mail of it: that of merged mail, or its own.
    pub fn with_turns(mut self, cycle: Cycle, lines: Vec<Option<usize>>) -> Self {
        self.limited = DomainTurns::new(cycle, lines);
        self
    }

    /// Lets a message wait for a slot; one whose campaign is not in the cycle never gets one.
    pub fn wait(&mut self, message: Waiting<T>) {
        match message.line {
            Line::Express => self.express.push(message),
            Line::Campaign(index) => {
                if let Some(lane) = self.lanes.get_mut(index) {
                    lane.push(message);
                }
            }
            Line::Limited(campaign) => self.limited.push(campaign, message),
        }
    }

    /// What is to be done at `now`.
    ///
    /// A slot is never caught up nor shifted: once `now` is past its latest start it is gone.
    pub fn next(&mut self, now: Timestamp) -> NextSend<T> {
        self.next_through(now, &mut Open)
    }

    /// As [`Limiter::next`], of those messages only that `gates` let through.
    pub fn next_through(&mut self, now: Timestamp, gates: &mut impl Gates<T>) -> NextSend<T> {
        loop {
            if let Some(placed) = self.placed {
                if now < self.grid.at(placed.slot) {
                    return NextSend::At(self.grid.at(placed.slot));
                }
                self.placed = None;
                if now <= self.grid.latest(placed.slot) {
                    return NextSend::Start(placed);
                }
                // Its slots are spent; the message goes to later ones.
                self.skipped += u64::from(placed.message.recipients);
                self.wait(placed.message);
                continue;
            }
            if self.cursor >= self.end {
                return NextSend::Over;
            }
            if now < self.grid.at(self.cursor) {
                return NextSend::At(self.grid.at(self.cursor));
            }
            if now > self.grid.latest(self.cursor) {
                self.pass(gates);
                continue;
            }
            match self.choose(gates) {
                Some(message) => {
                    self.place(message);
                    gates.take(message.ticket, self.cursor - 1);
                }
                None => return NextSend::Idle(self.grid.latest(self.cursor)),
            }
        }
    }

    /// Acquires all slots the window has left for `message`, which has more recipients than the
    /// window has slots, and starts at the last of them; the windows after it owe the rest. Gives
    /// the slots acquired; 0 where none is left.
    pub fn acquire_all(
        &mut self,
        message: Waiting<T>,
        now: Timestamp,
        gates: &mut impl Gates<T>,
    ) -> u64 {
        while self.cursor < self.end && now > self.grid.latest(self.cursor) {
            self.pass(gates);
        }
        let left = self.slots_left();
        if left > 0 && self.placed.is_none() && gates.admits(message.ticket, self.end - 1) {
            gates.take(message.ticket, self.end - 1);
            self.cursor = self.end;
            self.placed = Some(Acquired { message, slot: self.end - 1 });
            return left;
        }
        0
    }

    /// Gives out no more slots; what was placed already is taken back to wait.
    pub fn stop(&mut self) {
        if let Some(placed) = self.placed.take() {
            self.wait(placed.message);
        }
        self.end = self.cursor;
    }

    /// All that still wait, and wait no longer.
    pub fn drain(&mut self) -> Vec<Waiting<T>> {
        let placed = self.placed.take().map(|placed| placed.message);
        let lanes =
            self.lanes.iter_mut().chain([&mut self.express]).chain(self.limited.lanes_mut());
        placed.into_iter().chain(lanes.flat_map(WaitingLane::take_all)).collect()
    }

    /// Slots that can still be acquired.
    pub fn slots_left(&self) -> u64 {
        self.end.saturating_sub(self.cursor)
    }

    /// The slots' state and the waiters by priority.
    pub fn state(&self) -> SlotState {
        let lanes = self.lanes.iter().chain(self.limited.lanes());
        let waiting = lanes.fold([0; 4], |mut sums, lane| {
            sums.iter_mut().zip(lane.by_priority()).for_each(|(sum, n)| *sum += n);
            sums
        });
        SlotState {
            slots_left: self.slots_left(),
            express: self.express.len(),
            waiting,
            skipped: self.skipped,
            unused: self.unused,
            limited_in_turn: self.limited.in_turn(),
        }
    }

    /// Whether a message that fits waits for its gate alone.
    pub fn waits_for_a_gate(&self) -> bool {
        let left = self.slots_left();
        let mut lanes = self.lanes.iter().chain([&self.express]).chain(self.limited.lanes());
        lanes.any(|lane| lane.fits(left, |_| true))
    }

    /// Recipients of all that wait or are placed.
    pub fn recipients_waiting(&self) -> u64 {
        let lanes = self.lanes.iter().chain(self.limited.lanes());
        let lanes = lanes.map(WaitingLane::recipients).sum::<u64>();
        let placed = self.placed.map_or(0, |placed| u64::from(placed.message.recipients));
        lanes + self.express.recipients() + placed
    }

    /// Lets the slot at the cursor pass.
    fn pass(&mut self, gates: &impl Gates<T>) {
        let counter = if self.anyone_fits(gates) { &mut self.skipped } else { &mut self.unused };
        *counter += 1;
        self.cursor += 1;
    }

    fn anyone_fits(&self, gates: &impl Gates<T>) -> bool {
        let (left, may) = (self.slots_left(), may(gates, self.cursor));
        let mut lanes = self.lanes.iter().chain([&self.express]).chain(self.limited.lanes());
        lanes.any(|lane| lane.fits(left, &may))
    }

    /// Takes the message that gets the slot at the cursor.
    fn choose(&mut self, gates: &impl Gates<T>) -> Option<Waiting<T>> {
        let (left, may) = (self.slots_left(), may(gates, self.cursor));
        if !self.is_floor()
            && let Some(message) = self.express.take(left, &may)
        {
            return Some(message);
        }
        let turn = self.turn();
        if let Some(message) = self.limited.take_in_turn(turn, left, &may, &self.lanes) {
            return Some(message);
        }
        self.of_campaigns(left, &may)
            .or_else(|| self.limited.take_any(left, &may))
            .or_else(|| self.express.take(left, &may))
    }

    /// Takes the campaigns' message that gets the slot at the cursor.
    fn of_campaigns(
        &mut self,
        left: u64,
        may: &impl Fn(&Waiting<T>) -> bool,
    ) -> Option<Waiting<T>> {
        let owner = self.cycle.owner(self.turn());
        let next = self.next_in_turn(left, may)?;
        let index = if !self.lanes.get(owner).is_some_and(|lane| lane.fits(left, may)) {
            next
        } else if next != owner && self.debts.get(owner).is_some_and(|debt| *debt > 0) {
            if let Some(debt) = self.debts.get_mut(owner) {
                *debt -= 1;
            }
            next
        } else {
            owner
        };
        self.lanes.get_mut(index)?.take(left, may)
    }

    /// The first campaign of the cycle from the cursor on that has a message that fits and owes no
    /// slot; where all owe, the first that has one.
    fn next_in_turn(&self, left: u64, may: &impl Fn(&Waiting<T>) -> bool) -> Option<usize> {
        let fits = |index: &usize| self.lanes.get(*index).is_some_and(|lane| lane.fits(left, may));
        let candidates = (0..self.lanes.len()).filter(fits).count();
        if candidates == 0 {
            return None;
        }
        let ahead = || (0..self.cycle.len() as u64).map(|k| self.cycle.owner(self.turn() + k));
        let free = |index: &usize| self.debts.get(*index).is_none_or(|debt| *debt == 0);
        ahead()
            .find(|index| fits(index) && free(index))
            .or_else(|| ahead().find(fits))
            .or_else(|| (0..self.lanes.len()).find(|index| fits(index)))
    }

    /// Gives `message` the next slots, as many as it has recipients.
    fn place(&mut self, message: Waiting<T>) {
        let count = u64::from(message.recipients.max(1));
        if let Line::Campaign(index) = message.line {
            let left = self.slots_left();
            let of_others = (1..count).map(|k| self.cycle.owner(self.cursor + k)).filter(|owner| {
                *owner != index
                    && self.lanes.get(*owner).is_some_and(|lane| lane.fits(left, |_| true))
            });
            let debt = of_others.count() as u64;
            if let Some(sum) = self.debts.get_mut(index) {
                *sum += debt;
            }
        }
        self.note_floor(message.line, self.cursor..self.cursor + count);
        self.cursor += count;
        self.placed = Some(Acquired { message, slot: self.cursor - 1 });
    }
}

/// Whether a message may start where it would be placed with its first slot at `cursor`.
fn may<T: Copy>(gates: &impl Gates<T>, cursor: u64) -> impl Fn(&Waiting<T>) -> bool {
    move |message| gates.admits(message.ticket, cursor + u64::from(message.recipients.max(1)) - 1)
}

#[cfg(test)]
mod tests;
