//! The contract of the `Bucket` port.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::bucket::Pace;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Answer, Bucket, LimitTake, TakeRequest, Taken};

use super::{behaviours, hold_in_turn};

/// Gives the contract fresh buckets of one adapter.
pub trait BucketRoom {
    type Bucket: Bucket;

    /// Buckets of which nothing is known.
    fn open(&self) -> impl Future<Output = Self::Bucket>;

    /// Waits by the clock that the buckets go by.
    fn wait(&self, duration: Duration) -> impl Future<Output = ()>;
}

/// Runs all behaviours of the port on one adapter.
pub async fn bucket_contract(room: &impl BucketRoom) {
    hold_in_turn(behaviours![room =>
        a_take_is_granted_and_the_next_refused_until_it_says,
        of_concurrent_takes_no_more_are_granted_than_fit,
        a_claim_gets_what_is_there_and_no_less_than_is_of_use,
        a_mail_larger_than_what_fits_goes_into_debt,
        a_mail_may_use_what_nobody_used_before_it,
        account_and_domains_are_taken_together_or_not_at_all,
        domains_are_apart_from_each_other,
        a_recipient_has_several_mails_at_once_and_then_none,
        the_slowest_rate_is_kept_and_the_fastest_is_served,
    ])
    .await;
}

fn pace(rate: f64) -> Pace {
    Pace { rate: Rate::per_second(rate).unwrap(), rate_margin: RateMargin::new(0.02).unwrap() }
}

fn ask(rate: f64, wanted: u32, least: u32) -> TakeRequest<'static> {
    TakeRequest { pace: pace(rate), wanted, least, limits: &[] }
}

fn domain(name: &str, rate: f64, recipients: u32) -> LimitTake {
    let rate = Rate::per_second(rate).unwrap();
    LimitTake { name: name.to_owned(), rate, recipients, is_of_recipient: false }
}

fn with(rate: f64, limits: &[LimitTake]) -> TakeRequest<'_> {
    TakeRequest { limits, ..ask(rate, 1, 1) }
}

async fn take(bucket: &impl Bucket, request: TakeRequest<'_>) -> Taken {
    bucket.take(&request).await.unwrap()
}

async fn granted(bucket: &impl Bucket, request: TakeRequest<'_>) -> u32 {
    match take(bucket, request).await.answer {
        Answer::Granted(count) => count,
        Answer::Refused { after, by } => panic!("refused for {after:?} by {by:?}"),
    }
}

async fn refused(bucket: &impl Bucket, request: TakeRequest<'_>) -> (Duration, Option<String>) {
    match take(bucket, request).await.answer {
        Answer::Granted(count) => panic!("{count} granted"),
        Answer::Refused { after, by } => (after, by),
    }
}

async fn a_take_is_granted_and_the_next_refused_until_it_says(room: &impl BucketRoom) {
    let bucket = room.open().await;
    let first = take(&bucket, ask(5.0, 1, 1)).await;
    assert_eq!(first.answer, Answer::Granted(1));
    let second = take(&bucket, ask(5.0, 1, 1)).await;
    let Answer::Refused { after, by: None } = second.answer else { panic!("{second:?}") };
    // 204 ms a recipient, 10 of them tolerance: exactly, by the server's own clock.
    let free_at = first.at_micros + 204_000 - 10_000;
    assert_eq!(second.at_micros + u64::try_from(after.as_micros()).unwrap(), free_at);
    room.wait(after + Duration::from_millis(2)).await;
    let third = take(&bucket, ask(5.0, 1, 1)).await;
    assert_eq!(third.answer, Answer::Granted(1));
    assert!(third.at_micros >= free_at);
}

async fn of_concurrent_takes_no_more_are_granted_than_fit(room: &impl BucketRoom) {
    let bucket = room.open().await;
    let takes = join_all((0..100).map(|_| take(&bucket, ask(0.5, 1, 1)))).await;
    let granted = takes.iter().filter(|taken| matches!(taken.answer, Answer::Granted(_)));
    assert_eq!(granted.count(), 1);
}

async fn a_claim_gets_what_is_there_and_no_less_than_is_of_use(room: &impl BucketRoom) {
    let bucket = room.open().await;
    // Ten milliseconds of tolerance are ten recipients at a thousand a second, and one more.
    assert_eq!(granted(&bucket, ask(1_000.0, 40, 1)).await, 10);
    let bucket = room.open().await;
    assert_eq!(granted(&bucket, ask(1_000.0, 3, 1)).await, 3);
    let bucket = room.open().await;
    assert_eq!(granted(&bucket, ask(0.5, 3, 2)).await, 2);
}

