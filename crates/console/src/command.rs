//! `tidegate console`: its options, the addresses that it prints, and the console of a stack that listens on one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use futures_util::FutureExt as _;
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{ChannelAccount, CloudWatch, DynamoLedger, SqsQueues, SystemClock};
use tidegate_delivery::ports::Clock as _;
use tidegate_operator::page::{Page, Tone, View};
use tidegate_operator::plan::ses_price;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::shell::{
    CommandEnd, CommandError, CommandResult, Shell, check_health, log_events, text_file,
};
use tidegate_operator::stack::OnStack;
use tidegate_operator::status::StatusSettings;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::unbounded_channel;
use tokio::sync::watch;

use crate::engine::{Engine, StackPorts};
use crate::http::{About, Access, App, Token, Tokens, bind, serve};
use crate::stream::StreamLimits;

/// Serve a live page of a running stack: its figures, and everything that steers it
///
/// Rates, campaigns, holds, dead letters and a forecast, as they change; pause, resume, weights, a cap,
/// lifting a hold, a reviewed replay of dead letters, and why a mail is waiting. Every change asks for
/// its reason and is kept in the stack's history. /metrics speaks to Prometheus.
///
/// On loopback everybody on this machine may use it. On any other address, or behind a proxy, it needs
/// a token: `TIDEGATE_CONSOLE_TOKEN` or --token-file; without one of these it makes one for itself, and
/// prints a link with it; a token that it was given it prints nowhere. The console itself speaks no TLS:
/// put a proxy before it (docs/commands/console.md).
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
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// A file with a token of 16 to 256 visible ASCII characters, or with a line `NAME look|act TOKEN` for
    /// each person and program [default: `TIDEGATE_CONSOLE_TOKEN`]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How pages reach it through a proxy, such as `https://mail.example`
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// A proxy whose X-Forwarded-For is trusted for the client's address; may be given many times
    #[arg(long = "trusted-proxy", value_name = "IP")]
    trusted_proxies: Vec<IpAddr>,
    /// SES's price for 1,000 recipients, in US dollars [default: 0.10]
    #[arg(long, value_name = "DOLLARS", value_parser = ses_price)]
    ses_price: Option<f64>,
    /// Ask whether a console answers at --listen, and serve nothing: the health check of a container
    #[arg(long)]
    health: bool,
    #[command(flatten)]
    limits: StreamLimits,
    #[command(flatten)]
    pub on: OnStack,
}

impl ConsoleArgs {
    /// Who may use the console, with the tokens that were given.
    fn access(&self, tokens: Option<Tokens>) -> Access {
        let tokens = match tokens {
            // Other machines can reach this address, so a token is needed in any case.
            None if !self.listen.ip().is_loopback() => Token::random().into(),
            tokens => tokens.unwrap_or_default(),
        };
        let (public_url, trusted_proxies) = (self.public_url.clone(), self.trusted_proxies.clone());
        Access { listen: self.listen, tokens, public_url, trusted_proxies }
    }

    /// The tokens that were given, if any.
    fn tokens(&self) -> CommandResult<Option<Tokens>> {
        let said = match &self.token_file {
            Some(path) => Some(text_file(path)?),
            None => std::env::var("TIDEGATE_CONSOLE_TOKEN").ok(),
        };
        let tokens = said.map(|said| said.parse::<Tokens>()).transpose();
        tokens.map_err(CommandError::refused)
    }
}

pub async fn run(args: &ConsoleArgs, shell: &Shell) -> CommandResult {
    if args.health {
        return check_health(args.listen, "/login").await;
    }
    let tokens = args.tokens()?;
    let is_token_given = tokens.is_some();
    let access = args.access(tokens);
    access.check().map_err(CommandError::refused)?;
    log_events(shell.output.is_json());
    let listener = bind(access.listen)
        .map_err(|source| CommandError::Listen { address: access.listen, source })?;
    let stack = args.on.stack.open().await?;
    let listen = listener.local_addr().map_err(CommandError::Terminal)?;
    let access = Access { listen, ..access };
    let running = ConsoleLink::of(&stack.name, &access, is_token_given);
    let shown = shown_of(&stack, shell.output.addresses());
    let shown = StatusSettings { ses_price: args.ses_price, ..shown };
    let opened = OpenConsole::open(&stack, listener, access, args.limits, shown);
    let console = Box::pin(opened).await?;
    shell.output.begin(&running).map_err(CommandError::Terminal)?;
    Box::pin(console.serve(shell.interrupted())).await;
    Ok(CommandEnd::Done)
}

