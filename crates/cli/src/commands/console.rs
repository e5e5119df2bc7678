use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tidegate_aws::stack::{Stack, state_folder};
use tidegate_console::http::{Access, Token, Tokens, bind};
use tidegate_console::rate_limit::{BucketRate, GroupLimits};
use tidegate_console::state_file::StateFile;
use tidegate_console::stream::StreamLimits;
use tidegate_core::config::BucketUrl;
use tidegate_operate::page::{Page, Tone, View};
use tidegate_redis::RedisConsoleBuckets;
use tidegate_views::console::{ConsoleError, OpenConsole};
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::{OnStack, UnparsedUrl};
use crate::shell::{CommandEnd, CommandError, Shell};

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
    #[command(flatten)]
    pub(crate) on: OnStack,
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
    #[command(flatten)]
    limits: LimitArgs,
    /// Where it remembers what it saw, for pages that come back after a restart [default: the local
    /// run's folder, else below `XDG_STATE_HOME`]
    #[arg(long, value_name = "FILE", conflicts_with = "no_memory")]
    memory: Option<PathBuf>,
    /// Do not remember anything over a restart
    #[arg(long)]
    no_memory: bool,
}

/// Limits of the event streams.
#[derive(Clone, Debug, Args)]
struct LimitArgs {
    /// Events that a stream may have: a second, and at once
    #[arg(long, value_name = "RATE/s:BURST", default_value = "5/s:10")]
    stream_rate: BucketRate,
    /// Events that a session may have, over all its streams: a login, or an address without one
    #[arg(long, value_name = "RATE/s:BURST", default_value = "30/s:60")]
    session_rate: BucketRate,
    /// Events that a client address may have, over all its sessions
    #[arg(long, value_name = "RATE/s:BURST", default_value = "300/s:600")]
    address_rate: BucketRate,
    /// Streams that a session may have; more are refused with 429
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    streams_per_session: u16,
    /// Streams that a client address may have, over all its sessions
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    streams_per_address: u16,
    /// Streams that all addresses may have together
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    streams: u16,
    /// Share the buckets of sessions and addresses with the stack's other consoles that do, on the server of the
    /// poller's shared bucket (`TIDEGATE_SHARED_BUCKET`), or on the one at URL
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    shared_buckets: Option<UnparsedUrl>,
}

impl LimitArgs {
    fn of_streams(&self) -> StreamLimits {
        StreamLimits {
            stream: self.stream_rate,
            session: GroupLimits {
                events: self.session_rate,
                streams: self.streams_per_session.into(),
            },
            address: GroupLimits {
                events: self.address_rate,
                streams: self.streams_per_address.into(),
            },
            streams: self.streams.into(),
        }
    }

    /// The server of the shared buckets, where it is given.
    fn server(&self) -> Result<Option<BucketUrl>, CommandError> {
        let url = self.shared_buckets.as_ref().filter(|url| url.is_given());
        let url = url.map(UnparsedUrl::parse).transpose();
        url.map_err(|error| CommandError::Refused(Box::new(error)))
    }
}

/// The buckets that the consoles of `stack` share, on the server at `url` or on the poller's.
fn shared_buckets(
    url: Option<BucketUrl>,
    stack: &Stack,
) -> Result<RedisConsoleBuckets, CommandError> {
    let of_poller = stack.poller.shared_bucket.as_ref();
    let Some(url) = url.or_else(|| of_poller.map(|bucket| bucket.url.clone())) else {
        let name = &stack.name;
        return Err(CommandError::Input(format!(
            "the stack {name} has no shared bucket (TIDEGATE_SHARED_BUCKET): name a server with --shared-buckets=URL"
        )));
    };
    let prefix = of_poller.map(|bucket| bucket.prefix.clone()).unwrap_or_default();
    Ok(RedisConsoleBuckets::new(url, prefix, stack.poller_function.arn.clone()))
}

