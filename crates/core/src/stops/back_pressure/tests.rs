use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600;

fn at(minute: u64) -> EpochMillis {
    EpochMillis::new(1_795_206_900_000 + minute * 60_000)
}

fn backlog(seconds: u64) -> BackPressureFigures {
    BackPressureFigures {
        backlog_mails: Some(seconds),
        backlog_seconds: Some(seconds),
        ..BackPressureFigures::default()
    }
}

/// The readings of judgements one minute apart.
fn run(policy: &BackPressurePolicy, figures: &[BackPressureFigures]) -> Vec<Reading> {
    let mut before: Option<Reading> = None;
    let minutes = figures.iter().zip(0..);
    minutes
        .map(|(figures, minute)| {
            let reading = policy.judge(before.as_ref(), *figures, at(minute));
            before = Some(reading);
            reading
        })
        .collect()
}

fn changes(readings: &[Reading]) -> Vec<(usize, BackPressureLevel, BackPressureLevel)> {
    let pairs = readings.windows(2).enumerate();
    pairs
        .filter(|(_, pair)| pair[0].level != pair[1].level)
        .map(|(index, pair)| (index + 1, pair[0].level, pair[1].level))
        .collect()
}

fn any_figures() -> impl Strategy<Value = BackPressureFigures> {
    let seconds = || proptest::option::of(0..60 * HOUR);
    (seconds(), seconds(), proptest::option::of(0..300_000_u64)).prop_map(
        |(depth, age, refused)| BackPressureFigures {
            backlog_mails: depth,
            backlog_seconds: depth,
            age_seconds: age,
            refused_millionths: refused,
        },
    )
}

#[test]
fn as_much_is_brought_back_as_keeps_the_backlog_below_half_of_a_busy_one() {
    let policy = BackPressurePolicy::default();
    let allowed = |seconds: u64| policy.allowance(&backlog(seconds), 840);
    assert_eq!([0, 21_590, 21_600].map(allowed), [210, 140, 0]);
}

proptest! {
    /// The level falls one step at a time, at least CALM after its last change, and only if all figures
    /// were calm.
    #[test]
    fn a_level_falls_a_step_at_a_time_and_never_soon(
        figures in proptest::collection::vec(any_figures(), 1..200),
    ) {
        let readings = run(&BackPressurePolicy::default(), &figures);
        let calm = usize::try_from(CALM.as_secs() / 60).unwrap();
        let mut last = None;
        for (minute, from, to) in changes(&readings) {
            if to < from {
                prop_assert_eq!(from as u8, to as u8 + 1);
                prop_assert!(last.is_none_or(|last| minute >= last + calm), "{} after {:?}", minute, last);
                for reading in &readings[minute - calm..=minute] {
                    let t = BackPressurePolicy::default();
                    prop_assert!(!t.of(from).unwrap().reached(&reading.figures, CALM_PERCENT));
                }
            }
            last = Some(minute);
        }
    }

    /// The level rises in the minute in which a figure reaches a threshold, to the highest level
    /// reached.
    #[test]
    fn a_level_is_never_below_what_its_figures_demand(
        figures in proptest::collection::vec(any_figures(), 1..50),
    ) {
        let policy = BackPressurePolicy::default();
        for reading in run(&policy, &figures) {
            prop_assert!(reading.level >= policy.demanded(&reading.figures));
        }
    }

    /// A figure between 81 % and 119 % of a threshold changes the level at most once.
    #[test]
    fn what_wavers_by_less_than_a_fifth_changes_a_level_once(
        wavering in proptest::collection::vec(810_u64..1_190, 2..300),
        level in 1_usize..3,
    ) {
        let policy = BackPressurePolicy::default();
        let depth = policy.of(BackPressureLevel::ALL[level]).unwrap().depth.unwrap();
        let figures: Vec<_> = wavering.iter().map(|share| backlog(depth * share / 1_000)).collect();
        let readings = run(&policy, &figures);
        prop_assert!(changes(&readings).len() <= 1, "{:?}", changes(&readings));
    }

    /// If the backlog stays 0, the level falls to clear: one step per CALM.
    #[test]
    fn quiet_ends_in_clear(figures in proptest::collection::vec(any_figures(), 0..50)) {
        let quiet = 2 * (usize::try_from(CALM.as_secs() / 60).unwrap() + 1);
        let all: Vec<_> = figures.into_iter().chain(vec![backlog(0); quiet]).collect();
        prop_assert_eq!(run(&BackPressurePolicy::default(), &all).last().unwrap().level, BackPressureLevel::Clear);
    }

    #[test]
    fn what_is_brought_back_raises_no_level(backlog_hours in 0_u64..20, per_minute in 1_u64..100_000) {
        let policy = BackPressurePolicy::default();
        let stands = backlog(backlog_hours * HOUR);
        let mails = policy.allowance(&stands, per_minute);
        prop_assert!(mails <= (per_minute / 4).max(1));
        let then = backlog(backlog_hours * HOUR + mails * 60 / per_minute);
        prop_assert!(mails == 0 || policy.demanded(&then) == BackPressureLevel::Clear);
    }

    #[test]
    fn thresholds_read_back_what_they_write(
        depth in proptest::option::of(60_u64..1_209_600),
        age in proptest::option::of(60_u64..1_209_600),
        refused in proptest::option::of(1_000_u64..1_000_000),
    ) {
        let thresholds = Thresholds { depth, age, refused };
        prop_assert_eq!(Thresholds::parse(&thresholds.to_string()), Some(thresholds));
    }

    #[test]
    fn no_text_is_too_strange_for_thresholds(text in ".{0,40}") {
        let _ = Thresholds::parse(&text);
    }
}

