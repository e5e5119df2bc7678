//! The contract of the `ConsoleBuckets` port.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_delivery::ports::{BucketCharge, ConsoleBuckets};

use super::{behaviours, hold_in_turn};

/// Gives the contract the buckets of one server.
pub trait ConsoleBucketRoom {
    type Buckets: ConsoleBuckets;

    /// The buckets of this stack, as one console more has them.
    fn open(&self, stack: &str) -> impl Future<Output = Self::Buckets>;

    /// Waits by the clock that the buckets go by.
    fn wait(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn console_bucket_contract(room: &impl ConsoleBucketRoom) {
    hold_in_turn(behaviours![room =>
        a_bucket_that_nobody_charged_is_full,
        charges_of_all_consoles_add_up,
        a_charge_counts_from_when_its_tokens_were_taken,
        a_bucket_fills_as_time_passes,
        asking_charges_nothing,
        no_debt_is_larger_than_the_largest,
        stacks_and_buckets_are_apart,
        answers_come_in_the_order_of_the_charges,
        of_concurrent_charges_none_is_lost,
    ])
    .await;
}

/// How long an answer may take.
const WITHIN: u64 = 2_000;

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// So many milliseconds' worth of tokens, taken from a full bucket so long before.
fn charge(bucket: &str, charged: u64, before: u64) -> BucketCharge {
    BucketCharge {
        bucket: format!("events/session/{bucket}"),
        charged: millis(charged),
        full_in: millis(charged.saturating_sub(before)),
        most: millis(3_600_000),
    }
}

async fn one(buckets: &impl ConsoleBuckets, charge: BucketCharge) -> Duration {
    let answer = buckets.charge(&[charge]).await.unwrap();
    assert_eq!(answer.len(), 1);
    answer[0]
}

fn assert_near(full_in: Duration, expected: u64) {
    let least = millis(expected.saturating_sub(WITHIN));
    assert!((least..=millis(expected)).contains(&full_in), "{full_in:?}, not {expected} ms");
}

async fn a_bucket_that_nobody_charged_is_full(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("new").await;
    assert_eq!(one(&buckets, charge("ada", 0, 0)).await, Duration::ZERO);
    assert!(buckets.charge(&[]).await.unwrap().is_empty());
}

async fn charges_of_all_consoles_add_up(room: &impl ConsoleBucketRoom) {
    let (first, second) = (room.open("adding").await, room.open("adding").await);
    assert_eq!(one(&first, charge("ada", 20_000, 0)).await, millis(20_000));
    assert_near(one(&second, charge("ada", 30_000, 0)).await, 50_000);
    assert_near(one(&first, charge("ada", 0, 0)).await, 50_000);
}

async fn a_charge_counts_from_when_its_tokens_were_taken(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("late").await;
    assert_eq!(one(&buckets, charge("ada", 20_000, 5_000)).await, millis(15_000));
    // A bucket that is not full owes all of it.
    assert_near(one(&buckets, charge("ada", 20_000, 19_000)).await, 35_000);
    assert_eq!(one(&buckets, charge("bob", 20_000, 30_000)).await, Duration::ZERO);
}

async fn a_bucket_fills_as_time_passes(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("filling").await;
    one(&buckets, charge("ada", 1_000, 0)).await;
    room.wait(millis(400)).await;
    let left = one(&buckets, charge("ada", 0, 0)).await;
    assert!(left <= millis(600), "{left:?}");
    room.wait(millis(700)).await;
    assert_eq!(one(&buckets, charge("ada", 0, 0)).await, Duration::ZERO);
    assert_eq!(one(&buckets, charge("ada", 20_000, 0)).await, millis(20_000));
}

async fn asking_charges_nothing(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("asking").await;
    let ask = BucketCharge { full_in: millis(9_000), ..charge("ada", 0, 0) };
    for _ in 0..3 {
        assert_eq!(one(&buckets, ask.clone()).await, Duration::ZERO);
    }
}

async fn no_debt_is_larger_than_the_largest(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("debts").await;
    let large = BucketCharge { most: millis(20_000), ..charge("ada", 15_000, 0) };
    one(&buckets, large.clone()).await;
    assert_eq!(one(&buckets, large).await, millis(20_000));
    let ask = BucketCharge { most: millis(5_000), ..charge("ada", 0, 0) };
    assert_eq!(one(&buckets, ask).await, millis(5_000));
    // It is smaller from then on: a wait ends, even if the clock was set back.
    assert_near(one(&buckets, charge("ada", 0, 0)).await, 5_000);
}

async fn stacks_and_buckets_are_apart(room: &impl ConsoleBucketRoom) {
    let (mail, news) = (room.open("mail").await, room.open("news").await);
    one(&mail, charge("ada", 20_000, 0)).await;
    assert_eq!(one(&news, charge("ada", 0, 0)).await, Duration::ZERO);
    assert_eq!(one(&mail, charge("ad", 0, 0)).await, Duration::ZERO);
    let openings = BucketCharge { bucket: "openings/session/ada".into(), ..charge("", 0, 0) };
    assert_eq!(one(&mail, openings).await, Duration::ZERO);
}

async fn answers_come_in_the_order_of_the_charges(room: &impl ConsoleBucketRoom) {
    let buckets = room.open("order").await;
    let charges: Vec<_> =
        (0..350_u64).map(|number| charge(&format!("{number}"), 100_000 + 10 * number, 0)).collect();
    let answers = buckets.charge(&charges).await.unwrap();
    let expected: Vec<Duration> = charges.iter().map(|charge| charge.charged).collect();
    assert_eq!(answers, expected);
}

async fn of_concurrent_charges_none_is_lost(room: &impl ConsoleBucketRoom) {
    let (first, second) = (room.open("many").await, room.open("many").await);
    let charges = (0..20).map(|number| {
        let buckets = if number % 2 == 0 { &first } else { &second };
        one(buckets, charge("ada", 5_000, 0))
    });
    join_all(charges).await;
    assert_near(one(&first, charge("ada", 0, 0)).await, 100_000);
}
