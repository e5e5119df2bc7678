//! Many processes on one bucket: no second above the bound, and none far below.

use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_adapters::redis::RedisBucket;
use tidegate_core::bucket::{Pace, SECOND_MICROS, Terms};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::{Answer, Bucket as _, LimitTake, TakeRequest};
use tokio::time::{Instant, sleep};

use super::server;

/// Tells a taker its bucket: the URL, the prefix, and which of its mails go to the domain.
const TAKER: &str = "TIDEGATE_TEST_TAKER";
const SECONDS: u64 = 3;
/// The rates of the account and of one domain.
const RATES: (f64, f64) = (200.0, 40.0);
const DOMAIN: &str = "gmail.example";
/// Every so manyth mail has so many recipients.
const LARGE: (u64, u32) = (50, 5);

/// Processes that take from buckets of their own, and which of their mails go to the domain: every third,
/// while the account is what limits; all, so that the domain is.
const CREWS: [(&str, usize, u64); 2] = [("account", 8, 3), ("domain", 4, 1)];

fn pace(rate: f64) -> Pace {
    Pace { rate: Rate::per_second(rate).unwrap(), rate_margin: RateMargin::new(0.02).unwrap() }
}

/// One taker, in a process of its own: takes as fast as it is let, and prints each grant with the
/// server's time. Run by [`no_second_holds_more_than_the_bound_among_many_processes`].
#[tokio::test]
#[ignore = "a process of another test"]
async fn taker() {
    let Ok(told) = std::env::var(TAKER) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let (prefix, every): (String, u64) = (told[1].parse().unwrap(), told[2].parse().unwrap());
    let bucket = RedisBucket::new(told[0].parse().unwrap(), prefix);
    let domains = [LimitTake {
        name: DOMAIN.to_owned(),
        rate: Rate::per_second(RATES.1).unwrap(),
        recipients: 1,
        is_of_recipient: false,
    }];
    let ends = Instant::now() + Duration::from_secs(SECONDS);
    let mut mail = u64::from(std::process::id());
    while Instant::now() < ends {
        let large = every > 1 && mail.is_multiple_of(LARGE.0);
        let recipients = if large { LARGE.1 } else { 1 };
        let domains = if mail.is_multiple_of(every) && !large { &domains[..] } else { &[] };
        let pace = pace(RATES.0);
        let request = TakeRequest { pace, wanted: recipients, least: recipients, limits: domains };
        let taken = bucket.take(&request).await.unwrap();
        match taken.answer {
            Answer::Granted(count) => {
                println!("granted {} {count} {}", taken.at_micros, domains.len());
                mail += 1;
            }
            // Meanwhile another mail goes, where there is one.
            Answer::Refused { by: Some(_), .. } if every > 1 => mail += 1,
            Answer::Refused { after, .. } => sleep(after.min(ends - Instant::now())).await,
        }
    }
}

/// Grants as pairs of time and number of recipients.
type Grants = Vec<(u64, u64)>;

/// The most in any half-open second.
fn worst_second(grants: &Grants) -> u64 {
    let grant = |&(micros, count): &(u64, u64)| (micros * 1_000, u32::try_from(count).unwrap());
    tidegate_fakes::worst_second(grants.iter().map(grant))
}

/// Granted a second, from the second in which all processes run to the last.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn mean(grants: &Grants) -> f64 {
    let (first, last) = (grants[0].0, grants[grants.len() - 1].0);
    let from = first + SECOND_MICROS / 2;
    let to = last - SECOND_MICROS / 2;
    let within = grants.iter().filter(|(at, _)| (from..to).contains(at));
    within.map(|(_, count)| count).sum::<u64>() as f64 / ((to - from) as f64 / 1e6)
}

/// Lets several processes take concurrently; returns their grants from the account's and the
/// domain's bucket.
async fn crew(url: &str, (name, processes, every): (&str, usize, u64)) -> (Grants, Grants) {
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["many::taker", "--exact", "--ignored", "--nocapture"]);
        command.env(TAKER, format!("{url} {name} {every}"));
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let takers: Vec<_> = (0..processes).map(start).collect();
    let (mut account, mut domain) = (Grants::new(), Grants::new());
    for taker in takers {
        let output = tokio::task::spawn_blocking(|| taker.wait_with_output()).await.unwrap();
        let output = output.unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let before = account.len();
        for line in text.lines().filter_map(|line| line.split_once("granted ")) {
            let numbers: Vec<u64> = line.1.split(' ').map(|n| n.parse().unwrap()).collect();
            account.push((numbers[0], numbers[1]));
            if numbers[2] > 0 {
                domain.push((numbers[0], 1));
            }
        }
        assert!(account.len() > before + 5, "{name}: a process was starved");
    }
    account.sort_unstable();
    domain.sort_unstable();
    (account, domain)
}

#[track_caller]
#[expect(clippy::print_stderr, reason = "shown where the test fails, or with --nocapture")]
fn assert_bounded(what: &str, grants: &Grants, rate: f64, (terms, largest): (Terms, u64)) {
    let (most, worst) = (terms.most_in_a_second(largest), worst_second(grants));
    eprintln!("{what}: {:.1} of {rate} a second, worst second {worst} of {most}", mean(grants));
    assert!(worst <= most, "{what}: {worst} in one second, of at most {most}");
}

#[tokio::test]
async fn no_second_holds_more_than_the_bound_among_many_processes() {
    let server = server(&[]).await;
    let url = format!("redis://{}", server.address());
    let ((account, some), (few, domain)) =
        futures_util::future::join(crew(&url, CREWS[0]), crew(&url, CREWS[1])).await;
    let whole = Terms::of(pace(RATES.0));
    let part = Terms::of_limit(Rate::per_second(RATES.1).unwrap(), pace(RATES.0));
    assert_bounded("the account, which limits", &account, RATES.0, (whole, LARGE.1.into()));
    assert_bounded("the domain beside it", &some, RATES.1, (part, 1));
    assert_bounded("the domain, which limits", &domain, RATES.1, (part, 1));
    assert_bounded("the account beside it", &few, RATES.0, (whole, 1));
    // Who is asked for more than it has gives all it has: the rate less the rate margin.
    for (grants, rate) in [(&account, RATES.0), (&domain, RATES.1)] {
        assert!(mean(grants) >= 0.97 * rate, "{} of {rate} a second", mean(grants));
    }
}
