//! `devstack --watch`: the functions under `cargo lambda watch`, invoked by hand.

use std::io::{Write as _, stderr};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tidegate_delivery::ports::QueueUrl;
use tokio::process::Command;

use super::aws::{KEY, LocalAws};
use super::deployed::REGION;
use super::error::LocalError;
use super::fill::fill;
use super::folder;
use super::options::LocalArgs;
use super::plan::{LocalCampaign, LocalPlan};
use super::process_group::ProgramOutput;

/// cargo-lambda reaches its functions over IPv6 alone.
const HOST: &str = "::1";
const PORT: &str = "9000";
/// Environments at once: neighbouring windows overlap.
const CONCURRENCY: &str = "3";
/// Mails that are put onto each queue: a few windows' worth.
const MAILS: u64 = 60;

/// Puts some mails onto the queues, and runs `cargo lambda watch` to its end.
pub(super) async fn watch(args: &LocalArgs, aws: &mut LocalAws) -> Result<(), LocalError> {
    present().await?;
    let campaigns = args
        .campaigns()
        .map(|campaign| LocalCampaign { mails: campaign.mails.min(MAILS), ..campaign });
    let stack = aws.stack();
    let urls = [stack.queue("FirstCampaignQueueUrl")?, stack.queue("SecondCampaignQueueUrl")?];
    let environment = environment(args, aws, &urls)?;
    let file = folder::write(aws.folder(), "watch.env", &environment)?;
    let plan = LocalPlan { quota: args.setup().quota, campaigns: campaigns.to_vec() };
    fill(aws.queues(), &plan, &urls, |_| {}).await?;
    tell(aws, &plan);
    let command = cargo_lambda(args.root(), &file);
    aws.process_group.start("cargo lambda watch", command, ProgramOutput::Inherited)?;
    aws.process_group.wait_for_last().await;
    aws.process_group.check()
}

async fn present() -> Result<(), LocalError> {
    let mut command = Command::new("cargo");
    command.args(["lambda", "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().await.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(LocalError::Missing {
        what: "cargo-lambda".to_owned(),
        remedy: "run `make watch`, or `make tools` and put .tools/lambda/bin in front of PATH"
            .to_owned(),
    })
}

fn cargo_lambda(root: &Path, environment: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["lambda", "watch", "--release", "--wait"]);
    command.args(["-A", HOST, "-P", PORT, "--concurrency", CONCURRENCY]);
    // It starts the functions in folders of their own.
    let file = std::path::absolute(environment);
    command.arg("--env-file").arg(file.unwrap_or_else(|_| environment.to_owned()));
    command.current_dir(root);
    // cargo-lambda passes its environment on to the functions.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("AWS_") || text.starts_with("TIDEGATE_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Environment variables for both functions, with the values that the template would give them.
fn environment(
    args: &LocalArgs,
    aws: &LocalAws,
    urls: &[QueueUrl; 2],
) -> Result<String, LocalError> {
    let stack = aws.stack();
    let campaigns = args.campaigns();
    let campaigns: Vec<_> = campaigns
        .iter()
        .zip(urls)
        .map(|(campaign, url)| {
            json!({
                "name": campaign.name, "queue_url": url.as_str(), "weight": campaign.weight,
            })
        })
        .collect();
    let mut lines = vec![
        ("AWS_REGION", REGION.to_owned()),
        ("AWS_ACCESS_KEY_ID", KEY.to_owned()),
        ("AWS_SECRET_ACCESS_KEY", KEY.to_owned()),
        ("AWS_ENDPOINT_URL", aws.endpoint().to_owned()),
        ("AWS_ENDPOINT_URL_SQS", aws.sqs_endpoint().to_owned()),
        ("AWS_ENDPOINT_URL_SESV2", aws.sandbox().url().to_owned()),
        ("AWS_ENDPOINT_URL_LAMBDA", format!("http://[{HOST}]:{PORT}")),
        ("TIDEGATE_POLLER_FUNCTION", "poller".to_owned()),
        ("TIDEGATE_LEDGER", format!("dynamodb:{}", stack.output("LedgerTable")?)),
        ("TIDEGATE_CAMPAIGNS", serde_json::Value::from(campaigns).to_string()),
        ("TIDEGATE_EXPRESS_QUEUE_URL", stack.output("ExpressQueueUrl")?.to_owned()),
        ("TIDEGATE_DEAD_LETTER_QUEUE_URL", stack.output("DeadLetterQueueUrl")?.to_owned()),
    ];
    if let Ok(merge) = stack.output("MergeQueueUrl") {
        lines.push(("TIDEGATE_MERGE_QUEUE_URL", merge.to_owned()));
    }
    lines.extend(
        args.setup()
            .rate_margin
            .map(|rate_margin| ("TIDEGATE_RATE_MARGIN", rate_margin.to_string())),
    );
    // cargo-lambda's parser needs single quotes around JSON; no name and no URL contains one.
    let lines = lines.into_iter().map(|(name, value)| format!("{name}='{value}'"));
    Ok(lines.chain([String::new()]).collect::<Vec<_>>().join("\n"))
}

fn tell(aws: &LocalAws, plan: &LocalPlan) {
    let _ = writeln!(
        stderr(),
        "\n{} mails wait on the queues; mailbox: {}\n\
         cargo-lambda builds the functions now; then, in another terminal:\n\
         \x20 cargo lambda invoke poller --data-file events/empty_tick.json      serves the next second\n\
         \x20 cargo lambda invoke poller --data-file events/tick.json            its window is long over: `expired`\n\
         \x20 cargo lambda invoke scheduler --data-file events/scheduled_event.json   a minute of ticks\n\
         or `make invoke FUNCTION=poller EVENT=events/empty_tick.json`. Ctrl-C ends everything.\n",
        plan.mails(),
        aws.sandbox().url()
    );
}
