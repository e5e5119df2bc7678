use std::path::PathBuf;

use clap::Args;

/// Options that select the stack
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Stack")]
pub struct StackArgs {
    /// Name of the stack, as it was deployed
    #[arg(long, value_name = "NAME", env = "TIDEGATE_STACK", default_value = "tidegate")]
    pub stack: String,
    /// The stack that `tidegate local` (`make run`) runs on this machine: the newest that answers
    #[arg(long, conflicts_with_all = ["region", "profile", "endpoint_url"])]
    pub local: bool,
    /// AWS region [default: the profile's, or `AWS_REGION`]
    #[arg(long, value_name = "REGION")]
    pub region: Option<String>,
    /// Profile of the AWS configuration [default: `AWS_PROFILE`]
    #[arg(long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// Where AWS answers, instead of Amazon's endpoints
    #[arg(long, value_name = "URL")]
    pub endpoint_url: Option<String>,
    /// Folder of the local runs
    #[arg(long, value_name = "DIR", default_value = ".local", hide = true)]
    pub local_runs: PathBuf,
}
