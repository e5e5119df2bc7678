//! `tidegate relay`: a server beside an application that takes mail as SES and SMTP servers do, and puts it onto the
//! stack's queues.
//!
//! `smtp` and `http` read a mail from a client; it becomes a `Submission`. `SubmissionRules::prepare` makes the stack's messages of
//! it, on the queue of the campaign that `campaign` chooses; `enqueue` sends them to SQS in batches. A client is told that
//! its mail is accepted after SQS's acknowledgement: the relay keeps no mail.

mod campaign;
mod enqueue;
mod http;
mod logins;
mod memory;
mod others;
mod refusal;
mod sigv4;
mod smtp;
mod submission;
mod submit;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::aws::{SystemClock, SystemEntropy};
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::channel::Channel;
use tidegate_core::control::Control;
use tidegate_core::email::MAX_MAIL_BYTES;
use tidegate_core::in_full;
use tidegate_core::ses_request::{RawHeader, SesAccount};
use tidegate_delivery::ports::{Account as _, Clock as _, Entropy as _, FailureKind, PortError};
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::connections::Connections;
use crate::page::{Page, Tone, View};
use crate::shell::{
    CommandEnd, CommandError, CommandResult, Shell, check_health, log_events, text_file,
};
use crate::stack::OnStack;
use campaign::{CampaignChoice, CampaignRules, Targets};
use enqueue::Enqueuer;
use http::HttpServer;
use logins::{KeyPairs, Logins};
pub(crate) use others::stack_at;
use others::{HEALTH, Health, OtherCalls};
use smtp::{Encryption, SmtpServer, SmtpSettings};
use submission::{Submission, SubmissionRules};
use submit::{Relay, raw};

/// Take mail as SES and SMTP servers do, and put it onto the stack's queues
///
/// A program that sends through SES sends through Tidegate by one setting: `AWS_ENDPOINT_URL_SESV2` and
/// `AWS_ENDPOINT_URL_SES` (SDKs and the AWS CLI), SMTP host and port, or listmonk's messenger. A mail is accepted when SQS has
/// acknowledged it; the relay keeps none. The `MessageId` that it answers is Tidegate's, which every mail carries as the SES tag
/// `tidegate_id`; SES's own is known once the mail is sent (`tidegate why`).
///
/// The campaign is named by the header X-Tidegate-Campaign or the SES tag `campaign`, or else by the rules for configuration
/// set, user and sender, or else it is that of --campaign.
///
/// On loopback everybody on this machine may send. Beyond it --credentials and TLS are required.
///
/// Exit code: 0 when it was asked to end; 2 where an option is wrong; 3 where the stack cannot be reached, or an address is
/// taken.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate relay --local --campaign news          for the stack that `make run KEEP=1` left running
  AWS_ENDPOINT_URL_SESV2=http://127.0.0.1:8025 python send.py      a program that uses an AWS SDK
  tidegate relay --stack mail --listen 0.0.0.0:443 --smtp 0.0.0.0:587 \\
      --credentials keys.json --tls-cert chain.pem --tls-key key.pem       for other machines
  tidegate relay --stack mail --explain mail.eml  which campaign this mail would go to, and why")]
