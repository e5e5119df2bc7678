//! `tidegate bucket` on buckets in memory, in simulated time.

#![expect(clippy::unwrap_used, reason = "helpers of tests: a panic is a finding")]

use std::time::Duration;

use snapbox::{assert_data_eq, file};
use tidegate_core::Timestamp;
use tidegate_core::bucket::Pace;
use tidegate_core::config::KeyPrefix;
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::LimitTake;
use tidegate_fakes::{MemoryBucket, SimClock, Universe};
use tidegate_operate::bucket::{TakeOptions, TakeReport, TakeScript, levels, take};
use tidegate_operate::page::Page;

struct Site {
    bucket: MemoryBucket,
    clock: SimClock,
}

fn site() -> Site {
    let universe = Universe::starting_at(Timestamp::from_millis(1_795_207_000_250));
    Site { bucket: MemoryBucket::new(universe), clock: universe.clock() }
}

fn rate(per_second: f64) -> Rate {
    Rate::per_second(per_second).unwrap()
}

fn pace() -> Pace {
    Pace { rate: rate(14.0), rate_margin: RateMargin::default() }
}

fn mail(recipients: u32, domains: &[(&str, f64, u32)]) -> TakeOptions {
    let domain = |&(name, per_second, recipients): &(&str, f64, u32)| LimitTake {
        name: name.to_owned(),
        rate: rate(per_second),
        recipients,
    };
    let domains = domains.iter().map(domain).collect();
    let patience = Duration::ZERO;
    TakeOptions { pace: pace(), wanted: recipients, least: recipients, domains, patience }
}

impl Site {
    async fn take(&self, asked: &TakeOptions) -> TakeReport {
        take(&self.bucket, &self.clock, asked).await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_granted_and_refused_is_said() {
    let site = site();
    let granted = site.take(&mail(2, &[("gmail.com", 10.0, 1), ("tiny.example", 0.1, 1)])).await;
    assert_eq!((granted.granted, granted.domains.len()), (2, 2));
    tokio::time::sleep(Duration::from_millis(80)).await;
    let refused = site.take(&mail(1, &[("tiny.example", 0.1, 1)])).await;
    let mut page = Page::of(&granted).plain();
    page.push_str(&Page::of(&refused).plain());
    assert_data_eq!(page, file!["../golden/bucket-take.txt"]);
    let json = serde_json::to_string_pretty(&[granted, refused]).unwrap();
    assert_data_eq!(json, file!["../golden/bucket-take.json"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_waited_out_as_long_as_patience_lasts() {
    let site = site();
    assert_eq!(site.take(&mail(1, &[])).await.granted, 1);
    let patient = |millis| TakeOptions { patience: Duration::from_millis(millis), ..mail(1, &[]) };
    let refused = site.take(&patient(62)).await;
    assert_eq!((refused.granted, refused.waited_ms), (0, 0));
    assert_eq!(refused.refused.unwrap().by, "account");
    let granted = site.take(&patient(200)).await;
    assert_eq!((granted.granted, granted.refused), (1, None));
    // 72.858 ms a recipient, 10 of them tolerance; simulated time goes in whole milliseconds.
    assert!((62..=65).contains(&granted.waited_ms), "{}", granted.waited_ms);
}

#[tokio::test(start_paused = true)]
async fn a_claim_gets_what_is_there() {
    let site = site();
    let pace = Pace { rate: rate(1_000.0), rate_margin: RateMargin::default() };
    let claim = TakeOptions { pace, wanted: 40, least: 1, ..mail(1, &[]) };
    let claimed = site.take(&claim).await;
    assert_eq!((claimed.granted, claimed.wanted), (10, 40));
    assert!(Page::of(&claimed).plain().starts_with("granted 10 recipients of 40, at 2026-11-20"));
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_does_not_answer_is_an_error() {
    let site = site();
    site.bucket.set_lost(true);
    assert!(take(&site.bucket, &site.clock, &mail(1, &[])).await.is_err());
    assert!(levels(&site.bucket).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn how_each_bucket_stands_is_shown() {
    let site = site();
    assert_eq!(
        Page::of(&levels(&site.bucket).await.unwrap()).plain(),
        "Every bucket is full: there were no recent takes.\n"
    );
    site.take(&mail(1, &[("gmail.com", 10.0, 1), ("tiny.example", 0.01, 1)])).await;
    tokio::time::sleep(Duration::from_millis(70)).await;
    site.take(&mail(1, &[])).await;
    tokio::time::sleep(Duration::from_millis(40)).await;
    let levels = levels(&site.bucket).await.unwrap();
    assert_data_eq!(Page::of(&levels).plain(), file!["../golden/bucket-show.txt"]);
    let json = serde_json::to_string_pretty(&levels).unwrap();
    assert_data_eq!(json, file!["../golden/bucket-show.json"]);
}

#[test]
fn the_script_is_shown_as_it_is_and_a_call_beside_it() {
    let text = "-- a\nreturn 1\n";
    let script = TakeScript::of(text, "a9993e".to_owned(), &KeyPrefix::default(), pace());
    assert_eq!(Page::of(&script).plain(), text);
    let mut how = Page::default();
    script.say_how(&mut how);
    assert_data_eq!(how.plain(), file!["../golden/bucket-script.txt"]);
}
