//! `devstack --watch`: the functions under `cargo lambda watch`, invoked by hand.

use std::collections::BTreeMap;
use std::io::{Write as _, stderr};
use std::path::Path;
use std::process::Stdio;

use tidegate_adapters::aws::stack::Stack;
use tokio::process::Command;

use crate::aws::{KEY, LocalAws};
use crate::error::LocalError;
use crate::place;
use crate::programs::{ProgramOutput, REGION};
use crate::run::fill;
use crate::setup::{LocalPlan, Setup};

/// cargo-lambda reaches its functions over IPv6 alone.
const HOST: &str = "::1";
const PORT: &str = "9000";
/// Environments at once: neighbouring windows overlap.
const CONCURRENCY: &str = "3";
/// Mails that are put onto each queue: a few windows' worth.
const MAILS: u64 = 60;

/// Puts some mails onto the queues, and runs `cargo lambda watch` to its end.
pub(super) async fn watch(
    setup: &Setup,
    aws: &mut LocalAws,
    stack: &Stack,
) -> Result<(), LocalError> {
    present().await?;
    let file = place::write(&aws.folder, "watch.env", &environment(aws, stack))?;
    let mut plan = setup.settings.plan.clone();
    plan.campaigns.iter_mut().for_each(|campaign| campaign.mails = campaign.mails.min(MAILS));
    fill(&aws.sdk.queues, &plan, &aws.stack.campaigns()?).await?;
    tell(aws, &plan);
    let command = cargo_lambda(&setup.root, &file);
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
    let remedy = "run `make watch`, or `make tools` and put .tools/lambda/bin in front of PATH";
    Err(LocalError::Missing { what: "cargo-lambda".to_owned(), remedy: remedy.to_owned() })
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

/// Environment variables for both functions: those of the stack's, and what Lambda sets itself.
fn environment(aws: &LocalAws, stack: &Stack) -> String {
    let functions = [&stack.scheduler_function, &stack.poller_function];
    let mut variables: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in functions.iter().flat_map(|function| &function.variables) {
        variables.insert(name, value);
    }
    let lambda = format!("http://[{HOST}]:{PORT}");
    variables.extend([
        ("AWS_REGION", REGION),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", KEY),
        ("AWS_ENDPOINT_URL", aws.endpoint()),
        ("AWS_ENDPOINT_URL_LAMBDA", &lambda),
        ("TIDEGATE_POLLER_FUNCTION", "poller"),
    ]);
    // cargo-lambda's parser needs single quotes around JSON; no name and no URL contains one.
    let lines = variables.iter().map(|(name, value)| format!("{name}='{value}'"));
    lines.chain([String::new()]).collect::<Vec<_>>().join("\n")
}

fn tell(aws: &LocalAws, plan: &LocalPlan) {
    let _ = writeln!(
        stderr(),
        "\n{} wait on the queues; mailbox: {}\n\
         cargo-lambda builds the functions now; then, in another terminal:\n\
         \x20 cargo lambda invoke poller --data-file events/empty_tick.json      serves the next second\n\
         \x20 cargo lambda invoke poller --data-file events/tick.json            its window is long over: `expired`\n\
         \x20 cargo lambda invoke scheduler --data-file events/scheduled_event.json   a minute of ticks\n\
         or `make invoke FUNCTION=poller EVENT=events/empty_tick.json`. Ctrl-C ends everything.\n",
        plan.in_words(),
        aws.sandbox.url()
    );
}