// More than 12 fields: one for each option of the command.
pub struct RelayArgs {
    /// Address for SES's API and listmonk's messenger
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8025")]
    listen: SocketAddr,
    /// Address for SMTP
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2525")]
    smtp: SocketAddr,
    /// The campaign of mail that names none (such as `news` or `news.high`)
    #[arg(long, value_name = "CAMPAIGN")]
    campaign: Option<String>,
    /// A JSON file: campaigns by `configuration_sets`, `users` and `senders`
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// A JSON file of the key pairs that may send: access key and secret for SES's API, or user and password for SMTP
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// A PEM file of the certificate with its chain, for HTTPS, STARTTLS and --smtps
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// A PEM file of the certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Address for SMTP with TLS from the first byte (port 465)
    #[arg(long, value_name = "ADDRESS", requires = "tls_cert")]
    smtps: Option<SocketAddr>,
    /// Make other calls of SES, such as those for templates, to SES itself, with the relay's own credentials
    #[arg(long)]
    forward_other_calls: bool,
    /// Take no mail of low priority while the stack is overloaded: its client is to hand it over again later (503, or 451 by SMTP)
    #[arg(long)]
    back_pressure: bool,
    /// Show which campaign a mail in a file (.eml) would go to, and why; nothing is served
    #[arg(long, value_name = "FILE")]
    explain: Option<PathBuf>,
    /// Ask whether a relay answers at --listen, and serve nothing: the health check of a container
    #[arg(long)]
    health: bool,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// The campaigns, and the account's figures, are read anew after this time.
const REFRESH: Duration = Duration::from_mins(1);

/// Bytes of mail that the relay holds at the same time.
const MEMORY: usize = 256 * 1024 * 1024;
/// Most bytes of a MIME message without a store: in base64 and within JSON it fits into a message of SQS.
const MOST_BYTES: usize = 770_000;
/// Most systems allow a process 1,024 open files.
const MOST_CONNECTIONS: usize = 800;
const MOST_CONNECTIONS_OF_ADDRESS: usize = 200;

pub(crate) async fn run(args: &RelayArgs, shell: &Shell) -> CommandResult {
    if args.health {
        return check_health(args.listen, HEALTH).await;
    }
    let terms = args.terms()?;
    args.check()?;
    let stack = args.on.stack.open().await?;
    if let Some(path) = &args.explain {
        return shell.done(&explain(&terms.checked_rules(&stack).await?, path)?);
    }
    let addresses = [Some(args.listen), Some(args.smtp), args.smtps];
    let relay = RelayServer::open(&stack, terms, addresses.into_iter().flatten()).await?;
    log_events(shell.output.is_json());
    shell.output.begin(&relay.shown_addresses()).map_err(CommandError::Terminal)?;
    Box::pin(relay.serve(shell.interrupted())).await;
    Ok(CommandEnd::Done)
}

/// The terms on which a relay takes mail.
#[derive(Default)]
struct RelayTerms {
    rules: CampaignRules,
    /// `--campaign`.
    campaign: Option<String>,
    logins: Option<Arc<Logins>>,
    tls: Option<Arc<ServerConfig>>,
    forwards_other_calls: bool,
    /// `--back-pressure`.
    back_pressure: bool,
}

impl RelayTerms {
    /// The stack's campaigns as they are now. Without the right to read the ledger they are the configured ones.
    async fn submission_rules(&self, stack: &Stack) -> Result<SubmissionRules, PortError> {
        let (control, campaigns) = match stack.standing().await {
            Ok((standing, campaigns)) => (standing.control, campaigns),
            Err(PortError { kind: FailureKind::Denied(_), .. }) => {
                (Control::default(), stack.campaigns(&Control::default()))
            }
            Err(error) => return Err(error),
        };
        let targets =
            Targets { campaigns, express: stack.express(), default: self.campaign.clone() };
        let (campaigns, messages) = (self.rules.clone(), stack.poller.rules.clone());
        let level = control.level(stack.clock().wall().into());
        let takes_low = !self.back_pressure || level < BackPressureLevel::Overloaded;
        let logins = self.logins.clone();
        Ok(SubmissionRules { campaigns, targets, messages, logins, takes_low })
    }

    /// The same at the start: the stack sends mail, and has the campaigns that rules and key pairs name.
    async fn checked_rules(&self, stack: &Stack) -> CommandResult<SubmissionRules> {
        if stack.poller.rules.channel != Channel::Email {
            return Err(CommandError::Input(format!(
                "the stack {} sends text messages; the relay takes mail",
                stack.name
            )));
        }
        let rules = self.submission_rules(stack).await?;
        let keys = rules.logins.iter().flat_map(|logins| logins.keys.campaigns());
        let of_keys =
            keys.map(|(key, campaign)| (campaign, format!("campaigns of the key pair {key}")));
        rules.campaigns.check(of_keys, &rules.targets).map_err(CommandError::refused)?;
        Ok(rules)
    }
}

/// A relay that has its addresses.
pub struct RelayServer<'a> {
    stack: &'a Stack,
    terms: RelayTerms,
    rules: SubmissionRules,
    /// For HTTP, SMTP and, if it is asked for, SMTP with TLS from the first byte.
    listeners: Vec<TcpListener>,
}

impl<'a> RelayServer<'a> {
    /// For this machine alone, on free ports; `campaign` takes the mail that names none.
    ///
    /// # Errors
    /// [`CommandError`]: the stack sends no mail or cannot be read, or no port is free.
    pub async fn on_loopback(stack: &'a Stack, campaign: &str) -> CommandResult<Self> {
        let terms = RelayTerms { campaign: Some(campaign.to_owned()), ..RelayTerms::default() };
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self::open(stack, terms, [free, free]).await
    }

