//! The command itself: start, run, report, stop.

use std::convert::Infallible;
use std::io::{Write as _, stderr, stdout};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_aws::SystemClock;
use tidegate_delivery::ports::Clock as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::aws::{KEY, LocalAws};
use super::chart;
use super::console::RunConsole;
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

/// Runs the command. At the first signal to end everything is asked to end, at a second it is killed.
///
/// # Errors
/// [`LocalError`]; nothing is left running.
pub async fn run(args: &LocalArgs) -> Result<RunOutcome, LocalError> {
    let signals = signals()?;
    let plan = args.plan()?;
    let mut display = ProgressDisplay::new(&plan, args.is_json(), args.is_watch());
    let folder = folder::create(args.out(), args.root(), SystemClock::new().wall().as_nanos())?;
    display.say(&format!("Starting ministack and the SES sandbox (logs in {})", folder.display()));
    let setup = args.setup();
    let mut aws = tokio::select! {
        aws = LocalAws::start_on(args.sqs(), &setup, &folder) => aws.inspect_err(|_| folder::remove_empty(&folder))?,
        () = signals.notified() => return Ok(RunOutcome::Interrupted),
    };
    let mut reported = None;
    let outcome = tokio::select! {
        outcome = drive(args, &mut aws, &mut display, &folder, &mut reported) => outcome,
        () = signals.notified() => Ok(reported.unwrap_or(RunOutcome::Interrupted)),
    };
    tokio::select! {
        () = aws.stop() => {}
        () = signals.notified() => {}
    }
    outcome
}

/// Notifies of each signal that asks the program to end.
fn signals() -> Result<Arc<Notify>, LocalError> {
    let heard = Arc::new(Notify::new());
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let failed =
            |source| LocalError::Start { program: "the signal handler".to_owned(), source };
        let mut signal = signal(kind).map_err(failed)?;
        let heard = Arc::clone(&heard);
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                heard.notify_one();
            }
        });
    }
    Ok(heard)
}

/// The run and beside it the console, which ends with the run.
async fn drive(
    args: &LocalArgs,
    aws: &mut LocalAws,
    display: &mut ProgressDisplay,
    folder: &Path,
    reported: &mut Option<RunOutcome>,
) -> Result<RunOutcome, LocalError> {
    if args.is_json() {
        return campaigns(args, aws, display, folder, None, reported).await;
    }
    let stack = aws.operated().await?;
    let console = RunConsole::open(&stack, args.console_port(), folder).await?;
    let url = console.url.clone();
    display.say(&format!("Console: {url}"));
    tokio::select! {
        outcome = campaigns(args, aws, display, folder, Some(&url), reported) => outcome,
        never = console.serve() => match never {},
    }
}

/// Sends the campaigns, reports, and keeps running where that is asked for.
async fn campaigns(
    args: &LocalArgs,
    aws: &mut LocalAws,
    display: &mut ProgressDisplay,
    folder: &Path,
    console: Option<&str>,
    reported: &mut Option<RunOutcome>,
) -> Result<RunOutcome, LocalError> {
    if args.is_watch() {
        watch::watch(args, aws).await?;
        return Ok(RunOutcome::Interrupted);
    }
    let plan = args.plan()?;
    display.say(&format!("Mailbox: {}", aws.sandbox().url()));
    display.say(&format!("Putting {} mails onto the queues", plan.mails()));
    let mut run = LocalRun::new(aws, plan, args.run(), display)?;
    run.fill().await?;
    let ending = run.watch().await?;
    let report = run.report(args.settings(), ending).await?;
    tell(args, folder, &report)?;
    let outcome =
        if report.is_kept() { RunOutcome::PromisesKept } else { RunOutcome::PromiseBroken };
    *reported = Some(outcome);
    if args.keeps_running() {
        print_access(aws, console)?;
        keep_running(aws).await?;
    }
    Ok(outcome)
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
         Steer it:  tidegate status --local; tidegate top --local; tidegate --help (`make install` builds it)\n\
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

/// Watches the programs until one ends.
async fn keep_running(aws: &mut LocalAws) -> Result<Infallible, LocalError> {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        aws.check()?;
    }
}
