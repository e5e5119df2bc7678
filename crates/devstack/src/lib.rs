//! The local run, `devstack`: a local AWS, two campaigns, a report.
//!
//! Tests and benchmarks use the same parts: [`LocalAws`] starts and stops everything, [`fill`] puts a
//! [`LocalPlan`]'s mails onto the queues, [`SesSandboxClient`] tells which mails arrived, and [`figures`]
//! computes rates and shares from them. [`LocalReport`] is the content of `report.json`.

mod aws;
mod cargo_lambda;
mod command;
mod console;
mod cpu;
mod display;
mod error;
mod figures;
mod fill;
mod http;
mod mailbox;
mod options;
mod place;
mod plan;
mod prerequisites;
mod programs;
mod report;
mod run;
mod setup;

pub use aws::LocalAws;
pub use command::{RunOutcome, run};
pub use cpu::{FunctionWatch, ProcessUsage};
pub use error::LocalError;
pub use figures::{
    ArrivalSeries, MailArrival, RunFigures, RunPhase, RunPhases, ShareInPhase, figures,
};
pub use fill::{body, fill, is_of_plan};
pub use mailbox::{SandboxStats, SesSandboxClient};
pub use options::LocalArgs;
pub use plan::{InvalidWeightPair, LocalCampaign, LocalChannel, LocalPlan, WeightPair, split};
pub use programs::DeployedStack;
pub use report::{Ending, LocalReport, Mails, PollerUsage, Promise, SqsCalls};
pub use setup::{Infra, Mode, RunSettings, Setup, Sqs};