    async fn open(
        stack: &'a Stack,
        terms: RelayTerms,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> CommandResult<Self> {
        let rules = terms.checked_rules(stack).await?;
        let mut listeners = Vec::new();
        for address in addresses {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|source| CommandError::Listen { address, source })?);
        }
        Ok(Self { stack, terms, rules, listeners })
    }

    /// The addresses for HTTP and SMTP, and for SMTP with TLS if there is one.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    fn shown_addresses(&self) -> RelayAddresses {
        let addresses = self.addresses();
        let scheme = if self.terms.tls.is_some() { "https" } else { "http" };
        let http = addresses.first().map(|http| format!("{scheme}://{http}"));
        let smtp = addresses.into_iter().skip(1).collect();
        RelayAddresses { stack: self.stack.name.clone(), http: http.unwrap_or_default(), smtp }
    }

    /// Serves until `stop`; then what is under way is answered.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { stack, terms, rules, listeners } = self;
        let most_bytes = if rules.messages.has_store { MAX_MAIL_BYTES } else { MOST_BYTES };
        let (rules_sender, rules) = watch::channel(Arc::new(rules));
        let (account_sender, account) = watch::channel(None);
        let (enqueuer, from) = Enqueuer::new();
        let relay = Arc::new(Relay::new(rules, enqueuer, stack.clock()));
        // Each its own: what strangers can hold by one way does not stop the other.
        let [memory, of_http] = [(); 2].map(|()| Arc::new(Semaphore::new(MEMORY / 2)));
        let (logins, tls) = (terms.logins.clone(), terms.tls.clone());
        let host = "tidegate".to_owned();
        let settings =
            SmtpSettings { host, tls: tls.clone(), logins: logins.clone(), most_bytes, memory };
        let smtp = Arc::new(SmtpServer::new(settings, Arc::clone(&relay)));
        let ses = || OtherCalls::new(aws_sdk_sesv2::Client::new(stack.clients().ses_config()));
        let others = terms.forwards_other_calls.then(ses);
        let health = Health { stack: stack.name.clone() };
        let http = HttpServer { health, relay, logins, others, account, memory: of_http };
        let router = http::router(Arc::new(http));
        let refresh = async {
            loop {
                account_sender.send_replace(figures(stack).await);
                tokio::time::sleep(REFRESH).await;
                match terms.submission_rules(stack).await {
                    Ok(rules) => _ = rules_sender.send_replace(Arc::new(rules)),
                    Err(error) => {
                        let error = &error as &dyn std::error::Error;
                        tracing::warn!(error, "the campaigns are those of before");
                    }
                }
            }
        };
        // The stack is woken beside the answers: a client does not wait for it.
        let (queues, clock, sent) =
            (stack.clients().patient_queues(), stack.clock(), Notify::new());
        let waking = async {
            loop {
                sent.notified().await;
                stack.wake().await;
            }
        };
        let store = stack.store().map(|location| stack.clients().store(location).patient());
        let served = serve(listeners, router, smtp, tls, stop);
        let serving = async {
            tokio::select! {
                () = served => {}
                () = refresh => {}
            }
        };
        // Once nobody is served any more, what was handed over is sent.
        let enqueuing = enqueue::run(from, &queues, store.as_ref(), &clock, || sent.notify_one());
        tokio::select! {
            _ = async { tokio::join!(serving, enqueuing) } => {}
            () = waking => {}
        }
    }
}

/// The account's figures; none if SES does not tell them.
async fn figures(stack: &Stack) -> Option<SesAccount> {
    let account = stack.account().account().await;
    let account = account.inspect_err(|error| {
        tracing::warn!(error = error as &dyn std::error::Error, "GetAccount cannot be answered");
    });
    account.ok().map(|account| SesAccount {
        max_24_hour_send: account.max_24_hour_send,
        max_send_rate: account.max_send_rate,
        sent_last_24_hours: account.sent_last_24_hours,
        sending_enabled: account.sending_enabled,
    })
}

/// Serves until it is `asked` to end; then mail that is under way is answered.
async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    smtp: Arc<SmtpServer<Relay<SystemClock>>>,
    tls: Option<Arc<ServerConfig>>,
    asked: impl Future<Output = ()>,
) {
    let connections = Connections::new(MOST_CONNECTIONS, MOST_CONNECTIONS_OF_ADDRESS, Vec::new());
    let (stop, stopped) = watch::channel(false);
    let stopped = || {
        let mut stopped = stopped.clone();
        async move { _ = stopped.wait_for(|stop| *stop).await }
    };
    let serving = listeners.into_iter().enumerate().map(|(place, listener)| {
        let (router, smtp, tls) = (router.clone(), Arc::clone(&smtp), tls.clone());
        let (connections, stopped) = (&connections, stopped());
        async move {
            match place {
                0 => http::serve(listener, router, tls, connections, stopped).await,
                1 => smtp::serve(listener, Encryption::StartTls, smtp, connections, stopped).await,
                _ => smtp::serve(listener, Encryption::Implicit, smtp, connections, stopped).await,
            }
        }
    });
    let stopping = async {
        asked.await;
        stop.send_replace(true);
    };
    tokio::join!(join_all(serving), stopping);
}

