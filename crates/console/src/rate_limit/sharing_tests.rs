//! Several consoles with one server, in simulated time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_delivery::ports::{BucketCharge, Monotonic};

use super::*;

/// The interval of the exchanges.
const EVERY: Duration = Duration::from_millis(250);

fn at(micros: u64) -> Monotonic {
    Monotonic::from_origin(Duration::from_micros(micros))
}

fn rate(per_second: u32, burst: u32) -> BucketRate {
    BucketRate::new(f64::from(per_second), burst).unwrap()
}

/// A session from an address, which is the same at every console.
fn client() -> StreamClient {
    let address = ClientAddress::of(std::net::IpAddr::from([192, 0, 2, 1]));
    StreamClient { session: ClientSession::new("ada"), ..StreamClient::from(address) }
}

/// A console that shares its buckets, and in which nothing but the session's limits counts.
fn console(events: BucketRate, streams: usize) -> ClientLimits {
    let free = rate(1_000, 10_000);
    let address = GroupLimits { events: free, streams: 1_000 };
    let mut console = ClientLimits::new(free, GroupLimits { events, streams }, address, 1_000);
    console.share();
    console
}

#[derive(Debug, Default)]
struct Server(BTreeMap<String, u64>);

impl Server {
    fn charge(&mut self, charges: &[BucketCharge], now: Monotonic) -> Vec<Duration> {
        // By a clock of its own.
        let now = u64::try_from(now.since_origin().as_micros()).unwrap() + 1_000_000_000;
        let charge = |charge: &BucketCharge| {
            let full_at = self.0.entry(charge.bucket.clone()).or_default();
            *full_at = charge.applied(*full_at, now);
            Duration::from_micros(full_at.saturating_sub(now))
        };
        charges.iter().map(charge).collect()
    }
}

fn exchange(console: &mut ClientLimits, server: &mut Server, now: Monotonic) {
    let charges = console.tell(true, now);
    console.hear(Some(&server.charge(&charges, now)), now);
}

#[derive(Debug)]
enum Step {
    /// The stream takes so many events, and waits for each token that is not there.
    Take(u32),
    /// The console tells what it took.
    Tell,
    /// The server has what was told at this time.
    Charge(Monotonic, Vec<BucketCharge>),
    /// The console hears the answer, or that there is none.
    Hear(Monotonic, Option<Vec<Duration>>),
}

/// Random numbers by which consoles, streams and network behave.
#[derive(Clone, Debug)]
struct Chances {
    /// Each console's first exchange, in microseconds.
    starts: Vec<u64>,
    /// Microseconds on each way of an exchange, one after the other.
    ways: Vec<u64>,
    /// Events that a stream takes, and the microseconds until it takes more.
    takes: Vec<(u32, u64)>,
    /// Exchanges that fail, by their number modulo their count.
    fails: Vec<bool>,
}

fn chances(takes: Range<u32>, pause: Range<u64>, fails: f64) -> impl Strategy<Value = Chances> {
    use prop::collection::vec;
    let starts = vec(0..250_000_u64, 1..5);
    let ways = vec(0..WAY, 1..40);
    let takes = vec((takes, pause), 1..30);
    let all = (starts, ways, takes, vec(prop::bool::weighted(fails), 1..10));
    all.prop_map(|(starts, ways, takes, fails)| Chances { starts, ways, takes, fails })
}

/// The longest way to the server, or back, in microseconds; an exchange has two.
const WAY: u64 = 60_000;

