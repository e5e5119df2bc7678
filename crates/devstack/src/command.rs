//! `devstack`: its options; starts a local AWS and the console, shows the run, reports, and stops everything.

use std::cell::Cell;
use std::convert::Infallible;
use std::env;
use std::fs::{self, File};
use std::future::pending;
use std::io::{IsTerminal as _, Write as _, stderr, stdin, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Signal, getpid, getppid, kill_process};
use tidegate_adapters::aws::SystemClock;
use tidegate_adapters::aws::stack::Stack;
use tidegate_console::command::{OpenConsole, interrupts, shown_of};
use tidegate_console::http::{Access, Tokens, bind};
use tidegate_console::stream::StreamLimits;
use tidegate_core::channel::Channel;
use tidegate_core::in_full;
use tidegate_delivery::ports::Clock as _;
use tidegate_operator::page::{Page, Span, Tone};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::relay::RelayServer;
use tidegate_operator::shell::{CommandEnd, Output, Shell};
use tidegate_operator::{status, top};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::aws::{KEY, LocalAws, free_port};
use crate::cargo_lambda;
use crate::error::LocalError;
use crate::place::{self, Place};
use crate::programs::REGION;
use crate::report::LocalReport;
use crate::run::{LocalRun, fill};
use crate::setup::{LocalCampaign, MOST_RECIPIENTS, Setup, WeightPair, split};

/// The interval of looks on a terminal, and that of lines elsewhere.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Send two campaigns through a local AWS, and report
///
/// Starts ministack and the SES sandbox on loopback, deploys the stack into it, puts two
/// campaigns onto the queues, shows what happens in a browser and on the terminal, and reports:
/// on the terminal, and as report.json. Everything it started ends with it.
///
/// The first minute's run of the scheduler is invoked at the start; EventBridge fires it from then on.
///
/// While it sends, a terminal shows what `tidegate top` shows; q ends the run.
///
/// Exit code: 0 every promise was kept; 1 one was not, or the run broke off; 2 an option is wrong or
/// something is missing; 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "devstack", version, max_term_width = 100, allow_negative_numbers = true)]
// More than 12 fields: one for each option of the command.
pub struct LocalArgs {
    /// Messages of both campaigns, each counted by its recipients or parts; the small one gets three fifths of its share,
    /// and so ends first
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    messages: u64,
    /// Messages of the big campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    big: Option<u64>,
    /// Messages of the small campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    small: Option<u64>,
    /// Weights of the big and the small campaign
    #[arg(long, value_name = "BIG/SMALL", default_value = "90/10")]
    weights: WeightPair,
    /// Recipients of each mail of the small campaign, or parts of each of its texts; a second that holds one of N can hold N - 1 more
    /// than the quota, which --strict refuses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RECIPIENTS)))]
    recipients_small: u32,
    #[command(flatten)]
    setup: Setup,
    /// End this many seconds after the first arrival, even if some is left
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Leave everything running after the report, until Ctrl-C
    #[arg(long)]
    keep_running: bool,
    /// Print the report as JSON, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Run the functions under `cargo lambda watch`, on this port or on 9000, and invoke them by hand
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "9000")]
    #[arg(conflicts_with_all = ["seconds", "json", "keep_running"])]
    watch: Option<u16>,
    /// Folder for logs and report [default: a new one in .local of a checkout, or among this
    /// user's runs (`tidegate runs`)]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Port of the console [default: a free one]; none is started where the report is JSON
    #[arg(long, value_name = "PORT", conflicts_with = "json")]
    console_port: Option<u16>,
    /// Leave the browser alone; without this it opens the console, where there is a terminal and a screen
    #[arg(long)]
    no_browser: bool,
}

impl LocalArgs {
    fn campaigns(&self) -> Vec<LocalCampaign> {
        let (big, small) = split(self.messages, self.weights);
        // A mail of several recipients spends the slots of as many.
        let small = small.div_ceil(u64::from(self.recipients_small));
        let campaign = |name: &str, weight, mails, recipients| {
            let name = name.to_owned();
            LocalCampaign { name, weight, mails, recipients }
        };
        vec![
            campaign("big", self.weights.0, self.big.unwrap_or(big), 1),
            campaign("small", self.weights.1, self.small.unwrap_or(small), self.recipients_small),
        ]
    }

