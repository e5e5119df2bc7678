//! Which stack a command works on, and what is in it.
//!
//! A stack is found by its name: `CloudFormation` tells its outputs, these name the two functions, and
//! the functions' environment says all else, read as the functions themselves read it. So a command
//! goes by the settings that are in force.

mod args;
mod error;
mod find;
mod local;

use std::path::PathBuf;

use tidegate_aws::{Clients, DynamoLedger, SesAccount, SqsQueues, SystemClock};
use tidegate_core::config::{Campaign, LedgerKind, PollerConfig, SchedulerConfig};
use tidegate_core::control::Control;
use tidegate_delivery::ports::{Ledger as _, PortError, QueueUrl, Standing};

pub use args::StackArgs;
pub use error::StackError;
pub(crate) use find::failed;
pub(crate) use local::{LocalEndpoint, write_endpoint};

/// A function of the stack, as Lambda tells it.
#[derive(Clone, Debug)]
pub struct DeployedFunction {
    /// Its name.
    pub name: String,
    /// Its ARN.
    pub arn: String,
    /// The role that it runs as.
    pub role: String,
    /// Its memory in MB.
    pub memory_mb: i32,
    /// Its time-out in seconds.
    pub timeout_s: i32,
}

/// A deployed stack, and how it is reached.
#[derive(Clone, Debug)]
pub struct Stack {
    /// Its name.
    pub name: String,
    /// The region, as the SDK knows it.
    pub region: String,
    /// What the scheduler is configured with.
    pub scheduler: SchedulerConfig,
    /// What the poller is configured with.
    pub poller: PollerConfig,
    /// The scheduler's function.
    pub scheduler_function: DeployedFunction,
    /// The poller's function.
    pub poller_function: DeployedFunction,
    /// Where the ledger stands.
    pub table: String,
    /// The run's folder, of a local AWS.
    pub run: Option<PathBuf>,
    clients: Clients,
}

impl Stack {
    /// Whether it is a local AWS.
    pub const fn is_local(&self) -> bool {
        self.run.is_some()
    }

    /// The SDK's clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// The queues.
    pub fn queues(&self) -> SqsQueues {
        self.clients.patient_queues()
    }

    /// The ledger, its marks and its history.
    pub fn ledger(&self) -> DynamoLedger {
        self.clients.ledger(&self.table)
    }

    /// The account.
    pub fn account(&self) -> SesAccount {
        self.clients.account()
    }

    /// Time.
    pub fn clock(&self) -> SystemClock {
        SystemClock::new()
    }

    /// The campaigns: the configured ones, or the ledger's list where that is in force.
    pub fn campaigns(&self, control: &Control) -> Vec<Campaign> {
        self.poller.campaigns.in_force(control)
    }

    /// What stands in the ledger, and the campaigns.
    ///
    /// # Errors
    /// [`PortError`].
    pub async fn standing(&self) -> Result<(Standing, Vec<Campaign>), PortError> {
        let standing = self.ledger().read().await?;
        let campaigns = self.campaigns(&standing.control);
        Ok((standing, campaigns))
    }

    /// The merge queue; none in direct mode.
    pub fn merge(&self) -> Option<QueueUrl> {
        self.poller.merge_queue_url.as_deref().map(QueueUrl::new)
    }

    /// The express queue; none where there is none.
    pub fn express(&self) -> Option<QueueUrl> {
        self.poller.express_queue_url.as_deref().map(QueueUrl::new)
    }

    /// The dead-letter queue.
    pub fn dead_letter(&self) -> QueueUrl {
        QueueUrl::new(self.poller.dead_letter_queue_url.as_str())
    }

    /// Who runs the command: the caller's ARN as AWS knows it, without the account; on a local AWS
    /// the user of this machine.
    pub async fn operator(&self) -> String {
        let here = || {
            let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|v| std::env::var(v).ok());
            user.unwrap_or_else(|| "unknown".to_owned())
        };
        if self.is_local() {
            return here();
        }
        let sts = aws_sdk_sts::Client::new(self.clients.config());
        let caller = sts.get_caller_identity().send().await.ok();
        let arn = caller.and_then(|caller| caller.arn().map(str::to_owned));
        let name = arn.and_then(|arn| arn.splitn(6, ':').nth(5).map(str::to_owned));
        name.unwrap_or_else(here)
    }

    /// The ledger's table.
    fn table(config: &PollerConfig) -> Option<String> {
        match &config.ledger {
            LedgerKind::DynamoDb(table) => Some(table.clone()),
            LedgerKind::Memory => None,
        }
    }
}
