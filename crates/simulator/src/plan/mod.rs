//! Forecasts: when each campaign ends, what limits it, and what it costs.

mod assumptions;
mod cost;
mod daily;
mod domains;
mod error;
mod fault;
mod forecast;
mod gate;
mod parse;
mod phases;
mod record;
mod report;
mod run;
mod scenario;
mod skip;
mod state;
mod stretch;

pub use cost::{Cost, IdleStack, ses_price};
pub use domains::DomainShare;
pub use error::PlanError;
pub use fault::{PlannedFault, SendFault};
pub use forecast::{ForecastOptions, forecast};
pub use parse::{Variant, WeightList, latency, pace};
pub use phases::{Bottleneck, Phase, PhaseShare};
pub use report::{CampaignForecast, EndEstimate, Forecast, PlanReport, Simulation, Timeline};
pub use scenario::{
    CampaignLoad, DailyQuotaSettings, MOST_CAMPAIGNS, MOST_MAILS, MOST_RECIPIENTS, Scenario,
};
