//! The limiter: which waiting message takes the slot that is due.
//!
//! A waiting message *acquires* a slot. Express mail goes before all campaigns, except in the slots of
//! the campaigns' [`Floor`], if one is set. Otherwise the slot goes to the campaign that owns it in the
//! cycle; if that has no message that fits, to the campaign that owns the next slot of the cycle and
//! has one. Within a campaign the order is: `priority`, then the larger mail (fewer places are long
//! enough for it), then the earlier arrival.
//!
//! A message may also have to pass a gate ([`Gates`]), such as the limit of its recipient domain. While
//! the gate does not admit it, other messages take the slots. Mail from limit queues waits in its own
//! lines ([`Line::Limited`]); it takes slots of its campaign, and slots that no other message can use.

mod waiting;

use std::ops::Range;
use std::str::FromStr;

use waiting::{LimitTurns, WaitingLane};

use crate::cycle::Cycle;
use crate::grid::SlotGrid;
use crate::text::InvalidText;
use crate::timestamp::Timestamp;

pub use waiting::{Line, Waiting, WaitingMails, WindowLeft};

/// A message, and the slots it spends: as many as it has recipients, from `slot` on.
///
/// It starts at the first of them. Started at the last, a mail that has more recipients than its window has slots would have
/// to start early, and the second before it could hold another large mail too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acquired<T> {
    /// The message that got the slots.
    pub message: Waiting<T>,
    /// The number of the slot at which the send starts: the first of its slots.
    pub slot: u64,
}

/// The answer of [`Limiter::next`]: what the caller does now, or until when it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSend<T> {
    /// Start this send now; its slots are spent.
    Start(Acquired<T>),
    /// Ask again at this instant: no slot is due before it.
    At(Timestamp),
    /// A slot is due and no message fits it. A message that arrives until this instant can still use
    /// it.
    Idle(Timestamp),
    /// No slot is left in this window.
    Over,
}

/// The limiter's counters, from which reports and `tidegate why` tell why a message waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotState {
    /// The number of slots that can still be acquired.
    pub slots_left: u64,
    /// The messages that wait, by line and priority.
    pub waiting: WaitingMails,
    /// Slots that were lost because the caller came too late, while a message that fitted them waited.
    pub skipped: u64,
    /// Slots that passed while no message waited that fitted.
    pub unused: u64,
    /// Slots that mail from limit queues took when it was its campaign's turn.
    pub limited_in_turn: u64,
}

/// The largest floor, in percent: express mail keeps at least every tenth slot.
const MOST: u8 = 90;

/// The express floor: the share f of the slots that campaigns' mail takes before express mail, in
/// percent.
///
/// Slot n is a floor slot if ⌊(n + 1)·f⌋ > ⌊n·f⌋. This is a pure function of the slot's number, so the
/// pollers of neighbouring windows agree without communicating, and in any run of slots the number of
/// floor slots is within one of the share. At a floor slot express mail goes if no campaign has mail
/// that fits; at any other slot it is the other way round.
///
/// Example: with f = 20 % the products n·f are 0, 0.2, 0.4, 0.6, 0.8, 1.0: the whole part grows from n
/// = 4 to 5, so slot 4 is the first floor slot.
///
/// ```
/// use tidegate_core::limiter::Floor;
/// let floor: Floor = "20%".parse()?;
/// let first: Vec<u64> = (0..15).filter(|slot| floor.is_first_for_campaigns(*slot)).collect();
/// assert_eq!(first, [4, 9, 14]);
/// # Ok::<(), tidegate_core::InvalidText>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor(u8);

impl FromStr for Floor {
    type Err = InvalidText;

    fn from_str(text: &str) -> Result<Self, InvalidText> {
        let digits = text.strip_suffix('%').map(str::trim_end);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let percent =
            digits.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= MOST);
        percent.map(Self).ok_or_else(|| {
            InvalidText::new(text, "is no floor; allowed is a whole share from 0% to 90%")
        })
    }
}

impl Floor {
    /// The floor in percent, 0 to 90; 0 means that express mail goes first at every slot.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Whether `slot` is a floor slot: campaigns' mail goes before express mail.
    pub fn is_first_for_campaigns(self, slot: u64) -> bool {
        self.before(slot.saturating_add(1)) > self.before(slot)
    }

