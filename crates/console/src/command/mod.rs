mod args;
mod link;
mod stacks;

use std::io::IsTerminal as _;

use crate::http::{Access, bind};
use crate::open::OpenConsole;
use tokio::sync::watch;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use args::ConsoleArgs;
use link::ConsoleLink;
use stacks::{OtherStacks, refused_or_out_of_reach};

use tidegate_operator::shell::{CommandEnd, CommandError, Shell};

pub async fn run(args: &ConsoleArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let tokens = args.tokens()?;
    let is_token_given = tokens.is_some();
    let access = args.access(tokens);
    let refused = |error| CommandError::Refused(Box::new(error));
    access.check().map_err(refused)?;
    log(shell.output.is_json());
    let listener = bind(access.listen)
        .map_err(|source| CommandError::Listen { address: access.listen, source })?;
    let stack = args.on.stack.open().await?;
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
