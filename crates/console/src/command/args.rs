use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::http::{Access, Token, Tokens};
use crate::open::shown_of;
use crate::rate_limit::{BucketRate, GroupLimits};
use crate::state_file::StateFile;
use crate::stream::StreamLimits;
use clap::Args;
use tidegate_adapters::aws::stack::{Stack, state_folder};
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::StatusSettings;

use tidegate_operator::plan::ses_price;
use tidegate_operator::shell::{CommandError, text_file};
use tidegate_operator::stack::OnStack;

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
    pub on: OnStack,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    pub(super) listen: SocketAddr,
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
    #[command(flatten)]
    pub(super) limits: LimitArgs,
    /// Where it remembers what it saw, for pages that come back after a restart [default: the local
    /// run's folder, else below `XDG_STATE_HOME`]
    #[arg(long, value_name = "FILE", conflicts_with = "no_memory")]
    memory: Option<PathBuf>,
    /// Do not remember anything over a restart
    #[arg(long)]
    pub(super) no_memory: bool,
}

/// Limits of the event streams.
#[derive(Clone, Debug, Args)]
pub(super) struct LimitArgs {
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
}

impl LimitArgs {
    pub(super) fn of_streams(&self) -> StreamLimits {
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
}

impl ConsoleArgs {
    /// The settings of `stack` for its console.
    pub(super) fn shown_of(&self, stack: &Stack, addresses: AddressVisibility) -> StatusSettings {
        StatusSettings { ses_price: self.ses_price, ..shown_of(stack, addresses) }
    }

    /// Who may use the console, with the tokens that were given.
    pub(super) fn access(&self, tokens: Option<Tokens>) -> Access {
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
    pub(super) fn tokens(&self) -> Result<Option<Tokens>, CommandError> {
        let said = match &self.token_file {
            Some(path) => Some(text_file(path)?),
            None => std::env::var("TIDEGATE_CONSOLE_TOKEN").ok(),
        };
        let tokens = said.map(|said| said.parse::<Tokens>()).transpose();
        tokens.map_err(|error| CommandError::Refused(Box::new(error)))
    }

    /// Without one it works as well, but for pages that come back after a restart.
    pub(super) fn memory(&self, stack: &Stack) -> Option<StateFile> {
        if self.no_memory {
            return None;
        }
        let path = self.memory.clone().or_else(|| default_memory(stack))?;
        Self::remember(&path, stack)
    }

    pub(super) fn remember(path: &Path, stack: &Stack) -> Option<StateFile> {
        match StateFile::open(path, &stack.poller_function.arn) {
            Ok(memory) => Some(memory),
            Err(error) => {
                let error = tidegate_core::in_full(&error);
                tracing::warn!(error, "it remembers nothing over a restart");
                None
            }
        }
    }
}

pub(super) fn default_memory(stack: &Stack) -> Option<PathBuf> {
    if let Some(run) = &stack.run {
        return Some(run.join("console.json"));
    }
    let account = stack.poller_function.arn.split(':').nth(4).unwrap_or_default();
    let name = format!("console-{}-{}-{account}.json", stack.name, stack.region);
    Some(state_folder()?.join(name))
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
}