    /// The number of floor slots among `slots`.
    ///
    /// ```
    /// # use tidegate_core::limiter::Floor;
    /// assert_eq!("20%".parse::<Floor>()?.count(3..13), 2);
    /// # Ok::<(), tidegate_core::InvalidText>(())
    /// ```
    pub fn count(self, slots: Range<u64>) -> u64 {
        self.before(slots.end).saturating_sub(self.before(slots.start))
    }

    /// ⌊slot·f⌋: the number of floor slots before this slot.
    fn before(self, slot: u64) -> u64 {
        u64::try_from(u128::from(slot) * u128::from(self.0) / 100).unwrap_or(u64::MAX)
    }
}

/// The slots of one window, and the messages that wait for them.
///
/// ```
/// use tidegate_core::{Window, cycle::Cycle, email::Priority, grid::SlotGrid, rate::{RateMargin, Rate}};
/// use tidegate_core::limiter::{Gates, Limiter, Line, NextSend, Waiting};
/// struct Open;
/// impl<T> Gates<T> for Open {
///     fn admits(&self, _: T, _: u64) -> bool { true }
///     fn take(&mut self, _: T, _: u64) {}
/// }
/// let grid = SlotGrid::new(Rate::per_second(14.0).unwrap(), RateMargin::default());
/// let slots = grid.slots_of(Window::from_epoch_second(1_000));
/// let mut limiter = Limiter::new(grid, slots.clone(), Cycle::new(&[1]).unwrap());
/// limiter.wait(Waiting { ticket: "a", line: Line::Campaign(0), priority: Priority::Normal, recipients: 1 });
/// let due = grid.at(slots.start);
/// assert_eq!(limiter.next(due.saturating_sub(std::time::Duration::from_millis(5)), &mut Open), NextSend::At(due));
/// assert!(matches!(limiter.next(due, &mut Open), NextSend::Start(acquired) if acquired.message.ticket == "a"));
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
    limited: LimitTurns<T>,
    /// By campaign, the slots that its large mails took from campaigns that waited; it gives as many of
    /// its own slots to them.
    debts: Vec<u64>,
    floor: Floor,
    /// Slots that express mail has taken from the floor and must give back; negative if campaigns have
    /// taken slots of express mail.
    floor_owed: i64,
    /// A message with more recipients than the window has slots.
    oversize: Option<Waiting<T>>,
    skipped: u64,
    unused: u64,
}

impl<T: Copy> Limiter<T> {
    /// A limiter over `slots` of `grid`; `cycle` says which campaign owns which slot.
    pub fn new(grid: SlotGrid, slots: Range<u64>, cycle: Cycle) -> Self {
        let campaigns = cycle.weights().len();
        Self {
            grid,
            cycle,
            cursor: slots.start,
            end: slots.end.max(slots.start),
            express: WaitingLane::default(),
            lanes: (0..campaigns).map(|_| WaitingLane::default()).collect(),
            limited: LimitTurns::new(Cycle::single(), Vec::new()),
            debts: vec![0; campaigns],
            floor: Floor::default(),
            floor_owed: 0,
            oversize: None,
            skipped: 0,
            unused: 0,
        }
    }

    /// This limiter with turns for mail from limit queues. `cycle` says which of all campaigns owns
    /// which slot; `lines` names for each campaign the lane that may hold other mail of it: the lane of
    /// the merge queue's mail, or the campaign's own.
    pub fn with_turns(mut self, cycle: Cycle, lines: Vec<Option<usize>>) -> Self {
        self.limited = LimitTurns::new(cycle, lines);
        self
    }

    /// Adds a message that waits for a slot. A message whose campaign is not in the cycle is dropped.
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

    /// Adds a message that has more recipients than the window has slots. It goes before all others, and acquires all slots
    /// that are left; the caller has claimed the missing ones from the following windows.
    pub const fn wait_oversize(&mut self, message: Waiting<T>) {
        self.oversize = Some(message);
    }

