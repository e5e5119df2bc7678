//! The local run, `devstack`: a local AWS, two campaigns, a report.
//!
//! Tests and benchmarks use the same parts: [`LocalAws`] starts and stops everything, [`fill`] puts a
//! [`LocalPlan`]'s mails onto the queues, [`SesSandboxClient`] tells which mails arrived, and [`figures`]
//! computes rates and shares from them. [`LocalReport`] is the content of `report.json`.

mod aws;
mod cargo_lambda;
mod command;
mod error;
mod figures;
mod place;
mod programs;
mod report;
mod run;
mod setup;

pub use aws::{LocalAws, Sdk};
pub use command::{LocalArgs, run};
pub use error::LocalError;
pub use figures::{
    ArrivalSeries, MailArrival, RunFigures, RunPhase, RunPhases, ShareInPhase, figures,
};
pub use programs::{DeployedStack, FunctionWatch, ProcessUsage, SandboxStats, SesSandboxClient};
pub use report::{Ending, LocalReport, Mails, PollerUsage, Promise, SqsCalls};
pub use run::{body, fill, is_of_plan};
pub use setup::{
    Infra, LocalCampaign, LocalPlan, Mode, RunSettings, Setup, Sqs, WeightPair, split,
};