#[test]
fn high_and_critical_mail_is_never_deferred() {
    for level in BackPressureLevel::ALL {
        assert!(!level.defers(Priority::High) && !level.defers(Priority::Critical));
    }
    assert!(
        !BackPressureLevel::Clear.defers(Priority::Low)
            && BackPressureLevel::Busy.defers(Priority::Low)
    );
    assert!(
        !BackPressureLevel::Busy.defers(Priority::Normal)
            && BackPressureLevel::Overloaded.defers(Priority::Normal)
    );
    assert!(BackPressureLevel::Overloaded.defers(Priority::Low));
}

#[test]
fn each_figure_alone_raises_the_level() {
    let policy = BackPressurePolicy::default();
    let level = |figures| policy.judge(None, figures, at(0)).level;
    let none = BackPressureFigures::default();
    assert_eq!(level(none), BackPressureLevel::Clear);
    assert_eq!(level(backlog(12 * HOUR - 1)), BackPressureLevel::Clear);
    assert_eq!(level(backlog(12 * HOUR)), BackPressureLevel::Busy);
    assert_eq!(level(backlog(48 * HOUR)), BackPressureLevel::Overloaded);
    assert_eq!(
        level(BackPressureFigures { age_seconds: Some(12 * HOUR), ..none }),
        BackPressureLevel::Busy
    );
    assert_eq!(
        level(BackPressureFigures { refused_millionths: Some(49_999), ..none }),
        BackPressureLevel::Clear
    );
    assert_eq!(
        level(BackPressureFigures { refused_millionths: Some(200_000), ..none }),
        BackPressureLevel::Overloaded
    );
}

#[test]
fn a_backlog_that_is_not_known_keeps_the_level() {
    let policy = BackPressurePolicy::default();
    let mut figures = vec![backlog(13 * HOUR)];
    figures.extend(vec![BackPressureFigures::default(); 30]);
    assert_eq!(run(&policy, &figures).last().unwrap().level, BackPressureLevel::Busy);
    // The age stays unknown because no mail is sent; the known backlog alone lets the level fall.
    figures.extend(vec![backlog(HOUR); 7]);
    assert_eq!(run(&policy, &figures).last().unwrap().level, BackPressureLevel::Clear);
}

#[test]
fn a_reading_that_nobody_renews_counts_as_clear() {
    let policy = BackPressurePolicy::default();
    let busy = policy.judge(None, backlog(50 * HOUR), at(0));
    assert_eq!(busy.level_at(at(15)), BackPressureLevel::Overloaded);
    let later = EpochMillis::new(at(15).as_millis() + 1);
    assert_eq!(busy.level_at(later), BackPressureLevel::Clear);
    assert_eq!(busy.clear_for(later), None);
    let anew = policy.judge(Some(&busy), backlog(0), at(16));
    assert_eq!((anew.level, anew.since), (BackPressureLevel::Clear, at(16)));
    assert_eq!(anew.clear_for(at(20)), Some(Duration::from_mins(4)));
}

