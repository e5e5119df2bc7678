use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_delivery::ports::Monotonic;

use super::*;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(millis))
}

fn allowance(per_second: f64, burst: u32) -> BucketRate {
    BucketRate::new(per_second, burst).unwrap()
}

fn address(last: u8) -> ClientAddress {
    ClientAddress::of(std::net::IpAddr::from([192, 0, 2, last]))
}

/// The most of `times` within any stretch of `span`.
fn most_within(times: &[Monotonic], span: Duration) -> usize {
    let within = |from: &Monotonic| {
        times.iter().filter(|time| **time >= *from && **time < *from + span).count()
    };
    times.iter().map(within).max().unwrap_or(0)
}

proptest! {
    /// Denied at every step before the promised instant, granted exactly at it.
    #[test]
    fn a_token_is_there_exactly_when_it_was_promised(
        rate in 1_u32..50, burst in 1_u32..20, taken in 0_u32..40, waits in prop::collection::vec(0_u64..500, 1..20)
    ) {
        let mut bucket = TokenBucket::full(allowance(f64::from(rate), burst), at(0));
        let mut now = at(0);
        for _ in 0..taken {
            bucket.take(now);
        }
        for wait in waits {
            now = now + Duration::from_millis(wait);
            let ready = bucket.ready_at(1);
            let mut early = bucket;
            prop_assert_eq!(early.take(ready.before(Duration::from_nanos(1))), ready == at(0));
            let mut exact = bucket;
            prop_assert!(exact.take(ready.max(now)));
            bucket.take(now);
        }
    }

    /// However streams ask: of any stretch d, at most burst + d × rate go out, of each stream and of the
    /// address; and while all ask when they are told to, the address's tokens are all used, and each
    /// stream waits no longer than one round takes.
    #[test]
    fn both_buckets_bound_every_stretch_and_no_stream_starves(
        streams in 1_u64..60, rate in 1_u32..30, burst in 1_u32..30, own_rate in 1_u32..10, own_burst in 1_u32..10,
        seconds in 5_u64..20
    ) {
        let (of_all, of_one) = (allowance(f64::from(rate), burst), allowance(f64::from(own_rate), own_burst));
        let mut addresses = AddressLimits::new(of_all, 100, 100);
        let mut own: Vec<TokenBucket> = (0..streams).map(|_| TokenBucket::full(of_one, at(0))).collect();
        for _ in 0..streams {
            addresses.open(address(1), at(0)).unwrap();
        }
        let mut asks: BTreeSet<(Monotonic, u64)> = (0..streams).map(|stream| (at(0), stream)).collect();
        let mut granted: Vec<Vec<Monotonic>> = vec![Vec::new(); own.len()];
        while let Some((now, stream)) = asks.pop_first() {
            if now > at(seconds * 1_000) {
                break;
            }
            let index = usize::try_from(stream).unwrap();
            match addresses.take(address(1), stream, &mut own[index], now) {
                Ok(()) => {
                    granted[index].push(now);
                    asks.insert((now, stream));
                }
                Err((again, _)) => {
                    prop_assert!(again > now);
                    asks.insert((again, stream));
                }
            }
        }
        let mut all: Vec<Monotonic> = granted.iter().flatten().copied().collect();
        all.sort_unstable();
        for span in [1, 2, 5] {
            let bound = |rate: u32, burst: u32| usize::try_from(u64::from(burst) + span * u64::from(rate)).unwrap();
            let span = Duration::from_secs(span);
            prop_assert!(most_within(&all, span) <= bound(rate, burst));
            for one in &granted {
                prop_assert!(most_within(one, span) <= bound(own_rate, own_burst));
            }
        }
        // What both let through together is used, but for a token a stream that is just coming.
        let by_address = u64::from(burst) + seconds * u64::from(rate);
        let by_streams = streams * (u64::from(own_burst) + seconds * u64::from(own_rate));
        let least = by_address.min(by_streams).saturating_sub(streams + 1);
        prop_assert!(all.len() as u64 >= least, "{} of {least}", all.len());
        let all_streams = u32::try_from(streams).unwrap() + burst;
        let round = Duration::from_secs_f64(f64::from(all_streams) / f64::from(rate))
            + Duration::from_secs_f64(1.0 / f64::from(own_rate)) + Duration::from_millis(5);
        for one in &granted {
            for pair in one.windows(2) {
                prop_assert!(pair[1].saturating_since(pair[0]) <= round, "{:?}", pair);
            }
            prop_assert!(!one.is_empty() || Duration::from_secs(seconds) < round);
        }
    }
}

