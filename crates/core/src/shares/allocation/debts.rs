//! Debts: recipients that campaigns sent beyond their parts. The changes of one window add up to 0, so
//! if all debts add up to 0 before it, they do so after it.

use super::{CampaignLane, Intake, divide};

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
        let used: Vec<u64> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(index, lane)| {
                lane.taken.saturating_sub(lane.for_limit_queues)
                    + from_limit_queues.get(index).copied().unwrap_or(0)
            })
            .collect();
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
            self.lanes
                .iter()
                .zip(included)
                .map(|(l, included)| if *included { of(l) } else { 0 })
                .collect()
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

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
