//! The program `tidegate`: parses the command line, handles signals, and sets the exit code.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tidegate_console::command::{self, ConsoleArgs};
use tidegate_core::in_full;
use tidegate_operator::commands::Command;
use tidegate_operator::shell::{
    CommandEnd, CommandError, CommandResult, Output, OutputArgs, Shell,
};

/// Tidegate sends e-mail campaigns through Amazon SES at exactly the account's quota.
///
/// Exit codes: 0 done; 1 done, and something was found wrong; 2 an option or a file is wrong, nothing
/// was done; 3 the stack, a service or a file is out of reach; 4 not confirmed, nothing changed;
/// 5 what was found proves nothing; 130 interrupted.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: AnyCommand,
}

#[derive(Debug, Subcommand)]
enum AnyCommand {
    #[command(flatten)]
    Other(Box<Command>),
    Console(Box<ConsoleArgs>),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let parsed = with_negative_numbers(Program::command()).try_get_matches();
    let parsed = parsed.and_then(|found| Ok((Program::from_arg_matches(&found)?, output(&found))));
    let (program, output) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refuse(&error),
    };
    let ended = Box::pin(run(program.command, output)).await;
    let fail = |error: CommandError| fail(output.is_json(), &in_full(&error), error.exit_code());
    ended.map_or_else(fail, ExitCode::from)
}

/// The output that the command's options ask for; commands without a report have none of them.
fn output(found: &ArgMatches) -> Output {
    let of_command = found.subcommand().filter(|(_, own)| own.try_contains_id("json").is_ok());
    let args = of_command.and_then(|(_, own)| OutputArgs::from_arg_matches(own).ok());
    args.map_or_else(Output::plain, Output::new)
}

/// Ends on a command line that is not understood, or on one that asks for help.
fn refuse(error: &clap::Error) -> ExitCode {
    let json = std::env::args().any(|word| word == "--json");
    if json && error.use_stderr() {
        return fail(json, error.to_string().trim_end(), 2);
    }
    error.exit()
}

/// Says on standard error why the program ends: as JSON if the report would have been JSON.
fn fail(json: bool, said: &str, exit_code: u8) -> ExitCode {
    let said = if json {
        serde_json::json!({ "error": said, "exit_code": exit_code }).to_string()
    } else {
        format!("tidegate: {said}")
    };
    let _ = writeln!(io::stderr(), "{said}");
    ExitCode::from(exit_code)
}

/// Reads `-1` after an option as its value, so that the error says what is allowed there.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command.allow_negative_numbers(true).mut_subcommands(with_negative_numbers)
}

async fn run(command: AnyCommand, output: Output) -> CommandResult<u8> {
    let shell = Shell::new(output, command::interrupts());
    let ended = match command {
        AnyCommand::Other(command) => Box::pin(command.run(&shell, Program::command())).await,
        AnyCommand::Console(args) => Box::pin(command::run(&args, &shell)).await,
    };
    ended.map(CommandEnd::exit_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &clap::Command) -> Vec<&clap::Command> {
        let inner = command.get_subcommands().flat_map(all);
        std::iter::once(command).chain(inner).collect()
    }

    #[test]
    fn the_options_are_consistent_and_every_one_is_explained() {
        let mut program = Program::command();
        program.build();
        program.clone().debug_assert();
        for command in all(&program) {
            let name = command.get_name();
            if name == "help" {
                continue;
            }
            assert!(command.get_about().is_some(), "{name} says nothing of itself");
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let id = option.get_id();
                assert!(option.get_help().is_some(), "{name} {id} is not explained");
                let is_output = ["json", "color", "show_addresses"].contains(&id.as_str());
                assert_eq!(option.get_help_heading() == Some("Output"), is_output, "{name} {id}");
            }
        }
    }

    #[test]
    fn a_negative_number_is_refused_as_the_option_s_value() {
        let program = with_negative_numbers(Program::command());
        let error = program
            .try_get_matches_from(["tidegate", "plan", "--campaign", "a=1", "--runs", "-1"])
            .unwrap_err();
        assert!(error.to_string().contains("invalid value '-1' for '--runs"), "{error}");
    }

    #[test]
    fn every_shell_has_its_completions() {
        use clap::ValueEnum as _;
        for shell in clap_complete::Shell::value_variants() {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Program::command(), "tidegate", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("status") && text.contains("show-addresses"), "{shell}");
        }
    }
}
