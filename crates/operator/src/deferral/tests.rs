use snapbox::{assert_data_eq, file};
use tidegate_core::identity::EpochMillis;
use tidegate_delivery::ports::DeferralStore as _;
use tidegate_delivery::replay::{LeftObject, Why};
use tidegate_fakes::MemoryDeferralStore;

use super::*;
use crate::page::Page;

const NOW: EpochMillis = EpochMillis::new(1_795_210_567_000);

#[tokio::test]
async fn people_read_what_is_deferred_by_campaign() {
    let deferral = MemoryDeferralStore::default().with_pages_of(2);
    for name in [
        "20261120T203607Z.big.140.1a2b.jsonl.gz",
        "20261120T203608Z.big.131.1a2c.jsonl.gz",
        "20261120T210000Z.small.12.1a2d.jsonl.gz",
        "20261120T210001Z.summer.7.1a2e.jsonl.gz",
    ] {
        deferral.put(&name.parse().unwrap(), vec![0; 20_000]).await.unwrap();
    }
    deferral.put_raw("notes.txt", vec![]);
    let campaigns = ["big".to_owned(), "small".to_owned()];
    let listed = list(&deferral, "s3://tides/deferral", &campaigns, NOW).await.unwrap();
    assert_data_eq!(Page::of(&listed).plain(), file!["../../tests/golden/deferred-list.txt"]);
    let json = serde_json::to_value(&listed).unwrap();
    assert_eq!((&json["mails"], &json["objects"]), (&290.into(), &4.into()));
    assert_eq!(json["campaigns"]["big"]["oldest"], "2026-11-20T20:36:07Z");
}

#[tokio::test]
async fn an_empty_store_is_said() {
    let listed = list(&MemoryDeferralStore::default(), "s3://tides", &[], NOW).await.unwrap();
    assert_eq!(Page::of(&listed).plain(), "nothing is deferred in s3://tides\n");
}

#[test]
fn people_read_what_was_brought_back_and_what_was_left() {
    let done = BroughtBack {
        mails: 271,
        campaigns: [("big".to_owned(), 271)].into(),
        objects: 2,
        left: vec![LeftObject {
            object: "20261120T210001Z.summer.7.1a2e.jsonl.gz".to_owned(),
            campaign: "summer".to_owned(),
            why: Why::NoCampaign,
        }],
        through: true,
    };
    let replayed = DeferralReplayReport { done, interrupted: false };
    assert_data_eq!(Page::of(&replayed).plain(), file!["../../tests/golden/deferred-replay.txt"]);
    let json = serde_json::to_value(&replayed).unwrap();
    assert_eq!((&json["left"][0]["why"], &json["mails"]), (&"no_campaign".into(), &271.into()));
}
