//! The local run, `tidegate local`: a local AWS, two campaigns, a report.
//!
//! Its pieces serve tests and benchmarks too: [`LocalAws`] starts and stops everything, [`fill`]
//! puts a [`Plan`]'s mails onto the queues, [`Sandbox`] tells what arrived, [`figures`] works out
//! what that means. [`Report`] is what `report.json` holds.

mod aws;
mod chart;
mod command;
mod cpu;
mod crew;
mod error;
mod figures;
mod fill;
mod folder;
mod http;
mod needs;
mod options;
mod plan;
mod programs;
mod report;
mod run;
mod sandbox;
mod setup;
mod text;
mod track;
mod view;
mod watch;

pub use aws::{LocalAws, Stack};
pub use chart::svg;
pub use command::{Interrupts, Outcome, run};
pub use cpu::{FunctionWatch, Usage};
pub use error::LocalError;
pub use figures::{Arrival, Figures, Phase, Phases, Series, Share, figures, worst_second};
pub use fill::{body, fill, is_of_plan};
pub use options::LocalArgs;
pub use plan::{Campaign, InvalidWeights, Plan, Weights, split};
pub use report::{Ending, Mails, PollerUsage, Promise, Report, Settings, SqsCalls};
pub use run::RunOptions;
pub use sandbox::{Sandbox, SandboxStats};
pub use setup::{Infra, Mode, Setup, Sqs};
pub use track::{CampaignProgress, Progress, Tracker};
pub use view::Backlog;
