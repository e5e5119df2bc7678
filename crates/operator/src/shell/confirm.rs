use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use clap::Args;
use tokio::sync::oneshot;

use super::{CommandEnd, CommandError, CommandResult, Shell};
use crate::page::Tone;

/// The option that answers a confirmation beforehand.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct ConfirmArgs {
    /// Change without asking
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// Asks for confirmation. None means yes; every other answer ends the command, with a line that says so.
pub(crate) async fn stop_unless_confirmed(
    ask: ConfirmArgs,
    shell: &Shell,
    question: &str,
) -> CommandResult<Option<CommandEnd>> {
    if ask.yes {
        return Ok(None);
    }
    if !io::stdin().is_terminal() {
        let why = "there is no terminal to ask on; --yes changes without asking.";
        shell.output.remark(Tone::Warning, format!("Nothing was changed: {why}"));
        return Ok(Some(CommandEnd::Declined));
    }
    let is_confirmed = tokio::select! {
        answer = answer(question) => answer.map_err(CommandError::Terminal)?,
        () = shell.interrupted() => return Ok(Some(CommandEnd::Interrupted)),
    };
    if is_confirmed {
        return Ok(None);
    }
    shell.output.remark(Tone::Plain, "Nothing was changed.");
    Ok(Some(CommandEnd::Declined))
}

/// Asks on the terminal; only `y` and `yes` mean yes.
async fn answer(question: &str) -> io::Result<bool> {
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
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}
