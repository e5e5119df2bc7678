//! The program `devstack`: runs Tidegate on this machine.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser as _;
use tidegate_core::in_full;
use tidegate_devstack::{LocalArgs, run};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Box::pin(run(&LocalArgs::parse())).await {
        Ok(end) => ExitCode::from(end.exit_code()),
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {}", called(), in_full(&error));
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// The command that started it: `devstack`, or `tidegate local`.
fn called() -> String {
    let given = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&given).file_name().unwrap_or(given.as_os_str());
    name.display().to_string()
}
