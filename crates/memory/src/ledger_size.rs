//! How large the ledger's items would be in `DynamoDB`, and what reading and writing them would cost there.

use tidegate_core::control::StoredControl;
use tidegate_delivery::ports::Part;

/// No item is larger.
pub(crate) const LARGEST: usize = 400 * 1_024;

/// A number of up to ten digits: two a byte, and one more.
const NUMBER: usize = 6;
const TOKEN: usize = 32;
/// The rate factor as JSON, with a cap.
const FACTOR: usize = 120;

/// What the ledger's calls would have cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerUnits {
    /// A unit for each 4 KB of an item that was read.
    pub read: usize,
    /// A unit for each KB of an item that was written: of the whole item, whatever was changed in it.
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

/// The claim's item: names of attributes and their values.
pub(crate) fn of_claim(stored: &StoredControl) -> usize {
    const NUMBERS: [&str; 10] = [
        "window",
        "opened",
        "rate",
        "guard",
        "domain_limits",
        "prev_window",
        "prev_rate",
        "prev_guard",
        "prev_domain_limits",
        "control_version",
    ];
    const FACTORS: [&str; 3] = ["factor", "claimed_factor", "prev_factor"];
    "pk".len()
        + "regulator".len()
        + NUMBERS.iter().map(|name| name.len() + NUMBER).sum::<usize>()
        + FACTORS.iter().map(|name| name.len() + FACTOR).sum::<usize>()
        + ["token", "control_token"].iter().map(|name| name.len() + TOKEN).sum::<usize>()
        + "control".len()
        + stored.inline_bytes()
}

/// A part's item.
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
