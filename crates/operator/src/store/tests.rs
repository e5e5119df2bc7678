use snapbox::{assert_data_eq, file};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::Store as _;
use tidegate_fakes::MemoryStore;

use super::*;
use crate::page::Page;

const NOW: EpochMillis = EpochMillis::new(1_795_210_567_000);

#[tokio::test]
async fn people_read_what_waits_by_campaign_and_for_what() {
    let store = MemoryStore::default().with_pages_of(2);
    for name in [
        "deferred/20261120T203607Z.big.1a2b.140.jsonl.gz",
        "deferred/20261120T203608Z.big.1a2c.131.jsonl.gz",
        "timed/20261224T080000Z.big.1a2f.3000.jsonl.gz",
        "deferred/20261120T210000Z.small.1a2d.12.jsonl.gz",
        "deferred/20261120T210001Z.summer.1a2e.7.jsonl.gz",
        "deferred/notes.txt",
    ] {
        store.put(name, vec![0; 20_000]).await.unwrap();
    }
    let campaigns = ["big".to_owned(), "small".to_owned()];
    let listed = list(&store, "s3://tides/store", &campaigns, NOW).await.unwrap();
    assert_data_eq!(Page::of(&listed).plain(), file!["../../tests/golden/store-list.txt"]);
    let json = serde_json::to_value(&listed).unwrap();
    assert_eq!((&json["mails"], &json["objects"]), (&3_290.into(), &5.into()));
    assert_eq!(json["campaigns"]["big"]["deferred"]["first"], "2026-11-20T20:36:07Z");
}

#[tokio::test]
async fn an_empty_store_is_said() {
    let listed = list(&MemoryStore::default(), "s3://tides", &[], NOW).await.unwrap();
    assert_eq!(Page::of(&listed).plain(), "no message waits in s3://tides\n");
}
