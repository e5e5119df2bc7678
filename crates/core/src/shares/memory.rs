//! A poller's memory: how many bytes of mail it may hold at once, and how much memory a rate and a mail
//! size need.

use crate::dead_letter::SQS_LIMIT_BYTES;
use crate::number::{real, whole};

/// Bytes that the poller needs without mail: program, runtime, connections, trust roots, and the
/// allocator's waste.
const PROCESS_BYTES: u64 = 48 * MEBIBYTE;
/// Most memory that a body takes, in multiples of its size: as received, as read, as the request to SES
/// in plain and encrypted form, and as part of SQS's answer.
const COPIES: u64 = 5;
/// Bytes of content in a window for each MB of memory: 0.4 s of the function's share of a processor, at 6 ns a byte to fetch,
/// read, write, hash and send (measured: `make bench ONLY=lambda-large`).
const CONTENT_PER_MB: u64 = 400_000_000 / 6 / MB_PER_PROCESSOR as u64;
const MEBIBYTE: u64 = 1_048_576;

/// Seconds for which a mail is in memory: 0.1 s while it is fed, and then until SES has answered.
const HELD_SECONDS: f64 = 0.4;
/// Megabytes of memory with which Lambda gives a function one whole vCPU.
pub const MB_PER_PROCESSOR: u32 = 1_769;
/// Milliseconds of one vCPU that a mail costs: a constant part, and a part per KB. Measured by
/// `make bench ONLY=lambda`.
const MAIL_MS: f64 = 0.7;
const MAIL_MS_PER_KB: f64 = 0.016;
/// Part of its vCPU time that a poller may use. The rest is for cold starts and bursts.
const PROCESSOR_SHARE: f64 = 0.75;
/// The least memory that Lambda gives a function.
const LEAST_MB: u32 = 128;
/// SQS's largest message in KB (1 MiB).
const MOST_KB: u32 = 1_024;

/// The memory of a function in Lambda's megabytes of 1,048,576 bytes; Lambda allows 128 to 10,240. It also determines the function's
/// share of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub u32);

impl Default for Memory {
    /// The stack's default memory. A local run has no limit of its own and uses the same value.
    fn default() -> Self {
        Self(256)
    }
}

impl Memory {
    /// Bytes of bodies that a poller may hold at once. A quarter of the memory beside the process stays
    /// free, and each body takes five times its size. The result is at least the largest SQS message.
    /// At 256 MB: (256 − 48) × 3/4 / 5 = 31.2 MiB, about 32.7 million bytes.
    ///
    /// ```
    /// use tidegate_core::memory::Memory;
    /// assert_eq!(Memory(256).mail_bytes() / 1_000_000, 32);
    /// ```
    pub fn mail_bytes(self) -> u64 {
        let all = u64::from(self.0) * MEBIBYTE;
        let free = all.saturating_sub(PROCESS_BYTES) / 4 * 3;
        (free / COPIES).max(SQS_LIMIT_BYTES as u64)
    }

    /// The part of [`Memory::mail_bytes`] that content from the store takes: half of its size, since it exists at most two and
    /// a half times (as S3's answer and as read, then as the request to SES), not five times.
    pub const fn of_content(bytes: u64) -> u64 {
        bytes.div_ceil(2)
    }

    /// Bytes of content from the store that a window fetches and sends beside its other mail. Example with 256 MB: 9.6 MB.
    pub const fn contents_a_window(self) -> u64 {
        self.0 as u64 * CONTENT_PER_MB
    }

    /// The memory that a poller needs to send `per_second` mails of `kilobytes` each. It is the larger
    /// of two amounts, and at least 128 MB:
    ///
    /// - for the processor: 1,769 MB × rate × (0.7 ms + 0.016 ms per KB) / 0.75;
    /// - for the mail in memory: 48 MiB + rate × 0.4 s × size × 5 / 0.75.
    ///
    /// Example with 200 mails a second of 50 KB: 1,769 × 200 × 1.5 ms / 0.75 = 707.6, so 708 MB for the
    /// processor; 48 + 25.4 MiB for the mail.
    ///
    /// ```
    /// use tidegate_core::memory::Memory;
    /// assert_eq!(Memory::needed(14.0, 2), Memory(128));
    /// assert_eq!(Memory::needed(200.0, 50), Memory(708));
    /// ```
    pub fn needed(per_second: f64, kilobytes: u32) -> Self {
        let processor_ms = per_second * (MAIL_MS + MAIL_MS_PER_KB * f64::from(kilobytes));
        let processor = f64::from(MB_PER_PROCESSOR) * processor_ms / 1e3 / PROCESSOR_SHARE;
        let held = per_second * HELD_SECONDS * f64::from(kilobytes) * 1e3 * real(COPIES) / 0.75;
        let room = (real(PROCESS_BYTES) + held) / real(MEBIBYTE);
        let megabytes = u32::try_from(whole(processor.max(room).ceil())).unwrap_or(u32::MAX);
        Self(megabytes.max(LEAST_MB))
    }

    /// The largest mail in KB of which this memory can send `per_second`, at most 1,024; 0 if not even
    /// mails of 1 KB.
    pub fn largest_kilobytes(self, per_second: f64) -> u32 {
        let enough = |kilobytes: &u32| Self::needed(per_second, *kilobytes).0 <= self.0;
        (1..=MOST_KB).rev().find(enough).unwrap_or(0)
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
            let (memory, larger) = (Memory(small), Memory(small + more));
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