#[test]
fn only_news_is_written_and_every_five_minutes() {
    let policy = BackPressurePolicy::default();
    let clear = policy.judge(None, backlog(HOUR), at(0));
    assert!(clear.is_news(None));
    for same in [backlog(2 * HOUR), backlog(0), BackPressureFigures::default()] {
        assert!(!policy.judge(Some(&clear), same, at(4)).is_news(Some(&clear)), "{same:?}");
    }
    assert!(policy.judge(Some(&clear), backlog(HOUR), at(5)).is_news(Some(&clear)));
    let busy = policy.judge(Some(&clear), backlog(12 * HOUR), at(1));
    assert!(busy.is_news(Some(&clear)));
    let calm = policy.judge(Some(&busy), backlog(0), at(2));
    assert!(calm.is_news(Some(&busy)), "or the wait for the fall never began");
    let unknown = policy.judge(None, BackPressureFigures::default(), at(0));
    assert!(policy.judge(Some(&unknown), backlog(1), at(1)).is_news(Some(&unknown)));
}

/// The judgements of a backlog in mails, once a minute, of which only the news are kept, as in the ledger. The
/// quota lets `per_minute` go.
fn judged(per_minute: u64, mails: impl IntoIterator<Item = Option<u64>>) -> Vec<Reading> {
    let policy = BackPressurePolicy::default();
    let mut stands: Option<Reading> = None;
    let judge = |(minute, mails): (u64, Option<u64>)| {
        let figures = BackPressureFigures {
            backlog_mails: mails,
            backlog_seconds: mails.map(|mails| (mails * 60).div_ceil(per_minute)),
            ..BackPressureFigures::default()
        };
        let reading = policy.judge(stands.as_ref(), figures, at(minute));
        stands = if reading.is_news(stands.as_ref()) { Some(reading) } else { stands };
        reading
    };
    (0..).zip(mails).map(judge).collect()
}

fn grew(readings: &[Reading]) -> Vec<bool> {
    readings.iter().map(|reading| reading.growing_since.is_some()).collect()
}

/// What SQS may answer for `mails`: a count of up to a minute ago, in every fifth minute none, and in one reading
/// of each quarter of an hour anything at all.
fn counted(mails: &[u64], noise: &[u64]) -> Vec<Option<u64>> {
    let count = |(minute, noise): (usize, &u64)| match (minute % 15, noise % 4) {
        // A period's reading is its first that is known.
        (5 | 6, 0) => Some(noise * 7),
        (_, 1) => Some(mails[minute.saturating_sub(1)]),
        _ if minute % 5 == 4 => None,
        _ => Some(mails[minute]),
    };
    noise.iter().enumerate().take(mails.len()).map(count).collect()
}

proptest! {
    #[test]
    fn a_backlog_that_grows_for_an_hour_by_more_than_a_tenth_is_found_within_80_minutes(
        (per_minute, per_cent) in (60_u64..6_000, 14_u64..300),
        begin in 1_000_u64..10_000_000,
        noise in prop::collection::vec(0_u64..10_000_000, 80),
    ) {
        let mails: Vec<u64> =
            (0..80).map(|minute| begin + minute * per_minute * per_cent / 100).collect();
        prop_assert!(grew(&judged(per_minute, counted(&mails, &noise)))[79]);
    }

    #[test]
    fn a_backlog_that_grows_by_less_than_a_tenth_or_falls_is_not_said_to_grow(
        (per_minute, per_cent, falls) in (60_u64..6_000, 0_u64..7, any::<bool>()),
        noise in prop::collection::vec(0_u64..10_000_000, 200),
    ) {
        let by = |minute: u64| minute * per_minute * per_cent / 100;
        let mails: Vec<u64> =
            (0..200).map(|at| if falls { 10_000_000 - by(at) } else { 100_000 + by(at) }).collect();
        let readings = judged(per_minute, counted(&mails, &noise));
        prop_assert!(!grew(&readings).contains(&true));
    }

    /// One large campaign is no growth, however large.
    #[test]
    fn mail_that_comes_within_half_an_hour_is_no_growth(
        (waits, comes) in (0_u64..100_000, 1_000_u64..100_000_000),
        (from, minutes) in (10_usize..150, 1_usize..30),
    ) {
        let per_minute = 840;
        let mails = (0_usize..240).map(|minute| {
            let came = comes * minute.saturating_sub(from).min(minutes) as u64 / minutes as u64;
            Some((waits + came).saturating_sub(per_minute * minute as u64))
        });
        prop_assert!(!grew(&judged(per_minute, mails)).contains(&true));
    }

    /// The record stays small, and is read back as it was written.
    #[test]
    fn any_backlog_is_judged_and_a_growth_begins_at_most_once_in_half_an_hour(
        mails in prop::collection::vec(prop::option::weighted(0.9, 0_u64..1_000_000), 1..400),
    ) {
        let readings = judged(60, mails);
        let grew = grew(&readings);
        let begins = (1..grew.len()).filter(|minute| grew[*minute] && !grew[minute - 1]);
        let begins: Vec<usize> = begins.collect();
        prop_assert!(begins.windows(2).all(|pair| pair[1] - pair[0] > 30), "{begins:?}");
        for reading in readings {
            let text = serde_json::to_string(&reading).unwrap();
            prop_assert!(text.len() < 400, "{text}");
            prop_assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), reading);
        }
    }
}

