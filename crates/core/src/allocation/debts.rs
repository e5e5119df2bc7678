//! Debts: what campaigns took beyond their parts. Together they are always 0: what one owes, others are owed.

use super::{CampaignLane, Intake, divide};

impl Intake {
    /// What this window changes in the campaigns' debts, in thousandths of a recipient: what each
    /// took beyond its part of what those took together that had mail to the end. A campaign found
    /// empty loses a quarter of its credit, and keeps its debt: being idle earns nothing. (Up to three
    /// windows know the same credit: whole, it would be taken from it three times.) Those that owe it
    /// owe as much less, so that the debts of all are 0 together.
    pub fn debt_changes(&self) -> Vec<i64> {
        self.debt_changes_beside(&[], &[])
    }

    /// As [`Intake::debt_changes`], where `sent` recipients of each campaign were sent beside what is
    /// taken in here, and some campaigns were `clogged`: they had mail, and none for these slots. Such
    /// a campaign earns nothing by what it could not use.
    pub fn debt_changes_beside(&self, sent: &[u64], clogged: &[bool]) -> Vec<i64> {
        let used: Vec<u64> = self
            .lanes
            .iter()
            .enumerate()
            .map(|(index, lane)| {
                lane.taken.saturating_sub(lane.aside) + sent.get(index).copied().unwrap_or(0)
            })
            .collect();
        let mut counts: Vec<bool> = self.lanes.iter().map(|lane| !lane.dry).collect();
        let mut parts = self.parts(&used, &counts);
        for (index, counted) in counts.iter_mut().enumerate() {
            let under = used[index].saturating_mul(1_000) < parts[index];
            *counted &= !(under && clogged.get(index).copied().unwrap_or(false));
        }
        parts = self.parts(&used, &counts);
        let forgiven = self.forgiven(&counts);
        let change = |(index, lane): (usize, &CampaignLane)| {
            let forgiven = signed(forgiven[index]);
            if !counts[index] {
                return lane.forgotten() - forgiven;
            }
            signed(used[index].saturating_mul(1_000)).saturating_sub(signed(parts[index]))
                - forgiven
        };
        self.lanes.iter().enumerate().map(change).collect()
    }

    /// What each need not repay, since those to whom it was owed lose it: divided by the debts.
    fn forgiven(&self, counts: &[bool]) -> Vec<u64> {
        let debts: Vec<u64> =
            self.lanes.iter().map(|lane| lane.debt.max(0).unsigned_abs()).collect();
        let without = self.lanes.iter().zip(counts).filter(|(_, counts)| !**counts);
        let forgotten: u64 = without.map(|(lane, _)| lane.forgotten().unsigned_abs()).sum();
        divide(forgotten.min(debts.iter().sum()), &debts)
    }

    /// The parts of what those that count used together, in thousandths.
    fn parts(&self, used: &[u64], counts: &[bool]) -> Vec<u64> {
        let together: u64 =
            used.iter().zip(counts).filter(|(_, counts)| **counts).map(|(n, _)| n).sum();
        let weights = |of: fn(&CampaignLane) -> u64| -> Vec<u64> {
            self.lanes
                .iter()
                .zip(counts)
                .map(|(l, counts)| if *counts { of(l) } else { 0 })
                .collect()
        };
        let mut parts = weights(|lane| lane.entitled);
        if parts.iter().all(|part| *part == 0) {
            parts = weights(|lane| lane.weight); // a window of a slot or two, none of it theirs
        }
        divide(together.saturating_mul(1_000), &parts)
    }
}

impl CampaignLane {
    /// The part of its credit that it loses by having no mail.
    const fn forgotten(&self) -> i64 {
        if self.debt < 0 { self.debt.saturating_neg() / 4 } else { 0 }
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