    /// The local AWS that the options ask for, with the mails for it.
    fn setup(&self) -> Result<Setup, LocalError> {
        let mut setup = self.setup.clone();
        setup.settings.plan.campaigns = self.campaigns();
        setup.schedule = self.watch.is_none();
        if setup.settings.plan.mails() == 0 {
            let said = "--big 0 and --small 0: there is nothing to send";
            return Err(LocalError::Option(said.to_owned()));
        }
        Ok(setup)
    }
}

/// A run of the command: its options, and what follows from them.
struct Session<'a> {
    args: &'a LocalArgs,
    setup: Setup,
    folder: PathBuf,
    /// How the run ended, once that is reported.
    reported: Cell<Option<CommandEnd>>,
}

/// Runs the command. At the first signal to end everything is asked to end, at a second it is killed.
///
/// A broken promise is a problem found; interrupted it is where it has no report yet.
///
/// # Errors
/// [`LocalError`]; nothing is left running.
pub async fn run(args: &LocalArgs) -> Result<CommandEnd, LocalError> {
    let shell = Shell::new(Output::plain(), interrupts());
    let setup = args.setup()?;
    if let Some(port) = args.watch {
        cargo_lambda::check(port).await?;
    }
    tokio::spawn(end_with_make());
    let now = SystemClock::new().wall().as_nanos();
    let runs = Place::of_this_program().runs(&setup.root);
    let folder = place::create_folder(args.out.as_deref(), &runs, now)?;
    let session = Session { args, setup, folder, reported: Cell::new(None) };
    let folder = session.folder.as_path();
    session.say(&format!("Starting ministack and the SES sandbox (logs in {})", folder.display()));
    let mut aws = tokio::select! {
        aws = LocalAws::start(&session.setup, folder) => {
            aws.inspect_err(|_| drop(fs::remove_dir(folder)))?
        }
        () = shell.interrupted() => return Ok(CommandEnd::Interrupted),
    };
    let outcome = tokio::select! {
        outcome = session.drive(&mut aws) => outcome,
        () = shell.interrupted() => Ok(session.reported.get().unwrap_or(CommandEnd::Interrupted)),
    };
    tokio::select! {
        () = aws.process_group.stop() => {}
        () = shell.interrupted() => {}
    }
    outcome
}

/// Asks this process to end when the `make` that started it is gone: killed, it hands no signal on.
async fn end_with_make() {
    if env::var_os("MAKELEVEL").is_none() {
        return;
    }
    let make = getppid();
    while getppid() == make {
        sleep(LOOK_EVERY).await;
    }
    let _ = kill_process(getpid(), Signal::TERM);
}

