//! Packs messages into batches of at most 10 entries and 1 MiB, SQS's limits.

use tidegate_delivery::ports::{BATCH, BATCH_BYTES};

use super::draft::RenderedMessage;

/// SQS bills every begun 64 KiB of a call as one request.
const CHARGED_BYTES: u64 = 65_536;

#[derive(Debug, Default)]
pub(super) struct Packer {
    batch: Vec<RenderedMessage>,
    bytes: usize,
}

impl Packer {
    /// Adds a message. Returns the batch before it if the message does not fit into that batch.
    pub(super) fn add(&mut self, message: RenderedMessage) -> Option<Vec<RenderedMessage>> {
        let size = message.body.len();
        let full = self.batch.len() == BATCH || self.bytes + size > BATCH_BYTES;
        let before = if full { self.flush() } else { None };
        self.bytes += size;
        self.batch.push(message);
        before
    }

    pub(super) fn flush(&mut self) -> Option<Vec<RenderedMessage>> {
        self.bytes = 0;
        Some(std::mem::take(&mut self.batch)).filter(|batch| !batch.is_empty())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    entries: usize,
    bytes: usize,
    charged: u64,
}

impl Counter {
    pub(super) fn add(&mut self, size: usize) {
        if self.entries == BATCH || self.bytes + size > BATCH_BYTES {
            self.charged = self.charged();
            (self.entries, self.bytes) = (0, 0);
        }
        self.entries += 1;
        self.bytes += size;
    }

    /// The number of requests that SQS bills for all batches.
    pub(super) fn charged(&self) -> u64 {
        self.charged + (self.bytes as u64).div_ceil(CHARGED_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(row: u64, size: usize) -> RenderedMessage {
        RenderedMessage {
            row,
            line: row,
            id: String::new(),
            id_given: false,
            body: "x".repeat(size),
        }
    }

    proptest! {
        #[test]
        fn batches_keep_the_order_and_sqs_limits(
            sizes in proptest::collection::vec(prop_oneof![1_usize..99, 1_usize..1_000_000], 0..60)
        ) {
            let mut packer = Packer::default();
            let mut counter = Counter::default();
            let mut batches = Vec::new();
            for (row, size) in sizes.iter().enumerate() {
                counter.add(*size);
                batches.extend(packer.add(message(row as u64, *size)));
            }
            batches.extend(packer.flush());
            let rows: Vec<u64> = batches.iter().flatten().map(|message| message.row).collect();
            prop_assert_eq!(rows, (0..sizes.len() as u64).collect::<Vec<_>>());
            let bytes = |batch: &Vec<RenderedMessage>| batch.iter().map(|m| m.body.len()).sum::<usize>();
            prop_assert!(batches.iter().all(|b| (1..=10).contains(&b.len()) && bytes(b) <= BATCH_BYTES));
            let charged: usize = batches.iter().map(|b| bytes(b).div_ceil(65_536)).sum();
            prop_assert_eq!(counter.charged(), charged as u64);
        }
    }
}
