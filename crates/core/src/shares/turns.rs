//! Turns: which campaigns a window asks if there are many of them.
//!
//! A call to SQS receives or deletes up to ten messages, of one queue, at the price of one call. With
//! 1,000 campaigns at 200 recipients per second each campaign has 0.2 recipients per window; to receive
//! so little would take two calls per mail. So with many campaigns, ten consecutive slots belong to one
//! campaign: slots 10·n to 10·n + 9 belong to the owner of position n of the cycle. Example: slots 70
//! to 79 belong to the owner of position 7.
//!
//! - Counted from slot 0, each campaign is within ten recipients of its share, and has it exactly over
//!   any ten cycles. This is a pure function of the slots' numbers, so no poller has to remember whose
//!   turn it was.
//! - Slots of campaigns without mail are numbered separately (0, 1, 2, …) and distributed in the same
//!   way among the campaigns with mail. So no campaign loses its own turns because another one has no
//!   mail.
//!
//! Example: A, B and C have weight 1, and C has no mail. Slots 0–9 are A's, 10–19 B's, 20–29 C's, 30–39
//! A's and so on. C's slots 20–29 have the separate numbers 0–9 and go to A; its next ten, 50–59, have
//! the numbers 10–19 and go to B.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cycle::Cycle;

/// The most messages that one receive from SQS can bring.
pub const BATCH: u64 = 10;

/// Up to this many campaigns are asked in every window: 20 receives cost little at any rate.
const FEW: u64 = 20;
/// For how many windows the owners of slots are computed: the campaigns of the next window get a lane
/// too, so that they can fill in for campaigns of this window that turn out to be empty.
const AHEAD: u64 = 2;

/// Whether so many campaigns take turns in windows of `slots`: above 20, if they have fewer than four
/// slots each.
///
/// ```
/// use tidegate_core::turns::are_taken;
/// assert!(!are_taken(2, 14) && !are_taken(50, 200));
/// assert!(are_taken(1_000, 200) && are_taken(21, 14));
/// ```
pub fn are_taken(campaigns: usize, slots: u64) -> bool {
    campaigns as u64 > FEW.max(slots / 4)
}

/// How many campaigns that were found empty are asked again in one window, if campaigns take turns: a
/// fifth of the slots, at least 10.
pub fn probes(slots: u64) -> usize {
    usize::try_from((slots / 5).max(BATCH)).unwrap_or(usize::MAX)
}

/// The campaigns that one window may ask, each with a lane: a place in the window's own, short list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// The campaign of each lane, by its index in the cycle of all campaigns.
    pub lanes: Vec<usize>,
    /// The owner of each slot, as a lane.
    pub cycle: Cycle,
    /// Whether campaigns take turns: slots that one leaves go to others ten at a time.
    pub in_batches: bool,
}

impl Turns {
    /// Every campaign of the cycle in every window, each with its share.
    pub fn all(cycle: &Cycle, campaigns: usize) -> Self {
        Self { lanes: (0..campaigns).collect(), cycle: cycle.clone(), in_batches: false }
    }

    /// The campaigns that have mail and whose turn is in the window of `slots` or the next one; and
    /// `probes`, campaigns found empty that are asked again and get only slots that others leave. A turn is
    /// [`BATCH`] slots, or fewer of campaigns whose limits let fewer through.
    pub fn taken(
        cycle: &Cycle,
        has_mail: &[bool],
        probes: &[usize],
        slots: Range<u64>,
        turn: u64,
    ) -> Self {
        let count = slots.end.saturating_sub(slots.start).max(turn);
        let owners = owners(cycle, has_mail, slots.start..slots.start + AHEAD * count, turn);
        let mut places = BTreeMap::new();
        let mut lanes = Vec::new();
        let mut lane_of = |campaign: usize| {
            *places.entry(campaign).or_insert_with(|| {
                lanes.push(campaign);
                u16::try_from(lanes.len() - 1).unwrap_or(u16::MAX)
            })
        };
        let owners: Vec<u16> = owners.into_iter().map(&mut lane_of).collect();
        for probe in probes {
            lane_of(*probe);
        }
        if lanes.is_empty() {
            lanes.push(0);
        }
        let cycle = Cycle::from_owners(slots.start, owners, lanes.len());
        Self { lanes, cycle, in_batches: true }
    }
}

/// The owner of each of `slots` among the campaigns that have mail; empty if none has.
fn owners(cycle: &Cycle, has_mail: &[bool], slots: Range<u64>, turn: u64) -> Vec<usize> {
    let has = |campaign: usize| has_mail.get(campaign).copied().unwrap_or(false);
    let weights = cycle.weights().iter().enumerate();
    let weights = weights.map(|(campaign, weight)| if has(campaign) { *weight } else { 0 });
    let weights: Vec<u32> = weights.map(|weight| u32::try_from(weight).unwrap_or(0)).collect();
    let Ok(others) = Cycle::new(&weights) else { return Vec::new() };
    // One position of a cycle stands for the slots of a turn.
    let owner = |cycle: &Cycle, slot: u64| cycle.owner(slot / turn);
    // The number of slots before `slots` whose campaign has no mail: whole turns, and the turn begun.
    let (blocks, begun) = (slots.start / turn, slots.start % turn);
    let before = cycle.shares(0..blocks).into_iter().enumerate();
    let before: u64 = before.filter(|(campaign, _)| !has(*campaign)).map(|(_, n)| n).sum();
    let begun = if has(cycle.owner(blocks)) { 0 } else { begun };
    let mut left = before * turn + begun;
    let next = |slot| {
        let own = owner(cycle, slot);
        if has(own) {
            return own;
        }
        left += 1;
        owner(&others, left - 1)
    };
    slots.map(next).collect()
}

#[cfg(test)]
mod tests;
