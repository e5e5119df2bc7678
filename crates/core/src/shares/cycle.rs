//! The weighted cycle: which campaign owns which slot.
//!
//! Slot number n belongs to campaign `cycle[n mod len]`. So shares are exact over every cycle without
//! any stored state, also for quotas below one recipient per second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use thiserror::Error;

/// The longest allowed cycle: the sum of the weights after division by their greatest common divisor.
pub const MAX_LENGTH: u64 = 10_000;

/// A smooth weighted cycle over campaigns, which are named by their index.
///
/// Each position goes to the campaign with the earliest deadline among those whose next turn has come.
/// So after t positions each campaign has its share of t to within less than one. (Over a stretch that
/// does not start at position 0: less than one with two campaigns, and less than two with more, for
/// which no sequence guarantees one.)
///
/// Example: weights 3 and 2 give the cycle A B A A B.
///
/// ```
/// use tidegate_core::cycle::Cycle;
/// let cycle = Cycle::new(&[90, 10])?;
/// assert_eq!(cycle.length(), 10);
/// assert_eq!(cycle.shares(0..1_000), [900, 100]);
/// # Ok::<(), tidegate_core::cycle::InvalidWeights>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    owners: Vec<u16>,
    weights: Vec<u64>,
}

/// Weights of which no cycle can be made, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct InvalidWeights(String);

impl Cycle {
    /// The cycle for `weights`, one per campaign; a campaign of weight 0 owns no slot.
    ///
    /// # Errors
    /// [`InvalidWeights`] if no weight is above 0, or the divided sum is above 10,000.
    pub fn new(weights: &[u32]) -> Result<Self, InvalidWeights> {
        let divisor = weights.iter().fold(0, |a, &w| gcd(a, u64::from(w)));
        if divisor == 0 {
            let fault = "no campaign has a weight above 0; allowed is at least one";
            return Err(InvalidWeights(fault.to_owned()));
        }
        let divided: Vec<u64> = weights.iter().map(|&w| u64::from(w) / divisor).collect();
        let sum: u64 = divided.iter().sum();
        if sum > MAX_LENGTH {
            return Err(InvalidWeights(format!(
                "the weights {weights:?} add up to {sum} after division by their greatest common divisor; allowed is a sum of at most {MAX_LENGTH}"
            )));
        }
        Ok(Self { owners: earliest_deadline_first(&divided, sum), weights: divided })
    }

    /// The cycle for weights that came about while campaigns, rules and overrides changed, and that nobody checked
    /// together. Weights that are too long for a cycle are scaled down: each share is right to a ten-thousandth per
    /// campaign. If none is above 0, nobody may send, and the shares are equal.
    ///
    /// ```
    /// use tidegate_core::cycle::Cycle;
    /// let cycle = Cycle::nearest(&[9_500, 1_001, 0]);
    /// // 9,045 and 954 of 10,000, divided by 9.
    /// assert_eq!(cycle.weights(), [1_005, 106, 0]);
    /// ```
    pub fn nearest(weights: &[u32]) -> Self {
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        let positive = weights.iter().filter(|weight| **weight > 0).count() as u64;
        let room = MAX_LENGTH.saturating_sub(positive);
        let scaled = |weight: &u32| u64::from(*weight > 0) + u64::from(*weight) * room / sum.max(1);
        let scaled = weights.iter().map(|weight| u32::try_from(scaled(weight)).unwrap_or(1));
        Self::new(weights)
            .or_else(|_| Self::new(&scaled.collect::<Vec<_>>()))
            .or_else(|_| Self::new(&vec![1; weights.len()]))
            .unwrap_or_else(|_| Self::single())
    }

    /// The cycle of a single campaign, which owns all slots.
    pub fn single() -> Self {
        Self { owners: vec![0], weights: vec![1] }
    }

    /// A cycle in which slot number `start` belongs to the first of `owners`, over so many `lanes`. A
    /// lane that owns no slot gets weight 1, so that it can get slots that others leave.
    pub(crate) fn from_owners(start: u64, mut owners: Vec<u16>, lanes: usize) -> Self {
        if owners.is_empty() {
            owners.push(0);
        }
        let mut weights = vec![0; lanes.max(1)];
        for owner in &owners {
            if let Some(weight) = weights.get_mut(usize::from(*owner)) {
                *weight += 1;
            }
        }
        for weight in &mut weights {
            *weight = (*weight).max(1);
        }
        let ahead = start % owners.len() as u64;
        owners.rotate_right(usize::try_from(ahead).unwrap_or(0));
        Self { owners, weights }
    }

