//! Allocation: how many recipients a window takes from each campaign.
//!
//! Each campaign is entitled to its slots of the cycle. Slots that a campaign cannot fill go to the
//! others by weight, in the same window. Recipients beyond the entitlement (from a mail with many
//! recipients) are a debt, which later windows subtract from the campaign's entitlement.
//!
//! Debts are kept in thousandths of a recipient, because a window's parts are no whole numbers: if a
//! campaign with weight 10 of 100 sends one recipient too many, the window has 15 recipients instead of
//! 14, and the campaign's part of the additional one is 0.1.
//!
//! The changes of one window's debts add up to 0, so if all debts add up to 0 before it, they do so
//! after it.

use crate::counters::signed;
use crate::number::{real, whole};
use crate::turns::Turns;

pub use crate::turns::BATCH;

/// One campaign of an [`Intake`], with what it is to fill and what it has brought.
#[derive(Clone, Debug, Default)]
struct CampaignLane {
    weight: u64,
    /// Recipients of this window that are the campaign's by weight, with those that empty campaigns
    /// leave to it; debts are not subtracted.
    entitled: u64,
    /// Recipients that the campaign is to fill, after debts and with those that empty campaigns leave
    /// to it.
    wanted: u64,
    /// The debt before this window, in thousandths of a recipient; a credit if negative.
    debt: i64,
    taken: u64,
    /// Recipients that the receives under way are expected to bring.
    expected: u64,
    /// The mean of recipients per mail in earlier windows; at least 1.
    recipients_per_mail: f64,
    /// Recipients within `taken` that are not sent by this window.
    for_limit_queues: u64,
    /// The campaign is known to have no more mail, or has weight 0.
    dry: bool,
}

/// One receive that the caller is to make from a campaign's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The index of the campaign's lane in the [`Intake`].
    pub lane: usize,
    /// The receive's `MaxNumberOfMessages`: 1 to 10, the range that SQS allows.
    pub messages: u64,
    /// Recipients that the messages are expected to have; [`Intake::received`] replaces them by the
    /// real number.
    pub recipients: u64,
}

/// The receives of one window: each asks for as many messages as the campaign still has to fill, at
/// most 10.
///
/// ```
/// use tidegate_core::{allocation::Intake, cycle::Cycle, turns::Turns};
/// let turns = Turns::all(&Cycle::new(&[90, 10]).unwrap(), 2);
/// let mut intake = Intake::new(&turns, 0..20, 20, &[0, 0], &[1.0, 1.0]);
/// let ask = intake.ask(u64::MAX, |_| true).unwrap();
/// assert_eq!((ask.lane, ask.messages), (0, 10));
/// intake.received(&ask, 0, 0); // the big campaign is empty …
/// let ask = intake.ask(u64::MAX, |_| true).unwrap();
/// assert_eq!((ask.lane, ask.messages), (1, 10)); // … so the small one gets all
/// assert_eq!(intake.still_wanted(), 20);
/// ```
#[derive(Clone, Debug)]
pub struct Intake {
    lanes: Vec<CampaignLane>,
    /// Slots that a campaign leaves go to others [`BATCH`] recipients at a time.
    in_batches: bool,
}

impl Intake {
    /// An intake of `total` recipients, divided among the lanes as `slots` of their cycle are. `debts` (in
    /// thousandths of a recipient) and the mean recipients of a mail are given by lane.
    pub fn new(
        turns: &Turns,
        slots: std::ops::Range<u64>,
        total: u64,
        debts: &[i64],
        recipients_per_mail: &[f64],
    ) -> Self {
        let cycle = &turns.cycle;
        // `total` may not be the number of slots: as many are taken from the first on.
        let entitled = cycle.shares(slots.start..slots.start.saturating_add(total));
        let mean = |index: usize| recipients_per_mail.get(index).copied().unwrap_or(1.0).max(1.0);
        let lanes = cycle.weights().iter().zip(entitled).enumerate();
        let lanes = lanes.map(|(index, (&weight, entitled))| CampaignLane {
            weight,
            entitled,
            wanted: entitled,
            debt: debts.get(index).copied().unwrap_or(0),
            recipients_per_mail: mean(index),
            dry: weight == 0,
            ..CampaignLane::default()
        });
        let mut intake = Self { lanes: lanes.collect(), in_batches: turns.in_batches };
        intake.repay(total);
        intake
    }

