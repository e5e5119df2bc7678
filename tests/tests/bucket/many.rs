//! Many processes on one bucket: no second above the bound, and none far below.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use tidegate_core::bucket::{Pace, SECOND_MICROS, Terms};
use tidegate_core::config::KeyPrefix;
use tidegate_core::rate::{Guard, Rate};
use tidegate_delivery::ports::{Answer, Bucket as _, DomainTake, TakeRequest};
use tidegate_redis::RedisBucket;
use tokio::time::{Instant, sleep};

use super::server;

const URL: &str = "TIDEGATE_TEST_TAKER";
const PROCESSES: usize = 8;
const SECONDS: u64 = 3;
/// Of the account, and of the one domain that every third mail goes to.
const RATES: (f64, f64) = (200.0, 40.0);
const DOMAIN: &str = "gmail.example";
/// Every so manyth mail has so many recipients.
const LARGE: (u64, u32) = (50, 5);

fn pace(rate: f64) -> Pace {
    Pace { rate: Rate::per_second(rate).unwrap(), guard: Guard::default() }
}

/// One taker, in a process of its own: takes as fast as it is let, and prints each grant with the
/// server's time. Run by [`no_second_holds_more_than_the_bound_among_many_processes`].
#[tokio::test]
#[ignore = "a process of another test"]
async fn taker() {
    let Ok(told) = std::env::var(URL) else { return };
    let bucket = RedisBucket::new(told.parse().unwrap(), KeyPrefix::default());
    let domains = [DomainTake {
        name: DOMAIN.to_owned(),
        rate: Rate::per_second(RATES.1).unwrap(),
        recipients: 1,
    }];
    let ends = Instant::now() + Duration::from_secs(SECONDS);
    let mut mail = u64::from(std::process::id());
    while Instant::now() < ends {
        let recipients = if mail.is_multiple_of(LARGE.0) { LARGE.1 } else { 1 };
        let domains = if mail.is_multiple_of(3) && recipients == 1 { &domains[..] } else { &[] };
        let pace = pace(RATES.0);
        let request = TakeRequest { pace, wanted: recipients, least: recipients, domains };
        let taken = bucket.take(&request).await.unwrap();
        match taken.answer {
            Answer::Granted(count) => {
                println!("granted {} {count} {}", taken.at_micros, domains.len());
                mail += 1;
            }
            // The domain's turn comes: meanwhile another mail goes.
            Answer::Refused { by: Some(_), .. } => mail += 1,
            Answer::Refused { after, by: None } => sleep(after.min(ends - Instant::now())).await,
        }
    }
}

/// When, how many.
type Grants = Vec<(u64, u64)>;

/// The most in any half-open second.
fn worst_second(grants: &Grants) -> u64 {
    let (mut worst, mut sum, mut from) = (0, 0, 0);
    for &(at, count) in grants {
        sum += count;
        while at - grants[from].0 >= SECOND_MICROS {
            sum -= grants[from].1;
            from += 1;
        }
        worst = worst.max(sum);
    }
    worst
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

#[tokio::test]
async fn no_second_holds_more_than_the_bound_among_many_processes() {
    let server = server(&[]).await;
    let url = format!("redis://{}", server.address());
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["many::taker", "--exact", "--ignored", "--nocapture"]).env(URL, &url);
        command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let takers: Vec<_> = (0..PROCESSES).map(start).collect();
    let mut grants: BTreeMap<&str, Grants> = BTreeMap::new();
    for taker in takers {
        let output = tokio::task::spawn_blocking(|| taker.wait_with_output()).await.unwrap();
        let output = output.unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        let mut taken = 0;
        for line in text.lines().filter_map(|line| line.split_once("granted ")) {
            let numbers: Vec<u64> = line.1.split(' ').map(|n| n.parse().unwrap()).collect();
            grants.entry("account").or_default().push((numbers[0], numbers[1]));
            if numbers[2] > 0 {
                grants.entry(DOMAIN).or_default().push((numbers[0], 1));
            }
            taken += 1;
        }
        assert!(taken > 20, "a process took {taken}: it was starved");
    }
    grants.values_mut().for_each(|grants| grants.sort_unstable());
    for (name, rate, largest) in [("account", RATES.0, u64::from(LARGE.1)), (DOMAIN, RATES.1, 1)] {
        let (most, grants) = (Terms::of(pace(rate)).most_in_a_second(largest), &grants[name]);
        let (worst, mean) = (worst_second(grants), mean(grants));
        eprintln!("{name}: {mean:.1} of {rate} a second, worst second {worst} of {most}");
        assert!(worst <= most, "{name}: {worst} in one second, of at most {most}");
        assert!(mean >= 0.97 * rate, "{name}: {mean} of {rate} a second");
    }
}
