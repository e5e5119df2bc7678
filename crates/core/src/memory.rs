//! What a poller's memory and its share of a processor let through: how many bytes of mail at once, and
//! how many mails of a size in a second.

use crate::dead_letter::SQS_LIMIT_BYTES;

/// What the poller itself takes: program, runtime, connections, trust roots, what the allocator wastes.
const PROCESS_BYTES: u64 = 48 * MEBIBYTE;
/// What a body takes at most, in bodies: as received, as read, as the request to SES that is written
/// and encrypted, and beside one of them the answer of SQS that it came in.
const COPIES: u64 = 5;
const MEBIBYTE: u64 = 1_048_576;

/// How long a mail is held: while it is fed a tenth of a second, then until SES has answered.
const HELD_SECONDS: f64 = 0.4;
/// Megabytes that buy a whole processor.
const PROCESSOR_MB: f64 = 1_769.0;
/// Milliseconds of a processor that a mail costs, whatever its size, and for each 100 KB of it.
const MAIL_MS: f64 = 0.8;
const MAIL_MS_PER_100_KB: f64 = 0.8;
/// Poller environments that serve neighbouring windows at once: one that sends, one that settles.
const ENVIRONMENTS: f64 = 1.4;

/// The memory of a function, in Lambda's megabytes of 1,048,576 bytes; it buys the processor, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(u32);

impl Default for Memory {
    /// As the stack is deployed by default; a local run has no limit of its own.
    fn default() -> Self {
        Self(256)
    }
}

impl Memory {
    /// `megabytes` of memory.
    #[must_use]
    pub const fn megabytes(megabytes: u32) -> Self {
        Self(megabytes)
    }

    /// Bytes of bodies that a poller may hold at once: of what the process leaves, a quarter stays
    /// free; each body takes its size several times. The largest message always fits.
    ///
    /// ```
    /// use tidegate_core::memory::Memory;
    /// assert_eq!(Memory::megabytes(256).mail_bytes() / 1_000_000, 32);
    /// ```
    #[must_use]
    pub fn mail_bytes(self) -> u64 {
        let all = u64::from(self.0) * MEBIBYTE;
        let free = all.saturating_sub(PROCESS_BYTES) / 4 * 3;
        (free / COPIES).max(SQS_LIMIT_BYTES as u64)
    }

    /// Mails of `bytes` each that a poller gets through in a second: as many as it can hold in turn,
    /// and as its share of a processor writes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "bytes far below 2^52")]
    pub fn mails_per_second(self, bytes: u64) -> f64 {
        let held = self.mail_bytes() as f64 / bytes.max(1) as f64 / HELD_SECONDS;
        let share = (f64::from(self.0) / PROCESSOR_MB).min(1.0) * ENVIRONMENTS;
        let cost = MAIL_MS + MAIL_MS_PER_100_KB * bytes as f64 / 1e5;
        held.min(share * 1e3 / cost)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn more_memory_holds_more_and_what_is_held_fits_beside_the_process(
            small in 128_u32..10_240, more in 0_u32..1_000,
        ) {
            let (memory, larger) = (Memory::megabytes(small), Memory::megabytes(small + more));
            prop_assert!(memory.mail_bytes() <= larger.mail_bytes());
            prop_assert!(memory.mail_bytes() >= SQS_LIMIT_BYTES as u64);
            let taken = PROCESS_BYTES + COPIES * memory.mail_bytes();
            prop_assert!(taken <= u64::from(small) * MEBIBYTE);
        }

        #[test]
        fn larger_mails_never_go_faster(mb in 128_u32..10_240, bytes in 1_u64..1_000_000) {
            let memory = Memory::megabytes(mb);
            prop_assert!(memory.mails_per_second(bytes) >= memory.mails_per_second(bytes + 10_000));
        }
    }
}