impl Session<'_> {
    /// Prints one line about a step, unless the report is JSON, for a program. It goes to standard error, because
    /// standard output is for the report alone.
    fn say(&self, text: &str) {
        if !self.args.json {
            let _ = writeln!(stderr(), "{text}");
        }
    }

    /// The run and beside it the console, which ends with the run.
    async fn drive(&self, aws: &mut LocalAws) -> Result<CommandEnd, LocalError> {
        let stack = aws.operated().await?;
        if self.args.json {
            return Box::pin(self.campaigns(aws, &stack, &Links::default())).await;
        }
        let opened = open_console(&stack, self.args.console_port, &self.folder);
        let (url, console) = Box::pin(opened).await?;
        let relay = self.relay(&stack).await;
        let mut links = Links(vec![("Console", url.clone())]);
        links.0.extend(relay.as_ref().map(|relay| ("Relay", said_of(relay))));
        self.say(links.lines().trim_end());
        if !self.args.no_browser {
            open_browser(&url);
        }
        let relaying = async {
            match relay {
                Some(relay) => Box::pin(relay.serve(pending())).await,
                None => pending().await,
            }
        };
        tokio::select! {
            outcome = self.campaigns(aws, &stack, &links) => outcome,
            () = console.serve(pending()) => Ok(CommandEnd::Interrupted),
            () = Box::pin(relaying) => Ok(CommandEnd::Interrupted),
        }
    }

    /// A relay for the mail of other programs, which joins the small campaign unless it names another. The run goes on
    /// without one.
    async fn relay<'a>(&self, stack: &'a Stack) -> Option<RelayServer<'a>> {
        if self.setup.settings.plan.channel != Channel::Email {
            return None;
        }
        let opened = Box::pin(RelayServer::on_loopback(stack, "small")).await;
        opened.inspect_err(|error| self.say(&format!("No relay: {}", in_full(error)))).ok()
    }

    /// Sends the campaigns, reports, and keeps running where that is asked for.
    async fn campaigns(
        &self,
        aws: &mut LocalAws,
        stack: &Stack,
        links: &Links,
    ) -> Result<CommandEnd, LocalError> {
        if let Some(port) = self.args.watch {
            cargo_lambda::watch(&self.setup, aws, stack, port).await?;
            return Ok(CommandEnd::Interrupted);
        }
        let settings = &self.setup.settings;
        self.say(&format!("Mailbox: {}", aws.sandbox.url()));
        self.say(&format!("Putting {} onto the queues", settings.plan.in_words()));
        fill(&aws.sdk.queues, &settings.plan, &aws.stack.campaigns()?).await?;
        let (progress, heard) = watch::channel(String::new());
        let most = self.args.seconds.map(Duration::from_secs);
        let run = LocalRun::new(aws, stack, settings, most, progress);
        let report = tokio::select! {
            report = run.report() => report?,
            ended = self.show(stack, links, heard) => {
                return ended.map(|()| CommandEnd::Interrupted);
            }
        };
        self.tell(&report)?;
        let outcome = if report.is_kept() { CommandEnd::Done } else { CommandEnd::ProblemsFound };
        self.reported.set(Some(outcome));
        if self.args.keep_running {
            print_access(aws, links, settings.plan.channel)?;
            keep_running(aws).await?;
        }
        Ok(outcome)
    }

    /// Shows `progress` and the stack: on a terminal the dashboard of `tidegate top`, elsewhere a line every few
    /// seconds. It ends where the operator asks for the end.
    async fn show(
        &self,
        stack: &Stack,
        links: &Links,
        progress: watch::Receiver<String>,
    ) -> Result<(), LocalError> {
        if self.args.json {
            return pending().await;
        }
        if stdout().is_terminal() && stdin().is_terminal() {
            let facts = status::facts(stack, AddressVisibility::Masked, 0).await?;
            let links = links.lines();
            let caption = || format!("{links}{}", *progress.borrow());
            let ended = Box::pin(top::watch(stack, facts, LOOK_EVERY, caption)).await;
            return ended.map_err(LocalError::Terminal);
        }
        let begun = Instant::now();
        loop {
            sleep(LINE_EVERY).await;
            let seconds = begun.elapsed().as_secs();
            let said = progress.borrow().replace('\n', ": ");
            self.say(&format!("{}:{:02}  {said}", seconds / 60, seconds % 60));
        }
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

/// Where to find what runs beside the campaigns, each with its name.
#[derive(Debug, Default)]
struct Links(Vec<(&'static str, String)>);

impl Links {
    /// A line for each.
    fn lines(&self) -> String {
        let lines = self.0.iter().map(|(name, link)| format!("{name}: {link}\n"));
        lines.collect::<Vec<_>>().concat()
    }
}

/// How a program finds a relay.
fn said_of(relay: &RelayServer<'_>) -> String {
    let addresses: Vec<_> = relay.addresses().iter().map(SocketAddr::to_string).collect();
    let there = addresses.join(", SMTP ");
    format!("point your program here: AWS_ENDPOINT_URL_SESV2=http://{there}")
}

fn print_access(aws: &LocalAws, links: &Links, channel: Channel) -> Result<(), LocalError> {
    let (endpoint, sqs, option) = (aws.endpoint(), &aws.sdk.sqs_endpoint, aws.option());
    let example = match channel {
        Channel::Email => {
            r#"{"to_address": "ada@example.com", "from_address": "news@example.org", "subject": "Hello", "body": "Text."}"#
        }
        Channel::Sms => r#"{"to_phone": "+12065550100", "text": "Your parcel is here."}"#,
    };
    let steer = format!(
        "tidegate status {option}; tidegate top {option}; tidegate --help (`make install` builds it)"
    );
    let mut page = Page::default();
    page.heading("Still running, until Ctrl-C.");
    let aws_at = format!("{endpoint} (region {REGION}, key and secret `{KEY}`)");
    let others = [("Mailbox", aws.sandbox.url()), ("Steer it", &*steer), ("AWS", &*aws_at)];
    let named = links.0.iter().map(|(name, link)| (*name, link.as_str())).chain(others);
    page.fields(named.map(|(name, value)| (name, Span::from(value))));
    page.heading("Queues");
    let queues = aws.stack.outputs.iter().filter(|(name, _)| name.ends_with("QueueUrl"));
    page.fields(queues.map(|(name, url)| (name.as_str(), Span::from(url))));
    page.heading("Send one");
    let queue = aws.stack.output("FirstCampaignQueueUrl")?;
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
        sleep(Duration::from_secs(1)).await;
        aws.process_group.check()?;
    }
}

/// Opens a console of `stack` on `port` of loopback, or a free one where that is none, and returns its
/// URL with it. Its log goes into `folder`.
async fn open_console(
    stack: &Stack,
    port: Option<u16>,
    folder: &Path,
) -> Result<(String, OpenConsole), LocalError> {
    log(folder)?;
    let port = free_port(port, "--console-port")?;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = bind(listen).map_err(LocalError::start("the console"))?;
    let access =
        Access { listen, tokens: Tokens::default(), public_url: None, trusted_proxies: Vec::new() };
    let (limits, shown) = (StreamLimits::default(), shown_of(stack, AddressVisibility::Masked));
    let opened = OpenConsole::open(stack, listener, access, limits, shown);
    let console = Box::pin(opened).await?;
    Ok((format!("http://{listen}/"), console))
}

/// One event an outcome, as JSON.
fn log(folder: &Path) -> Result<(), LocalError> {
    let path = folder.join("console.log");
    let file = File::create(&path).map_err(LocalError::write(&path))?;
    let layer = tracing_subscriber::fmt::layer().json().with_writer(Mutex::new(file));
    let ours = Targets::new()
        .with_target("tidegate_console", tracing::Level::INFO)
        .with_target("tidegate_operator::relay", tracing::Level::INFO);
    // Somebody logs already: a test.
    drop(tracing_subscriber::registry().with(ours).with(layer).try_init());
    Ok(())
}

/// Opens `url`, where somebody sits at a terminal and a screen. Elsewhere the printed link is enough: on a
/// server `xdg-open` may start a browser for terminals, in the middle of the display.
fn open_browser(url: &str) {
    let screen = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(screen);
    if stdout().is_terminal() && has_screen {
        // The link is printed: a browser that does not start is no reason to say more.
        let _ = open::that_detached(url);
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(options: &[&str]) -> Result<LocalArgs, clap::Error> {
        LocalArgs::try_parse_from(std::iter::once("devstack").chain(options.iter().copied()))
    }

    #[test]
    fn the_options_are_consistent_and_every_one_is_explained() {
        let command = LocalArgs::command();
        command.clone().debug_assert();
        assert!(command.get_about().is_some());
        for option in command.get_arguments() {
            assert!(option.get_help().is_some(), "{} is not explained", option.get_id());
        }
    }

    #[test]
    fn counts_follow_from_messages_or_are_given() {
        let mails = |options: &[&str]| {
            parse(options).unwrap().campaigns().iter().map(|c| c.mails).collect::<Vec<_>>()
        };
        assert_eq!(mails(&[]), [940, 60]);
        assert_eq!(mails(&["--messages", "6000"]), [5640, 360]);
        assert_eq!(mails(&["--big", "100", "--small", "7"]), [100, 7]);
        assert_eq!(mails(&["--recipients-small", "50"]), [940, 2]);
        let none = parse(&["--big", "0", "--small", "0"]).unwrap().setup().unwrap_err();
        assert!(none.is_usage());
    }

    #[test]
    fn the_start_tells_a_line_for_each_thing_that_runs() {
        assert_eq!(Links::default().lines(), "");
        let relay = ("Relay", "point your program here".to_owned());
        let said = Links(vec![("Console", "http://127.0.0.1:1/".to_owned()), relay]).lines();
        assert_eq!(said, "Console: http://127.0.0.1:1/\nRelay: point your program here\n");
    }

    #[test]
    fn a_wrong_value_is_refused_with_what_is_allowed() {
        for (options, said) in [
            (["--quota", "0"], "allowed is a number from 0.001 to 10000"),
            (["--rate-margin", "0.9"], "allowed is a number from 0.005 to 0.5"),
            (["--weights", "90"], "such as 90/10"),
            (["--recipients-small", "51"], "51 is not in 1..=50"),
            (["--parameter", "=x"], "it is not NAME=VALUE"),
            (["--messages", "0"], "0 is not in 1..=1000000"),
        ] {
            let error = parse(&options).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(parse(&["--watch", "--json"]).is_err());
    }
}
