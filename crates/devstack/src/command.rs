//! The command itself: start, run, report, stop.

use std::convert::Infallible;
use std::future::pending;
use std::io::{Write as _, stderr, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_adapters::aws::SystemClock;
use tidegate_adapters::aws::stack::Stack;
use tidegate_delivery::ports::Clock as _;
use tidegate_operator::page::{Page, Span, Tone};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, watch};

use super::aws::{KEY, LocalAws};
use super::display::Display;
use super::error::LocalError;
use super::fill::fill;
use super::options::LocalArgs;
use super::place::Place;
use super::plan::LocalPlan;
use super::programs::REGION;
use super::report::LocalReport;
use super::run::LocalRun;
use super::setup::Setup;
use super::{cargo_lambda, console, place};

/// The result of the command, which decides its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    PromisesKept,
    /// At least one promise was broken.
    PromiseBroken,
    /// It was interrupted before it had a report.
    Interrupted,
}

/// A run of the command: its options, and what follows from them.
struct Session<'a> {
    args: &'a LocalArgs,
    setup: Setup,
    plan: LocalPlan,
    folder: PathBuf,
    display: Display,
}

/// Runs the command. At the first signal to end everything is asked to end, at a second it is killed.
///
/// # Errors
/// [`LocalError`]; nothing is left running.
pub async fn run(args: &LocalArgs) -> Result<RunOutcome, LocalError> {
    let signals = signals()?;
    let (setup, plan) = args.setup()?;
    let display = if args.json { Display::Silent } else { Display::Shown };
    let now = SystemClock::new().wall().as_nanos();
    let runs = Place::of_this_program().runs(&setup.root);
    let folder = place::create_folder(args.out.as_deref(), &runs, now)?;
    let said = format!("Starting ministack and the SES sandbox (logs in {})", folder.display());
    display.say(&said);
    let mut aws = tokio::select! {
        aws = LocalAws::start(&setup, &folder) => aws.inspect_err(|_| place::remove_empty(&folder))?,
        () = signals.notified() => return Ok(RunOutcome::Interrupted),
    };
    let session = Session { args, setup, plan, folder, display };
    let mut reported = None;
    let outcome = tokio::select! {
        outcome = session.drive(&mut aws, &mut reported) => outcome,
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

impl Session<'_> {
    /// The run and beside it the console, which ends with the run.
    async fn drive(
        &self,
        aws: &mut LocalAws,
        reported: &mut Option<RunOutcome>,
    ) -> Result<RunOutcome, LocalError> {
        let stack = aws.operated().await?;
        if self.args.json {
            return Box::pin(self.campaigns(aws, &stack, None, reported)).await;
        }
        let opened = console::open(&stack, self.args.console_port, &self.folder);
        let (url, console) = Box::pin(opened).await?;
        self.display.say(&format!("Console: {url}"));
        if !self.args.no_browser {
            console::show(&url);
        }
        tokio::select! {
            outcome = self.campaigns(aws, &stack, Some(&url), reported) => outcome,
            () = console.serve(pending()) => Ok(RunOutcome::Interrupted),
        }
    }

    /// Sends the campaigns, reports, and keeps running where that is asked for.
    async fn campaigns(
        &self,
        aws: &mut LocalAws,
        stack: &Stack,
        console: Option<&str>,
        reported: &mut Option<RunOutcome>,
    ) -> Result<RunOutcome, LocalError> {
        if self.args.watch {
            cargo_lambda::watch(&self.setup, aws, stack).await?;
            return Ok(RunOutcome::Interrupted);
        }
        self.display.say(&format!("Mailbox: {}", aws.sandbox().url()));
        self.display.say(&format!("Putting {} onto the queues", self.plan.in_words()));
        fill(aws.queues(), &self.plan, &aws.stack().campaigns()?, |_| {}).await?;
        let (progress, heard) = watch::channel(String::new());
        let run = LocalRun::new(aws, stack, self.args, self.plan.clone(), progress);
        let report = tokio::select! {
            report = run.report(self.setup.settings.clone()) => report?,
            ended = self.display.show(stack, console, heard) => {
                return ended.map(|()| RunOutcome::Interrupted);
            }
        };
        self.tell(&report)?;
        let outcome =
            if report.is_kept() { RunOutcome::PromisesKept } else { RunOutcome::PromiseBroken };
        *reported = Some(outcome);
        if self.args.keep_running {
            print_access(aws, console, self.plan.channel.example())?;
            keep_running(aws).await?;
        }
        Ok(outcome)
    }

    fn tell(&self, report: &LocalReport) -> Result<(), LocalError> {
        let json = serde_json::to_string_pretty(report)
            .map_err(|error| LocalError::Option(error.to_string()))?;
        let written = place::write(&self.folder, "report.json", &json)?;
        // A closed pipe means that the reader wants no more; that is no error.
        let mut out = stdout().lock();
        if self.args.json {
            let _ = writeln!(out, "{json}");
        } else {
            let _ = writeln!(out, "\n{}", Page::of(report).plain());
            let _ = writeln!(out, "Report: {}", written.display());
        }
        Ok(())
    }
}

fn print_access(aws: &LocalAws, console: Option<&str>, example: &str) -> Result<(), LocalError> {
    let (endpoint, sqs) = (aws.endpoint(), aws.sqs_endpoint());
    let option = aws.option();
    let steer = format!(
        "tidegate status {option}; tidegate top {option}; tidegate --help (`make install` builds it)"
    );
    let mut page = Page::default();
    page.heading("Still running, until Ctrl-C.");
    let named = [
        ("Console", console),
        ("Mailbox", Some(aws.sandbox().url())),
        ("Steer it", Some(steer.as_str())),
    ];
    let aws_at = format!("{endpoint} (region {REGION}, key and secret `{KEY}`)");
    let fields = named.into_iter().chain([("AWS", Some(aws_at.as_str()))]);
    page.fields(fields.filter_map(|(name, value)| Some((name, Span::from(value?)))));
    page.heading("Queues");
    let queues = aws.stack().outputs.iter().filter(|(name, _)| name.ends_with("QueueUrl"));
    page.fields(queues.map(|(name, url)| (name.as_str(), Span::from(url))));
    page.heading("Send one");
    let queue = aws.stack().output("FirstCampaignQueueUrl")?;
    for line in [
        format!("  AWS_ACCESS_KEY_ID={KEY} AWS_SECRET_ACCESS_KEY={KEY} aws --region {REGION} \\"),
        format!("    --endpoint-url {sqs} sqs send-message --queue-url {queue} \\"),
        format!("    --message-body '{example}'"),
    ] {
        page.line(Tone::Plain, line);
    }
    let _ = write!(stderr(), "\n{}", page.plain());
    Ok(())
}

/// Watches the programs until one ends.
async fn keep_running(aws: &mut LocalAws) -> Result<Infallible, LocalError> {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        aws.check()?;
    }
}
