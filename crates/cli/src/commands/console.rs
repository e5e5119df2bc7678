use std::io::IsTerminal as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use tidegate_aws::stack::Stack;
use tidegate_aws::{DynamoLedger, SesAccount, SqsQueues, SystemClock};
use tidegate_console::engine::{Engine, StackPorts};
use tidegate_console::http::{About, Access, App, Token, bind, serve};
use tidegate_console::rate_limit::BucketRate;
use tidegate_console::state_file::StateFile;
use tidegate_console::stream::StreamLimits;
use tidegate_delivery::ports::Clock as _;
use tidegate_operate::page::{Page, Tone, View};
use tidegate_operate::redact::AddressVisibility;
use tidegate_operate::status::{StatusSettings, other_queues};
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::OnStack;
use crate::shell::{CommandEnd, CommandError, Shell};

/// Changes by operators that a page shows.
const CHANGES: usize = 20;

/// Serve a live page of a running stack: its figures, and everything that steers it
///
/// Rates, campaigns, holds, dead letters and a forecast, as they change; pause, resume, weights, a cap,
/// lifting a hold, a reviewed replay of dead letters, and why a mail is waiting. Every change asks for
/// its reason and is kept in the stack's history. /metrics speaks to Prometheus.
///
/// On loopback everybody on this machine may use it. On any other address, or behind a proxy, it needs
/// a token: `TIDEGATE_CONSOLE_TOKEN` or --token-file; without one of these it makes one for itself, and
/// prints a link with it. The console itself speaks no TLS: put a proxy before it
/// (docs/commands/console.md).
///
/// Exit code: 0 when it was asked to end; 2 where an option is wrong; 3 where the stack cannot be
/// reached, or the address is taken.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate console --local                     the stack that `make run KEEP=1` left running
  tidegate console --stack mail --profile ops  a stack on AWS, for this machine alone
  TIDEGATE_CONSOLE_TOKEN=$(openssl rand -hex 24) tidegate console --stack mail \\
      --trusted-proxy 127.0.0.1 --public-url https://mail.example    behind a proxy")]
pub struct ConsoleArgs {
    #[command(flatten)]
    pub(crate) on: OnStack,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// A file whose first line is the token, 16 to 256 visible ASCII characters [default:
    /// `TIDEGATE_CONSOLE_TOKEN`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How pages reach it through a proxy, such as `https://mail.example`
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A proxy whose X-Forwarded-For is trusted for the client's address; may be given many times
    #[arg(long = "trusted-proxy", value_name = "IP")]
    trusted_proxies: Vec<IpAddr>,
    /// Events that a stream may have: a second, and at once
    #[arg(long, value_name = "RATE/s:BURST", default_value = "5/s:10")]
    stream_rate: BucketRate,
    /// Events that a client address may have, over all its streams
    #[arg(long, value_name = "RATE/s:BURST", default_value = "30/s:60")]
    address_rate: BucketRate,
    /// Streams that a client address may have; more are refused with 429
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    streams_per_address: u16,
    /// Streams that all addresses may have together
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    streams: u16,
    /// Where it remembers what it saw, for pages that come back after a restart [default: the local
    /// run's folder, else below `XDG_STATE_HOME`]
    #[arg(long, value_name = "FILE", conflicts_with = "no_memory")]
    memory: Option<PathBuf>,
    /// Do not remember anything over a restart
    #[arg(long)]
    no_memory: bool,
}

pub(super) async fn run(args: &ConsoleArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let access = args.access()?;
    let refused = |error| CommandError::Refused(Box::new(error));
    access.check().map_err(refused)?;
    log(shell.output.is_json());
    let listener = bind(access.listen)
        .map_err(|source| CommandError::Listen { address: access.listen, source })?;
    let stack = args.on.stack.open().await?;
    let address = listener.local_addr().map_err(CommandError::Terminal)?;
    let access = Access { listen: address, ..access };
    let memory = args.memory(&stack);
    let stack_ports = stack_ports(&stack, shell.output.addresses()).await;
    let about = About {
        stack: stack.name.clone(),
        region: stack.region.clone(),
        is_local: stack.is_local(),
        operator: stack_ports.operator.clone(),
        shows_addresses: shell.output.addresses() == AddressVisibility::Shown,
    };
    let (engine, shared) = Engine::start(stack_ports, args.limits(), memory).await?;
    let running = ConsoleLink::of(&stack, &access);
    let app = App::new(shared, access, about, Box::new(|| SystemClock::new().wall().into()))
        .map_err(refused)?;
    shell.output.begin(&running).map_err(CommandError::Terminal)?;
    let (end, ended) = watch::channel(false);
    let asked = || {
        let mut ended = ended.clone();
        async move { drop(ended.wait_for(|ended| *ended).await) }
    };
    let interrupted = async {
        shell.interrupted().await;
        // They wait for it as long as they run.
        end.send_replace(true);
    };
    tokio::join!(engine.run(asked()), serve(listener, app, asked()), interrupted);
    Ok(CommandEnd::Done)
}

