//! Mails of several recipients: each spends a slot a recipient.

use std::time::Duration;

use tidegate_core::counters::Counter;
use tidegate_delivery::poll::End;
use tidegate_delivery::ports::FailureKind;
use tidegate_fakes::{Counting, Fault, Operation, Rule};
use tidegate_tests::simulation::{ProducedMail, World, WorldSettings, measure};

use crate::MODES;

/// `recipients` in mails of the given sizes by turns.
fn mails(campaign: &str, recipients: u32, sizes: &[u32]) -> Vec<ProducedMail> {
    let rounds = recipients / sizes.iter().sum::<u32>();
    let sizes = (0..rounds).flat_map(|_| sizes.iter().copied());
    let numbered = |(n, recipients)| ProducedMail {
        recipients,
        ..ProducedMail::new(format!("{campaign}-{n}"))
    };
    sizes.enumerate().map(numbered).collect()
}

/// Shares in recipients over 300 windows, the bound with its term, and the quota used but for what
/// a window's end is too short for.
async fn shares_hold(quota: u32, merge: bool, big: &[u32], small: &[u32]) {
    let settings = WorldSettings::new(f64::from(quota), merge);
    let world = World::new(WorldSettings { counting: Counting::Bucket, ..settings });
    world.put("big", &mails("big", quota * 290, big)).await;
    world.put("small", &mails("small", quota * 60, small)).await;
    let first = world.run(306).await;
    assert_eq!(world.lost(), Vec::<String>::new());
    assert_eq!(world.duplicates(), Vec::<String>::new());
    assert_eq!(world.refused(), 0);
    let arrivals = world.ses.arrivals();
    let share = measure::share(&arrivals, "small", &measure::span(first, 5..305));
    let case = format!("{quota}/s, merge {merge}, {big:?} and {small:?}");
    assert!((share - 0.1).abs() <= 0.02, "{case}: share {share:.4}");
    let worst = measure::worst_second(&arrivals);
    assert!(worst <= u64::from(quota) + 9, "{case}: {worst} in one second");
    let used = measure::utilisation(&world, first, 5..305, 300);
    assert!(used >= 0.98 - 9.0 / f64::from(quota), "{case}: utilisation {used:.4}");
}

#[tokio::test(start_paused = true)]
async fn mails_of_one_and_of_ten_recipients_share_by_recipients() {
    for merge in MODES {
        shares_hold(30, merge, &[1], &[10]).await;
        shares_hold(30, merge, &[1, 1, 10], &[1, 10, 1]).await;
        shares_hold(100, merge, &[10], &[1]).await;
    }
    // Of a window of 29 slots, mails of ten can fill 20: direct mode gives the rest to the other.
    shares_hold(30, true, &[10], &[1]).await;
}

/// Of mails of unknown size as many are received as there are slots.
#[tokio::test(start_paused = true)]
async fn no_more_mails_of_ten_recipients_are_received_than_find_slots() {
    for merge in MODES {
        let settings = WorldSettings::new(100.0, merge);
        let world = World::new(WorldSettings { counting: Counting::Bucket, ..settings });
        world.put("big", &ProducedMail::several("big", 600, 10)).await;
        let first = world.run(50).await;
        let reports = world.reports();
        let later = reports.iter().filter(|report| report.window >= first.plus(5));
        let left: u64 = later.map(|report| report.count(Counter::Left)).sum();
        assert!(left <= 60, "merge {merge}: {left} left in 45 windows");
    }
}

