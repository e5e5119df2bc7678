//! Turns: whom a window asks where there are many campaigns.
//!
//! A receive or a delete costs the same for ten messages as for one, and is of one queue. A thousand
//! campaigns at 200/s have a fifth of a recipient each a window: asked for so little, a mail would take
//! two calls to SQS. So many campaigns take turns: of every ten slots in a row all are one campaign's,
//! the owner of one position of the cycle. Example: slots 70 to 79 are those of position 7.
//!
//! - After any number of slots each campaign is within ten recipients of its share, and exact after ten
//!   cycles' worth: a pure function of the slots' numbers, so nobody has to remember whose turn it was.
//! - Slots whose campaign has no mail are numbered by themselves, and go in the same way to those that
//!   have some: by weight. So no campaign loses its own turns by what others do.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::cycle::Cycle;

/// SQS's most messages in one receive.
pub const BATCH: u64 = 10;

/// So many campaigns are asked in every window whatever they cost: it is little.
const FEW: u64 = 20;
/// Of whom it is looked ahead, in windows: who comes next stands in for those found empty.
const AHEAD: u64 = 2;

/// Whether so many campaigns take turns in windows of `slots`: fewer than four recipients each.
///
/// ```
/// use tidegate_core::turns::are_taken;
/// assert!(!are_taken(2, 14) && !are_taken(50, 200));
/// assert!(are_taken(1_000, 200) && are_taken(21, 14));
/// ```
pub fn are_taken(campaigns: usize, slots: u64) -> bool {
    campaigns as u64 > FEW.max(slots / 4)
}

/// How many campaigns that were found empty are asked again in one window, where they take turns.
pub fn probes(slots: u64) -> usize {
    usize::try_from((slots / 5).max(BATCH)).unwrap_or(usize::MAX)
}

/// The campaigns that one window may ask: a lane each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Campaigns, by their index in the cycle.
    pub lanes: Vec<usize>,
    /// Whose slot is whose, by lane.
    pub cycle: Cycle,
    /// Whether they take turns: what one leaves goes to others ten recipients at a time.
    pub in_batches: bool,
}

impl Turns {
    /// All campaigns of the cycle, each by its share.
    pub fn all(cycle: &Cycle, campaigns: usize) -> Self {
        Self { lanes: (0..campaigns).collect(), cycle: cycle.clone(), in_batches: false }
    }

    /// Those whose turn the window of `slots` is among those that have mail, and `probes`, which get
    /// what they leave.
    pub fn taken(cycle: &Cycle, has_mail: &[bool], probes: &[usize], slots: Range<u64>) -> Self {
        let count = slots.end.saturating_sub(slots.start).max(BATCH);
        let owners = owners(cycle, has_mail, slots.start..slots.start + AHEAD * count);
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

/// Whose each of `slots` is, of the campaigns that have mail; empty where none has.
fn owners(cycle: &Cycle, has_mail: &[bool], slots: Range<u64>) -> Vec<usize> {
    let has = |campaign: usize| has_mail.get(campaign).copied().unwrap_or(false);
    let weights = cycle.weights().iter().enumerate();
    let weights = weights.map(|(campaign, weight)| if has(campaign) { *weight } else { 0 });
    let weights: Vec<u32> = weights.map(|weight| u32::try_from(weight).unwrap_or(0)).collect();
    let Ok(others) = Cycle::new(&weights) else { return Vec::new() };
    let owner = |cycle: &Cycle, slot: u64| cycle.owner(slot / BATCH);
    // Slots before these that went to others.
    let (blocks, begun) = (slots.start / BATCH, slots.start % BATCH);
    let before = cycle.shares(0..blocks).into_iter().enumerate();
    let before: u64 = before.filter(|(campaign, _)| !has(*campaign)).map(|(_, n)| n).sum();
    let begun = if has(cycle.owner(blocks)) { 0 } else { begun };
    let mut left = before * BATCH + begun;
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