async fn a_mail_larger_than_what_fits_goes_into_debt(room: &impl BucketRoom) {
    let bucket = room.open().await;
    let first = take(&bucket, ask(100.0, 1, 1)).await;
    room.wait(Duration::from_millis(20)).await;
    assert_eq!(granted(&bucket, ask(100.0, 50, 50)).await, 50);
    let refused = take(&bucket, ask(100.0, 1, 1)).await;
    let Answer::Refused { after, by: None } = refused.answer else { panic!("{refused:?}") };
    let free_at = first.at_micros + 51 * 10_200 - 10_000;
    assert_eq!(refused.at_micros + u64::try_from(after.as_micros()).unwrap(), free_at);
}

async fn a_mail_may_use_what_nobody_used_before_it(room: &impl BucketRoom) {
    let bucket = room.open().await;
    // What it saved up is 49 periods before now: it owes one.
    assert_eq!(granted(&bucket, ask(2.0, 50, 50)).await, 50);
    let (after, _) = refused(&bucket, ask(2.0, 1, 1)).await;
    assert!(after <= Duration::from_millis(500), "{after:?}");
}

async fn account_and_domains_are_taken_together_or_not_at_all(room: &impl BucketRoom) {
    let bucket = room.open().await;
    let slow = [domain("slow", 0.1, 1)];
    assert_eq!(granted(&bucket, with(100.0, &slow)).await, 1);
    room.wait(Duration::from_millis(30)).await;
    let both = [domain("quick", 0.5, 1), domain("slow", 0.1, 1)];
    let (after, by) = refused(&bucket, with(0.5, &both)).await;
    assert!(by.as_deref() == Some("slow") && after > Duration::from_secs(1), "{by:?} {after:?}");
    // Nothing was taken from either other bucket: two seconds would have to pass.
    let quick = [domain("quick", 100.0, 1)];
    assert_eq!(granted(&bucket, with(100.0, &quick)).await, 1);
    // The account's own wait is the account's.
    room.wait(Duration::from_millis(30)).await;
    assert_eq!(granted(&bucket, ask(0.5, 9, 9)).await, 9);
    let (_, by) = refused(&bucket, with(100.0, &quick)).await;
    assert_eq!(by, None);
}

async fn domains_are_apart_from_each_other(room: &impl BucketRoom) {
    let bucket = room.open().await;
    for name in ["gmail.com", "tiny.example", "*", "xn--bcher-kva.example"] {
        let one = [domain(name, 0.5, 1)];
        let request = TakeRequest { limits: &one, ..ask(10_000.0, 1, 1) };
        assert_eq!(granted(&bucket, request).await, 1, "{name}");
        let (_, by) = refused(&bucket, request).await;
        assert_eq!(by.as_deref(), Some(name));
    }
}

async fn a_recipient_has_several_mails_at_once_and_then_none(room: &impl BucketRoom) {
    let bucket = room.open().await;
    let ada = [LimitTake { is_of_recipient: true, ..domain("recipient:ada", 5.0 / 3_600.0, 1) }];
    for _ in 0..5 {
        assert_eq!(granted(&bucket, with(1_000.0, &ada)).await, 1);
        room.wait(Duration::from_millis(2)).await;
    }
    let (after, by) = refused(&bucket, with(1_000.0, &ada)).await;
    assert_eq!(by.as_deref(), Some("recipient:ada"));
    assert!((700..=735).contains(&after.as_secs()), "{after:?}");
    assert_eq!(granted(&bucket, with(1_000.0, &[])).await, 1);
}

async fn the_slowest_rate_is_kept_and_the_fastest_is_served(room: &impl BucketRoom) {
    let bucket = room.open().await;
    assert_eq!(granted(&bucket, ask(0.001, 1, 1)).await, 1);
    let (after, _) = refused(&bucket, ask(0.001, 1, 1)).await;
    assert!((1_015..=1_020).contains(&after.as_secs()), "{after:?}");
    let bucket = room.open().await;
    assert_eq!(granted(&bucket, ask(10_000.0, 200, 1)).await, 99);
}
