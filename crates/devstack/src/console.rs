//! The console of a run's stack, in this process.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use tidegate_adapters::aws::stack::Stack;
use tidegate_console::http::{Access, Tokens, bind};
use tidegate_console::open::{OpenConsole, shown_of};
use tidegate_console::state_file::StateFile;
use tidegate_console::stream::StreamLimits;
use tidegate_operator::redact::AddressVisibility;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::error::LocalError;
use super::prerequisites;

/// Opens a console of `stack` on `port` of loopback, or a free one where that is none, and returns its
/// URL with it. Its log and its memory go into `folder`.
pub(super) async fn open(
    stack: &Stack,
    port: Option<u16>,
    folder: &Path,
) -> Result<(String, OpenConsole), LocalError> {
    log(folder)?;
    let port = prerequisites::port(port, "--console-port")?;
    let failed = |source| LocalError::Start { program: "the console".to_owned(), source };
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = bind(listen).map_err(failed)?;
    let access =
        Access { listen, tokens: Tokens::default(), public_url: None, trusted_proxies: Vec::new() };
    // Without its memory it works as well, but for pages that come back after a restart.
    let memory = StateFile::open(&folder.join("console.json"), &stack.poller_function.arn).ok();
    let (limits, shown) = (StreamLimits::default(), shown_of(stack, AddressVisibility::Masked));
    let opened = OpenConsole::open(stack, listener, access, limits, memory, shown, None);
    let console = Box::pin(opened).await?;
    Ok((format!("http://{listen}/"), console))
}

/// One event an outcome, as JSON.
fn log(folder: &Path) -> Result<(), LocalError> {
    let path = folder.join("console.log");
    let file = File::create(&path).map_err(|source| LocalError::Write { path, source })?;
    let layer = tracing_subscriber::fmt::layer().json().with_writer(Mutex::new(file));
    let ours = Targets::new().with_target("tidegate_console", tracing::Level::INFO);
    // Somebody logs already: a test.
    drop(tracing_subscriber::registry().with(ours).with(layer).try_init());
    Ok(())
}