    /// Moves a quarter of every debt from the entitlements of the debtors to those of the campaigns
    /// that are owed.
    ///
    /// Only a quarter, because a window's debts are known two windows later: up to three windows repay
    /// the same debt, at most 3/4 of it together. Repaid whole, it would be repaid three times.
    ///
    /// Example: entitlements 13 and 1 of 14, debts −3.714 and +3.714. A quarter is 0.928, so 14
    /// recipients are divided by 13.928 and 0.072: A is to fill 14, B none.
    fn repay(&mut self, total: u64) {
        let in_batches = self.in_batches;
        let due = |lane: &CampaignLane| {
            // Where campaigns take turns, a debt is repaid in a window with slots of the campaign.
            if in_batches && lane.entitled == 0 {
                return 0; // in its own turn
            }
            let entitled = signed(lane.entitled.saturating_mul(1_000));
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

    /// The next receive to make, of the lanes that `may` be asked, for at most `most` recipients, estimated by the mean
    /// recipients of a mail; `None` if the receives under way cover all that is wanted.
    pub fn ask(&mut self, most: u64, may: impl Fn(usize) -> bool) -> Option<Ask> {
        let (index, lane) = self
            .lanes
            .iter_mut()
            .enumerate()
            .filter(|(index, lane)| !lane.dry && may(*index))
            // The campaign with the most recipients to fill is asked first; of equals the first lane.
            .max_by_key(|(index, lane)| (lane.open(), std::cmp::Reverse(*index)))
            .filter(|(_, lane)| lane.open() > 0)?;
        let open = lane.open().min(most.max(1));
        let messages = whole(real(open) / lane.recipients_per_mail).clamp(1, BATCH);
        let recipients = whole((real(messages) * lane.recipients_per_mail).round());
        let recipients = recipients.min(open).max(1);
        lane.expected += recipients;
        Some(Ask { lane: index, messages, recipients })
    }

    /// Notes the result of an ask: `messages` with `recipients` in all. No message at all means that
    /// the campaign is empty: what it still had to fill goes to the others.
    pub fn received(&mut self, ask: &Ask, messages: u64, recipients: u64) {
        let Some(lane) = self.lanes.get_mut(ask.lane) else { return };
        lane.expected = lane.expected.saturating_sub(ask.recipients);
        lane.taken += recipients;
        if messages == 0 {
            self.mark_dry([ask.lane]);
        }
    }

    /// Notes that campaigns have nothing to give (they are known to be empty, or held): their share goes to
    /// the others.
    pub fn mark_dry(&mut self, lanes: impl IntoIterator<Item = usize>) {
        for lane in lanes {
            if let Some(lane) = self.lanes.get_mut(lane) {
                lane.dry = true;
            }
        }
        self.pass_on();
    }

    /// Notes that a campaign that was marked dry may have mail.
    pub fn revive(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.dry = lane.weight == 0;
        }
    }

    /// Cancels an ask for which no receive was made.
    pub fn withdraw(&mut self, ask: &Ask) {
        if let Some(lane) = self.lanes.get_mut(ask.lane) {
            lane.expected = lane.expected.saturating_sub(ask.recipients);
        }
    }

    /// Moves the recipients that dry campaigns cannot fill to the other campaigns, by weight.
    fn pass_on(&mut self) {
        let weights = self.live_weights();
        if weights.iter().all(|w| *w == 0) {
            return;
        }
        let mut freed = 0;
        for lane in self.lanes.iter_mut().filter(|lane| lane.dry) {
            let covered = lane.taken + lane.expected;
            freed += lane.wanted.saturating_sub(covered);
            lane.wanted = lane.wanted.min(covered);
        }
        if !self.in_batches {
            for (lane, more) in self.lanes.iter_mut().zip(divide(freed, &weights)) {
                lane.wanted += more;
                lane.entitled += more;
            }
            return;
        }
        // Where campaigns take turns, ten at a time go to the campaign that wants least, of equals the first lane. Whole
        // batches, because a receive of ten messages costs as much as one of one.
        while freed > 0 {
            let live = self.lanes.iter_mut().filter(|lane| !lane.dry);
            let Some(lane) = live.min_by_key(|lane| lane.wanted) else { return };
            let more = freed.min(BATCH);
            lane.wanted += more;
            lane.entitled += more;
            freed -= more;
        }
    }

    fn live_weights(&self) -> Vec<u64> {
        self.lanes.iter().map(|lane| if lane.dry { 0 } else { lane.weight }).collect()
    }

    /// Wants `recipients` less in all, because others took the slots; the campaign with the most
    /// recipients that no receive covers loses one at a time.
    pub fn reduce(&mut self, recipients: u64) {
        for _ in 0..recipients {
            let most = self.lanes.iter_mut().max_by_key(|lane| lane.open());
            match most {
                Some(lane) if lane.open() > 0 => lane.wanted -= 1,
                _ => break,
            }
        }
    }

    /// Wants `recipients` more in all, because slots became free; divided by weight among the campaigns
    /// with mail.
    pub fn widen(&mut self, recipients: u64) {
        let weights = self.live_weights();
        for (lane, more) in self.lanes.iter_mut().zip(divide(recipients, &weights)) {
            lane.wanted += more;
        }
    }

    /// Counts `recipients` of a campaign as taken although this window does not send them; they make no
    /// debt.
    pub fn count_for_limit_queue(&mut self, lane: usize, recipients: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.taken += recipients;
            lane.for_limit_queues += recipients;
        }
    }