/// Counts the signals that ask a program to end, from now on, so that none is lost between two waits. Without a
/// handler a signal ends the process by itself.
pub fn interrupts() -> watch::Receiver<u64> {
    let (count, interrupts) = watch::channel(0);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let Ok(mut signal) = signal(kind) else { continue };
        let count = count.clone();
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                count.send_modify(|count| *count += 1);
            }
        });
    }
    interrupts
}

/// The console's addresses, as it prints them when it starts.
#[derive(Debug, Serialize)]
struct ConsoleLink {
    stack: String,
    /// The page's address, without the token.
    url: String,
    /// The address that logs a browser in: the URL, and in its fragment the token if the console made it.
    link: String,
    /// The reason why others could read along; none if they cannot.
    warning: Option<String>,
}

impl ConsoleLink {
    /// The addresses of a console. A token that it was given may be in a log or on a screen only where
    /// whoever gave it puts it.
    fn of(stack: &str, access: &Access, is_token_given: bool) -> Self {
        let url = match &access.public_url {
            Some(url) => format!("{}/", url.trim_end_matches('/')),
            None => format!("http://{}/", reachable(access.listen)),
        };
        let link = match access.tokens.holders() {
            // Behind the #: no server and no log sees it.
            [own] if !is_token_given => format!("{url}login#token={}", own.token.reveal()),
            _ => url.clone(),
        };
        let is_open = !access.listen.ip().is_loopback() && !access.is_https();
        let warning = is_open.then(|| {
            format!(
                "{url} is not encrypted: whoever is on the way can read the token. Listen on loopback, and put a proxy with TLS before it (--public-url https://…, --trusted-proxy)"
            )
        });
        Self { stack: stack.to_owned(), url, link, warning }
    }
}

/// An address at which a listener answers: one on every address is named by that of the network, as others
/// reach it.
fn reachable(listen: SocketAddr) -> SocketAddr {
    if !listen.ip().is_unspecified() {
        return listen;
    }
    let (any, other, this): (IpAddr, IpAddr, IpAddr) = if listen.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED.into(), [192, 0, 2, 1].into(), Ipv4Addr::LOCALHOST.into())
    } else {
        let other = [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1_u16];
        (Ipv6Addr::UNSPECIFIED.into(), other.into(), Ipv6Addr::LOCALHOST.into())
    };
    // Connecting a UDP socket sends nothing: the system only chooses the address that it would use.
    let chosen = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((other, 9))?;
        socket.local_addr()
    });
    SocketAddr::new(chosen.map_or(this, |address| address.ip()), listen.port())
}

impl View for ConsoleLink {
    fn view(&self, page: &mut Page) {
        page.line(Tone::Plain, format!("The console of {}: {}", self.stack, self.link));
        if let Some(warning) = &self.warning {
            page.line(Tone::Warning, warning);
        }
        page.line(Tone::Faint, "Ctrl-C ends it; what it shows goes on without it.");
    }
}

/// Changes by operators that a page of the history shows.
const CHANGES: usize = 300;

type AwsPorts = (SqsQueues, DynamoLedger, ChannelAccount, SystemClock, CloudWatch);

/// A console that listens, and answers as soon as it is served.
pub struct OpenConsole {
    listener: TcpListener,
    engine: Engine<AwsPorts>,
    app: Arc<App>,
}