/// The stack, as a console sees it.
async fn stack_ports(
    stack: &Stack,
    addresses: AddressVisibility,
) -> StackPorts<SqsQueues, DynamoLedger, SesAccount, SystemClock> {
    StackPorts {
        settings: StatusSettings::of(
            &stack.name,
            &stack.poller,
            &stack.scheduler,
            addresses,
            CHANGES,
        ),
        operator: stack.operator().await,
        poller: stack.poller.clone(),
        scheduler: stack.scheduler.clone(),
        places: other_queues(&stack.poller),
        queues: stack.queues(),
        ledger: stack.ledger(),
        account: stack.account(),
        clock: stack.clock(),
    }
}

impl ConsoleArgs {
    fn access(&self) -> Result<Access, CommandError> {
        let token = match self.token()? {
            // Other machines can reach this address, so a token is needed in any case.
            None if !self.listen.ip().is_loopback() => Some(Token::random()),
            token => token,
        };
        Ok(Access {
            listen: self.listen,
            token,
            public_url: self.public_url.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
        })
    }

    fn token(&self) -> Result<Option<Token>, CommandError> {
        let said = match &self.token_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|source| CommandError::File {
                    path: path.clone(),
                    doing: "the token cannot be read",
                    source,
                })?;
                Some(text.lines().next().unwrap_or_default().to_owned())
            }
            None => std::env::var("TIDEGATE_CONSOLE_TOKEN").ok(),
        };
        let token = said.map(|said| said.parse::<Token>()).transpose();
        token.map_err(|error| CommandError::Refused(Box::new(error)))
    }

    fn limits(&self) -> StreamLimits {
        StreamLimits {
            stream: self.stream_rate,
            address: self.address_rate,
            streams_of_address: self.streams_per_address.into(),
            streams: self.streams.into(),
        }
    }

    /// Without one it works as well, but for pages that come back after a restart.
    fn memory(&self, stack: &Stack) -> Option<StateFile> {
        if self.no_memory {
            return None;
        }
        let path = self.memory.clone().or_else(|| default_memory(stack))?;
        match StateFile::open(&path, &stack.poller_function.arn) {
            Ok(memory) => Some(memory),
            Err(error) => {
                let error = crate::shell::in_full(&error);
                tracing::warn!(error, "it remembers nothing over a restart");
                None
            }
        }
    }
}

fn default_memory(stack: &Stack) -> Option<PathBuf> {
    if let Some(run) = &stack.run {
        return Some(run.join("console.json"));
    }
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || Some(Path::new(&std::env::var_os("HOME")?).join(".local/state"));
    let folder = state.filter(|path| path.is_absolute()).or_else(home)?;
    let account = stack.poller_function.arn.split(':').nth(4).unwrap_or_default();
    let name = format!("console-{}-{}-{account}.json", stack.name, stack.region);
    Some(folder.join("tidegate").join(name))
}

/// One event an outcome, on standard error: as text on a terminal, else as JSON.
fn log(is_json: bool) {
    let ours = Targets::new().with_target("tidegate_console", tracing::Level::INFO);
    let ours = ours.with_target("tidegate_cli", tracing::Level::INFO);
    let registry = tracing_subscriber::registry().with(ours);
    let to = std::io::stderr;
    let set = if is_json || !std::io::stderr().is_terminal() {
        registry.with(tracing_subscriber::fmt::layer().json().with_writer(to)).try_init()
    } else {
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_target(false);
        registry.with(layer.with_writer(to)).try_init()
    };
    // Somebody logs already: a test.
    drop(set);
}

/// The console's addresses, as it prints them when it starts.
#[derive(Debug, Serialize)]
struct ConsoleLink {
    stack: String,
    /// The page's address, without the token.
    url: String,
    /// The address that logs a browser in: the URL, and the token in its fragment if there is one.
    link: String,
}

impl ConsoleLink {
    fn of(stack: &Stack, access: &Access) -> Self {
        let url = match &access.public_url {
            Some(url) => format!("{}/", url.trim_end_matches('/')),
            None => format!("http://{}/", reachable(access.listen)),
        };
        let link = match &access.token {
            // Behind the #: no server and no log sees it.
            Some(token) => format!("{url}login#token={}", token.reveal()),
            None => url.clone(),
        };
        Self { stack: stack.name.clone(), url, link }
    }
}

/// A listener on every address answers on this machine's too.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut reachable = listen;
    if listen.ip().is_unspecified() {
        reachable.set_ip(if listen.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            IpAddr::from([0_u16, 0, 0, 0, 0, 0, 0, 1])
        });
    }
    reachable
}

impl View for ConsoleLink {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Plain, format!("The console of {}: {}", self.stack, self.link));
        page.line(Tone::Faint, "Ctrl-C ends it; what it shows goes on without it.");
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        console: ConsoleArgs,
    }

    #[test]
    fn without_options_streams_have_the_consoles_own_limits() {
        let program = Program::try_parse_from(["tidegate"]).unwrap();
        assert_eq!(program.console.limits(), StreamLimits::default());
    }
}
