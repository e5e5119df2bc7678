//! The console's page in the user's browser.

use std::env;
use std::io::{IsTerminal as _, stdout};

/// Opens `url`, where somebody sits at a terminal and a screen. Elsewhere the printed link is enough: on a
/// server `xdg-open` may start a browser for terminals, in the middle of the display.
pub(super) fn open(url: &str) {
    let screen = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_screen =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(screen);
    if stdout().is_terminal() && has_screen {
        // The link is printed: a browser that does not start is no reason to say more.
        let _ = open::that_detached(url);
    }
}
