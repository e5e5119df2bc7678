//! The console of a run's stack, in this process, and its page in the user's browser.

use std::env;
use std::fs::File;
use std::io::{IsTerminal as _, stdout};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;

use tidegate_adapters::aws::stack::Stack;
use tidegate_console::http::{Access, Tokens, bind};
use tidegate_console::open::{OpenConsole, shown_of};
use tidegate_console::stream::StreamLimits;
use tidegate_operator::redact::AddressVisibility;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::error::LocalError;
use super::prerequisites;

/// Opens a console of `stack` on `port` of loopback, or a free one where that is none, and returns its
/// URL with it. Its log goes into `folder`.
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
    let (limits, shown) = (StreamLimits::default(), shown_of(stack, AddressVisibility::Masked));
    let opened = OpenConsole::open(stack, listener, access, limits, shown);
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

/// Opens `url`, where somebody sits at a terminal and a screen. Elsewhere the printed link is enough: on a
/// server `xdg-open` may start a browser for terminals, in the middle of the display.
pub(super) fn show(url: &str) {
    let screen = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(screen);
    if stdout().is_terminal() && has_screen {
        // The link is printed: a browser that does not start is no reason to say more.
        let _ = ::open::that_detached(url);
    }
}