/// Runs a console for each start, and returns the times of all events.
fn run(events: BucketRate, chances: &Chances, seconds: u64) -> Vec<Monotonic> {
    let mut consoles: Vec<_> = chances.starts.iter().map(|_| console(events, 10)).collect();
    let mut server = Server::default();
    let mut steps = BTreeMap::new();
    let mut ways = chances.ways.iter().cycle().map(|way| Duration::from_micros(*way));
    let mut takes = chances.takes.iter().cycle();
    let mut fails = chances.fails.iter().cycle();
    for (of, start) in chances.starts.iter().enumerate() {
        consoles[of].open(0, client(), at(0)).unwrap();
        steps.insert((at(0), 2 * of as u64), (of, Step::Take(0)));
        steps.insert((at(*start), 2 * of as u64 + 1), (of, Step::Tell));
    }
    let (mut number, mut granted) = (100, Vec::new());
    while let Some(((now, _), (of, step))) = steps.pop_first() {
        if now > at(seconds * 1_000_000) {
            break;
        }
        let (then, next) = match step {
            Step::Take(0) => {
                let (count, pause) = takes.next().unwrap();
                (now + Duration::from_micros(*pause), Step::Take(*count))
            }
            Step::Take(count) => match consoles[of].take(0, now) {
                Ok(()) => {
                    granted.push(now);
                    (now, Step::Take(count - 1))
                }
                Err((due, _)) => (due, Step::Take(count)),
            },
            Step::Tell => {
                let charges = consoles[of].tell(true, now);
                (now + ways.next().unwrap(), Step::Charge(now, charges))
            }
            Step::Charge(began, charges) => {
                let answer = server.charge(&charges, now);
                let answer = Some(answer).filter(|_| !*fails.next().unwrap());
                (now + ways.next().unwrap(), Step::Hear(began, answer))
            }
            Step::Hear(began, answer) => {
                consoles[of].hear(answer.as_deref(), now);
                (now.max(began + EVERY), Step::Tell)
            }
        };
        number += 1;
        steps.insert((then, number), (of, next));
    }
    granted
}

/// In each stretch between two events there are at most so many: `bursts` of the rate, and what comes in
/// `slack` and in `shares` times the stretch.
fn assert_bound(granted: &[Monotonic], of: BucketRate, bursts: u32, slack: Duration, shares: u32) {
    for (first, from) in granted.iter().enumerate() {
        for (last, to) in granted.iter().enumerate().skip(first) {
            let count = u32::try_from(last - first + 1).unwrap();
            let beyond = count.saturating_sub(of.burst() * bursts);
            let span = to.saturating_since(*from) * shares;
            assert!(of.time_of(beyond) <= span + slack, "{count} within {span:?}");
        }
    }
}

proptest! {
    /// B + d/T + (N - 1)·(B + W/T), for W = 2·E + 4·X.
    #[test]
    fn all_consoles_together_keep_the_bound_however_the_exchanges_are_delayed(
        of in (1_u32..40, 1_u32..20), chances in chances(1..60, 0..400_000, 0.0), seconds in 2_u64..8
    ) {
        let (of, consoles) = (rate(of.0, of.1), u32::try_from(chances.starts.len()).unwrap());
        let granted = run(of, &chances, seconds);
        let exchange = Duration::from_micros(2 * WAY);
        let known_within = 2 * EVERY + 4 * exchange;
        assert_bound(&granted, of, consoles, known_within * (consoles - 1), 1);
    }

    /// Streams that always want more have all that the rate gives, but for what one exchange takes.
    #[test]
    fn what_one_console_does_not_take_the_others_may(
        per_second in 5_u32..40, chances in chances(50..60, 0..1, 0.0), seconds in 3_u64..8
    ) {
        let of = rate(per_second, 2 * per_second);
        let granted = run(of, &chances, seconds);
        let lost = EVERY + 6 * Duration::from_micros(2 * WAY);
        let least = Duration::from_secs(seconds + 2).saturating_sub(of.period() + lost);
        let count = u32::try_from(granted.len()).unwrap();
        prop_assert!(of.time_of(count) >= least, "{count} in {seconds} s and at {of:?}");
    }

    /// N·(B + d/T): a failed exchange charges nobody twice and grants nobody more than its own bucket.
    #[test]
    fn while_exchanges_fail_each_console_keeps_its_own_bound(
        of in (1_u32..40, 1_u32..20), chances in chances(1..60, 0..400_000, 0.5), seconds in 2_u64..8
    ) {
        let (of, consoles) = (rate(of.0, of.1), u32::try_from(chances.starts.len()).unwrap());
        let granted = run(of, &chances, seconds);
        assert_bound(&granted, of, consoles, Duration::ZERO, consoles);
    }

    /// By its own exchanges a console loses no more than an answer takes to come.
    #[test]
    fn one_console_alone_has_its_rate(
        per_second in 5_u32..40, mut chances in chances(50..60, 0..1, 0.0), seconds in 3_u64..8
    ) {
        chances.starts.truncate(1);
        let of = rate(per_second, per_second);
        let granted = run(of, &chances, seconds);
        assert_bound(&granted, of, 1, Duration::ZERO, 1);
        let lost = of.period() + Duration::from_micros(4 * WAY);
        let least = Duration::from_secs(seconds + 1).saturating_sub(lost);
        let count = u32::try_from(granted.len()).unwrap();
        prop_assert!(of.time_of(count) >= least, "{count} in {seconds} s and at {of:?}");
    }
}

