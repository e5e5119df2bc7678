use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::shell::{CommandError, CommandResult};

/// The program of the local run: in a package below the prefix, in a checkout beside this one.
const PACKAGED: &str = "../libexec/tidegate/devstack";
const BUILT: &str = "devstack";

/// Send two campaigns through a local AWS on this machine, and watch them in a browser
///
/// Needs no account: it starts a local AWS (ministack) and an SES that enforces its quota, deploys the real template,
/// fills two campaign queues, opens the console, and ends with a report. `tidegate local --help` lists its options.
#[derive(Clone, Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  tidegate local
  tidegate local --quota 200 --messages 6000
  tidegate local --keep-running     then, in another terminal: tidegate top --local"
)]
pub struct LocalArgs {
    /// Options of the local run
    #[arg(value_name = "OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
    options: Vec<OsString>,
}

/// Becomes the program of the local run: signals and the exit code are that program's.
pub(super) fn run(args: &LocalArgs) -> CommandResult {
    let own = std::env::current_exe().and_then(|own| own.canonicalize()).unwrap_or_default();
    let program = find(&own).ok_or_else(|| {
        CommandError::Input(format!(
            "local: its program devstack is neither {} nor beside {}: install Tidegate as a package \
             (`uvx 'tidegate[local]' local`), or run `make run` in a checkout",
            own.parent().unwrap_or(Path::new("")).join(PACKAGED).display(),
            own.display()
        ))
    })?;
    let source = Command::new(&program).arg0("tidegate local").args(&args.options).exec();
    Err(CommandError::File { path: program, doing: "it cannot be started", source })
}

fn find(own: &Path) -> Option<PathBuf> {
    let folder = own.parent()?;
    [PACKAGED, BUILT].map(|name| folder.join(name)).into_iter().find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_the_package_is_found_before_one_that_was_built_beside() {
        let prefix = tempfile::TempDir::new().unwrap();
        let own = prefix.path().join("bin/tidegate");
        let (packaged, built) =
            (prefix.path().join("bin").join(PACKAGED), prefix.path().join("bin/devstack"));
        for folder in ["bin", "libexec/tidegate"] {
            std::fs::create_dir_all(prefix.path().join(folder)).unwrap();
        }
        assert_eq!(find(&own), None);
        std::fs::write(&built, "").unwrap();
        assert_eq!(find(&own).unwrap(), built);
        std::fs::write(&packaged, "").unwrap();
        assert_eq!(find(&own).unwrap(), packaged);
    }
}