    /// The campaign that owns slot number `slot`.
    pub fn owner(&self, slot: u64) -> usize {
        let position = slot % self.length();
        usize::try_from(position).ok().and_then(|at| self.owners.get(at)).map_or(0, |&o| o.into())
    }

    /// The cycle's length in positions: the sum of the divided weights.
    pub fn length(&self) -> u64 {
        self.owners.len() as u64
    }

    /// The weights by campaign, divided by their greatest common divisor.
    pub fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// The number of `slots` that each campaign owns.
    pub fn shares(&self, slots: Range<u64>) -> Vec<u64> {
        let count = slots.end.saturating_sub(slots.start);
        let whole = count / self.length();
        let mut shares: Vec<u64> = self.weights.iter().map(|w| w * whole).collect();
        for slot in slots.start + whole * self.length()..slots.start + count {
            if let Some(share) = shares.get_mut(self.owner(slot)) {
                *share += 1;
            }
        }
        shares
    }
}

/// The owners of the positions, earliest deadline first.
///
/// Turn number j of a campaign with weight w may take a position from ⌊j·sum/w⌋ on, and must have one
/// before ⌈(j + 1)·sum/w⌉. Taking the earliest deadline at each position meets all deadlines (Tijdeman,
/// "The chairman assignment problem", 1980).
///
/// Example: weights 3 and 2, sum 5. A's turns may come from 0, 1, 3 and are due by 2, 4, 5; B's from 0,
/// 2, due by 3, 5. Position 0: A (due 2 before 3). 1: B (3 before 4). 2: A (4 before 5). 3: both are
/// due by 5, the first campaign wins: A. 4: B.
fn earliest_deadline_first(weights: &[u64], sum: u64) -> Vec<u16> {
    // `coming` holds turns by the position from which they may come; `due` those that may come now, by
    // deadline.
    let mut coming = BinaryHeap::new();
    let mut due = BinaryHeap::new();
    let turn = |weight: u64, number: u64, index: u16| {
        Reverse((number * sum / weight, index, ((number + 1) * sum).div_ceil(weight), number))
    };
    for (index, weight) in (0_u16..).zip(weights).filter(|(_, weight)| **weight > 0) {
        coming.push(turn(*weight, 0, index));
    }
    let mut owners = Vec::new();
    for position in 0..sum {
        while let Some(Reverse((from, index, deadline, number))) = coming.peek().copied()
            && from <= position
        {
            coming.pop();
            due.push(Reverse((deadline, index, number)));
        }
        let Some(Reverse((_, index, number))) = due.pop() else { break };
        owners.push(index);
        if let Some(weight) = weights.get(usize::from(index)) {
            coming.push(turn(*weight, number + 1, index));
        }
    }
    owners
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(0_u32..=60, 1..8)
            .prop_filter("one above 0", |w| w.iter().any(|w| *w > 0))
    }

    /// The definition computed directly: every campaign is compared at every position.
    fn by_definition(weights: &[u64], sum: u64) -> Vec<u16> {
        let mut turns = vec![0_u64; weights.len()];
        let owner = |position: u64| {
            let all = weights.iter().zip(&turns).enumerate();
            let ready = all.filter(|(_, (weight, turn))| **turn * sum < (position + 1) * **weight);
            let next = ready
                .min_by_key(|(_, (weight, turn))| ((**turn + 1) * sum).div_ceil(**weight))
                .map_or(0, |(index, _)| index);
            turns[next] += 1;
            u16::try_from(next).unwrap()
        };
        (0..sum).map(owner).collect()
    }

    #[test]
    fn all_pairs_of_weights_to_100_are_exact_over_their_cycle() {
        for (first, second) in
            (1..=100).flat_map(|first| (1..=100).map(move |second| (first, second)))
        {
            let cycle = Cycle::new(&[first, second]).unwrap();
            let (weight, sum) = (u64::from(first), u64::from(first + second));
            let mut taken = 0;
            for position in 0..cycle.length() {
                taken += u64::from(cycle.owner(position) == 0);
                // Less than one from its share of what has come so far.
                let (has, due) = (taken * sum, (position + 1) * weight);
                assert!(has.abs_diff(due) < sum, "{first}/{second}: {taken} at {position}");
            }
            assert_eq!(taken * sum, cycle.length() * weight, "{first}/{second}");
        }
    }

    proptest! {
        #[test]
        fn each_position_is_the_earliest_deadlines(weights in weights()) {
            let cycle = Cycle::new(&weights).unwrap();
            prop_assert_eq!(&cycle.owners, &by_definition(cycle.weights(), cycle.length()));
        }

        #[test]
        fn a_cycle_of_owners_begins_where_it_is_told(start in 0_u64..1_000, owners in prop::collection::vec(0_u16..5, 1..40)) {
            let cycle = Cycle::from_owners(start, owners.clone(), 6);
            let owned: Vec<u16> = (start..).zip(&owners).map(|(slot, _)| u16::try_from(cycle.owner(slot)).unwrap()).collect();
            prop_assert_eq!(owned, owners);
            prop_assert!(cycle.weights().iter().all(|weight| *weight > 0));
        }

        #[test]
        fn shares_are_exact_over_every_cycle_wherever_it_starts(weights in weights(), start in 0_u64..1_000_000) {
            let cycle = Cycle::new(&weights).unwrap();
            prop_assert_eq!(cycle.shares(start..start + cycle.length()), cycle.weights().to_vec());
        }

        #[test]
        fn every_prefix_gives_each_campaign_its_share_to_within_one(weights in weights(), cut in 0_u64..500) {
            let cycle = Cycle::new(&weights).unwrap();
            let sum: u64 = cycle.weights().iter().sum();
            for (share, weight) in cycle.shares(0..cut).into_iter().zip(cycle.weights()) {
                prop_assert!((share * sum).abs_diff(cut * weight) < sum);
            }
        }

        #[test]
        fn two_campaigns_are_within_one_recipient_of_their_share_in_every_window(
            a in 1_u32..=200, b in 1_u32..=200, start in 0_u64..100_000, slots in 0_u64..1_000,
        ) {
            let cycle = Cycle::new(&[a, b]).unwrap();
            let sum: u64 = cycle.weights().iter().sum();
            for (share, weight) in cycle.shares(start..start + slots).into_iter().zip(cycle.weights()) {
                prop_assert!((share * sum).abs_diff(slots * weight) < sum);
            }
        }

        #[test]
        fn shares_count_what_owners_say(weights in weights(), start in 0_u64..10_000, slots in 0_u64..300) {
            let cycle = Cycle::new(&weights).unwrap();
            let mut counted = vec![0; weights.len()];
            (start..start + slots).for_each(|slot| counted[cycle.owner(slot)] += 1);
            prop_assert_eq!(cycle.shares(start..start + slots), counted);
        }
    }

    proptest! {
        #[test]
        fn weights_that_nobody_checked_give_a_cycle_with_every_share_nearly_right(
            weights in prop::collection::vec(prop_oneof![Just(0_u32), 1_u32..=10_000], 1..200),
        ) {
            let cycle = Cycle::nearest(&weights);
            prop_assert_eq!(cycle.weights().len(), weights.len());
            prop_assert!(cycle.length() <= MAX_LENGTH);
            let sum: u32 = weights.iter().sum();
            for (given, made) in weights.iter().zip(cycle.weights()) {
                if sum > 0 {
                    prop_assert_eq!(*given == 0, *made == 0);
                    // Off by at most a ten-thousandth per campaign: all in whole numbers.
                    let (length, campaigns) = (cycle.length(), weights.len() as u64);
                    let (right, got) = (u64::from(*given) * length, made * u64::from(sum));
                    let most = campaigns * u64::from(sum) * length / 10_000 + 1;
                    prop_assert!(right.abs_diff(got) <= most, "{given}: {right} {got}");
                }
            }
        }
    }

    #[test]
    fn ninety_to_ten_means_every_tenth_slot() {
        let cycle = Cycle::new(&[90, 10]).unwrap();
        let small: Vec<u64> = (0..30).filter(|slot| cycle.owner(*slot) == 1).collect();
        assert_eq!(small.len(), 3);
        assert_eq!((small[1] - small[0], small[2] - small[1]), (10, 10));
    }

    #[test]
    fn weights_that_give_no_cycle_are_refused_with_what_is_allowed() {
        for none in [&[0, 0][..], &[]] {
            let error = Cycle::new(none).unwrap_err().to_string();
            assert!(error.contains("no campaign has a weight above 0"), "{error}");
        }
        let error = Cycle::new(&[10_000, 1]).unwrap_err().to_string();
        assert!(error.contains("10001") && error.contains("at most 10000"), "{error}");
        assert_eq!(Cycle::new(&[20_000, 10_000]).map(|c| c.length()), Ok(3));
    }
}
