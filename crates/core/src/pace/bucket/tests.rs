use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn terms(rate: f64, rate_margin: f64) -> Terms {
    let (rate, rate_margin) =
        (Rate::per_second(rate).unwrap(), RateMargin::new(rate_margin).unwrap());
    Terms::of(Pace { rate, rate_margin })
}

fn paces() -> impl Strategy<Value = Pace> {
    // Log-uniform, so that slow rates are tried as often as fast ones.
    let rates = (-3.0_f64..=4.0).prop_map(|exponent| 10_f64.powf(exponent));
    (rates, 0.005_f64..=0.5).prop_map(|(rate, rate_margin)| Pace {
        rate: Rate::per_second(rate.clamp(0.001, 10_000.0)).unwrap(),
        rate_margin: RateMargin::new(rate_margin).unwrap(),
    })
}

/// One take: the pause since the take before, and the recipients that it wants.
#[derive(Clone, Copy, Debug)]
struct Try {
    pause: Pause,
    wanted: u64,
    least: u64,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    Periods(u64),
    Micros(u64),
    /// The pause until one recipient can be granted.
    Earliest,
}

fn pauses() -> impl Strategy<Value = Pause> {
    prop_oneof![
        3 => Just(Pause::Earliest),
        1 => (0_u64..4_000).prop_map(Pause::Periods),
        1 => (0_u64..60_000).prop_map(Pause::Periods),
        1 => (0_u64..20_000).prop_map(Pause::Micros),
    ]
}

fn tries(largest: u64) -> impl Strategy<Value = Vec<Try>> {
    let one = (pauses(), 1..=largest, 0_u64..6);
    vec(one.prop_map(|(pause, least, more)| Try { pause, wanted: least + more, least }), 1..400)
}

/// The granted takes as (time in µs, recipients, block).
fn run(terms: Terms, tries: &[Try]) -> Vec<(u64, u64, u64)> {
    let (mut now, mut full_at) = (1_795_000_000_000_000, 0);
    let mut granted = Vec::new();
    for one in tries {
        now += match one.pause {
            Pause::Periods(thousandths) => terms.period * thousandths / 1_000,
            Pause::Micros(micros) => micros,
            Pause::Earliest => terms.wait(full_at, now),
        };
        let demand = Demand { terms, wanted: one.wanted, least: one.least };
        if let Decision::Granted(count, after) = take(&[(full_at, demand)], now) {
            granted.push((now, count, one.least));
            full_at = after[0];
        }
    }
    granted
}

/// The most recipients in any half-open second.
fn worst_second(granted: &[(u64, u64, u64)]) -> u64 {
    let starts: Vec<_> = granted.iter().map(|(at, count, _)| (*at, *count)).collect();
    crate::worst_second(&starts, SECOND_MICROS)
}

