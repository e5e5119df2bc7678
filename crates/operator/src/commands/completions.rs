use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell as Kind;

use crate::shell::{CommandEnd, CommandError, CommandResult};

/// Write the completions of a shell
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
pub struct CompletionsArgs {
    /// The shell to write completions for
    #[arg(value_enum)]
    shell: Kind,
}

/// Write the manual's pages: one a command, and one of the whole
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:
  tidegate man ~/.local/share/man/man1 && man tidegate-send")]
pub struct ManArgs {
    /// The folder to write them into; it must be there
    folder: PathBuf,
}

pub(super) fn run(args: &CompletionsArgs, mut program: clap::Command) -> CommandResult {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "tidegate", &mut text);
    match io::stdout().write_all(&text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(CommandError::Terminal(error))
        }
        _ => Ok(CommandEnd::Done),
    }
}

pub(super) fn man(args: &ManArgs, program: clap::Command) -> CommandResult {
    clap_mangen::generate_to(program, &args.folder)
        .map_err(CommandError::of_file(&args.folder, "the manual cannot be written there"))?;
    Ok(CommandEnd::Done)
}
