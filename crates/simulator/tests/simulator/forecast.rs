//! Forecasts that step over what passes alike, against runs of every window; and what a forecast says.

use tidegate_core::Timestamp;
use tidegate_core::channel::Channel;
use tidegate_core::daily::DailyPace;
use tidegate_operator::page::Page;
use tidegate_operator::plan::{Variant, chart};
use tidegate_simulator::plan::{
    Bottleneck, DailyQuotaSettings, Forecast, ForecastOptions, PlanError, PlanReport, Scenario,
    WeightList, forecast,
};

fn scenario(campaigns: &[&str], weights: &str) -> Scenario {
    let mut scenario = Scenario::new(Timestamp::from_millis(1_795_207_000_000));
    scenario.campaigns = campaigns.iter().map(|text| text.parse().unwrap()).collect();
    weights.parse::<WeightList>().unwrap().set(&mut scenario).unwrap();
    scenario
}

fn changed(scenario: &Scenario, changes: &str) -> Scenario {
    format!("changed: {changes}").parse::<Variant>().unwrap().of(scenario).unwrap()
}

fn forecast_of(scenario: &Scenario, every_window: bool) -> Forecast {
    forecast(scenario, ForecastOptions { seeds: 3, every_window }, &|_| true).unwrap()
}

/// That each campaign's end differs by no more than this share and three seconds from that of a run of
/// every window, which lies within the range; and that less than `simulated` of it was simulated.
#[track_caller]
fn assert_agrees(scenario: &Scenario, share: f64, simulated: f64) {
    let (coarse, full) = (forecast_of(scenario, false), forecast_of(scenario, true));
    for (coarse, full) in coarse.campaigns.iter().zip(&full.campaigns) {
        let (quick, exact) = (coarse.ends_after_seconds.unwrap(), full.ends_after_seconds.unwrap());
        let off = (quick.expected - exact.expected).abs();
        assert!(off <= share * exact.expected + 3.0, "{}: {quick:?}, {exact:?}", full.name);
        assert!(quick.earliest <= exact.latest && exact.earliest <= quick.latest);
        assert_eq!((coarse.accepted, coarse.left), (full.accepted, 0));
    }
    let how = (coarse.simulation, full.simulation);
    let part = |of: u64, all: u64| {
        f64::from(u32::try_from(of).unwrap()) / f64::from(u32::try_from(all).unwrap())
    };
    let part = part(how.0.simulated_mails, how.1.simulated_mails);
    assert!(part < simulated, "{part}: {how:?}");
    let cost = (coarse.cost.total, full.cost.total);
    assert!((cost.0 - cost.1).abs() < 0.02 * cost.1, "{cost:?}");
}

#[test]
fn two_campaigns_agree_in_both_modes() {
    let two = scenario(&["big=20k", "small=1500"], "big=90,small=10");
    assert_agrees(&two, 0.005, 0.5);
    assert_agrees(&changed(&two, "mode=direct quota=40"), 0.01, 0.7);
}

#[test]
fn a_small_campaign_that_ends_early_agrees() {
    assert_agrees(&scenario(&["big=20k", "small=300"], "big=80,small=20"), 0.005, 0.5);
}

#[test]
fn five_campaigns_agree() {
    let five = scenario(&["a=8k", "b=5k", "c=3k", "d=2k", "e=1500"], "a=5,b=4,c=3,d=2,e=1");
    assert_agrees(&changed(&five, "quota=28"), 0.01, 0.9);
}

#[test]
fn an_outage_and_failures_agree() {
    let one = scenario(&["big=25k"], "big=1");
    assert_agrees(&changed(&one, "fault=5xx,from=5m,to=15m"), 0.01, 0.6);
    assert_agrees(&changed(&one, "fault=5xx,ratio=0.05"), 0.04, 0.9);
}

#[test]
fn a_quota_of_less_than_a_mail_in_half_a_minute_is_no_standstill() {
    for (campaign, quota) in [("a=5x50", 1.0), ("a=8", 0.02)] {
        let slow = Scenario { quota, ..scenario(&[campaign], "a=1") };
        assert_agree_in_one_run(&slow);
    }
}

#[test]
fn mails_of_several_recipients_agree() {
    assert_agree_in_one_run(&scenario(&["a=300x10"], "a=1"));
}

#[test]
fn mails_refused_for_good_and_lost_answers_agree() {
    for (campaign, fault) in [("a=6k", "rejected,ratio=0.1"), ("a=2k", "lost-answer,ratio=0.1")] {
        assert_agree_in_one_run(&changed(&scenario(&[campaign], "a=1"), &format!("fault={fault}")));
    }
}