impl RelayArgs {
    fn terms(&self) -> CommandResult<RelayTerms> {
        let rules = match &self.rules {
            Some(path) => serde_json::from_str(&text_file(path)?)
                .map_err(|error| CommandError::Input(format!("{}: {error}", path.display())))?,
            None => CampaignRules::default(),
        };
        let (forwards_other_calls, back_pressure) = (self.forward_other_calls, self.back_pressure);
        let (campaign, logins, tls) = (self.campaign.clone(), self.logins()?, self.tls()?);
        Ok(RelayTerms { rules, campaign, logins, tls, forwards_other_calls, back_pressure })
    }

    fn logins(&self) -> CommandResult<Option<Arc<Logins>>> {
        let Some(path) = &self.credentials else { return Ok(None) };
        let keys = KeyPairs::read(&text_file(path)?);
        let keys = keys.map_err(|error| {
            CommandError::Input(format!("{}: {}", path.display(), in_full(&error)))
        })?;
        Ok(Some(Arc::new(Logins::new(keys))))
    }

    fn tls(&self) -> CommandResult<Option<Arc<ServerConfig>>> {
        let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) else { return Ok(None) };
        let unreadable = |path: &Path, error: &dyn fmt::Display| {
            CommandError::Input(format!("{}: {error}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
        let chain: Vec<_> = chain.map_err(|error| unreadable(cert, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        config.map(|config| Some(Arc::new(config))).map_err(|error| unreadable(cert, &error))
    }

    /// Checks that other machines reach no address without TLS and credentials.
    fn check(&self) -> CommandResult<()> {
        let addresses = [Some(self.listen), Some(self.smtp), self.smtps];
        if self.credentials.is_some() && self.tls_cert.is_none() {
            let fault =
                "--credentials needs --tls-cert and --tls-key: passwords are taken over TLS alone";
            return Err(CommandError::Input(fault.to_owned()));
        }
        let beyond = addresses.into_iter().flatten().find(|address| !address.ip().is_loopback());
        match beyond {
            Some(address) if self.credentials.is_none() || self.tls_cert.is_none() => {
                Err(CommandError::Input(format!(
                    "{address} is reached by other machines: --credentials, --tls-cert and --tls-key are required there; \
                     without them only loopback is allowed, such as 127.0.0.1:2525"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// The addresses of a relay, as it prints them when it starts.
#[derive(Debug, Serialize)]
struct RelayAddresses {
    stack: String,
    http: String,
    smtp: Vec<SocketAddr>,
}

impl View for RelayAddresses {
    fn view(&self, page: &mut Page) {
        let Self { stack, http, smtp } = self;
        page.line(Tone::Plain, format!("The relay of {stack} takes mail"));
        let variables = format!("AWS_ENDPOINT_URL_SESV2={http} AWS_ENDPOINT_URL_SES={http}");
        page.line(Tone::Plain, format!("by SES's API  {variables}"));
        for address in smtp {
            page.line(Tone::Plain, format!("by SMTP       {address}"));
        }
        page.line(Tone::Plain, format!("by listmonk   {http}{}", http::LISTMONK));
        page.line(Tone::Faint, "Ctrl-C ends it; mail that it accepted is on its queue.");
    }
}

/// The campaign of a mail in a file.
#[derive(Debug, Serialize)]
struct Explanation {
    #[serde(flatten)]
    choice: CampaignChoice,
    queue: String,
    messages: usize,
    id: String,
}

fn explain(rules: &SubmissionRules, path: &Path) -> CommandResult<Explanation> {
    let data = std::fs::read(path).map_err(CommandError::of_file(path, "it cannot be read"))?;
    let header = RawHeader::read(&data);
    let to = header.destination.all().map(str::to_owned).collect();
    let request = raw(header.from, to, data);
    let submission = Submission { user: None, retry_key: None, request };
    let mails = rules.prepare(submission, &SystemEntropy.token()).map_err(CommandError::refused)?;
    let Some(first) = mails.first() else {
        let said = format!("{}: it names no recipient", path.display());
        return Err(CommandError::Input(said));
    };
    let (choice, queue, id) = (first.choice.clone(), first.queue.to_string(), first.id.clone());
    Ok(Explanation { choice, queue, messages: mails.len(), id })
}

impl View for Explanation {
    fn view(&self, page: &mut Page) {
        let CampaignChoice { campaign, priority, by } = &self.choice;
        let priority = priority.map_or_else(String::new, |priority| format!(".{priority}"));
        let chosen = format!("campaign {campaign}{priority}: chosen by {by}");
        page.line(Tone::Strong, chosen);
        page.line(Tone::Plain, format!("queue {}", self.queue));
        page.line(Tone::Plain, format!("id {}, messages {}", self.id, self.messages));
    }
}