pub(super) async fn run(args: &ConsoleArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let tokens = args.tokens()?;
    let is_token_given = tokens.is_some();
    let access = args.access(tokens);
    let refused = |error| CommandError::Refused(Box::new(error));
    access.check().map_err(refused)?;
    let server = args.limits.server()?;
    log(shell.output.is_json());
    let listener = bind(access.listen)
        .map_err(|source| CommandError::Listen { address: access.listen, source })?;
    let stack = args.on.stack.open().await?;
    let is_shared = args.limits.shared_buckets.is_some();
    let buckets = is_shared.then(|| shared_buckets(server, &stack)).transpose()?;
    let address = listener.local_addr().map_err(CommandError::Terminal)?;
    let access = Access { listen: address, ..access };
    let memory = args.memory(&stack);
    let running = ConsoleLink::of(&stack.name, &access, is_token_given);
    let addresses = shell.output.addresses();
    let limits = args.limits.of_streams();
    let opened = OpenConsole::open(&stack, listener, access, limits, memory, addresses);
    let console = Box::pin(opened).await.map_err(|error| match error {
        ConsoleError::Port(error) => CommandError::Service(error),
        ConsoleError::Access(error) => refused(error),
    })?;
    let console = match buckets {
        Some(buckets) => console.share(buckets),
        None => console,
    };
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
    tokio::join!(console.serve(asked), interrupted);
    Ok(CommandEnd::Done)
}

impl ConsoleArgs {
    /// Who may use the console, with the tokens that were given.
    fn access(&self, tokens: Option<Tokens>) -> Access {
        let tokens = match tokens {
            // Other machines can reach this address, so a token is needed in any case.
            None if !self.listen.ip().is_loopback() => Token::random().into(),
            tokens => tokens.unwrap_or_default(),
        };
        Access {
            listen: self.listen,
            tokens,
            public_url: self.public_url.clone(),
            trusted_proxies: self.trusted_proxies.clone(),
        }
    }

    /// The tokens that were given, if any.
    fn tokens(&self) -> Result<Option<Tokens>, CommandError> {
        let said = match &self.token_file {
            Some(path) => {
                let read = std::fs::read_to_string(path);
                let text = read.map_err(|source| CommandError::File {
                    path: path.clone(),
                    doing: "the tokens cannot be read",
                    source,
                })?;
                Some(text)
            }
            None => std::env::var("TIDEGATE_CONSOLE_TOKEN").ok(),
        };
        let tokens = said.map(|said| said.parse::<Tokens>()).transpose();
        tokens.map_err(|error| CommandError::Refused(Box::new(error)))
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
                let error = tidegate_core::in_full(&error);
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
    let account = stack.poller_function.arn.split(':').nth(4).unwrap_or_default();
    let name = format!("console-{}-{}-{account}.json", stack.name, stack.region);
    Some(state_folder()?.join(name))
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
        assert_eq!(program.console.limits.of_streams(), StreamLimits::default());
    }

    #[test]
    fn buckets_are_shared_on_the_pollers_server_or_on_another_whose_password_is_not_shown() {
        let server = |option: &[&str]| {
            let program = Program::try_parse_from([&["tidegate"], option].concat());
            let limits = program.map(|program| program.console.limits)?;
            Ok::<_, clap::Error>((limits.shared_buckets.is_some(), limits.server()))
        };
        assert!(matches!(server(&[]).unwrap(), (false, Ok(None))));
        assert!(matches!(server(&["--shared-buckets"]).unwrap(), (true, Ok(None))));
        let (_, url) = server(&["--shared-buckets=rediss://:hush@cache.example"]).unwrap();
        assert_eq!(url.unwrap().unwrap().to_string(), "rediss://:***@cache.example:6379/0");
        let (_, error) = server(&["--shared-buckets=http://:hush@cache.example"]).unwrap();
        let error = error.unwrap_err();
        assert!(!format!("{error:?} {error}").contains("hush"), "{error:?}");
        server(&["--shared-buckets", "redis://cache.example"]).unwrap_err();
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