    /// Decides what the caller does at `now`, with the messages that `gates` admit.
    ///
    /// A slot is never caught up nor shifted: if `now` is past its latest start, the slot is lost.
    pub fn next(&mut self, now: Timestamp, gates: &mut impl Gates<T>) -> NextSend<T> {
        loop {
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
                    let slot = self.cursor;
                    self.spend(message);
                    gates.take(message.ticket, slot);
                    return NextSend::Start(Acquired { message, slot });
                }
                None => return NextSend::Idle(self.grid.latest(self.cursor)),
            }
        }
    }

    /// Gives out no more slots.
    pub const fn stop(&mut self) {
        self.end = self.cursor;
    }

    /// Removes and returns all messages that wait.
    pub fn drain(&mut self) -> Vec<Waiting<T>> {
        let lanes = self.lanes.iter_mut().chain([&mut self.express]).chain(&mut self.limited.lanes);
        self.oversize.take().into_iter().chain(lanes.flat_map(WaitingLane::take_all)).collect()
    }

    /// The number of slots that can still be acquired.
    pub fn slots_left(&self) -> u64 {
        self.end.saturating_sub(self.cursor)
    }

    /// The limiter's counters, with the waiting messages.
    pub fn state(&self) -> SlotState {
        SlotState {
            slots_left: self.slots_left(),
            waiting: WaitingMails {
                express: self.express.by_priority(),
                campaigns: by_priority(self.lanes.iter()),
                limited: by_priority(self.limited.lanes.iter()),
            },
            skipped: self.skipped,
            unused: self.unused,
            limited_in_turn: self.limited.in_turn,
        }
    }

    /// Whether a message waits that fits the slots left, so that only its gate keeps it.
    pub fn waits_for_a_gate(&self) -> bool {
        self.anyone_fits(|_| true)
    }

    fn anyone_fits(&self, may: impl Fn(&Waiting<T>) -> bool) -> bool {
        let left = self.slots_left();
        left > 0 && self.oversize.as_ref().is_some_and(&may)
            || self.all_lanes().any(|lane| lane.fits(left, &may))
    }

    /// The number of recipients of all messages that wait.
    pub fn recipients_waiting(&self) -> u64 {
        self.all_lanes().map(WaitingLane::recipients).sum::<u64>() + self.oversize_of(|_| true)
    }

    /// The recipients of the oversize message, if it is of such a line.
    fn oversize_of(&self, is_of: impl Fn(Line) -> bool) -> u64 {
        let oversize = self.oversize.filter(|message| is_of(message.line));
        oversize.map_or(0, |message| u64::from(message.recipients))
    }

    fn all_lanes(&self) -> impl Iterator<Item = &WaitingLane<T>> {
        self.lanes.iter().chain([&self.express]).chain(&self.limited.lanes)
    }

    /// Skips the slot at the cursor, and counts it as skipped or unused.
    fn pass(&mut self, gates: &impl Gates<T>) {
        let fits = self.anyone_fits(may(gates, self.cursor));
        let counter = if fits { &mut self.skipped } else { &mut self.unused };
        *counter += 1;
        self.cursor += 1;
    }

    /// Takes the message that gets the slot at the cursor, in the order that the module describes.
    fn choose(&mut self, gates: &impl Gates<T>) -> Option<Waiting<T>> {
        let (left, may) = (self.slots_left(), may(gates, self.cursor));
        if let Some(message) = self.oversize.take_if(|message| may(message)) {
            return Some(message);
        }
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

    /// Takes the message of a campaign that gets the slot at the cursor: the slot's owner, unless it
    /// has to give back a slot.
    ///
    /// A mail with several recipients also takes the slots after its first one, and these may belong to
    /// others: [`Self::spend`] counts these as debts. Example: A and B own slots in turn. A mail of A
    /// with 3 recipients takes slots 0 to 2, of which slot 1 is B's, so A owes one slot. B takes its
    /// slot 3. Slot 4 is A's, but A gives it to B. After six slots (5 is B's) both have three
    /// recipients.
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

    /// The first campaign of the cycle, from the cursor on, that has a message that fits and owes no
    /// slot. If all of them owe, the first that has a message that fits.
    fn next_in_turn(&self, left: u64, may: &impl Fn(&Waiting<T>) -> bool) -> Option<usize> {
        let fits = |index: &usize| self.lanes.get(*index).is_some_and(|lane| lane.fits(left, may));
        if !(0..self.lanes.len()).any(|index| fits(&index)) {
            return None;
        }
        let ahead = || (0..self.cycle.length()).map(|k| self.cycle.owner(self.turn() + k));
        let free = |index: &usize| self.debts.get(*index).is_none_or(|debt| *debt == 0);
        ahead()
            .find(|index| fits(index) && free(index))
            .or_else(|| ahead().find(fits))
            // A lane that owns no slot of the cycle may still hold mail.
            .or_else(|| (0..self.lanes.len()).find(|index| fits(index)))
    }

    /// Spends the next slots for `message`, as many as it has recipients, and notes those that it takes from
    /// others.
    fn spend(&mut self, message: Waiting<T>) {
        let count = u64::from(message.recipients.max(1)).min(self.slots_left());
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
    }

    /// This limiter with an express floor.
    pub const fn with_floor(mut self, floor: Floor) -> Self {
        self.floor = floor;
        self
    }

    /// The number of floor slots among the next `within` slots that can be acquired.
    pub fn floor_ahead(&self, within: u64) -> u64 {
        let end = self.cursor.saturating_add(within).min(self.end);
        self.floor.count(self.cursor..end.max(self.cursor))
    }

    /// The number of express mails that wait.
    pub fn express_mails(&self) -> u64 {
        self.express.mails()
    }

    /// The number of recipients of express mail that waits.
    pub fn express_waiting(&self) -> u64 {
        self.express.recipients() + self.oversize_of(|line| line == Line::Express)
    }

    /// The number of recipients of campaigns' mail that waits, without mail from limit queues.
    pub fn campaigns_waiting(&self) -> u64 {
        let oversize = self.oversize_of(|line| matches!(line, Line::Campaign(_)));
        self.lanes.iter().map(WaitingLane::recipients).sum::<u64>() + oversize
    }

    /// Whether campaigns' mail goes first at the cursor: at a floor slot, but first the side that is
    /// owed a slot (see [`Self::note_floor`]).
    fn is_floor(&self) -> bool {
        match self.floor_owed {
            0 => self.floor.is_first_for_campaigns(self.cursor),
            owed => owed > 0,
        }
    }

    /// The position in the cycle by which the slot at the cursor is given to a campaign: normally the
    /// slot's number. While express mail waits, campaigns get floor slots only, and their positions are
    /// counted separately: 0, 1, 2, …
    ///
    /// Example: a floor of 10 % makes slots 9, 19, 29, … floor slots. With weights 90 and 10 these are
    /// exactly the slots of the small campaign, which would get all of them. Counted separately, they
    /// go to positions 0, 1, 2, … of the cycle, nine of ten to the large campaign.
    fn turn(&self) -> u64 {
        let taken = self.floor.percent() > 0 && self.express.fits(self.slots_left(), |_| true);
        if taken { self.floor.before(self.cursor) } else { self.cursor }
    }

    /// Notes the slots that a mail takes from the other side while mail of that side waits. A mail with
    /// several recipients takes all the slots after its first one, whichever side they belong to.
    ///
    /// Example: a floor of 20 %, and an express mail with 5 recipients at slot 0. It takes slots 0 to
    /// 4, and slot 4 is a floor slot, so express owes 1. Therefore slot 5 goes to a campaign first.
    /// Slot 5 is no floor slot, so it pays the debt back: express owes 0.
    fn note_floor(&mut self, line: Line, slots: Range<u64>) {
        let left = self.slots_left();
        let campaigns = self.floor.count(slots.clone());
        let express = (slots.end - slots.start) - campaigns;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match line {
            _ if self.floor.percent() == 0 => {}
            Line::Express if self.any_campaign_fits(left) => {
                self.floor_owed += signed(campaigns);
            }
            Line::Campaign(_) | Line::Limited(_) if self.express.fits(left, |_| true) => {
                self.floor_owed -= signed(express);
            }
            _ => {}
        }
    }

    fn any_campaign_fits(&self, left: u64) -> bool {
        self.lanes.iter().chain(&self.limited.lanes).any(|lane| lane.fits(left, |_| true))
    }
}

/// A predicate: whether `gates` admit a message at slot `cursor`.
fn may<T: Copy>(gates: &impl Gates<T>, cursor: u64) -> impl Fn(&Waiting<T>) -> bool {
    move |message| gates.admits(message.ticket, cursor)
}

fn by_priority<'a, T: Copy + 'a>(lanes: impl Iterator<Item = &'a WaitingLane<T>>) -> [u64; 4] {
    lanes.fold([0; 4], |mut sums, lane| {
        sums.iter_mut().zip(lane.by_priority()).for_each(|(sum, mails)| *sum += mails);
        sums
    })
}

/// A condition that a message must meet besides getting a slot, such as the limit of its recipient
/// domain.
pub trait Gates<T> {
    /// Whether the message `ticket` may start at slot number `slot` of the account.
    fn admits(&self, ticket: T, slot: u64) -> bool;

    /// Notes that the message `ticket` got slot number `slot`. It spends what it needs of the limit
    /// even if it is not sent in the end.
    fn take(&mut self, ticket: T, slot: u64);
}

#[cfg(test)]
mod tests;
