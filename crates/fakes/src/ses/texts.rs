//! The money that text messages have cost in the current month.

use tidegate_core::Timestamp;

/// The parts sent in one calendar month (UTC), at a dollar each.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    month: (i32, u8),
    parts: u64,
}

impl Spent {
    /// Whether a text of `parts` stays within the limit.
    pub(crate) fn leaves(&mut self, parts: u32, limit: Option<u64>, at: Timestamp) -> bool {
        self.turn(at);
        limit.is_none_or(|limit| self.parts + u64::from(parts) <= limit)
    }

    pub(crate) fn add(&mut self, parts: u32, at: Timestamp) {
        self.turn(at);
        self.parts += u64::from(parts);
    }

    fn turn(&mut self, at: Timestamp) {
        if self.month != at.month() {
            *self = Self { month: at.month(), parts: 0 };
        }
    }
}