#[test]
fn what_the_stream_may_have_is_kept_where_its_address_refuses() {
    let mut addresses = AddressLimits::new(allowance(1.0, 1), 10, 10);
    addresses.open(address(1), at(0)).unwrap();
    addresses.open(address(1), at(0)).unwrap();
    let (mut first, mut second) =
        (TokenBucket::full(allowance(1.0, 1), at(0)), TokenBucket::full(allowance(1.0, 1), at(0)));
    assert_eq!(addresses.take(address(1), 1, &mut first, at(0)), Ok(()));
    // The address is empty: the second stream's token stays its own.
    assert_eq!(
        addresses.take(address(1), 2, &mut second, at(0)),
        Err((at(1_000), EmptyBucket::Address))
    );
    assert!(second.is_full(at(0)));
    assert_eq!(addresses.take(address(1), 2, &mut second, at(1_000)), Ok(()));
    // The stream's bucket is empty; the address's next token remains for another stream.
    assert_eq!(
        addresses.take(address(1), 2, &mut second, at(1_500)),
        Err((at(2_000), EmptyBucket::Stream))
    );
    assert_eq!(addresses.take(address(1), 1, &mut first, at(2_000)), Ok(()));
}

#[test]
fn a_stream_that_does_not_come_for_its_token_costs_the_others_a_second_at_most() {
    let mut addresses = AddressLimits::new(allowance(10.0, 2), 10, 10);
    let mut own = [0, 1, 2].map(|_| TokenBucket::full(allowance(100.0, 100), at(0)));
    for _ in 0..3 {
        addresses.open(address(1), at(0)).unwrap();
    }
    for stream in [0, 0] {
        addresses.take(address(1), stream, &mut own[0], at(0)).unwrap();
    }
    // The first in line is stalled from now on.
    assert_eq!(
        addresses.take(address(1), 1, &mut own[1], at(0)),
        Err((at(100), EmptyBucket::Address))
    );
    assert_eq!(
        addresses.take(address(1), 2, &mut own[2], at(0)),
        Err((at(200), EmptyBucket::Address))
    );
    assert_eq!(addresses.take(address(1), 2, &mut own[2], at(200)), Ok(()));
    // One token of the bucket is kept for the stalled one, until its place is given away.
    assert_eq!(
        addresses.take(address(1), 2, &mut own[2], at(250)),
        Err((at(300), EmptyBucket::Address))
    );
    assert_eq!(addresses.take(address(1), 2, &mut own[2], at(1_200)), Ok(()));
    assert_eq!(addresses.take(address(1), 2, &mut own[2], at(1_200)), Ok(()));
}

#[test]
fn an_address_has_so_many_streams_and_all_together_so_many() {
    let mut addresses = AddressLimits::new(allowance(30.0, 60), 2, 3);
    assert_eq!(addresses.open(address(1), at(0)), Ok(()));
    assert_eq!(addresses.open(address(1), at(0)), Ok(()));
    assert_eq!(addresses.open(address(1), at(0)), Err(TooManyStreams::OfAddress));
    assert_eq!(addresses.open(address(2), at(0)), Ok(()));
    assert_eq!(addresses.open(address(3), at(0)), Err(TooManyStreams::OfAll));
    addresses.close(address(1), 0);
    assert_eq!(addresses.open(address(1), at(0)), Ok(()));
}

#[test]
fn an_idle_address_is_forgotten_once_its_bucket_is_full_and_not_before() {
    let mut addresses = AddressLimits::new(allowance(1.0, 60), 2, 100);
    let mut own = TokenBucket::full(allowance(100.0, 100), at(0));
    addresses.open(address(1), at(0)).unwrap();
    for _ in 0..60 {
        addresses.take(address(1), 1, &mut own, at(0)).unwrap();
    }
    addresses.close(address(1), 1);
    addresses.open(address(2), at(30_000)).unwrap();
    assert_eq!(addresses.known(), 2, "whoever comes back finds its bucket as empty as it left it");
    addresses.open(address(3), at(61_000)).unwrap();
    assert_eq!(addresses.known(), 2);
}

#[test]
fn an_allowance_says_what_is_allowed() {
    for text in ["5", "5/s", "5/s:0", "0.01/s:1", "x/s:1", "5/s:1.5", "-1/s:3"] {
        let error = text.parse::<BucketRate>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("0.1 to 1000"), "{error}");
    }
}
