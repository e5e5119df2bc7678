use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use tokio::sync::oneshot;

/// The option that answers a confirmation beforehand.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ConfirmArgs {
    /// Change without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// The answer to a question on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    Yes,
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
        // On a thread of its own, because a read of a terminal cannot be cancelled, and an interrupt must
        // end the wait.
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