/// A window of 14 slots has room for one mail of ten. One that came too late for its window was hidden for 30 s, came back
/// as late in another, and so on: the last of 300 took up to seven hours.
#[tokio::test(start_paused = true)]
async fn the_last_mail_of_ten_recipients_is_sent_soon_after_the_others() {
    for (merge, seed) in MODES.into_iter().flat_map(|merge| (1..=6).map(move |seed| (merge, seed)))
    {
        let settings = WorldSettings::new(14.0, merge);
        let world = World::new(WorldSettings { counting: Counting::Bucket, seed, ..settings });
        world.put("big", &ProducedMail::several("big", 300, 10)).await;
        world.run(330).await;
        assert_eq!(world.ses.accepted().len(), 300, "merge {merge}, seed {seed}");
        assert_eq!(world.refused(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_of_more_recipients_than_the_quota_takes_the_windows_it_is_owed() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(2.0, merge) };
        let world = World::new(settings);
        world.put("big", &[ProducedMail { recipients: 50, ..ProducedMail::new("large") }]).await;
        world.fill("big", 40).await;
        let first = world.run(75).await;
        assert_eq!(world.lost(), Vec::<String>::new());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert_eq!(world.refused(), 0);
        let arrivals = world.ses.arrivals();
        let worst = measure::worst_second(&arrivals);
        assert!(worst <= 2 + 49, "{worst} in one second");
        let at = arrivals.iter().position(|arrival| arrival.id == "large").expect("it is sent");
        let quiet = arrivals[at + 1].at.saturating_since(arrivals[at].at);
        // 49 more slots of 510 ms, and at most a window that was counted too many.
        assert!(quiet >= Duration::from_secs(24) && quiet <= Duration::from_secs(27), "{quiet:?}");
        let owed = world.reports().iter().filter(|report| report.end == End::Owed).count();
        assert!((23..=26).contains(&owed), "{owed} windows owed");
        // All in all no more than the quota, and not far less.
        let total = measure::sent(&arrivals, &measure::span(first, 0..75));
        assert!((85..=150).contains(&total), "{total} in 75 s at 2/s");
    }
}

/// Windows have 10 or 11 slots, so that mails of 11 fit some windows only. One that owed a slot was started at its window's
/// last, and the second before it could hold another mail of 11.
#[tokio::test(start_paused = true)]
async fn large_mails_that_fit_some_windows_only_add_no_more_than_one_of_them_to_a_second() {
    for merge in MODES {
        let world = World::new(WorldSettings::new(10.5, merge));
        world.put("big", &mails("big", 1_200, &[11, 1])).await;
        world.put("small", &mails("small", 120, &[1])).await;
        world.run(150).await;
        assert_eq!((world.lost(), world.audited()), (Vec::new(), Vec::new()), "merge {merge}");
        let worst = measure::worst_second(&world.ses.arrivals());
        assert!(worst <= 11 + 10, "merge {merge}: {worst} in one second");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mail_whose_windows_cannot_be_had_is_left_until_they_can() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(5.0, merge) };
        let world = World::new(settings);
        world.put("big", &[ProducedMail { recipients: 12, ..ProducedMail::new("large") }]).await;
        let gone = Rule::new(Fault::Before(FailureKind::Unreachable)).on(Operation::Advance);
        world.faults.add(gone);
        world.run(40).await;
        assert!(world.faults.strikes().len() >= 2, "merge {merge}: not tried again");
        assert!(world.ses.arrivals().is_empty(), "merge {merge}: sent in windows of others");
        world.faults.clear();
        world.run(60).await;
        world.assert_nothing_lost();
        assert_eq!((world.accepted().len(), world.refused()), (1, 0), "merge {merge}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_mails_of_fifty_side_by_side_are_each_sent_once() {
    for merge in MODES {
        let settings =
            WorldSettings { counting: Counting::Bucket, ..WorldSettings::new(14.0, merge) };
        // A mark that was left behind would park its mail.
        let world = World::new(settings.variable("TIDEGATE_DEDUPLICATION", "park"));
        world.put("big", &ProducedMail::several("large", 4, 50)).await;
        world.put("small", &ProducedMail::several("also", 2, 50)).await;
        world.fill("big", 100).await;
        // One at a time: the others are left to their visibility timeout.
        world.run(220).await;
        assert_eq!(world.accepted().len(), 106, "merge {merge}");
        assert!(world.dead_letters().is_empty(), "merge {merge}: {:?}", world.dead_letters());
        assert_eq!(world.duplicates(), Vec::<String>::new());
        assert_eq!(world.refused(), 0);
        let worst = measure::worst_second(&world.ses.arrivals());
        assert!(worst <= 14 + 49, "{worst} in one second");
    }
}