    /// Wants `recipients` more of one campaign, because mail of it was received that could not be used.
    pub fn replace(&mut self, lane: usize, recipients: u64) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.wanted += recipients;
        }
        self.pass_on();
    }

    /// Recipients that the receives under way are expected to bring.
    pub fn under_way(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.expected).sum()
    }

    /// Recipients that are wanted and not yet received; those of receives under way are included.
    pub fn still_wanted(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.wanted.saturating_sub(lane.taken)).sum()
    }

    /// Whether a campaign was marked as having no more mail.
    pub fn is_dry(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.dry)
    }

    /// Whether a campaign brought all that it was to fill, as far as that is known.
    pub fn is_filled(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| !lane.dry && lane.taken >= lane.wanted)
    }

    /// Whether a campaign other than `lane` may have mail.
    pub fn others_may_give(&self, lane: usize) -> bool {
        self.lanes.iter().enumerate().any(|(other, state)| other != lane && !state.dry)
    }

    /// Whether no campaign can give more mail in this window.
    pub fn all_dry(&self) -> bool {
        self.lanes.iter().all(|lane| lane.dry)
    }
}

impl CampaignLane {
    /// Recipients that are wanted and that no receive under way is expected to bring.
    fn open(&self) -> u64 {
        if self.dry { 0 } else { self.wanted.saturating_sub(self.taken + self.expected) }
    }
}

/// Divides `total` by `weights`. The parts add up to `total`, and each differs from its exact share by
/// less than one. If every weight is 0, all parts are 0.
///
/// The method is that of the largest remainders: each part is rounded down, then the parts with the
/// largest remainders get one more each (of equal remainders the first). Example: 13 by 90 and 10 is
/// 11.7 and 1.3; rounded down 11 and 1, and the one that is left goes to 0.7, the larger remainder: 12
/// and 1.
///
/// ```
/// use tidegate_core::allocation::divide;
/// assert_eq!(divide(13, &[90, 10]), [12, 1]);
/// assert_eq!(divide(7, &[0, 5]), [0, 7]);
/// ```
pub fn divide(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|&w| u128::from(w)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let product = |w: u64| u128::from(total) * u128::from(w);
    let mut parts: Vec<u64> =
        weights.iter().map(|&w| u64::try_from(product(w) / sum).unwrap_or(u64::MAX)).collect();
    let mut rest = total - parts.iter().sum::<u64>();
    let mut by_remainder: Vec<usize> = (0..weights.len()).collect();
    by_remainder
        .sort_by_key(|&i| std::cmp::Reverse(weights.get(i).map_or(0, |&w| product(w) % sum)));
    for index in by_remainder {
        if rest == 0 {
            break;
        }
        if let Some(part) = parts.get_mut(index) {
            *part += 1;
            rest -= 1;
        }
    }
    parts
}

