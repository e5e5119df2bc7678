use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;

/// Whether a change is confirmed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Ask {
    /// Change without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Leave it.
    No,
    /// There is no terminal to ask on, and no `--yes`.
    Nobody,
}

impl Ask {
    /// Asks on the terminal; only `y` and `yes` mean yes.
    ///
    /// # Errors
    /// The terminal's.
    pub fn confirm(self, question: &str) -> io::Result<Answer> {
        if self.yes {
            return Ok(Answer::Yes);
        }
        if !io::stdin().is_terminal() {
            return Ok(Answer::Nobody);
        }
        let mut err = anstream::stderr();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line)?;
        let yes = ["y", "yes"].contains(&line.trim().to_lowercase().as_str());
        Ok(if yes { Answer::Yes } else { Answer::No })
    }
}
