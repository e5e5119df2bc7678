//! Compares the command's output with the examples in `docs/commands/results.md`.

use std::time::Duration;

use snapbox::{assert_data_eq, file};
use tidegate_core::deduplication::Deduplication;
use tidegate_operator::page::Page;

use super::world::{Became, World};

#[tokio::test(start_paused = true)]
async fn with_deduplication() {
    let world = World::new(Deduplication::Park);
    let journal = world.enqueue("big", "november", 20_000).await;
    let became = [
        (18_420, Became::Sent),
        (12, Became::Dead),
        (2, Became::Parked),
        (9, Became::Retrying),
        (30, Became::Merging),
    ];
    world.befall("big", &became).await;
    let report = world.results(&journal).await.unwrap();
    assert_data_eq!(Page::of(&report).plain(), file!["../golden/results.txt"]);
}

#[tokio::test(start_paused = true)]
async fn by_counts() {
    let world = World::new(Deduplication::Off);
    let journal = world.enqueue("big", "november", 20_000).await;
    world.befall("big", &[(19_950, Became::Sent), (12, Became::Dead), (38, Became::Lost)]).await;
    tokio::time::sleep(Duration::from_mins(2)).await;
    let report = world.results(&journal).await.unwrap();
    assert_data_eq!(Page::of(&report).plain(), file!["../golden/results-counts.txt"]);
}
