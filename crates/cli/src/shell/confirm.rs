use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use tokio::sync::oneshot;

/// Whether a change is confirmed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ConfirmArgs {
    /// Change without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Go on.
    Yes,
    /// Leave it.
    No,
    /// There is no terminal to ask on, and no `--yes`.
    NoTerminal,
}

impl ConfirmArgs {
    /// Asks on the terminal; only `y` and `yes` mean yes.
    ///
    /// # Errors
    /// The terminal's.
    pub async fn confirm(self, question: &str) -> io::Result<Confirmation> {
        if self.yes {
            return Ok(Confirmation::Yes);
        }
        if !io::stdin().is_terminal() {
            return Ok(Confirmation::NoTerminal);
        }
        let mut err = anstream::stderr();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        // A thread of its own: whoever waits for it may be interrupted, a read of a terminal not.
        let (sender, line) = oneshot::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line).map(|_| line);
            let _ = sender.send(read);
        });
        let line = line.await.map_err(io::Error::other)??;
        let yes = ["y", "yes"].contains(&line.trim().to_lowercase().as_str());
        Ok(if yes { Confirmation::Yes } else { Confirmation::No })
    }
}
