//! `tidegate doctor`: what a deployment is, read from AWS, for the checks of
//! [`crate::doctor`].

pub(crate) mod clock;
mod lambda;
mod queues;
mod ses;
mod texts;

use std::path::{Path, PathBuf};

use crate::doctor::{ChannelFacts, DeploymentFacts, DoctorReport, Environments, ReadResult};
use crate::status;
use crate::status::Status;
use clap::Args;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{ChannelAccount, port_error};
use tidegate_core::deduplication::Deduplication;
use tidegate_delivery::ports::{DeferralStore as _, FailureKind};

use crate::shell::{CommandEnd, CommandError, Shell, text_file};
use crate::stack::OnStack;
use tidegate_core::in_full;

/// Check a deployment, and say what to do about what is wrong
///
/// SES's quota, production access, senders and the campaigns' tenants (of a stack for text messages: End User Messaging's
/// production access, spend limit, origins and receipts), the queues' attributes, the deferral bucket, the functions' settings, memory against rate, concurrency of the account, clock, windows served, holds. Nothing is
/// changed, nothing is sent. What the functions' roles may do is not asked: a call that is denied stands in their logs.
///
/// Exit code: 0 all well, or warnings; 1 something does not work, or will not; 3 the stack is out of
/// reach. What the caller may not read is `unknown`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate doctor --stack mail --profile ops
  tidegate doctor --json | jq '.findings[] | select(.state == \"failed\")'")]
pub struct DoctorArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
    /// Judge the functions' environments in this file, before they are deployed, and no stack: JSON,
    /// {"scheduler": {NAME: VALUE, …}, "poller": {…}}
    #[arg(long, value_name = "FILE")]
    environments: Option<PathBuf>,
}

pub(super) async fn run(args: &DoctorArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let report = match &args.environments {
        Some(file) => DoctorReport::of_environments(&args.on.stack.stack, &environments(file)?),
        None => {
            let stack = args.on.stack.open().await?;
            DoctorReport::of(&facts(&stack, shell).await?)
        }
    };
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(if report.has_failed() { CommandEnd::ProblemsFound } else { CommandEnd::Done })
}

fn environments(file: &Path) -> Result<Environments, CommandError> {
    let refused =
        |why: String| CommandError::Input(format!("--environments {}: {why}", file.display()));
    let text = text_file(file).map_err(|error| refused(in_full(&error)))?;
    serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
}

async fn facts(stack: &Stack, shell: &Shell) -> Result<DeploymentFacts, CommandError> {
    let standing = status::facts(stack, shell.output.addresses(), 0).await?;
    let queues = queues::read(stack, &standing.campaigns).await;
    Ok(DeploymentFacts {
        status: Status::of(&standing),
        channel: match stack.account() {
            ChannelAccount::Email(account) => {
                ChannelFacts::Email(ses::facts(stack, &account, &standing.campaigns).await)
            }
            ChannelAccount::Sms(account) => ChannelFacts::Sms(texts::facts(stack, &account).await),
        },
        deferral_bucket: deferral_bucket(stack).await,
        queues,
        functions: lambda::functions(stack).await,
        concurrency: lambda::concurrency(stack).await,
        expiry: expiry(stack).await,
        express_wake: stack.express().map(|_| stack.scheduler.idle_wake),
        guarded: stack.poller.deduplication != Deduplication::Off,
        clocks: clock::clocks(stack).await,
    })
}

/// The bucket of deferred mail, and whether it exists.
async fn deferral_bucket(stack: &Stack) -> Option<(String, ReadResult<bool>)> {
    let location = stack.deferral()?;
    let bucket = location.bucket.clone();
    let exists = match stack.clients().deferral(location).list(None).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind == FailureKind::NotFound => Ok(false),
        Err(error) => Err(in_full(&error)),
    };
    Some((bucket, exists))
}

/// Whether time to live is enabled on the ledger's table, so that DynamoDB deletes expired items.
async fn expiry(stack: &Stack) -> ReadResult<bool> {
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let answer = client.describe_time_to_live().table_name(&stack.table).send().await;
    let answer = read("DescribeTimeToLive", &stack.table, answer)?;
    let status = answer.time_to_live_description().and_then(|expiry| expiry.time_to_live_status());
    Ok(status.is_some_and(|status| ["ENABLED", "ENABLING"].contains(&status.as_str())))
}

/// Turns an SDK error into one line of text, so that a check can report "unknown" and its reason.
fn read<T, E>(
    operation: &'static str,
    resource: &str,
    answer: Result<T, aws_sdk_sqs::error::SdkError<E>>,
) -> ReadResult<T>
where
    E: std::error::Error + aws_sdk_sqs::error::ProvideErrorMetadata + Send + Sync + 'static,
{
    let error = match answer {
        Ok(answer) => return Ok(answer),
        Err(error) => port_error(operation, resource, error),
    };
    Err(match &error.kind {
        FailureKind::Denied(code) | FailureKind::Refused(code) => format!("{operation}: {code}"),
        _ => in_full(&error),
    })
}