impl OpenConsole {
    /// Opens a console of `stack` on `listener`, whose address is `access.listen`.
    ///
    /// # Errors
    /// [`CommandError`].
    pub async fn open(
        stack: &Stack,
        listener: TcpListener,
        access: Access,
        limits: StreamLimits,
        settings: StatusSettings,
    ) -> CommandResult<Self> {
        let (addresses, ses_price) = (settings.addresses, settings.ses_price);
        let ports = ports(stack, settings).await;
        let about = About {
            stack: stack.name.clone(),
            region: stack.region.clone(),
            is_local: stack.is_local(),
            channel: stack.poller.rules.channel,
            ses_price,
            operator: ports.operator.clone(),
            shows_addresses: addresses == AddressVisibility::Shown,
        };
        let (engine, handle) = Box::pin(Engine::start(ports, limits)).await?;
        let now = Box::new(|| SystemClock::new().wall().into());
        let app = App::new(handle, access, about, now).map_err(CommandError::refused)?;
        Ok(Self { listener, engine, app })
    }

    /// Serves it until `stop` completes.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let stop = stop.shared();
        let serving = serve(self.listener, self.app, stop.clone());
        tokio::join!(self.engine.run(stop), serving);
    }
}

/// The settings of `stack` for its console.
pub fn shown_of(stack: &Stack, addresses: AddressVisibility) -> StatusSettings {
    let stack_name = stack.name.clone();
    StatusSettings { stack: stack_name, ..StatusSettings::of(stack, addresses, CHANGES) }
}

/// The stack, as a console sees it.
async fn ports(stack: &Stack, settings: StatusSettings) -> StackPorts<AwsPorts> {
    let (wake, mut asked) = unbounded_channel();
    let asleep = stack.clone();
    tokio::spawn(async move {
        while asked.recv().await.is_some() {
            asleep.wake().await;
        }
    });
    let functions = [&stack.scheduler_function, &stack.poller_function].map(|of| of.name.clone());
    StackPorts {
        settings,
        operator: stack.operator().await,
        queues: stack.queues(),
        ledger: stack.ledger(),
        account: stack.account(),
        clock: stack.clock(),
        monitor: stack.clients().monitor(&stack.name, functions),
        wake,
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
        assert_eq!(program.console.limits, StreamLimits::default());
    }

    fn access(listen: &str, public_url: Option<&str>) -> Access {
        Access {
            listen: listen.parse().unwrap(),
            tokens: Token::random().into(),
            public_url: public_url.map(str::to_owned),
            trusted_proxies: Vec::new(),
        }
    }

    #[test]
    fn a_token_that_was_given_is_printed_nowhere() {
        let access = access("127.0.0.1:7878", None);
        let token = access.tokens.holders()[0].token.reveal();
        let printed = |is_token_given| {
            let link = ConsoleLink::of("mail", &access, is_token_given);
            format!("{}{:?}", serde_json::to_string(&link).unwrap(), Page::of(&link))
        };
        assert!(printed(false).contains(&format!("http://127.0.0.1:7878/login#token={token}")));
        let given = printed(true);
        assert!(given.contains("http://127.0.0.1:7878/") && !given.contains(token), "{given}");
    }

    #[test]
    fn who_listens_to_others_without_tls_is_warned_and_told_where_they_reach_it() {
        let of = |listen, public_url| ConsoleLink::of("mail", &access(listen, public_url), true);
        for open in ["0.0.0.0:7878", "[::]:7878", "192.0.2.7:7878"] {
            let link = of(open, None);
            let warning = link.warning.unwrap();
            assert!(warning.starts_with(&link.url) && warning.contains("https://"), "{warning}");
            let named: SocketAddr =
                link.url["http://".len()..].trim_end_matches('/').parse().unwrap();
            assert!(!named.ip().is_unspecified() && named.port() == 7878, "{named}");
        }
        assert!(of("192.0.2.7:7878", Some("http://mail.example")).warning.is_some());
        for encrypted in ["https://mail.example", "HTTPS://mail.example"] {
            assert_eq!(of("192.0.2.7:7878", Some(encrypted)).warning, None);
        }
        assert_eq!(of("127.0.0.1:7878", None).warning, None);
    }
}
