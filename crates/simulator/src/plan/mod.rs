//! Forecasts: when each campaign ends, what limits it, and what it costs.

mod cost;
mod forecast;
mod gate;
mod parse;
mod record;
mod report;
mod scenario;
mod skip;
mod state;

pub use cost::{Cost, IdleStack, ses_price};
pub use forecast::{ForecastOptions, forecast};
pub use parse::{WeightList, count, latency};
pub use report::{
    Bottleneck, CampaignForecast, EndEstimate, Forecast, Phase, PhaseShare, PlanReport, Simulation,
    Timeline,
};
pub use scenario::{
    CampaignLoad, DailyQuotaSettings, DomainShare, MOST_CAMPAIGNS, MOST_MAILS, MOST_RECIPIENTS,
    PlanError, PlannedFault, Scenario, SendFault,
};
pub use tidegate_fakes::Latency;
