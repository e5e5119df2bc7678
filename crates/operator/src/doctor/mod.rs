//! `tidegate doctor`: what a deployment is, read from AWS, and judged check by check, each finding with its remedy.

mod account;
pub(crate) mod clock;
mod finding;
mod functions;
mod queues;
mod texts;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tidegate_adapters::aws::ChannelAccount;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::deduplication::Deduplication;
use tidegate_core::number::real;
use tidegate_core::{Timestamp, in_full};
use tidegate_delivery::ports::{FailureKind, Store as _};

use crate::page::{Page, Span, Tone, View};
use crate::relay::stack_at;
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell, text_file};
use crate::stack::OnStack;
use crate::status::{self, Status};
use account::SesFacts;
use finding::{CheckState, Finding, ReadResult, answered};
use functions::{Environments, FunctionSettings};
use queues::DeployedQueue;
use texts::TextFacts;

/// A clock that differs by more than this would shift windows noticeably. AWS reports whole seconds, so one
/// second more is allowed.
const CLOCK_OFF_MS: u64 = 2_000;
/// A wake time that people who wait for a code bear, and its price a month beside a stack without mail (docs/cost.md).
const SOON_S: u64 = 5;
pub const SOON_COSTS: &str = "$4.68";

/// Check a deployment, and say what to do about what is wrong
///
/// SES's quota, production access, senders and the campaigns' tenants (of a stack for text messages: End User Messaging's
/// production access, spend limit, origins and receipts), the queues' attributes, the store's bucket, the functions' settings, memory against rate, concurrency of the account, clock, windows served, holds; with --relay whether a relay serves the stack. Nothing is
/// changed, nothing is sent. What the functions' roles may do is not asked: a call that is denied stands in their logs.
///
/// Exit code: 0 all well, or warnings; 1 something does not work, or will not; 3 the stack is out of
/// reach. What the caller may not read is `unknown`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate doctor --stack mail --profile ops
  tidegate doctor --json | jq '.findings[] | select(.state == \"failed\")'")]
