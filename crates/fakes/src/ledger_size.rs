//! Sizes of the ledger's items in DynamoDB, and the units that reading and writing them would use
//! there.

use tidegate_core::control::StoredControl;
use tidegate_delivery::ports::Part;

pub(crate) const LARGEST: usize = 400 * 1_024;

/// Bytes of a number with up to ten digits: DynamoDB stores two digits in a byte, and one byte
/// more.
const NUMBER: usize = 6;
const TOKEN: usize = 32;
/// The rate factor as JSON, with a cap.
const FACTOR: usize = 120;

/// The DynamoDB read and write units that the ledger's calls would have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUnits {
    /// Read units: one for each begun 4 KB of an item.
    pub read: usize,
    /// Write units: one for each begun KB of the whole item, however little of it was changed.
    pub written: usize,
}

impl LedgerUnits {
    pub(crate) fn add_read(&mut self, bytes: usize) {
        self.read += bytes.div_ceil(4 * 1_024).max(1);
    }

    pub(crate) fn add_written(&mut self, bytes: usize) {
        self.written += bytes.div_ceil(1_024).max(1);
    }
}

/// Bytes of the claim's item: the names of its attributes and their values.
pub(crate) fn of_claim(stored: &StoredControl) -> usize {
    const NUMBERS: [&str; 13] = [
        "window",
        "opened",
        "rate",
        "margin",
        "initial_limits",
        "prev_window",
        "prev_rate",
        "prev_margin",
        "prev_initial_limits",
        "limits",
        "claimed_limits",
        "prev_claimed_limits",
        "control_version",
    ];
    const FACTORS: [&str; 3] = ["factor", "claimed_factor", "prev_claimed_factor"];
    "pk".len()
        + "regulator".len()
        + NUMBERS.iter().map(|name| name.len() + NUMBER).sum::<usize>()
        + FACTORS.iter().map(|name| name.len() + FACTOR).sum::<usize>()
        + ["token", "control_token"].iter().map(|name| name.len() + TOKEN).sum::<usize>()
        + "control".len()
        + stored.inline_bytes()
}

pub(crate) fn of_part(part: &Part) -> usize {
    let digits = |number: u64| number.checked_ilog10().map_or(1, |digits| digits as usize + 1);
    let counters = part.counters.iter();
    let counters = counters
        .map(|(name, sum)| "n.".len() + name.len() + digits(sum.unsigned_abs()).div_ceil(2) + 1);
    let idle = part.idle.iter().map(|(queue, idle)| {
        "idle.".len() + queue.len() + digits(idle.until.epoch_second()) + 1 + digits(idle.pause)
    });
    let left = part.left.keys().map(|name| "left.".len() + name.len() + NUMBER);
    let numbers = ["parts", "last_find", "last_empty"].iter().map(|name| name.len() + NUMBER);
    let all = counters.chain(idle).chain(left).chain(numbers).sum::<usize>();
    all + "pk".len() + "sums#15".len() + "last_report".len() + TOKEN
}