impl Intake {
    /// The change of each campaign's debt by this window, in thousandths of a recipient.
    ///
    /// The recipients taken by all campaigns that had mail to the end are divided among these campaigns
    /// by what each was entitled to. A campaign's debt changes by what it took less this part.
    ///
    /// Example: with weights 90 and 10, a window of 14 slots (0 to 13) entitles A to 13 and B to 1. A
    /// takes 13 recipients, B one mail of 5: 18 in all. The parts are 18 × 13/14 = 16.714 and 18 × 1/14
    /// = 1.286, so the changes are 13 − 16.714 = −3.714 for A and 5 − 1.286 = +3.714 for B.
    ///
    /// A campaign that was found empty keeps its debt and loses a quarter of its credit: it must not
    /// save up a claim while it has no mail. It loses only a quarter because up to three windows start
    /// with the same credit. The same amount of the debtors' debt is cancelled, so that the sum stays 0.
    /// Example: A is owed 4.000 and found empty, B owes 4.000: the changes are +1.000 for A and −1.000
    /// for B.
    ///
    /// The recipients of each campaign that were sent to from limit queues count in addition. `had_limited_mail` says by campaign whether at least one of its mails went
    /// to a limit queue in place of a slot: if such a campaign took less than its part, it counts as an
    /// empty one and gains no credit.
    pub fn debt_changes(&self, from_limit_queues: &[u64], had_limited_mail: &[bool]) -> Vec<i64> {
        let used = |(index, lane): (usize, &CampaignLane)| {
            let from_limit_queues = from_limit_queues.get(index).copied().unwrap_or(0);
            lane.taken.saturating_sub(lane.for_limit_queues) + from_limit_queues
        };
        let used: Vec<u64> = self.lanes.iter().enumerate().map(used).collect();
        let mut included: Vec<bool> = self.lanes.iter().map(|lane| !lane.dry).collect();
        let mut parts = self.parts(&used, &included);
        // Whether a campaign with limited mail took too little shows only against the parts of all.
        for (index, is_included) in included.iter_mut().enumerate() {
            let under = used[index].saturating_mul(1_000) < parts[index];
            *is_included &= !(under && had_limited_mail.get(index).copied().unwrap_or(false));
        }
        // Then the parts are those of the remaining campaigns alone.
        parts = self.parts(&used, &included);
        let cancelled_debt = self.cancelled_debt(&included);
        let change = |(index, lane): (usize, &CampaignLane)| {
            let cancelled_debt = signed(cancelled_debt[index]);
            if !included[index] {
                return lane.lost_credit() - cancelled_debt;
            }
            signed(used[index].saturating_mul(1_000)).saturating_sub(signed(parts[index]))
                - cancelled_debt
        };
        self.lanes.iter().enumerate().map(change).collect()
    }

    /// Debts that need not be repaid because the campaigns that were owed lose as much credit; divided
    /// among the debtors in proportion to their debts.
    fn cancelled_debt(&self, included: &[bool]) -> Vec<u64> {
        let debts: Vec<u64> =
            self.lanes.iter().map(|lane| lane.debt.max(0).unsigned_abs()).collect();
        let without = self.lanes.iter().zip(included).filter(|(_, included)| !**included);
        let lost_credit: u64 = without.map(|(lane, _)| lane.lost_credit().unsigned_abs()).sum();
        divide(lost_credit.min(debts.iter().sum()), &debts)
    }

    /// The recipients used by the campaigns that count, divided by their entitlements, in thousandths.
    fn parts(&self, used: &[u64], included: &[bool]) -> Vec<u64> {
        let together: u64 =
            used.iter().zip(included).filter(|(_, included)| **included).map(|(n, _)| n).sum();
        let weights = |of: fn(&CampaignLane) -> u64| -> Vec<u64> {
            let lanes = self.lanes.iter().zip(included);
            lanes.map(|(lane, included)| if *included { of(lane) } else { 0 }).collect()
        };
        let mut parts = weights(|lane| lane.entitled);
        // In a short window none of the slots may belong to them; then the parts are by weight.
        if parts.iter().all(|part| *part == 0) {
            parts = weights(|lane| lane.weight);
        }
        divide(together.saturating_mul(1_000), &parts)
    }
}

impl CampaignLane {
    /// A quarter of the credit, which an empty campaign loses.
    const fn lost_credit(&self) -> i64 {
        if self.debt < 0 { self.debt.saturating_neg() / 4 } else { 0 }
    }
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
mod tests;
