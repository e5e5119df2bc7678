use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_delivery::ports::Monotonic;

use super::*;
use crate::stream::StreamLimits;

fn at(millis: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_millis(millis))
}

fn allowance(per_second: f64, burst: u32) -> BucketRate {
    BucketRate::new(per_second, burst).unwrap()
}

fn address(last: u8) -> ClientAddress {
    ClientAddress::of(std::net::IpAddr::from([192, 0, 2, last]))
}

/// A client of an address, with or without a login.
fn client(last: u8, login: Option<u8>) -> StreamClient {
    let client = StreamClient::from(address(last));
    match login {
        Some(login) => {
            StreamClient { session: ClientSession::new(&format!("login {login}")), ..client }
        }
        None => client,
    }
}

/// Limits of which only those of a stream and of an address count.
fn of_addresses(
    stream: BucketRate,
    events: BucketRate,
    streams: usize,
    most: usize,
) -> ClientLimits {
    let session = GroupLimits { events: allowance(1_000.0, 10_000), streams: 100 };
    ClientLimits::new(stream, session, GroupLimits { events, streams }, most)
}

/// All streams ask as soon as they may, for some seconds: the times at which each was granted.
fn ask_all(clients: &mut ClientLimits, streams: usize, seconds: u64) -> Vec<Vec<Monotonic>> {
    let mut asks: BTreeSet<(Monotonic, usize)> =
        (0..streams).map(|stream| (at(0), stream)).collect();
    let mut granted = vec![Vec::new(); streams];
    while let Some((now, stream)) = asks.pop_first() {
        if now > at(seconds * 1_000) {
            break;
        }
        match clients.take(stream as u64, now) {
            Ok(()) => {
                granted[stream].push(now);
                asks.insert((now, stream));
            }
            Err((again, _)) => {
                assert!(again > now);
                asks.insert((again, stream));
            }
        }
    }
    granted
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
        let mut addresses = of_addresses(of_one, of_all, 100, 100);
        for stream in 0..streams {
            addresses.open(stream, client(1, None), at(0)).unwrap();
        }
        let granted = ask_all(&mut addresses, usize::try_from(streams).unwrap(), seconds);
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

proptest! {
    /// Of any stretch d, each session and the address have at most burst + d × rate; and no stream starves,
    /// whichever of the buckets is the narrow one.
    #[test]
    fn each_session_and_its_address_are_bounded_and_no_stream_starves(
        sessions in 1_u8..6, each in 1_u64..8, of_session in (1_u32..30, 1_u32..30), of_address in (1_u32..60, 1_u32..60),
        seconds in 5_u64..20
    ) {
        let group = |(rate, burst): (u32, u32)| GroupLimits { events: allowance(f64::from(rate), burst), streams: 100 };
        let mut clients = ClientLimits::new(allowance(5.0, 10), group(of_session), group(of_address), 100);
        let streams: Vec<u8> = (0..sessions).flat_map(|login| (0..each).map(move |_| login)).collect();
        for (stream, login) in streams.iter().enumerate() {
            clients.open(stream as u64, client(1, Some(*login)), at(0)).unwrap();
        }
        let granted = ask_all(&mut clients, streams.len(), seconds);
        let per_session = usize::try_from(each).unwrap();
        for span in [1, 2, 5] {
            let bound = |(rate, burst): (u32, u32)| usize::try_from(u64::from(burst) + span * u64::from(rate)).unwrap();
            let most = |times: &[Vec<Monotonic>]| {
                let mut times = times.concat();
                times.sort_unstable();
                most_within(&times, Duration::from_secs(span))
            };
            prop_assert!(most(&granted) <= bound(of_address));
            for session in granted.chunks(per_session) {
                prop_assert!(most(session) <= bound(of_session));
            }
        }
        let round = |streams: usize, (rate, burst): (u32, u32)| {
            (f64::from(u32::try_from(streams).unwrap()) + f64::from(burst)) / f64::from(rate)
        };
        let longest = round(per_session, of_session) + round(granted.len(), of_address) + 0.2;
        let longest = Duration::from_secs_f64(longest) + Duration::from_secs(1);
        for one in &granted {
            let times: Vec<Monotonic> = [at(0)].into_iter().chain(one.iter().copied()).chain([at(seconds * 1_000)]).collect();
            for pair in times.windows(2) {
                prop_assert!(pair[1].saturating_since(pair[0]) <= longest, "{:?} of {:?}", pair, longest);
            }
        }
    }
}

#[test]
fn what_the_stream_may_have_is_kept_where_its_address_refuses() {
    let slow = allowance(1.0, 1);
    let mut addresses = of_addresses(slow, slow, 10, 10);
    for stream in [1, 2] {
        addresses.open(stream, client(1, None), at(0)).unwrap();
    }
    assert_eq!(addresses.take(1, at(0)), Ok(()));
    // The address is empty: the second stream's token stays its own.
    assert_eq!(addresses.take(2, at(0)), Err((at(1_000), EmptyBucket::Address)));
    assert_eq!(addresses.take(2, at(1_000)), Ok(()));
    // The stream's bucket is empty; the address's next token remains for another stream.
    assert_eq!(addresses.take(2, at(1_500)), Err((at(2_000), EmptyBucket::Stream)));
    assert_eq!(addresses.take(1, at(2_000)), Ok(()));
}

#[test]
fn a_stream_that_does_not_come_for_its_token_costs_the_others_a_second_at_most() {
    let mut addresses = of_addresses(allowance(100.0, 100), allowance(10.0, 2), 10, 10);
    for stream in 0..3 {
        addresses.open(stream, client(1, None), at(0)).unwrap();
    }
    for stream in [0, 0] {
        addresses.take(stream, at(0)).unwrap();
    }
    // The first in line is stalled from now on.
    assert_eq!(addresses.take(1, at(0)), Err((at(100), EmptyBucket::Address)));
    assert_eq!(addresses.take(2, at(0)), Err((at(200), EmptyBucket::Address)));
    assert_eq!(addresses.take(2, at(200)), Ok(()));
    // One token of the bucket is kept for the stalled one, until its place is given away.
    assert_eq!(addresses.take(2, at(250)), Err((at(300), EmptyBucket::Address)));
    assert_eq!(addresses.take(2, at(1_200)), Ok(()));
    assert_eq!(addresses.take(2, at(1_200)), Ok(()));
}

#[test]
fn an_address_has_so_many_streams_and_all_together_so_many() {
    let mut addresses = of_addresses(allowance(5.0, 10), allowance(30.0, 60), 2, 3);
    let open = |addresses: &mut ClientLimits, stream, last| {
        addresses.open(stream, client(last, None), at(0))
    };
    assert_eq!(open(&mut addresses, 0, 1), Ok(()));
    assert_eq!(open(&mut addresses, 1, 1), Ok(()));
    assert_eq!(open(&mut addresses, 2, 1), Err(TooManyStreams::OfAddress));
    assert_eq!(open(&mut addresses, 3, 2), Ok(()));
    assert_eq!(open(&mut addresses, 4, 3), Err(TooManyStreams::OfAll));
    addresses.close(0);
    assert_eq!(open(&mut addresses, 5, 1), Ok(()));
}

#[test]
fn an_idle_address_is_forgotten_once_its_bucket_is_full_and_not_before() {
    let mut addresses = of_addresses(allowance(100.0, 100), allowance(1.0, 60), 2, 100);
    addresses.open(1, client(1, None), at(0)).unwrap();
    for _ in 0..60 {
        addresses.take(1, at(0)).unwrap();
    }
    addresses.close(1);
    addresses.open(2, client(2, None), at(30_000)).unwrap();
    assert_eq!(
        addresses.addresses(),
        2,
        "whoever comes back finds its bucket as empty as it left it"
    );
    addresses.open(3, client(3, None), at(61_000)).unwrap();
    assert_eq!(addresses.addresses(), 2);
}

#[test]
fn an_allowance_says_what_is_allowed() {
    for text in ["5", "5/s", "5/s:0", "0.01/s:1", "x/s:1", "5/s:1.5", "-1/s:3"] {
        let error = text.parse::<BucketRate>().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("0.1 to 1000"), "{error}");
    }
}

