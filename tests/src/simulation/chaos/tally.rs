//! Figures of many seeds: how much was simulated, and which faults struck how often.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use tidegate_fakes::Operation;

use super::Chaos;

/// The sums over worlds.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    worlds: u64,
    simulated: Duration,
    mails: usize,
    sends: usize,
    /// How often a fault struck an operation.
    strikes: BTreeMap<(Operation, &'static str), u64>,
    /// In how many worlds there was a part of this kind.
    kinds: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// Adds a world that has ended.
    pub fn add(&mut self, chaos: &Chaos) {
        let world = &chaos.world;
        self.worlds += 1;
        self.simulated += chaos.simulated;
        self.mails += world.enqueued.borrow().len();
        self.sends += world.ses.arrivals().len();
        for strike in world.faults.strikes().into_iter().chain(world.mail_faults.strikes()) {
            *self.strikes.entry((strike.operation, strike.fault)).or_default() += 1;
        }
        for kind in chaos.parts.kinds().collect::<BTreeSet<_>>() {
            *self.kinds.entry(kind).or_default() += 1;
        }
    }

    /// The sums of both.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.worlds += other.worlds;
        self.simulated += other.simulated;
        self.mails += other.mails;
        self.sends += other.sends;
        for (cell, times) in other.strikes {
            *self.strikes.entry(cell).or_default() += times;
        }
        for (kind, worlds) in other.kinds {
            *self.kinds.entry(kind).or_default() += worlds;
        }
        self
    }
}

/// As Markdown.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, strikes) =
            (self.simulated.as_secs() / 3_600, self.strikes.values().sum::<u64>());
        writeln!(
            f,
            "{} worlds, {hours} simulated hours, {} mails, {} sends, {strikes} faults.\n",
            self.worlds, self.mails, self.sends
        )?;
        let faults =
            ["Before", "After", "RefuseEntries", "LoseEntries", "Slow", "Duplicate", "Nothing"];
        writeln!(f, "| call | {} |", faults.join(" | "))?;
        writeln!(f, "|---|{}", "---:|".repeat(faults.len()))?;
        let operations: Vec<Operation> =
            self.strikes.keys().map(|(operation, _)| *operation).collect();
        for row in operations.chunk_by(PartialEq::eq) {
            write!(f, "| {:?} |", row[0])?;
            for fault in faults {
                match self.strikes.get(&(row[0], fault)) {
                    Some(times) => write!(f, " {times} |")?,
                    None => write!(f, " |")?,
                }
            }
            writeln!(f)?;
        }
        writeln!(f, "\n| part | worlds that have it |\n|---|---:|")?;
        self.kinds.iter().try_for_each(|(kind, worlds)| writeln!(f, "| {kind} | {worlds} |"))
    }
}
