//! Compares a forecast of `tidegate plan` with a real run.

use tidegate_core::Timestamp;
use tidegate_devstack::{LocalPlan, RunFigures};
use tidegate_simulator::plan::{CampaignLoad, ForecastOptions, Scenario, forecast};

use crate::site::{RATE, RATE_MARGIN};

/// Largest relative error of a forecast: of the whole run, and of a campaign that ends within it,
/// whose end moves by a batch of ten.
const WITHIN: f64 = 0.02;

/// That every campaign ended when it was forecast to: all of it within 2 %, a smaller one within the
/// forecast's own range besides.
pub(crate) fn assert_forecast(plan: &LocalPlan, figures: &RunFigures) {
    let mut scenario = Scenario::new(Timestamp::from_millis(1_795_207_000_000));
    (scenario.quota, scenario.rate_margin, scenario.warm) = (RATE, Some(RATE_MARGIN), false);
    scenario.campaigns = plan
        .campaigns
        .iter()
        .map(|campaign| CampaignLoad {
            name: campaign.name.clone(),
            weight: campaign.weight,
            mails: campaign.mails,
            recipients: campaign.recipients,
        })
        .collect();
    let told = forecast(&scenario, ForecastOptions::default(), &|_| true).unwrap();
    let first = told.first_mail_after_seconds.unwrap();
    let last = figures.ended_after_seconds.values().copied().fold(0.0, f64::max);
    for campaign in &told.campaigns {
        let span = campaign.ends_after_seconds.unwrap();
        let real = figures.ended_after_seconds[&campaign.name];
        let off = (span.expected - first - real).abs();
        println!("{}: forecast {:.2} s, was {real:.2} s", campaign.name, span.expected - first);
        let in_range = (span.earliest - first..=span.latest - first).contains(&real);
        let close = off <= WITHIN * real;
        let is_last = (real - last).abs() < 1e-9;
        assert!(
            close || (in_range && !is_last),
            "{}: {span:?} - {first}, was {real}",
            campaign.name
        );
    }
}
