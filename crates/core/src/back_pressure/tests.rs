use proptest::prelude::*;

use super::*;

const HOUR: u64 = 3_600;

fn at(minute: u64) -> EpochMillis {
    EpochMillis::new(1_795_207_000_000 + minute * 60_000)
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
                prop_assert_eq!(from.as_number(), to.as_number() + 1);
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
    let clear = policy.judge(None, backlog(0), at(0));
    assert!(clear.is_news(None));
    let next = policy.judge(Some(&clear), backlog(HOUR), at(4));
    assert!(!next.is_news(Some(&clear)));
    assert!(policy.judge(Some(&clear), backlog(HOUR), at(5)).is_news(Some(&clear)));
    let busy = policy.judge(Some(&clear), backlog(12 * HOUR), at(1));
    assert!(busy.is_news(Some(&clear)));
    let calm = policy.judge(Some(&busy), backlog(0), at(2));
    assert!(calm.is_news(Some(&busy)), "or the wait for the fall never began");
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