#[track_caller]
fn assert_agree_in_one_run(scenario: &Scenario) {
    let [quick, full] = [false, true].map(|every_window| {
        forecast(scenario, ForecastOptions { seeds: 1, every_window }, &|_| true).unwrap()
    });
    let [quick_end, full_end] =
        [&quick, &full].map(|forecast| forecast.ends_after_seconds.unwrap().expected);
    assert!((quick_end - full_end).abs() < 0.02 * full_end + 3.0, "{quick_end}, {full_end}");
    let dead = quick.dead_letters.abs_diff(full.dead_letters);
    // Which mails a fault hits is chance.
    assert!(dead * 10 <= full.dead_letters, "{} {}", quick.dead_letters, full.dead_letters);
}

/// The second day is the first with what frees up: a run of every window of it would take a minute, so
/// what is known of it is asserted.
#[test]
fn the_daily_quota_ends_each_day_and_frees_up_a_day_later() {
    let mut daily = scenario(&["big=12k", "small=2k"], "big=90,small=10");
    daily.daily = Some(DailyQuotaSettings { quota: 8_000, sent: 0, pace: DailyPace::Full });
    let forecast = forecast_of(&daily, false);
    let end = forecast.ends_after_seconds.unwrap();
    // 7,920 may be sent a day; 6,080 are left for the second day, and that takes 443 s at 13.7.
    assert!((86_400.0 + 440.0..86_400.0 + 560.0).contains(&end.expected), "{end:?}");
    assert!(forecast.phases.iter().any(|phase| phase.limit == Bottleneck::DailyQuota));
    assert!(forecast.simulation.simulated_windows < 30_000, "{:?}", forecast.simulation);
    let spread = forecast_of(&changed(&daily, "daily=spread"), false);
    let end = spread.ends_after_seconds.unwrap();
    // 14,000 at 7,920 a day, of which the rate margin keeps a fiftieth free.
    let due = 14_000.0 / 7_920.0 * 86_400.0 * 1.02;
    assert!((end.expected - due).abs() < 0.01 * due, "{end:?}, {due} is due");
    assert_eq!(spread.mostly(), Some(Bottleneck::DailyQuota));
}

#[test]
fn what_was_sent_before_the_start_is_off_the_day() {
    let mut daily = scenario(&["big=3k"], "big=1");
    daily.daily = Some(DailyQuotaSettings { quota: 8_000, sent: 6_000, pace: DailyPace::Full });
    let end = forecast_of(&daily, false).ends_after_seconds.unwrap();
    assert!(end.expected > 86_400.0, "{end:?}");
    daily.daily = Some(DailyQuotaSettings { quota: 8_000, sent: 4_000, pace: DailyPace::Full });
    let end = forecast_of(&daily, false).ends_after_seconds.unwrap();
    assert!(end.latest < 250.0, "{end:?}");
}

#[test]
fn a_million_mails_take_thousands_to_simulate() {
    let million = scenario(&["big=900k", "small=100k"], "big=90,small=10");
    let forecast = forecast_of(&million, false);
    assert!(forecast.simulation.simulated_mails < 20_000, "{:?}", forecast.simulation);
    let end = forecast.ends_after_seconds.unwrap();
    let due = 1_000_000.0 * 1.01 / 14.0;
    assert!((end.expected - due).abs() < 0.001 * due, "{end:?}, {due} is due");
}

#[test]
fn a_campaign_without_weight_never_ends_and_the_forecast_says_so() {
    let waits = scenario(&["big=500", "later=20"], "big=1,later=0");
    let forecast = forecast_of(&waits, false);
    assert_eq!(forecast.ends_after_seconds, None);
    assert_eq!(forecast.campaigns[1].left, 20);
    assert!(forecast.campaigns[0].ends_after_seconds.is_some());
    assert_eq!(forecast.warnings, ["later keeps 20 mails: its weight is 0"]);
    assert!(!PlanReport { forecasts: vec![forecast] }.all_end());
}

#[test]
fn what_a_hold_keeps_from_being_sent_is_left_and_the_hold_is_named() {
    let refused = changed(&scenario(&["a=1k"], "a=1"), "fault=rejected");
    let forecast = forecast_of(&refused, false);
    let campaign = &forecast.campaigns[0];
    assert_eq!((campaign.ends_after_seconds, campaign.accepted), (None, 0));
    assert_eq!(campaign.left + forecast.dead_letters, 1_000, "{forecast:?}");
    let said = "held (refusals) until that is lifted";
    assert_eq!(forecast.warnings[0], format!("a keeps {} mails: {said}", campaign.left));
    assert!(forecast.cost.ses.is_sign_positive());
    let some = forecast_of(&changed(&refused, "fault=rejected,ratio=0.02"), false);
    assert!(some.ends_after_seconds.is_some() && some.dead_letters > 0);
    assert!(!PlanReport { forecasts: vec![some] }.all_end());
}

