//! The command itself: start, run, report, stop.

use std::future::Future;
use std::io::{Write as _, stderr, stdout};
use std::path::Path;
use std::time::Duration;

use tidegate_aws::SystemClock;
use tidegate_delivery::ports::Clock as _;

use super::aws::{KEY, LocalAws};
use super::chart;
use super::deployed::REGION;
use super::display::ProgressDisplay;
use super::error::LocalError;
use super::folder;
use super::options::LocalArgs;
use super::report::LocalReport;
use super::run::LocalRun;
use super::watch;

/// The result of the command, which decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    PromisesKept,
    /// At least one promise was broken.
    PromiseBroken,
    /// It was interrupted before it had a report.
    Interrupted,
}

/// Interruptions: each `recv` is one more.
pub trait Interrupts {
    fn next(&mut self) -> impl Future<Output = ()>;
}

/// Runs the command. At the first interruption everything is asked to end, at a second it is killed.
///
/// # Errors
/// [`LocalError`]; nothing is left running.
pub async fn run(
    args: &LocalArgs,
    interrupts: &mut impl Interrupts,
) -> Result<RunOutcome, LocalError> {
    let plan = args.plan()?;
    let mut display = ProgressDisplay::new(&plan, args.is_json(), args.is_watch());
    let folder = folder::create(args.out(), args.root(), SystemClock::new().wall().as_nanos())?;
    display.say(&format!("Starting ministack and the SES sandbox (logs in {})", folder.display()));
    let setup = args.setup();
    let mut aws = tokio::select! {
        aws = LocalAws::start_on(args.sqs(), &setup, &folder) => aws.inspect_err(|_| folder::remove_empty(&folder))?,
        () = interrupts.next() => return Ok(RunOutcome::Interrupted),
    };
    let mut console = None;
    let outcome = tokio::select! {
        outcome = drive(args, &mut aws, &mut display, &folder, &mut console) => outcome,
        () = interrupts.next() => Ok(None),
    };
    let outcome = match outcome {
        Ok(Some(outcome)) if args.keeps_running() => {
            print_access(&aws, console.as_deref())?;
            tokio::select! {
                ended = keep_running(&mut aws) => ended,
                () = interrupts.next() => Ok(outcome),
            }
        }
        Ok(outcome) => Ok(outcome.unwrap_or(RunOutcome::Interrupted)),
        Err(error) => Err(error),
    };
    tokio::select! {
        () = aws.stop() => {}
        () = interrupts.next() => {}
    }
    outcome
}

async fn drive(
    args: &LocalArgs,
    aws: &mut LocalAws,
    display: &mut ProgressDisplay,
    folder: &Path,
    console: &mut Option<String>,
) -> Result<Option<RunOutcome>, LocalError> {
    if !args.is_json() {
        let url = aws.start_console(args.console_port()).await?;
        display.say(&format!("Console: {url}"));
        *console = Some(url);
    }
    if args.is_watch() {
        watch::watch(args, aws).await?;
        return Ok(None);
    }
    let plan = args.plan()?;
    display.say(&format!("Mailbox: {}", aws.sandbox().url()));
    display.say(&format!("Putting {} mails onto the queues", plan.mails()));
    let mut run = LocalRun::new(aws, plan, args.run(), display)?;
    run.fill().await?;
    let ending = run.watch().await?;
    let report = run.report(args.settings(), ending).await?;
    tell(args, folder, &report)?;
    Ok(Some(if report.is_kept() { RunOutcome::PromisesKept } else { RunOutcome::PromiseBroken }))
}

fn tell(args: &LocalArgs, folder: &Path, report: &LocalReport) -> Result<(), LocalError> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| LocalError::Option(error.to_string()))?;
    let written = folder::write(folder, "report.json", &json)?;
    let drawn = folder::write(folder, "chart.svg", &chart::svg(report)?)?;
    // A closed pipe means that the reader wants no more; that is no error.
    let mut out = stdout().lock();
    if args.is_json() {
        let _ = writeln!(out, "{json}");
    } else {
        let _ = writeln!(out, "\n{report}");
        let _ = writeln!(out, "Report: {}\nChart:  {}", written.display(), drawn.display());
    }
    Ok(())
}

fn print_access(aws: &LocalAws, console: Option<&str>) -> Result<(), LocalError> {
    let queue = aws.stack().output("FirstCampaignQueueUrl")?;
    let (endpoint, sqs) = (aws.endpoint(), aws.sqs_endpoint());
    let body = r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#;
    let mut err = stderr().lock();
    let _ = writeln!(err, "\nStill running, until Ctrl-C.");
    if let Some(console) = console {
        let _ = writeln!(err, "Console:   {console}");
    }
    let _ = writeln!(
        err,
        "\
         Mailbox:   {}\n\
         Steer it:  tidegate status --local; tidegate top --local; tidegate --help\n\
         AWS:       {endpoint} (region {REGION}, key and secret `{KEY}`)\n\
         Send one:  AWS_ACCESS_KEY_ID={KEY} AWS_SECRET_ACCESS_KEY={KEY} aws --region {REGION} \\\n\
         \x20          --endpoint-url {sqs} sqs send-message --queue-url {queue} \\\n\
         \x20          --message-body '{body}'\n\
         Queues:",
        aws.sandbox().url()
    );
    for (name, url) in aws.stack().outputs.iter().filter(|(name, _)| name.ends_with("QueueUrl")) {
        let _ = writeln!(err, "  {name:22} {url}");
    }
    Ok(())
}

async fn keep_running(aws: &mut LocalAws) -> Result<RunOutcome, LocalError> {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        aws.check()?;
    }
}
