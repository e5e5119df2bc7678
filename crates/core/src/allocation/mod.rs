//! Allocation: how many recipients' worth to take from each campaign in one window.
//!
//! Each campaign is entitled to its slots of the cycle. What one cannot fill goes to the others by
//! weight, in the same window; what one took too much (a mail of many recipients) is a debt, repaid
//! from its entitlement in later windows.
//!
//! Debts are kept in thousandths of a recipient: a mail that takes one recipient too many in a
//! window of 14 adds one to the total as well, of which its campaign's share is its own.

mod debts;
mod divide;

use crate::cycle::Cycle;
pub use crate::turns::BATCH;
use crate::turns::Turns;
pub use divide::divide;
use divide::{per_mail, recipients};

/// One campaign in an [`Intake`].
#[derive(Clone, Debug, Default)]
struct CampaignLane {
    weight: u64,
    /// Its part of the window by weight and fallback, before debts.
    entitled: u64,
    /// Recipients it is to fill, after debts and fallback.
    wanted: u64,
    /// Its debt before this window, in thousandths of a recipient; a credit where negative.
    debt: i64,
    /// Recipients received.
    taken: u64,
    /// Recipients expected of receives under way.
    expected: u64,
    /// Recipients a mail, from what was received before; at least 1.
    recipients_per_mail: f64,
    /// Of those, recipients that are not sent from here.
    aside: u64,
    /// It had nothing more to give.
    dry: bool,
}

/// A receive to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The lane: a campaign's index.
    pub lane: usize,
    /// `MaxNumberOfMessages`: 1 to 10.
    pub messages: u64,
    /// Recipients expected of it; handed back to [`Intake::received`].
    pub recipients: u64,
}

/// What is taken in during one window: asks for what will be used, `min(10, still wanted)` a call.
///
/// ```
/// use tidegate_core::{allocation::Intake, cycle::Cycle};
/// let mut intake = Intake::new(&Cycle::new(&[90, 10]).unwrap(), 0..20, 20, &[0, 0], &[1.0, 1.0]);
/// let ask = intake.ask().unwrap();
/// assert_eq!((ask.lane, ask.messages), (0, 10));
/// intake.received(&ask, 0, 0); // the big campaign is empty …
/// let ask = intake.ask().unwrap();
/// assert_eq!((ask.lane, ask.messages), (1, 10)); // … so the small one gets all
/// assert_eq!(intake.still_wanted(), 20);
/// ```
#[derive(Clone, Debug)]
pub struct Intake {
    lanes: Vec<CampaignLane>,
    /// What one leaves goes to others [`BATCH`] recipients at a time.
    in_batches: bool,
}

impl Intake {
    /// An intake of `total` recipients, shared as `slots` of the cycle are; `debts` in thousandths
    /// of a recipient and the mean recipients a mail, both by campaign.
    pub fn new(
        cycle: &Cycle,
        slots: std::ops::Range<u64>,
        total: u64,
        debts: &[i64],
        recipients_per_mail: &[f64],
    ) -> Self {
        Self::over((cycle, false), slots, total, debts, recipients_per_mail)
    }

    /// An intake of `total` recipients from campaigns that may take turns; `debts` and means by lane.
    pub fn of_turns(
        turns: &Turns,
        slots: std::ops::Range<u64>,
        total: u64,
        debts: &[i64],
        recipients_per_mail: &[f64],
    ) -> Self {
        let means = recipients_per_mail;
        Self::over((&turns.cycle, turns.in_batches), slots, total, debts, means)
    }

    fn over(
        (cycle, in_batches): (&Cycle, bool),
        slots: std::ops::Range<u64>,
        total: u64,
        debts: &[i64],
        recipients_per_mail: &[f64],
    ) -> Self {
        let mut entitled = cycle.shares(slots.clone());
        let count = slots.end.saturating_sub(slots.start);
        if count != total {
            // Another amount than the window's slots: the next slots' owners, or the shares cut.
            entitled = cycle.shares(slots.start..slots.start.saturating_add(total));
        }
        let lanes =
            cycle.weights().iter().zip(entitled).enumerate().map(|(index, (&weight, entitled))| {
                CampaignLane {
                    weight,
                    entitled,
                    wanted: entitled,
                    debt: debts.get(index).copied().unwrap_or(0),
                    recipients_per_mail: recipients_per_mail
                        .get(index)
                        .copied()
                        .unwrap_or(1.0)
                        .max(1.0),
                    dry: weight == 0,
                    ..CampaignLane::default()
                }
            });
        let mut intake = Self { lanes: lanes.collect(), in_batches };
        intake.repay(total);
        intake
    }

    /// Moves a quarter of the debts from those who owe to those who are owed. (A window's debts are
    /// known two windows later: repaid whole, they would be repaid three times over.)
    fn repay(&mut self, total: u64) {
        let in_batches = self.in_batches;
        let due = |lane: &CampaignLane| {
            if in_batches && lane.entitled == 0 {
                return 0; // in its own turn
            }
            let entitled = i64::try_from(lane.entitled.saturating_mul(1_000)).unwrap_or(i64::MAX);
            u64::try_from(entitled.saturating_sub(lane.debt / 4)).unwrap_or(0)
        };
        let weights: Vec<u64> =
            self.lanes.iter().map(|lane| if lane.dry { 0 } else { due(lane) }).collect();
        if weights.iter().any(|weight| *weight > 0) {
            for (lane, wanted) in self.lanes.iter_mut().zip(divide(total, &weights)) {
                lane.wanted = wanted;
            }
        }
    }

    /// The next receive to make; `None` while nothing more is wanted beyond what is under way.
    pub fn ask(&mut self) -> Option<Ask> {
        self.ask_of(|_| true)
    }