#[test]
fn an_office_behind_one_address_has_a_bucket_for_each_login() {
    let one = GroupLimits { events: allowance(30.0, 60), streams: 2 };
    let all = GroupLimits { events: allowance(60.0, 120), streams: 10 };
    let mut clients = ClientLimits::new(allowance(100.0, 100), one, all, 100);
    let login = |stream: u8| client(1, Some(stream));
    for stream in 0..3 {
        clients.open(stream.into(), login(stream), at(0)).unwrap();
    }
    // The first two have their sixty each, and then the address has no more.
    for stream in [0, 1] {
        for _ in 0..60 {
            clients.take(stream, at(0)).unwrap();
        }
        assert!(matches!(clients.take(stream, at(0)), Err((_, EmptyBucket::Session))));
    }
    assert!(matches!(clients.take(2, at(0)), Err((_, EmptyBucket::Address))));
    clients.open(3, login(0), at(0)).unwrap();
    assert_eq!(clients.open(4, login(0), at(0)), Err(TooManyStreams::OfSession));
    clients.open(4, login(1), at(0)).unwrap();
}

#[test]
fn a_connection_has_a_bucket_over_the_sessions_that_use_it() {
    let one = GroupLimits { events: allowance(30.0, 60), streams: 20 };
    let all = GroupLimits { events: allowance(300.0, 600), streams: 200 };
    let mut clients = ClientLimits::new(allowance(100.0, 100), one, all, 100);
    for stream in [0, 1] {
        let client = StreamClient { connection: Some(7), ..client(1, Some(stream)) };
        clients.open(stream.into(), client, at(0)).unwrap();
    }
    for _ in 0..60 {
        clients.take(0, at(0)).unwrap();
    }
    let refused = clients.take(1, at(0));
    assert!(matches!(refused, Err((_, EmptyBucket::Connection))), "{refused:?}");
}

#[test]
fn whoever_comes_back_finds_the_bucket_that_it_left_and_not_too_often() {
    let limits = StreamLimits::default();
    let mut clients =
        ClientLimits::new(limits.stream, limits.session, limits.address, limits.streams);
    let mut sent = 0;
    for visit in 0..40_u64 {
        clients.open(visit, client(1, Some(1)), at(0)).unwrap();
        while clients.take(visit, at(0)).is_ok() {
            sent += 1;
        }
        clients.close(visit);
    }
    assert_eq!(sent, 10, "forty visits had the burst of one stream");
    assert_eq!(clients.open(40, client(1, Some(1)), at(0)), Err(TooManyStreams::TooOften(1)));
    clients.open(41, client(1, Some(1)), at(1_000)).unwrap();
    // A stream beside it has a bucket of its own.
    clients.open(42, client(1, Some(1)), at(2_000)).unwrap();
    let both =
        [41, 42].map(|stream| (0..30).filter(|_| clients.take(stream, at(2_000)).is_ok()).count());
    assert_eq!(both, [10, 10]);
}
