//! The forecast as it is shown and written as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate_core::Window;
use tidegate_core::channel::Channel;

use super::cost::Cost;
use super::phases::{Bottleneck, Phase};

/// Seconds after the start, within what is thought likely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EndEstimate {
    pub earliest: f64,
    /// In the median of the simulated runs.
    pub expected: f64,
    pub latest: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignForecast {
    pub name: String,
    pub weight: u32,
    pub mails: u64,
    pub recipients_per_mail: u32,
    /// When its last mail reaches SES, in seconds after the start; `None` if mails are left.
    pub ends_after_seconds: Option<EndEstimate>,
    pub ends_at: Option<Window>,
    pub accepted: u64,
    /// Mails that are left as nothing is sent any more, or the forecast ends.
    pub left: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    pub bucket_seconds: u64,
    /// Recipients a minute, one number an entry, by campaign; `express` beside them where there is some.
    pub per_minute: BTreeMap<String, Vec<f64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Simulation {
    pub seeds: u64,
    /// Seconds from the start to the end, in one run.
    pub windows: u64,
    /// The windows that were simulated; the others were skipped.
    pub simulated_windows: u64,
    pub simulated_mails: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
// More than 12 fields: one for each part of the forecast.
pub struct Forecast {
    /// The scenario's name, which tells it from its variants.
    pub name: String,
    pub channel: Channel,
    /// When the mails are on their queues.
    pub start: Window,
    /// The account's quota, recipients a second.
    pub quota_per_second: f64,
    /// When everything is sent; `None` if mails are left.
    pub ends_after_seconds: Option<EndEstimate>,
    /// When the first mail reaches SES, seconds after the start.
    pub first_mail_after_seconds: Option<f64>,
    pub campaigns: Vec<CampaignForecast>,
    /// Mails that end as dead letters.
    pub dead_letters: u64,
    pub phases: Vec<Phase>,
    pub timeline: Timeline,
    pub cost: Cost,
    pub warnings: Vec<String>,
    /// The forecast is right only if these hold.
    pub assumptions: Vec<String>,
    pub simulation: Simulation,
}

impl Forecast {
    pub fn mostly(&self) -> Option<Bottleneck> {
        let mut seconds: BTreeMap<Bottleneck, f64> = BTreeMap::new();
        for phase in &self.phases {
            *seconds.entry(phase.limit).or_default() += phase.to_seconds - phase.from_seconds;
        }
        seconds.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(limit, _)| limit)
    }
}

/// A forecast, and those of its variants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanReport {
    /// The one as given first, then the variants.
    pub forecasts: Vec<Forecast>,
}

impl PlanReport {
    /// Whether every campaign's mails are sent in every forecast, and none is left or a dead letter.
    pub fn all_end(&self) -> bool {
        self.forecasts.iter().all(|forecast| {
            let left = forecast.campaigns.iter().any(|campaign| campaign.left > 0);
            forecast.ends_after_seconds.is_some() && !left && forecast.dead_letters == 0
        })
    }
}
