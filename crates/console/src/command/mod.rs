mod args;
mod link;
mod stacks;
mod unparsed_url;

use std::io::IsTerminal as _;

use crate::http::{Access, bind};
use crate::open::OpenConsole;
use tidegate_adapters::aws::stack::Stack;
use tidegate_adapters::redis::RedisConsoleBuckets;
use tidegate_core::config::BucketUrl;
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use args::ConsoleArgs;
use link::ConsoleLink;
use stacks::{OtherStacks, refused_or_out_of_reach};

use tidegate_operator::shell::{CommandEnd, CommandError, Shell};

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

pub async fn run(args: &ConsoleArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
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
    let this = stack.menu_name();
    let (others, requests) = OtherStacks::new(args, access.clone(), addresses, &this);
    let menu = Some(others.menu(&this));
    let shown = args.shown_of(&stack, addresses);
    let opened = OpenConsole::open(&stack, listener, access, limits, memory, shown, menu);
    let console = Box::pin(opened).await.map_err(refused_or_out_of_reach)?;
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
    let serving = others.serve(requests, ended.clone());
    tokio::join!(console.serve(asked), serving, interrupted);
    Ok(CommandEnd::Done)
}

/// One event an outcome, on standard error: as text on a terminal, else as JSON.
fn log(is_json: bool) {
    let ours = Targets::new().with_target("tidegate_console", tracing::Level::INFO);
    let ours = ours.with_target("tidegate_operator", tracing::Level::INFO);
    let ours = ours.with_target("tidegate_adapters::aws", tracing::Level::WARN);
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