#[test]
fn a_growth_is_over_when_the_backlog_is_no_larger_than_an_hour_before() {
    // Grows by 20 % of the quota for two hours, then stays.
    let mails = (0..300_u64).map(|minute| Some(10_000 + 12 * minute.min(120)));
    let grew = grew(&judged(60, mails));
    let changes: Vec<usize> = (1..300).filter(|minute| grew[*minute] != grew[minute - 1]).collect();
    assert_eq!(changes, [65, 185], "begins and ends");
}

#[test]
fn an_empty_backlog_and_a_scheduler_that_did_not_run_forget_what_was_before() {
    let grows = |minute: u64| Some(1_000 + 60 * minute);
    let emptied = (0..140).map(|minute| if minute == 40 { Some(0) } else { grows(minute) });
    assert_eq!(grew(&judged(60, emptied)).iter().position(|grew| *grew), Some(105));
    let readings = judged(60, (0..100).map(grows));
    assert!(readings[99].growing_since.is_some());
    let later = BackPressurePolicy::default().judge(readings.last(), backlog(9_000), at(116));
    assert_eq!(later.growing_since, None);
    assert_eq!(serde_json::to_value(later.backlog).unwrap(), serde_json::json!([9_000]));
}

#[test]
fn a_history_of_another_length_is_read_by_its_newest_readings() {
    for length in [0, 1, 14, 15, 16, 100] {
        let written: Vec<Option<u64>> = (1..=length).map(Some).collect();
        let read: BacklogHistory = serde_json::from_value(serde_json::json!(written)).unwrap();
        let newest = written[written.len().saturating_sub(15)..].to_vec();
        assert_eq!(Vec::from(read), newest);
    }
}

#[test]
fn a_reading_reads_back_what_it_writes_and_a_level_of_another_version_defers_nothing() {
    let busy = BackPressurePolicy::default().judge(None, backlog(12 * HOUR), at(0));
    let text = serde_json::to_string(&busy).unwrap();
    assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), busy);
    assert!(text.starts_with(r#"{"level":"busy","since":"2026-11-"#), "{text}");
    let newer = text.replace("busy", "drowning");
    assert_eq!(serde_json::from_str::<Reading>(&newer).unwrap().level, BackPressureLevel::Clear);
}

#[test]
fn few_sends_are_not_judged() {
    assert_eq!(BackPressureFigures::refused_share(0, 0), None);
    assert_eq!(BackPressureFigures::refused_share(19, 0), Some(0));
    assert_eq!(BackPressureFigures::refused_share(1, 19), Some(50_000));
}

#[test]
fn thresholds_that_are_none_are_refused() {
    for text in [
        "",
        "4h",
        "depth",
        "depth=",
        "depth=4",
        "depth=h",
        "depth=+4h",
        "depth=4.5h",
        "depth=59s",
        "depth=15d",
        "depth=4h,depth=5h",
        "width=4h",
        "refused=5",
        "refused=0%",
        "refused=101%",
        "refused=NaN%",
        "depth=4h;age=4h",
        "depth=4h,",
        "off,age=4h",
        "depth=99999999999999999999h",
    ] {
        assert_eq!(Thresholds::parse(text), None, "{text}");
    }
    assert_eq!(Thresholds::parse("off"), Some(Thresholds::default()));
    assert_eq!(Thresholds::default().to_string(), "off");
    assert_eq!(Thresholds::parse("depth=1m").unwrap().depth, Some(60));
    assert_eq!(Thresholds::parse("depth=14d").unwrap().to_string(), "depth=336h");
    assert_eq!(Thresholds::parse("age=1h30m").unwrap().to_string(), "age=90m");
}