#[test]
fn a_recipient_domains_limit_is_what_a_campaign_ends_by() {
    let free = scenario(&["big=600"], "big=1");
    let mut limited = free.clone();
    limited.domains = vec!["gmail.com=50%".parse().unwrap()];
    limited.limits = Some("gmail.com=2/s, *=25%".parse().unwrap());
    let end = |scenario| {
        let forecast = forecast_of(scenario, false);
        assert_eq!(forecast.campaigns[0].accepted, 600);
        forecast.ends_after_seconds.unwrap().expected
    };
    let due = 300.0 * 1.01 / 2.0;
    let (free, limited) = (end(&free), end(&limited));
    assert!(free < 50.0 && (limited - due).abs() < 0.05 * due, "{free} s, {limited} s of {due}");
    let mut too_much = scenario(&["big=5"], "big=1");
    too_much.domains =
        ["a.example=60%", "b.example=50%"].map(|text| text.parse().unwrap()).to_vec();
    let said = forecast(&too_much, ForecastOptions::default(), &|_| true).unwrap_err().to_string();
    assert!(said.starts_with("domain is `110"), "{said}");
}

#[test]
fn wrong_values_are_refused_by_name_value_and_what_is_allowed() {
    let good = scenario(&["big=500"], "big=1");
    let said = |scenario: &Scenario| {
        forecast(scenario, ForecastOptions::default(), &|_| true).unwrap_err().to_string()
    };
    let quota = Scenario { quota: 0.0, ..good.clone() };
    assert_eq!(said(&quota), "quota is `0`; allowed is 0.001 to 10000 recipients a second");
    let none = scenario(&["big=0"], "big=1");
    assert_eq!(said(&none), "no campaign has mail: there is nothing to forecast");
    let weightless = scenario(&["big=5"], "big=0");
    assert!(said(&weightless).starts_with("every campaign with mail has the weight 0"));
    let twice = scenario(&["big=5", "big=6"], "big=1");
    assert_eq!(said(&twice), "campaign is `big`; allowed is each name once");
    let many = scenario(&["big=5x51"], "big=1");
    assert_eq!(said(&many), "recipients a mail of campaign big is `51`; allowed is 1 to 50");
    let named = scenario(&["big=5", "\"}]=5"], "big=1");
    assert!(said(&named).starts_with("campaign is `\"}]`; allowed is 1 to 64 letters"));
    let unknown = "bulk=1".parse::<WeightList>().unwrap().set(&mut good.clone()).unwrap_err();
    assert_eq!(unknown.to_string(), "a weight names the campaign `bulk`; there is big");
    let huge = scenario(&["big=18446744073709551615", "other=1x50"], "big=1");
    assert!(said(&huge).starts_with("mails of campaign big is `18446744073709551615`; allowed"));
    let day = DailyQuotaSettings { quota: 1_000, sent: u64::MAX, pace: DailyPace::Full };
    let day = Scenario { daily: Some(day), ..good.clone() };
    assert!(said(&day).starts_with("sent today is `18446744073709551615`; allowed is 0 to"));
    // With the rate margin 13.86 a second may be sent.
    let express = Scenario { express: Some(12.5), ..good.clone() };
    let allowed = "0 to 12.474 mails a second, nine tenths of what may be sent";
    assert_eq!(said(&express), format!("express is `12.5`; allowed is {allowed}"));
    for (wrong, said) in [
        ("x", "allowed is `NAME: OPTION=VALUE"),
        ("x: ", "allowed is `NAME: OPTION=VALUE"),
        ("x: speed=2", "unexpected argument '--speed' found; allowed is"),
        ("x: quota=fast", "invalid value 'fast' for '--quota <RECIPIENTS>'"),
        ("x: quota", "a value is required for '--quota <RECIPIENTS>'"),
        ("x: daily-quota=fast", "number is `fast`; allowed is a whole number"),
    ] {
        let refused = wrong.parse::<Variant>().unwrap_err();
        assert!(refused.contains(said), "{wrong}: {refused}");
    }
    let of = |text: &str| text.parse::<Variant>().unwrap().of(&good);
    let said = |text: &str| of(text).unwrap_err().to_string();
    assert_eq!(said("x: weights=1/2"), "weights is `1/2`; allowed is one number for each of big");
    assert!(said("x: daily=spread").contains("go with a daily quota"));
    let daily = of("x: daily-quota=5k daily=spread").unwrap();
    assert_eq!(daily.daily.map(|daily| daily.quota), Some(5_000));
    let none: Variant = "x: daily-quota=none fault=none".parse().unwrap();
    assert_eq!(none.of(&daily).unwrap().daily, None);
}

