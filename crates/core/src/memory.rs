//! A poller's memory: how many bytes of mail it holds at once, and how much is needed for mails of a size.

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
/// Milliseconds of a processor that a mail costs, whatever its size, and for each KB of it: measured by
/// `make bench ONLY=lambda`.
const MAIL_MS: f64 = 0.5;
const MAIL_MS_PER_KB: f64 = 0.016;
/// Part of its processor that a poller may use: the rest is for cold starts and for what comes at once. (With
/// 0.73 of it, 200 mails a second at 256 MB, the bench reaches 97.9 %.)
const PROCESSOR_SHARE: f64 = 0.75;
/// Lambda's least.
const LEAST_MB: u32 = 128;
/// SQS's largest message.
const MOST_KB: u32 = 1_024;

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
    pub fn mail_bytes(self) -> u64 {
        let all = u64::from(self.0) * MEBIBYTE;
        let free = all.saturating_sub(PROCESS_BYTES) / 4 * 3;
        (free / COPIES).max(SQS_LIMIT_BYTES as u64)
    }

    /// What a poller needs for so many mails a second of `kilobytes` each: as much of a processor as reads and
    /// writes them twice over, 1,769 MB × rate × (0.5 ms + 0.016 ms a KB) / 0.75, and room for those that are held at
    /// once; at least 128 MB.
    ///
    /// ```
    /// use tidegate_core::memory::Memory;
    /// assert_eq!(Memory::needed(14.0, 2), Memory::megabytes(128));
    /// assert_eq!(Memory::needed(200.0, 50), Memory::megabytes(614));
    /// ```
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "at most 10,000 mails a second of a megabyte: far below 2^32"
    )]
    pub fn needed(per_second: f64, kilobytes: u32) -> Self {
        let processor_ms = per_second * (MAIL_MS + MAIL_MS_PER_KB * f64::from(kilobytes));
        let processor = PROCESSOR_MB * processor_ms / 1e3 / PROCESSOR_SHARE;
        let held = per_second * HELD_SECONDS * f64::from(kilobytes) * 1e3 * COPIES as f64 / 0.75;
        let room = (PROCESS_BYTES as f64 + held) / MEBIBYTE as f64;
        Self((processor.max(room).ceil() as u32).max(LEAST_MB))
    }

    /// The largest mails of which it gets through so many a second, KB; 0 where it gets through none.
    pub fn largest_kilobytes(self, per_second: f64) -> u32 {
        let enough = |kilobytes: &u32| Self::needed(per_second, *kilobytes).0 <= self.0;
        (1..=MOST_KB).rev().find(enough).unwrap_or(0)
    }

    /// In Lambda's megabytes.
    pub const fn as_megabytes(self) -> u32 {
        self.0
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
        fn what_is_needed_grows_with_rate_and_size_and_suffices_for_that_size(
            per_second in 1.0_f64..5_000.0, kilobytes in 1_u32..1_000,
        ) {
            let needed = Memory::needed(per_second, kilobytes);
            prop_assert!(needed.0 <= Memory::needed(per_second + 1.0, kilobytes).0);
            prop_assert!(needed.0 <= Memory::needed(per_second, kilobytes + 1).0);
            prop_assert!(needed.largest_kilobytes(per_second) >= kilobytes);
        }
    }
}
