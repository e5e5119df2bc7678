//! The contract of the `Exclusions` port.

use std::collections::BTreeSet;

use tidegate_core::exclusions::AddressKey;
use tidegate_delivery::ports::{ExclusionShard, Exclusions};

use super::ledger::LedgerRoom;
use super::{behaviours, hold_together};

/// Runs all behaviours of the exclusion list on one adapter.
pub async fn exclusions_contract(room: &impl LedgerRoom) {
    hold_together(behaviours![room =>
        a_shard_reads_back_what_was_written,
        a_shard_that_another_wrote_is_not_overwritten,
        all_shards_are_read_in_the_order_asked,
    ])
    .await;
}

fn keys(count: usize) -> BTreeSet<AddressKey> {
    (0..count).map(|n| AddressKey::of_text(&format!("reader-{n}@example.com"))).collect()
}

async fn a_shard_reads_back_what_was_written(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    assert_eq!(ledger.shards(&[7]).await.unwrap(), [ExclusionShard::default()]);
    // A shard of the largest list has some 16,000 keys.
    for (version, count) in [(0, 1), (1, 20_000), (2, 0)] {
        let shard = ExclusionShard { version, keys: keys(count) };
        assert!(ledger.set_shard(7, &shard).await.unwrap());
        let written = ExclusionShard { version: version + 1, ..shard };
        assert_eq!(ledger.shards(&[7]).await.unwrap(), [written]);
    }
}

async fn a_shard_that_another_wrote_is_not_overwritten(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    let first = ExclusionShard { version: 0, keys: keys(2) };
    assert!(ledger.set_shard(0, &first).await.unwrap());
    for version in [0, 2] {
        let late = ExclusionShard { version, keys: keys(5) };
        assert!(!ledger.set_shard(0, &late).await.unwrap(), "{version}");
    }
    assert_eq!(ledger.shards(&[0]).await.unwrap()[0].keys, keys(2));
    assert!(!ledger.set_shard(1, &ExclusionShard { version: 3, keys: keys(1) }).await.unwrap());
}

async fn all_shards_are_read_in_the_order_asked(room: &impl LedgerRoom) {
    let ledger = room.open().await;
    for number in [255, 3, 100] {
        let shard = ExclusionShard { version: 0, keys: keys(usize::from(number)) };
        assert!(ledger.set_shard(number, &shard).await.unwrap());
    }
    let all: Vec<u8> = (0..=255).rev().collect();
    let read = ledger.shards(&all).await.unwrap();
    let lengths: Vec<usize> = read.iter().map(|shard| shard.keys.len()).collect();
    assert_eq!((lengths[0], lengths[252], lengths[155], lengths.iter().sum()), (255, 3, 100, 358));
}