#[test]
fn a_forecast_that_is_stopped_ends_at_once() {
    let million = scenario(&["big=900k"], "big=1");
    let options = ForecastOptions { seeds: 3, every_window: true };
    let stopped = forecast(&million, options, &|_| false);
    assert!(matches!(stopped, Err(PlanError::Stopped)), "{stopped:?}");
}

#[test]
fn the_recorded_example_is_what_is_said() {
    let base = scenario(&["big=40k", "small=4k"], "big=90,small=10");
    let mut forecasts = vec![forecast_of(&base, false)];
    for variant in ["equal: weights=50/50", "more: quota=28", "outage: fault=5xx,from=10m,to=40m"] {
        let variant: Variant = variant.parse().unwrap();
        forecasts.push(forecast_of(&variant.of(&base).unwrap(), false));
    }
    let report = PlanReport { forecasts };
    let page = Page::of(&report);
    snapbox::assert_data_eq!(page.plain(), snapbox::file!["golden/plan.txt"]);
    let svg = chart::draw(&report).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("outage") && svg.contains("recipients a minute")
    );
}

fn texts(campaigns: &[&str], weights: &str) -> Scenario {
    Scenario { channel: Channel::Sms, ..scenario(campaigns, weights) }
}

#[test]
fn each_part_of_a_text_takes_a_slot_and_has_its_price() {
    let one = forecast_of(&texts(&["codes=1200"], "codes=1"), false);
    let three = Scenario { price_per_part: Some(0.01), ..texts(&["news=400x3"], "news=1") };
    let three = forecast_of(&three, false);
    let ends = [&one, &three].map(|forecast| forecast.ends_after_seconds.unwrap().expected);
    // A third of the texts takes no less time, but more: a text whose parts do not fit into its window waits.
    assert!(ends[1] > ends[0] - 3.0 && ends[1] < 1.5 * ends[0], "{ends:?}");
    assert_eq!((one.cost.ses, one.cost.texts), (0.0, None));
    let asked = three.cost.texts.unwrap();
    assert!((asked - 12.0).abs() < 1e-6 && three.cost.total > asked, "{asked}");
}

#[test]
fn a_forecast_of_texts_speaks_of_parts_and_of_what_is_not_known() {
    let page = |scenario: &Scenario| {
        Page::of(&PlanReport { forecasts: vec![forecast_of(scenario, false)] }).plain()
    };
    let unpriced = texts(&["codes=600", "news=20x3"], "codes=90,news=10");
    let said = page(&unpriced);
    assert!(said.starts_with("620 texts at 14 parts a second from "), "{said}");
    assert!(said.contains("What AWS asks for the texts is not in it: --price-per-part"), "{said}");
    let idle = "A stack that sends nothing costs $0.74 a month.";
    assert!(said.contains(idle) && said.contains("calls a text"), "{said}");
    for word in ["mail", "recipient", "SES"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    let priced = page(&Scenario { price_per_part: Some(0.01), ..unpriced });
    assert!(priced.contains(": texts $6.60, SQS $"), "{priced}");
}

#[test]
fn what_only_mails_have_is_refused_for_texts_and_the_other_way_round() {
    let said = |scenario: &Scenario| scenario.check().unwrap_err().to_string();
    let daily = Some(DailyQuotaSettings { quota: 50_000, sent: 0, pace: DailyPace::Full });
    let daily = said(&Scenario { daily, ..texts(&["a=1"], "a=1") });
    assert!(daily.contains("daily quota") && daily.contains("only for e-mail"), "{daily}");
    let domains = vec!["gmail.com=40%".parse().unwrap()];
    let domains = said(&Scenario { domains, ..texts(&["a=1"], "a=1") });
    assert!(domains.contains("only for e-mail"), "{domains}");
    let long = said(&texts(&["a=1x11"], "a=1"));
    assert!(long.contains("parts a text of campaign a") && long.contains("1 to 10"), "{long}");
    let price = said(&Scenario { price_per_part: Some(0.1), ..scenario(&["a=1"], "a=1") });
    assert!(price.contains("price per part") && price.contains("only for texts"), "{price}");
}

#[test]
fn ses_costs_what_the_account_pays_for_it() {
    let usual = scenario(&["a=1000"], "a=1");
    let plan = Scenario { ses_price: Some(0.0005), ..usual.clone() };
    let [usual, plan] = [usual, plan].map(|scenario| forecast_of(&scenario, false).cost.ses);
    assert!((usual - 0.1).abs() < 1e-9 && (plan - 0.5).abs() < 1e-9, "{usual} {plan}");
    let texts = Scenario { ses_price: Some(0.1), ..texts(&["a=1"], "a=1") };
    assert!(texts.check().unwrap_err().to_string().contains("only for e-mail"));
}
