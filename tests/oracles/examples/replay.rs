//! Runs an oracle on files, without libFuzzer: `… --example replay -- message FILE…`.

use std::process::ExitCode;

use tidegate_oracles::ALL;

#[expect(clippy::print_stderr, reason = "a command")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let target = arguments.first().map(String::as_str).unwrap_or_default();
    let Some((_, oracle)) = ALL.iter().find(|(name, _)| *name == target) else {
        eprintln!("replay: name one of {} and files", ALL.map(|(name, _)| name).join(", "));
        return ExitCode::FAILURE;
    };
    for file in arguments.get(1..).unwrap_or_default() {
        match std::fs::read(file) {
            Ok(bytes) => oracle(&bytes),
            Err(error) => {
                eprintln!("replay: {file}: {error}");
                return ExitCode::FAILURE;
            }
        }
        eprintln!("{file}: holds");
    }
    ExitCode::SUCCESS
}
