//! `devstack --watch`: the functions under `cargo lambda watch`, invoked by hand.

use std::collections::BTreeMap;
use std::io::{Write as _, stderr};
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Stdio;

use tidegate_adapters::aws::stack::Stack;
use tokio::process::Command;

use crate::aws::{KEY, LocalAws, check_port};
use crate::error::LocalError;
use crate::place;
use crate::programs::{ProgramOutput, REGION};
use crate::run::fill;
use crate::setup::{LocalPlan, Setup};

/// cargo-lambda reaches its functions over IPv6 alone.
const HOST: Ipv6Addr = Ipv6Addr::LOCALHOST;
/// The port that `cargo lambda invoke` asks.
const PORT: u16 = 9000;
/// Environments at once: neighbouring windows overlap.
const CONCURRENCY: &str = "3";
/// Mails that are put onto each queue: a few windows' worth.
const MAILS: u64 = 60;

/// Puts some mails onto the queues, and runs `cargo lambda watch` on `port` to its end.
pub(super) async fn watch(
    setup: &Setup,
    aws: &mut LocalAws,
    stack: &Stack,
    port: u16,
) -> Result<(), LocalError> {
    let file = place::write(&aws.folder, "watch.env", &environment(aws, stack, port))?;
    let mut plan = setup.settings.plan.clone();
    plan.campaigns.iter_mut().for_each(|campaign| campaign.mails = campaign.mails.min(MAILS));
    fill(&aws.sdk.queues, &plan, &aws.stack.campaigns()?).await?;
    tell(aws, &plan, port);
    let command = cargo_lambda(&setup.root, &file, port);
    let group = &mut aws.process_group;
    let started = group.start("cargo lambda watch", command, ProgramOutput::Inherited)?;
    // The functions end when it is closed, as it is at the end of this call or of this process.
    let _input = started.stdin.take();
    aws.process_group.wait_for_last().await;
    aws.process_group.check()
}

/// Looks for cargo-lambda, and whether its port is free.
pub(super) async fn check(port: u16) -> Result<(), LocalError> {
    check_port(HOST, port, || "name another: --watch=PORT".to_owned())?;
    let mut command = Command::new("cargo-lambda");
    command.args(["lambda", "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if command.status().await.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    let remedy = "run `make watch`, or `make tools` and put .tools/lambda/bin in front of PATH";
    Err(LocalError::Missing { what: "cargo-lambda".to_owned(), remedy: remedy.to_owned() })
}

fn cargo_lambda(root: &Path, environment: &Path, port: u16) -> Command {
    // Not by way of Cargo, which would set CARGO itself.
    let mut command = Command::new("cargo-lambda");
    let cargo = root.join("infra/local/watched_cargo.py");
    command.env("CARGO", std::path::absolute(&cargo).unwrap_or(cargo));
    // Profile and features are those of `make run` (Cargo.toml): nothing is compiled once more.
    command.args(["lambda", "watch", "--wait", "--concurrency", CONCURRENCY]);
    command.args(["-A", &HOST.to_string(), "-P", &port.to_string()]);
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
fn environment(aws: &LocalAws, stack: &Stack, port: u16) -> String {
    let functions = [&stack.scheduler_function, &stack.poller_function];
    let mut variables: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in functions.iter().flat_map(|function| &function.variables) {
        variables.insert(name, value);
    }
    let lambda = format!("http://[{HOST}]:{port}");
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

fn tell(aws: &LocalAws, plan: &LocalPlan, port: u16) {
    let at = if port == PORT { String::new() } else { format!(" --invoke-port {port}") };
    let _ = writeln!(
        stderr(),
        "\n{} wait on the queues; mailbox: {}\n\
         In another terminal:\n\
         \x20 cargo lambda invoke{at} poller --data-file events/empty_tick.json      serves the next second\n\
         \x20 cargo lambda invoke{at} poller --data-file events/tick.json            its window is long over: `expired`\n\
         \x20 cargo lambda invoke{at} scheduler --data-file events/scheduled_event.json   a minute of ticks\n\
         or `make invoke FUNCTION=poller EVENT=events/empty_tick.json`. Ctrl-C ends everything.\n",
        plan.in_words(),
        aws.sandbox.url()
    );
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_option_for_another() {
        let holder = TcpListener::bind((HOST, 0)).unwrap();
        let taken = holder.local_addr().unwrap().port();
        let error = check(taken).await.unwrap_err();
        assert!(error.is_usage());
        let expected = format!(
            "port {taken} is taken: end the program that holds it, or name another: --watch=PORT"
        );
        assert_eq!(error.to_string(), expected);
    }
}