    /// As [`Intake::ask`], of those campaigns only that `may` be asked now.
    pub fn ask_of(&mut self, may: impl Fn(usize) -> bool) -> Option<Ask> {
        self.ask_within(u64::MAX, may)
    }

    /// As [`Intake::ask_of`], for `most` recipients at most, by what is expected of the mails.
    pub fn ask_within(&mut self, most: u64, may: impl Fn(usize) -> bool) -> Option<Ask> {
        let (index, lane) = self
            .lanes
            .iter_mut()
            .enumerate()
            .filter(|(index, lane)| !lane.dry && may(*index))
            .max_by_key(|(index, lane)| (lane.open(), std::cmp::Reverse(*index)))
            .filter(|(_, lane)| lane.open() > 0)?;
        let open = lane.open().min(most.max(1));
        let messages = per_mail(open, lane.recipients_per_mail).clamp(1, BATCH);
        let recipients = recipients(messages, lane.recipients_per_mail).min(open).max(1);
        lane.expected += recipients;
        Some(Ask { lane: index, messages, recipients })
    }

    /// Notes what an ask brought: `messages` with `recipients` together. None at all means that the
    /// campaign is empty: what it still was to fill goes to the others.
    pub fn received(&mut self, ask: &Ask, messages: u64, recipients: u64) {
        let Some(lane) = self.lanes.get_mut(ask.lane) else { return };
        lane.expected = lane.expected.saturating_sub(ask.recipients);
        lane.taken += recipients;
        if messages == 0 {
            self.mark_dry(ask.lane);
        }
    }

    /// Notes that a campaign has nothing to give (known empty, held): its share goes to the others.
    pub fn mark_dry(&mut self, lane: usize) {
        self.mark_all_dry([lane]);
    }

    /// As [`Intake::mark_dry`], of several campaigns at once.
    pub fn mark_all_dry(&mut self, lanes: impl IntoIterator<Item = usize>) {
        for lane in lanes {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.dry = true;
            }
        }
        self.pass_on();
    }

    /// Notes that a campaign may have mail after all.
    pub fn revive(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.dry = lane.weight == 0;
        }
    }

    /// Takes back an ask that was not made.
    pub fn withdraw(&mut self, ask: &Ask) {
        if let Some(lane) = self.lanes.get_mut(ask.lane) {
            lane.expected = lane.expected.saturating_sub(ask.recipients);
        }
    }

    /// Moves what dry campaigns cannot fill to those that are not, by weight.
    fn pass_on(&mut self) {
        let weights: Vec<u64> =
            self.lanes.iter().map(|l| if l.dry { 0 } else { l.weight }).collect();
        if weights.iter().all(|w| *w == 0) {
            return;
        }
        let mut freed = 0;
        for lane in self.lanes.iter_mut().filter(|lane| lane.dry) {
            let covered = lane.taken + lane.expected;
            freed += lane.wanted.saturating_sub(covered);
            lane.wanted = lane.wanted.min(covered);
        }
        if self.in_batches {
            self.pass_on_batches(freed);
            return;
        }
        for (lane, more) in self.lanes.iter_mut().zip(divide(freed, &weights)) {
            lane.wanted += more;
            lane.entitled += more;
        }
    }

    /// Where campaigns take turns: to those that want least, the next in turn of equals.
    fn pass_on_batches(&mut self, mut freed: u64) {
        while freed > 0 {
            let live = self.lanes.iter_mut().filter(|lane| !lane.dry);
            let Some(lane) = live.min_by_key(|lane| lane.wanted) else { return };
            let more = freed.min(BATCH);
            lane.wanted += more;
            lane.entitled += more;
            freed -= more;
        }
    }

    /// Wants `recipients` less in all (slots that others took): from whoever has most still open.
    pub fn reduce(&mut self, recipients: u64) {
        for _ in 0..recipients {
            let most = self.lanes.iter_mut().max_by_key(|lane| lane.open());
            match most {
                Some(lane) if lane.open() > 0 => lane.wanted -= 1,
                _ => break,
            }
        }
    }

    /// Wants `recipients` more in all (slots that are free after all): by weight, of those that have mail.
    pub fn widen(&mut self, recipients: u64) {
        let weights: Vec<u64> =
            self.lanes.iter().map(|lane| if lane.dry { 0 } else { lane.weight }).collect();
        for (lane, more) in self.lanes.iter_mut().zip(divide(recipients, &weights)) {
            lane.wanted += more;
        }
    }

    /// Counts `recipients` of a campaign's mail as taken that are not sent from here: they are no debt.
    pub fn set_aside(&mut self, lane: usize, recipients: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.taken += recipients;
            lane.aside += recipients;
        }
    }

    /// Wants `recipients` more of a campaign (mail of it that was received could not be used).
    pub fn replace(&mut self, lane: usize, recipients: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.wanted += recipients;
        }
        self.pass_on();
    }

    /// Recipients expected of receives under way.
    pub fn under_way(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.expected).sum()
    }

    /// Recipients still wanted, those of receives under way included.
    pub fn still_wanted(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.wanted.saturating_sub(lane.taken)).sum()
    }

    /// Whether a campaign had nothing more to give.
    pub fn is_dry(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.dry)
    }

    /// Whether a campaign beside `lane` may have mail.
    pub fn others_may_give(&self, lane: usize) -> bool {
        self.lanes.iter().enumerate().any(|(other, state)| other != lane && !state.dry)
    }

    /// Whether every campaign is dry.
    pub fn all_dry(&self) -> bool {
        self.lanes.iter().all(|lane| lane.dry)
    }
}

impl CampaignLane {
    /// Recipients wanted for which no receive is under way.
    fn open(&self) -> u64 {
        if self.dry { 0 } else { self.wanted.saturating_sub(self.taken + self.expected) }
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests;
