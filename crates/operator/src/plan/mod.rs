//! `tidegate plan`: a stack's scenario, and how a forecast is shown.

pub mod chart;
mod command;
mod from_stack;
mod view;

pub use command::{PlanArgs, Variant, channel, forecast, ses_price};
pub(crate) use command::{forecasts, run};
pub use from_stack::scenario_of;