proptest! {
    #[test]
    fn no_second_holds_more_than_the_quota_whoever_takes_and_when(pace in paces(), tries in tries(1)) {
        let terms = Terms::of(pace);
        let worst = worst_second(&run(terms, &tries));
        prop_assert!(terms.most_in_a_second(1) <= pace.rate.ceil());
        prop_assert!(worst <= terms.most_in_a_second(1), "{worst}");
    }

    #[test]
    fn with_mails_of_many_recipients_no_second_holds_more_than_is_said(
        pace in paces(), (largest, tries) in (1_u64..=60).prop_flat_map(|n| (Just(n), tries(n)))
    ) {
        let terms = Terms::of(pace);
        let worst = worst_second(&run(terms, &tries));
        let most = terms.most_in_a_second(largest);
        prop_assert!(most <= pace.rate.ceil() + 2 * (largest - 1));
        prop_assert!(worst <= most, "{worst} > {most}");
    }

    /// A domain's rate is below the account's; the bound is ⌈q⌉ + 1, as on its own slot grid.
    #[test]
    fn a_domain_has_its_rate_and_one_more(account in paces(), share in 0.0_f64..1.0, tries in tries(1)) {
        let rate = account.rate.as_per_second() * share;
        let rate = Rate::per_second(rate.max(0.001)).unwrap();
        let terms = Terms::of_limit(rate, account);
        let worst = worst_second(&run(terms, &tries));
        prop_assert!(terms.most_in_a_second(1) <= rate.ceil() + 1);
        prop_assert!(worst <= terms.most_in_a_second(1), "{worst}");
    }

    /// Senders may use different paces: the bound of the fastest holds.
    #[test]
    fn takers_of_several_paces_stay_within_the_bound_of_the_fastest(
        paces in vec(paces(), 2..5), tries in vec((pauses(), 0_usize..8), 1..400)
    ) {
        let all: Vec<Terms> = paces.into_iter().map(Terms::of).collect();
        let fastest = Terms {
            period: all.iter().map(|terms| terms.period).min().unwrap(),
            tolerance: all.iter().map(|terms| terms.tolerance).max().unwrap(),
        };
        let (mut now, mut full_at, mut granted) = (1_795_000_000_000_000, 0, Vec::new());
        for (pause, taker) in tries {
            let terms = all[taker % all.len()];
            now += match pause {
                Pause::Periods(thousandths) => fastest.period * thousandths / 1_000,
                Pause::Micros(micros) => micros,
                Pause::Earliest => terms.wait(full_at, now),
            };
            let demand = Demand { terms, wanted: 1, least: 1 };
            if let Decision::Granted(count, after) = take(&[(full_at, demand)], now) {
                granted.push((now, count, 1));
                full_at = after[0];
            }
        }
        prop_assert!(worst_second(&granted) <= fastest.most_in_a_second(1));
    }

    /// A sender that always takes as early as possible gets the full rate: no rounding lowers it.
    #[test]
    fn demand_above_the_rate_is_served_at_the_rate(pace in paces(), least in 1_u64..=50) {
        let terms = Terms::of(pace);
        let tries = vec![Try { pause: Pause::Earliest, wanted: least, least }; 300];
        let granted = run(terms, &tries);
        prop_assert_eq!(granted.len(), 300, "each as soon as it may be");
        let took = granted[299].0 - granted[0].0;
        prop_assert!(took <= 300 * least * terms.period);
    }

    /// A single pacer on the slot grid is never refused, even if each send is as late as the grid
    /// allows, with mails of any size that start at the first of their slots.
    #[test]
    fn a_pacer_alone_is_never_refused(
        rate in 1.0_f64..400.0, rate_margin in 0.005_f64..=0.5,
        mails in vec((1_u64..=50, 0_u64..=1_000), 1..300),
    ) {
        let (rate, rate_margin) = (Rate::per_second(rate).unwrap(), RateMargin::new(rate_margin).unwrap());
        let terms = Terms::of(Pace { rate, rate_margin });
        let (mut slot, mut full_at) = (0, 0);
        for (recipients, late) in mails {
            // The slots are one period of the bucket apart, which is a whole number of microseconds.
            let now = 1_795_000_000_000_000 + slot * terms.period + terms.tolerance * late / 1_000;
            slot += recipients;
            let demand = Demand { terms, wanted: recipients, least: recipients };
            match take(&[(full_at, demand)], now) {
                Decision::Granted(count, after) => {
                    prop_assert_eq!(count, recipients);
                    full_at = after[0];
                }
                Decision::Refused(wait, _) => prop_assert!(false, "refused for {wait} µs"),
            }
        }
    }

    #[test]
    fn what_no_longer_says_anything_is_the_same_as_nothing(
        pace in paces(), least in 1_u64..=50, past in 0_u64..1_000_000, more in 0_u64..1_000_000
    ) {
        let terms = Terms::of(pace);
        let full_at = 1_795_000_000_000_000 + past;
        let now = 1_795_000_000_000_000;
        let later = now + terms.kept(full_at, now) + more;
        let demand = Demand { terms, wanted: least, least };
        prop_assert_eq!(take(&[(full_at, demand)], later), take(&[(0, demand)], later));
    }

    #[test]
    fn all_or_nothing(
        fulls in vec((paces(), 0_u64..200_000, 1_u64..=50), 1..6), more in 0_u64..5
    ) {
        let now = 1_795_000_000_000_000;
        let buckets: Vec<(FullAt, Demand)> = fulls.iter().enumerate().map(|(index, &(pace, ahead, n))| {
            let wanted = if index == 0 { n + more } else { n };
            (now + ahead, Demand { terms: Terms::of(pace), wanted, least: n })
        }).collect();
        let waits: Vec<u64> = buckets.iter().map(|(full_at, d)| d.terms.wait(*full_at, now)).collect();
        match take(&buckets, now) {
            Decision::Granted(count, after) => {
                prop_assert!(waits.iter().all(|wait| *wait == 0));
                prop_assert!((buckets[0].1.least..=buckets[0].1.wanted).contains(&count));
                for (index, ((_, demand), after)) in buckets.iter().zip(&after).enumerate() {
                    let paid = if index == 0 { count } else { demand.wanted };
                    prop_assert!(*after + (demand.wanted - 1) * demand.terms.period >= now + paid * demand.terms.period);
                }
            }
            Decision::Refused(wait, index) => {
                prop_assert_eq!(wait, *waits.iter().max().unwrap());
                prop_assert_eq!(wait, waits[index]);
                // A take is refused one microsecond before the end of the wait and granted at its end.
                let refused = matches!(take(&buckets, now + wait - 1), Decision::Refused(..));
                let granted = matches!(take(&buckets, now + wait), Decision::Granted(..));
                prop_assert!(refused && granted);
            }
        }
    }
}

