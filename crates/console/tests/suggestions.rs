//! Every command that a report, an error or a help text suggests is one that `tidegate` takes.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::{ArgMatches, CommandFactory as _, Parser};
use tidegate_core::Timestamp;
use tidegate_core::config::EXPRESS;
use tidegate_core::control::{Control, Hold, HoldReason};
use tidegate_delivery::ports::Standing;
use tidegate_operator::commands::Command;
use tidegate_operator::redact::AddressVisibility;
use tidegate_operator::status::{HoldStatus, StackFacts, Status, StatusSettings};
use tidegate_operator::suggest::SuggestedCommand;
use tidegate_simulator::WorldSettings;

#[derive(Debug, Parser)]
#[command(name = "tidegate")]
struct Program {
    #[command(subcommand)]
    command: Command,
}

/// The words of a command as `sh` splits it.
fn split(command: &str) -> Vec<String> {
    let printed = Process::new("sh").args(["-c", &format!("printf '%s\\n' {command}")]).output();
    String::from_utf8(printed.unwrap().stdout).unwrap().lines().map(str::to_owned).collect()
}

#[track_caller]
fn parsed(command: &str) -> ArgMatches {
    let matches = Program::command().try_get_matches_from(split(command));
    matches.unwrap_or_else(|error| panic!("{command}: {error}"))
}

/// The commands that a text has between backticks.
fn suggested(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|code| code.starts_with("tidegate "))
}

#[test]
fn every_suggestion_is_parsed_and_its_words_stay_what_they_were() {
    let awkward = ["big", "-x", "ada's $(order) \"4711\"", "--yes"];
    let mut all = vec![
        SuggestedCommand::Dead,
        SuggestedCommand::PlanLive,
        SuggestedCommand::Resume { campaign: None },
    ];
    for text in awkward.map(str::to_owned) {
        let campaign = Some(text.clone());
        all.push(SuggestedCommand::Results(text.clone()));
        all.push(SuggestedCommand::Resume { campaign: campaign.clone() });
        all.push(SuggestedCommand::Lift { hold: text.clone(), campaign: campaign.clone() });
        all.push(SuggestedCommand::ExportCancelled { campaign: text.clone() });
        all.push(SuggestedCommand::Weight { campaign: text.clone(), weight: 1 });
        all.push(SuggestedCommand::Replay { id: text, campaign, include_unknown: true });
    }
    for command in all {
        parsed(&command.to_string());
        assert_eq!(split(&command.to_string())[1..], command.words());
    }
}

fn holds(control: Control) -> Vec<HoldStatus> {
    let world = WorldSettings::new(14.0, true);
    let settings = StatusSettings {
        stack: "tidegate".to_owned(),
        poller: world.poller().unwrap(),
        scheduler: world.scheduler().unwrap(),
        addresses: AddressVisibility::Masked,
        changes: 0,
        ses_price: None,
    };
    let facts = StackFacts {
        at: Timestamp::from_millis(1_795_206_967_042),
        settings,
        standing: Standing { control, ..Standing::default() },
        campaigns: Vec::new(),
        backlogs: [].into(),
        depths: [].into(),
        account: None,
        changes: Vec::new(),
        runs: Vec::new(),
    };
    Status::of(&facts).holds
}

#[test]
fn the_command_that_a_hold_names_lifts_that_hold_and_no_other() {
    let reasons = [
        HoldReason::Paused,
        HoldReason::DailyQuota,
        HoldReason::DailyBudget,
        HoldReason::Account,
        HoldReason::Tenant,
        HoldReason::Refusals,
        HoldReason::Reputation,
    ];
    for reason in reasons {
        for campaign in [None, Some("big"), Some(EXPRESS)] {
            let mut control = Control::default();
            control.hold(campaign, reason, Hold::new("said", Timestamp::from_millis(0)));
            let [hold] = holds(control.clone()).try_into().unwrap();
            let lifted_by: Vec<&str> = suggested(&hold.lifted_by).collect();
            let [command] = lifted_by[..] else {
                assert!(campaign.is_none() && hold.lifted_by == "the scheduler", "{hold:?}");
                assert!(HoldReason::LIFTED_BY_SCHEDULER.contains(&reason));
                continue;
            };
            let matches = parsed(command);
            let (name, arguments) = matches.subcommand().unwrap();
            let argument = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
            let lifted = if name == "resume" { Some("paused") } else { argument("hold") };
            assert!(control.lift_named(argument("campaign"), lifted.unwrap()), "{command}");
            assert_eq!(control, Control::default(), "{command}");
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let nested = entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    nested.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}

#[test]
fn a_command_in_a_text_is_one_that_can_be_run_and_none_is_put_together_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = 0;
    for path in sources(crates) {
        let is_test = path.components().any(|part| part.as_os_str() == "tests");
        if is_test || path.ends_with("tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for command in suggested(line) {
                let shown = path.display();
                assert!(!command.contains('{'), "{shown}: use SuggestedCommand: {command}");
                parsed(command);
                found += 1;
            }
        }
    }
    assert!(found > 0);
}

fn help(command: &clap::Command) -> Vec<String> {
    let own = command.get_after_help().map(ToString::to_string);
    own.into_iter().chain(command.get_subcommands().flat_map(help)).collect()
}

#[test]
fn every_example_of_a_help_text_is_parsed() {
    let mut examples = 0;
    for text in help(&Program::command()) {
        // A backslash at the end of a line goes on with the next.
        let parts: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
        for line in parts.concat().lines() {
            let Some((before, rest)) = line.split_once("tidegate ") else { continue };
            let starts = before.trim().is_empty() || before.contains('=');
            let words = rest.split("  ").next().unwrap_or(rest);
            let ends = [" | ", " > ", " && ", " >/dev/null"];
            let words = ends.iter().fold(words, |words, end| words.split(end).next().unwrap());
            if starts {
                parsed(&format!("tidegate {}", words.trim()));
                examples += 1;
            }
        }
    }
    assert!(examples > 30, "{examples}");
}

#[test]
fn the_help_of_each_command_says_more_than_the_list_of_commands() {
    let program = Program::command();
    let short = |command: &&clap::Command| command.get_long_about().is_none();
    let names: Vec<&str> =
        program.get_subcommands().filter(short).map(clap::Command::get_name).collect();
    assert_eq!(names, ["completions", "man"], "these have one line of help");
}
