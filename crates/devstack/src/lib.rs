//! The local run, `devstack`: a local AWS, two campaigns, a report.
//!
//! Tests and benchmarks use the same parts: [`LocalAws`] starts and stops everything, [`fill`] puts a
//! [`LocalPlan`]'s mails onto the queues, [`SesSandboxClient`] tells which mails arrived, and [`figures`]
//! computes rates and shares from them. [`LocalReport`] is the content of `report.json`.

mod aws;
mod browser;
mod cargo_lambda;
mod command;
mod console;
mod cpu;
mod deployed;
mod display;
mod error;
mod figures;
mod fill;
mod folder;
mod http;
mod mailbox;
mod options;
mod place;
mod plan;
mod prerequisites;
mod process_group;
mod programs;
mod report;
mod report_text;
mod run;
mod sandbox;
mod setup;

pub use aws::LocalAws;
pub use command::{RunOutcome, run};
pub use cpu::{FunctionWatch, ProcessUsage};
pub use deployed::DeployedStack;
pub use error::LocalError;
pub use figures::{
    ArrivalSeries, MailArrival, RunFigures, RunPhase, RunPhases, ShareInPhase, figures,
};
pub use fill::{body, fill, is_of_plan};
pub use options::LocalArgs;
pub use plan::{InvalidWeightPair, LocalCampaign, LocalChannel, LocalPlan, WeightPair, split};
pub use report::{Ending, LocalReport, Mails, PollerUsage, Promise, SqsCalls};
pub use sandbox::{SandboxStats, SesSandboxClient};
pub use setup::{Infra, Mode, RunSettings, Setup, Sqs};
