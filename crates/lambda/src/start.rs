use std::process::ExitCode;
use std::str::FromStr as _;

use tidegate_adapters::aws::Clients;
use tidegate_core::channel::Channel;
use tidegate_core::config::{ConfigError, LedgerKind};
use tidegate_delivery::ports::{Exclusions, Ledger, Marks, Runs};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::logs::LogLines;
use crate::{failed_start, variable};

/// The level if `RUST_LOG` is missing or cannot be parsed.
const DEFAULT: LevelFilter = LevelFilter::INFO;

/// One of the two functions, as [`start`] runs it.
pub trait LambdaFunction: Sized {
    /// Reads the settings from environment variables.
    ///
    /// # Errors
    ///
    /// Names the setting, the value and what is allowed.
    fn from_variables(read: fn(&str) -> Option<String>) -> Result<Self, ConfigError>;

    fn ledger(&self) -> &LedgerKind;

    fn channel(&self) -> Channel;

    /// Answers invocations for as long as this environment lives.
    fn serve(
        self,
        clients: Clients,
        ledger: impl Ledger + Marks + Exclusions + Runs,
    ) -> impl Future<Output = ExitCode>;
}

/// This program was built without the feature `memory-ledger`.
#[cfg(not(feature = "memory-ledger"))]
#[derive(Debug, thiserror::Error)]
#[error(
    "TIDEGATE_LEDGER: memory is not in this program; allowed is dynamodb:TABLE, or a build with the feature memory-ledger"
)]
struct NoMemoryLedger;

/// This program was built without the feature `sms`.
#[derive(Debug, thiserror::Error)]
#[error(
    "TIDEGATE_CHANNEL: sms is not in this program; allowed is email, or a build with the feature sms"
)]
struct NoSms;

/// Runs a function from its settings to its end.
pub async fn start<F: LambdaFunction>() -> ExitCode {
    init_logs();
    let function = match F::from_variables(variable) {
        Ok(function) => function,
        Err(error) => return failed_start(&error),
    };
    if function.channel() == Channel::Sms && !cfg!(feature = "sms") {
        return failed_start(&NoSms);
    }
    let clients = Clients::connect().await;
    match function.ledger() {
        LedgerKind::DynamoDb(table) => {
            let ledger = clients.ledger(table);
            Box::pin(function.serve(clients, ledger)).await
        }
        #[cfg(feature = "memory-ledger")]
        LedgerKind::Memory => {
            Box::pin(function.serve(clients, tidegate_fakes::MemoryLedger::default())).await
        }
        #[cfg(not(feature = "memory-ledger"))]
        LedgerKind::Memory => failed_start(&NoMemoryLedger),
    }
}

/// Logs JSON lines to standard output. `RUST_LOG` sets the levels: one level, or `target=level` pairs; the
/// default is `info`. Libraries log at `warn` unless `RUST_LOG` names them.
fn init_logs() {
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| Targets::from_str(&text).ok());
    let filter = wanted.unwrap_or_else(|| {
        let libraries =
            ["aws_config", "aws_smithy_runtime", "hyper", "hyper_util", "lambda_runtime"];
        libraries.into_iter().fold(Targets::new().with_default(DEFAULT), |targets, library| {
            targets.with_target(library, LevelFilter::WARN)
        })
    });
    let function = variable("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    let memory_size = variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").and_then(|mb| mb.parse().ok());
    let lines = LogLines::new(std::io::stdout(), function, memory_size);
    tracing_subscriber::registry().with(lines).with(filter).init();
}
