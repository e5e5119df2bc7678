//! Tests of how a variant is read.

use tidegate_core::Timestamp;
use tidegate_simulator::plan::Scenario;

use super::Variant;

#[test]
fn a_wrong_value_of_a_variant_is_refused_with_the_values_that_are_allowed() {
    for (change, allowed) in [
        ("daily=slow", "[possible values: full, spread]; allowed is `NAME: "),
        ("mode=fast", "[possible values: merge, direct]; allowed is `NAME: "),
        ("quota=fast", "allowed are recipients a second such as 14"),
        ("express=some", "allowed are mails a second such as 2"),
        ("rate-margin=2%", "allowed are shares from 0.005 to 0.5"),
        ("weight=3", "unexpected argument '--weight'"),
    ] {
        let said = format!("other: {change}").parse::<Variant>().unwrap_err();
        assert!(said.contains(allowed) && !said.contains('\n'), "{change}: {said}");
        assert!(!said.starts_with("error"), "{said}");
    }
}

#[test]
fn a_list_with_blanks_behind_its_commas_is_one_value() {
    let base = Scenario::new(Timestamp::from_millis(0));
    let variant: Variant = "slow: limits=gmail.com=10/s, *=25% quota=28".parse().unwrap();
    let scenario = variant.of(&base).unwrap();
    let limits = scenario.limits.unwrap().to_string();
    assert_eq!((limits.as_str(), scenario.quota), ("gmail.com=10/s, *=25%", 28.0));
}