pub struct DoctorArgs {
    /// Judge the functions' environments in this file, before they are deployed, and no stack: JSON,
    /// {"scheduler": {NAME: VALUE, …}, "poller": {…}}
    #[arg(long, value_name = "FILE")]
    environments: Option<PathBuf>,
    /// Ask the relay at this address, too, whether it serves the stack (such as `http://127.0.0.1:8025`)
    #[arg(long, value_name = "URL", conflicts_with = "environments")]
    relay: Option<String>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(crate) async fn run(args: &DoctorArgs, shell: &Shell) -> CommandResult {
    let report = match &args.environments {
        Some(file) => DoctorReport {
            stack: args.on.stack.stack.clone(),
            findings: environments(file)?.findings(),
        },
        None => {
            let stack = args.on.stack.open().await?;
            let mut findings = DoctorReport::of(&facts(&stack, shell).await?).findings;
            if let Some(url) = &args.relay {
                findings.push(relay(&stack.name, url, stack_at(&stack, url).await));
            }
            DoctorReport::new(stack.name.clone(), findings)
        }
    };
    shell.show(&report)?;
    Ok(if report.has_failed() { CommandEnd::ProblemsFound } else { CommandEnd::Done })
}

fn environments(file: &Path) -> CommandResult<Environments> {
    let refused =
        |why: String| CommandError::Input(format!("--environments {}: {why}", file.display()));
    let text = text_file(file).map_err(|error| refused(in_full(&error)))?;
    serde_json::from_str(&text).map_err(|error| refused(error.to_string()))
}

/// The facts about the service that sends.
#[derive(Clone, Debug)]
enum ChannelFacts {
    Email(SesFacts),
    Sms(TextFacts),
}

#[derive(Clone, Debug)]
struct DeploymentFacts {
    status: Status,
    channel: ChannelFacts,
    queues: Vec<DeployedQueue>,
    /// The store's bucket, and whether it exists; `None` without a store.
    store_bucket: Option<(String, ReadResult<bool>)>,
    has_shared_bucket: bool,
    functions: Vec<FunctionSettings>,
    /// Functions of the account that may run at the same time, in this region.
    concurrency: ReadResult<i64>,
    /// Whether the ledger's table deletes expired marks.
    expiry: ReadResult<bool>,
    /// Seconds after which the scheduler finds express mail while the stack sleeps; `None` without an express queue.
    express_wake: Option<u64>,
    /// Whether marks are written: deduplication is on.
    guarded: bool,
    /// This machine's clock, and AWS's at the same moment.
    clocks: ReadResult<(Timestamp, Timestamp)>,
}

async fn facts(stack: &Stack, shell: &Shell) -> CommandResult<DeploymentFacts> {
    let standing = status::facts(stack, shell.output.addresses(), 0).await?;
    Ok(DeploymentFacts {
        channel: match stack.account() {
            ChannelAccount::Email(account) => {
                ChannelFacts::Email(account::read(stack, &account, &standing.campaigns).await)
            }
            ChannelAccount::Sms(account) => ChannelFacts::Sms(texts::read(stack, &account).await),
        },
        store_bucket: store_bucket(stack).await,
        has_shared_bucket: stack.poller.limits.has_bucket,
        queues: queues::read(stack, &standing.campaigns).await,
        functions: functions::read(stack).await,
        concurrency: functions::concurrency(stack).await,
        expiry: expiry(stack).await,
        express_wake: stack.express().map(|_| stack.scheduler.idle_wake),
        guarded: stack.poller.deduplication != Deduplication::Off,
        clocks: clock::clocks(stack).await,
        status: Status::of(&standing),
    })
}

/// The store's bucket, and whether it exists.
async fn store_bucket(stack: &Stack) -> Option<(String, ReadResult<bool>)> {
    let location = stack.store()?;
    let bucket = location.bucket.clone();
    let exists = match stack.clients().store(location).list("timed", None).await {
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
    let answer = answered("DescribeTimeToLive", &stack.table, answer)?;
    let status = answer.time_to_live_description().and_then(|expiry| expiry.time_to_live_status());
    Ok(status.is_some_and(|status| ["ENABLED", "ENABLING"].contains(&status.as_str())))
}

/// The findings of all checks, the worst first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct DoctorReport {
    stack: String,
    findings: Vec<Finding>,
}

impl DoctorReport {
    fn of(facts: &DeploymentFacts) -> Self {
        let mut findings: Vec<Finding> = facts.express_wake.map(express).into_iter().collect();
        findings.extend(match &facts.channel {
            ChannelFacts::Email(mail) => account::judge(mail),
            ChannelFacts::Sms(texts) => texts::judge(texts, &facts.status.serving),
        });
        let quota = facts.status.quota.in_force;
        findings.extend(functions::judge(&facts.functions, quota, &facts.concurrency));
        findings.extend(facts.queues.iter().flat_map(queues::judge));
        findings.extend(facts.store_bucket.iter().map(|(bucket, exists)| {
            Finding::on(format!("bucket {bucket} of the store"), exists, |check, exists| {
                let remedy = "deploy the template again: mail that should wait in the store stays on its queue";
                Finding::failed(check, "S3 has no such bucket", remedy).unless(*exists, "there")
            })
        }));
        findings.extend([judged_expiry(facts), judged_clock(facts), windows(&facts.status)]);
        findings.extend(holds(&facts.status));
        findings.extend(recipients(&facts.status, facts.has_shared_bucket));
        Self::new(facts.status.stack.clone(), findings)
    }

    fn new(stack: String, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.state));
        Self { stack, findings }
    }

    /// Whether anything does not work, or will not.
    fn has_failed(&self) -> bool {
        self.findings.iter().any(|finding| finding.state == CheckState::Failed)
    }

    fn in_short(&self) -> String {
        let states = [CheckState::Failed, CheckState::Warning, CheckState::Unknown];
        let counted = states.into_iter().filter_map(|state| {
            let count = self.findings.iter().filter(|finding| finding.state == state).count();
            (count > 0).then(|| format!("{count} {}", state.into_str()))
        });
        let (words, all) = (counted.collect::<Vec<String>>(), self.findings.len());
        if words.is_empty() {
            format!("all {all} checks ok")
        } else {
            format!("{} of {all} checks", words.join(", "))
        }
    }
}