#[test]
fn the_ends_of_the_rates_are_whole_microseconds() {
    assert_eq!(terms(0.001, 0.5), Terms { period: 1_500_000_000, tolerance: 250_000 });
    assert_eq!(terms(10_000.0, 0.02), Terms { period: 102, tolerance: 10_000 });
    // The period is rounded up: rounded down, it would let more through than the rate.
    assert_eq!(terms(7_000.0, 0.02), Terms { period: 146, tolerance: 10_000 });
}

#[test]
fn a_bucket_is_kept_for_the_largest_mail_and_a_second_at_least() {
    assert_eq!(terms(1.0, 0.02).kept(7, 5), 2 + 49 * 1_020_000);
    assert_eq!(terms(1_000.0, 0.02).kept(5, 7), 1_000_000);
}

#[test]
fn for_large_rates_the_bound_stays_the_quota_though_a_burst_is_granted_at_once() {
    let granted = |rate| {
        let claim = Demand { terms: terms(rate, 0.02), wanted: 40, least: 1 };
        let Decision::Granted(granted, _) = take(&[(0, claim)], 1_795_000_000_000_000) else {
            return 0;
        };
        granted
    };
    // One at once, and 9 more because T = 1,020 µs fits 9 times into τ = 10,000 µs.
    assert_eq!((granted(1_000.0), granted(14.0)), (10, 1));
    assert_eq!(terms(1_000.0, 0.02).most_in_a_second(1), 991);
}

#[test]
fn a_claim_gets_what_is_there_and_a_mail_goes_into_debt() {
    let (now, terms) = (1_795_000_000_000_000, terms(1_000.0, 0.02));
    let claim = Demand { terms, wanted: 40, least: 1 };
    assert_eq!(take(&[(0, claim)], now), Decision::Granted(10, vec![now + 10 * 1_020]));
    let mail = Demand { terms, wanted: 40, least: 40 };
    let saved = now - 39 * 1_020;
    assert_eq!(take(&[(0, mail)], now), Decision::Granted(40, vec![saved + 40 * 1_020]));
    let debt = now + 40 * 1_020;
    assert_eq!(take(&[(now, mail)], now), Decision::Granted(40, vec![debt]));
    assert_eq!(take(&[(debt, claim)], now), Decision::Refused(40 * 1_020 - 10_000, 0));
}

#[test]
fn a_recipient_has_the_mails_of_an_hour_at_once_ten_at_most_and_then_one_each_period() {
    let pace = |rate: f64| Pace {
        rate: Rate::per_second(rate).unwrap(),
        rate_margin: RateMargin::default(),
    };
    for (per_hour, at_once) in [(4.0, 4), (5.0, 5), (10.0, 10), (11.0, 10), (3_600.0, 10)] {
        let terms = Terms::of_recipient(pace(per_hour / 3_600.0).rate, pace(14.0));
        let (mut full_at, now) = (0, 1_795_000_000_000_000);
        for mails in 0.. {
            let one = Demand { terms, wanted: 1, least: 1 };
            match take(&[(full_at, one)], now) {
                Decision::Granted(_, after) => full_at = after[0],
                Decision::Refused(wait, _) => {
                    // One period of the account earlier than its own, as every limit.
                    assert_eq!(mails, at_once, "{per_hour}/h");
                    assert!((terms.period * 9 / 10..=terms.period).contains(&wait), "{wait}");
                    break;
                }
            }
        }
    }
}