#[test]
fn who_goes_to_another_console_finds_the_buckets_as_it_left_them() {
    let (mut first, mut second) = (console(rate(1, 5), 2), console(rate(1, 5), 2));
    let mut server = Server::default();
    for stream in 0..4 {
        first.open(stream, client(), at(0)).unwrap();
        first.close(stream);
    }
    first.open(4, client(), at(0)).unwrap_err();
    let mut left = console(rate(1, 5), 2);
    left.open(0, client(), at(0)).unwrap();
    (0..5).for_each(|_| left.take(0, at(0)).unwrap());
    for console in [&mut first, &mut left] {
        exchange(console, &mut server, at(0));
    }
    // The second console is asked for the first time.
    assert!(!second.is_known(&client(), at(1_000)));
    let charges = second.tell(false, at(1_000));
    assert!(charges.iter().all(|charge| charge.charged.is_zero()), "{charges:?}");
    second.hear(Some(&server.charge(&charges, at(1_000))), at(1_000));
    assert!(second.is_known(&client(), at(1_000)));
    assert!(second.tell(false, at(1_000)).is_empty(), "nobody else is new");
    let refused = second.open(0, client(), at(1_000));
    assert!(matches!(refused, Err(TooManyStreams::TooOften(_))), "{refused:?}");
    second.open(0, client(), at(20_000_000)).unwrap();
}

#[test]
fn a_debt_is_waited_off_by_all_consoles() {
    let mut consoles = [console(rate(2, 4), 10), console(rate(2, 4), 10)];
    let mut server = Server::default();
    for console in &mut consoles {
        console.open(0, client(), at(0)).unwrap();
        (0..4).for_each(|_| console.take(0, at(0)).unwrap());
    }
    for _ in 0..2 {
        for console in &mut consoles {
            exchange(console, &mut server, at(0));
        }
    }
    // Eight of a bucket of four: it is empty until 2 s, and the next token comes half a second later.
    for console in &mut consoles {
        assert_eq!(console.take(0, at(1_000_000)), Err((at(2_500_000), EmptyBucket::Session)));
    }
    consoles[1].take(0, at(2_500_000)).unwrap();
}

#[test]
fn a_client_is_forgotten_once_its_buckets_are_full_and_told() {
    let mut console = console(rate(2, 4), 10);
    console.open(0, client(), at(0)).unwrap();
    console.take(0, at(0)).unwrap();
    console.close(0);
    assert_eq!(console.addresses(), 1);
    let later = at(60_000_000);
    let told = console.tell(true, later);
    let untold: Vec<_> = told.iter().filter(|charge| !charge.charged.is_zero()).collect();
    assert_eq!(untold.len(), 4, "events and openings of a session and of an address: {told:?}");
    console.hear(None, later);
    assert!(console.tell(true, at(120_000_000)).is_empty());
    assert_eq!(console.addresses(), 0);
}

#[test]
fn without_other_consoles_nobody_is_asked() {
    let address = GroupLimits::OF_ADDRESS;
    let mut alone = ClientLimits::new(rate(5, 10), GroupLimits::OF_SESSION, address, 10);
    assert!(alone.is_known(&client(), at(0)));
    assert_eq!(alone.addresses(), 0);
}

#[test]
fn an_answer_does_not_forget_the_tokens_taken_while_it_was_under_way() {
    let (mut first, mut second) = (console(rate(1, 5), 10), console(rate(1, 5), 10));
    let mut server = Server::default();
    for console in [&mut first, &mut second] {
        console.open(0, client(), at(0)).unwrap();
    }
    (0..5).for_each(|_| second.take(0, at(0)).unwrap());
    exchange(&mut second, &mut server, at(0));
    (0..3).for_each(|_| first.take(0, at(0)).unwrap());
    let charges = first.tell(true, at(0));
    (0..2).for_each(|_| first.take(0, at(0)).unwrap());
    first.hear(Some(&server.charge(&charges, at(0))), at(0));
    // Ten of a bucket of five: it owes five, and then comes the next.
    assert_eq!(first.take(0, at(0)), Err((at(6_000_000), EmptyBucket::Session)));
}