impl View for DoctorReport {
    fn view(&self, page: &mut Page) {
        page.heading(format!("{}: {}", self.stack, self.in_short()));
        for finding in &self.findings {
            let tone = match finding.state {
                CheckState::Ok => Tone::Good,
                CheckState::Unknown => Tone::Faint,
                CheckState::Warning => Tone::Warning,
                CheckState::Failed => Tone::Bad,
            };
            page.spans([
                Span::from("  "),
                Span::new(tone, format_args!("{:8}", finding.state.into_str())),
                Span::new(Tone::Strong, &finding.check),
                Span::from(format!(": {}", finding.found)),
            ]);
            if !finding.remedy.is_empty() {
                page.line(Tone::Plain, format!("          -> {}", finding.remedy));
            }
        }
    }
}

/// Judges the answer of the relay at `url`: the name of its stack.
fn relay(stack: &str, url: &str, answer: ReadResult<String>) -> Finding {
    let check = format!("relay {url}");
    let remedy = format!("start it there: tidegate relay --stack {stack} (docs/commands/relay.md)");
    match answer {
        Ok(served) if served == stack => Finding::ok(check, "takes mail for this stack"),
        Ok(served) => Finding::failed(check, format!("takes mail for the stack {served}"), remedy),
        Err(why) => Finding::failed(check, why, remedy),
    }
}

fn express(wake: u64) -> Finding {
    let check = "express: after a pause";
    let found = format!("the first mail waits up to {wake} s, unless who sends it wakes the stack");
    let remedy = format!("set IdleWakeSeconds to {SOON_S}, for {SOON_COSTS} a month more at most");
    Finding::warning(check, &found, remedy).unless(wake <= SOON_S, &found)
}

fn judged_expiry(facts: &DeploymentFacts) -> Finding {
    Finding::on("ledger: expiry", &facts.expiry, |check, is_on| {
        // Without deduplication no marks are written, so nothing important expires.
        let state = if facts.guarded { CheckState::Failed } else { CheckState::Warning };
        let remedy = "turn the table's time to live on, for the attribute expires_at";
        Finding::new(state, check, "off: marks of deduplication are never deleted", remedy)
            .unless(*is_on, "on")
    })
}

fn judged_clock(facts: &DeploymentFacts) -> Finding {
    Finding::on("clock", &facts.clocks, |check, (here, there)| {
        let off = here.as_millis().abs_diff(there.as_millis());
        let found = format!("this machine is {:.1} s off AWS's time", real(off) / 1e3);
        let remedy =
            "let this machine's clock be set by NTP: ages and ends of pauses are reported by it";
        Finding::warning(check, found, remedy)
            .unless(off <= CLOCK_OFF_MS, "this machine and AWS agree within 2 s")
    })
}

fn windows(status: &Status) -> Finding {
    let said = status.sending().text;
    let remedy =
        "enable the scheduler's EventBridge rule, and read the scheduler's and the poller's logs";
    match status.serving.state {
        "serving" | "idle" => Finding::ok("windows", said),
        // This is normal during the first minute after a deployment.
        "never" => {
            let remedy = format!("ask again in two minutes; if none was served then, {remedy}");
            Finding::warning("windows", said, remedy)
        }
        _ => Finding::failed("windows", said, remedy),
    }
}

fn holds(status: &Status) -> Vec<Finding> {
    if status.holds.is_empty() {
        return vec![Finding::ok("holds", "none")];
    }
    let finding = |hold: &status::HoldStatus| {
        let check = format!("hold on {}", hold.campaign.as_deref().unwrap_or("all sending"));
        let found = format!("{}: {}", hold.reason, hold.detail);
        Finding::warning(check, found, format!("lifted by {}", hold.lifted_by))
    };
    status.holds.iter().map(finding).collect()
}

fn recipients(status: &Status, has_shared_bucket: bool) -> Option<Finding> {
    let is_of_recipient = |limit: &&status::LimitStatus| limit.key.starts_with("recipient:");
    let limit = status.limits.iter().find(is_of_recipient).filter(|_| !has_shared_bucket)?;
    let found = "it has no effect: the stack has no shared bucket";
    let remedy = "set TIDEGATE_SHARED_BUCKET, or remove the limit";
    Some(Finding::warning(format!("limit {}", limit.key), found, remedy))
}

#[cfg(test)]
mod tests;
