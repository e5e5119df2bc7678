use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;

use super::*;
use crate::watch::tests::status;

fn figures(seconds: u64, rate: f64) -> StackFigures {
    let at = EpochMillis::new(1_795_206_967_000 + seconds * 1_000);
    let row = CampaignFigures {
        name: "big".to_owned(),
        rate: Some(rate),
        share: Some(1.0),
        age_s: None,
        eta_s: None,
        sent: 100,
        waiting: 900,
        progress: Some(0.1),
    };
    let slots = SlotFigures::default();
    let status = status();
    StackFigures {
        at,
        failed: None,
        rate: Some(rate),
        rows: vec![row],
        express: None,
        refused: 0,
        slots,
        status,
    }
}

#[test]
fn curves_go_back_half_an_hour_two_seconds_a_point() {
    let mut rate_history = RateHistory::default();
    for second in 0..4_000 {
        rate_history.add(&figures(second, 13.449));
    }
    let curves: serde_json::Value = serde_json::from_str(&rate_history.to_json()).unwrap();
    let points = curves["t"].as_array().unwrap();
    assert_eq!(points.len(), 901);
    assert_eq!(points[900], 1_795_206_967.0 + 3_998.0);
    assert_eq!(curves["rate"][0], 13.4);
    assert_eq!(curves["campaigns"]["big"].as_array().unwrap().len(), 901);
    assert_eq!(curves["quota"][5], 14.0);
}

#[test]
fn a_campaign_that_comes_later_has_gaps_before() {
    let mut rate_history = RateHistory::default();
    rate_history.add(&figures(0, 1.0));
    let mut later = figures(2, 2.0);
    later.rows[0].name = "late".to_owned();
    rate_history.add(&later);
    let curves: serde_json::Value = serde_json::from_str(&rate_history.to_json()).unwrap();
    assert_eq!(curves["campaigns"], serde_json::json!({"big": [1.0, null], "late": [null, 2.0]}));
}

#[test]
fn slots_a_second_are_of_the_last_ten_seconds() {
    let mut recently = RecentSlots::default();
    let mut facts = facts_at(0);
    for second in 0..30_u64 {
        facts.at = Timestamp::from_millis(1_795_206_967_000) + Duration::from_secs(second);
        let unused = i64::try_from(second.saturating_sub(15)).unwrap();
        facts.standing.counters.insert("unused".to_owned(), 2 * unused);
        recently.see(&facts);
    }
    let dashboard = tidegate_operate::top::Dashboard::new(&facts);
    let current = StackFigures::of(&dashboard, &recently).slots;
    assert_eq!((current.unused, current.unused_now, current.skipped), (28, 2.0, 0));
}

fn facts_at(seconds: u64) -> tidegate_operate::status::StackFacts {
    use std::collections::BTreeMap;
    use tidegate_core::config::Cap;
    use tidegate_core::daily::DailyPolicy;
    use tidegate_core::domains::DomainLimits;
    use tidegate_core::rate::RateMargin;
    use tidegate_delivery::ports::Standing;
    use tidegate_operate::redact::AddressVisibility;
    use tidegate_operate::status::{StackFacts, StatusSettings};
    StackFacts {
        at: Timestamp::from_millis(1_795_206_967_000 + seconds * 1_000),
        settings: StatusSettings {
            stack: "tidegate".to_owned(),
            cap: Cap { quota: None, daily: DailyPolicy::default() },
            rate_margin: RateMargin::default(),
            domains: DomainLimits::default(),
            idle_wake: 1,
            addresses: AddressVisibility::Masked,
            changes: 20,
        },
        standing: Standing::default(),
        campaigns: Vec::new(),
        backlogs: BTreeMap::new(),
        depths: BTreeMap::new(),
        account: None,
        changes: Vec::new(),
    }
}
