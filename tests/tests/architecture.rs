//! The house's rules, asserted on `cargo metadata` and on the files.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests: a panic is a finding")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tidegate_core::counters::{Counter, CounterEntry, LedgerSums};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The packages of the workspace, as cargo tells them.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The dependencies of each package, without those for tests.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    packages()
        .iter()
        .map(|package| {
            let all = package["dependencies"].as_array().unwrap().iter();
            let built = all.filter(|dependency| dependency["kind"] != "dev");
            (text(&package["name"]), built.map(|dependency| text(&dependency["name"])).collect())
        })
        .collect()
}

/// A suite that the Makefile does not name would never run.
#[test]
fn every_suite_is_named_in_the_makefile_and_no_other() {
    let packages = packages();
    let targets = packages.iter().flat_map(|package| package["targets"].as_array().unwrap());
    let suites = targets.filter(|target| target["kind"][0] == "test");
    let there: BTreeSet<&str> = suites.map(|suite| suite["name"].as_str().unwrap()).collect();
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap().replace("\\\n", " ");
    let lists = makefile.lines().filter_map(|line| line.split_once("_SUITES := "));
    let named: BTreeSet<&str> = lists.flat_map(|(_, names)| names.split_whitespace()).collect();
    assert_eq!(named, there);
}

const CORE: &str = "tidegate-core";
const DELIVERY: &str = "tidegate-delivery";
const ADAPTERS: &str = "tidegate-adapters";
const FAKES: &str = "tidegate-fakes";
const LAMBDA: &str = "tidegate-lambda";
const OPERATOR: &str = "tidegate-operator";
const SIMULATOR: &str = "tidegate-simulator";
const CONSOLE: &str = "tidegate-console";
const DEVSTACK: &str = "tidegate-devstack";

/// The packages that a package may depend on: core <- delivery <- (adapters | fakes) <-
/// binaries. Tests may depend on all.
#[expect(clippy::match_same_arms, reason = "each package has its reason")]
fn allowed(package: &str) -> Option<&'static [&'static str]> {
    Some(match package {
        CORE => &[],
        DELIVERY => &[CORE],
        ADAPTERS | FAKES => &[CORE, DELIVERY],
        // The fakes for a ledger in memory, which is not deployed.
        LAMBDA => &[CORE, DELIVERY, ADAPTERS, FAKES],
        // The production code on the fakes, and forecasts.
        SIMULATOR => &[CORE, DELIVERY, FAKES],
        // The commands: use cases over ports, as the pollers', and thin parts that put them onto a stack.
        OPERATOR => &[CORE, DELIVERY, ADAPTERS, SIMULATOR],
        // A page of what the use cases tell, and the program, which has the page as one more command.
        CONSOLE => &[CORE, DELIVERY, ADAPTERS, OPERATOR, SIMULATOR],
        // The local run asks the sandbox over HTTP, and shows the operator's views of its stack.
        DEVSTACK => &[CORE, DELIVERY, ADAPTERS, FAKES, OPERATOR, SIMULATOR, CONSOLE],
        // Built for every fuzz run: the policy, and nothing that takes minutes.
        "tidegate-oracles" => &[CORE],
        "tidegate-tests" => &[CORE, DELIVERY, ADAPTERS, FAKES, DEVSTACK, OPERATOR, SIMULATOR],
        _ => return None,
    })
}

#[test]
fn arrows_run_down_only() {
    let all = dependencies();
    let ours: BTreeSet<&str> = all.keys().map(String::as_str).collect();
    for (package, needs) in &all {
        let allowed = allowed(package).unwrap_or_else(|| {
            panic!("{package} is new: say in this test which crates it may need")
        });
        let needed = needs.iter().map(String::as_str).filter(|name| ours.contains(name));
        for name in needed {
            assert!(allowed.contains(&name), "{package} needs {name}; it may need {allowed:?}");
        }
    }
    assert!(
        ours.is_superset(&BTreeSet::from([CORE, DELIVERY, ADAPTERS, FAKES, CONSOLE, DEVSTACK]))
    );
}

#[test]
fn policy_and_use_cases_know_no_runtime_and_no_aws() {
    let all = dependencies();
    let foreign = |name: &&String| {
        ["tokio", "aws-", "lambda_", "hyper", "axum", "redis", "reqwest", "rand"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    for package in [CORE, DELIVERY] {
        let found: Vec<&String> = all[package].iter().filter(foreign).collect();
        assert!(found.is_empty(), "{package} needs {found:?}");
    }
    let aws = |name: &&String| name.starts_with("aws-");
    assert_eq!(all[FAKES].iter().find(aws), None, "the fakes need no AWS");
}

fn files(directory: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

/// The mailbox judges the end-to-end tests by its own count of what arrived: it shares no code with
/// the sender that it judges.
#[test]
fn the_mailbox_counts_without_the_code_that_it_judges() {
    let fakes = root().join("crates/fakes/src");
    for path in [fakes.join("sliding_count.rs"), fakes.join("sandbox/mailbox.rs")] {
        let source = std::fs::read_to_string(&path).unwrap();
        let ours = source
            .lines()
            .find(|line| line.contains("tidegate_core") || line.contains("tidegate_delivery"));
        assert_eq!(ours, None, "{}", path.display());
        let outside = source.lines().filter(|line| line.starts_with("use crate::"));
        let mut outside = outside.filter(|line| !line.contains("::sliding_count::"));
        assert_eq!(outside.next(), None, "{}", path.display());
    }
}

fn rust_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in ["crates", "tests"] {
        files(&root().join(directory), "rs", &mut found);
    }
    assert!(found.len() > 30, "{} files", found.len());
    found
}

#[test]
fn every_event_is_named_by_a_test() {
    let mut events = Vec::new();
    files(&root().join("events"), "json", &mut events);
    assert!(!events.is_empty(), "events/ is empty");
    let sources: Vec<String> =
        rust_files().iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for event in events {
        let name = event.file_name().unwrap().to_str().unwrap();
        let named = sources.iter().any(|source| source.contains(name));
        assert!(named, "no test names events/{name}");
    }
}

fn page(name: &str) -> String {
    let path = root().join("docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Each row of the fault matrix ends in [`test`](../file).
#[test]
fn every_test_that_the_fault_matrix_names_is_there() {
    let matrix = page("fault-matrix.md");
    let rows = matrix.lines().filter_map(|line| line.strip_suffix(") |"));
    let named = rows.filter_map(|row| row.rsplit_once("| [`")?.1.split_once("`](../"));
    let named: Vec<(&str, &str)> = named.collect();
    assert!(named.len() > 60, "{} rows", named.len());
    for (test, file) in named {
        let source = std::fs::read_to_string(root().join(file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(source.contains(&format!("fn {test}(")), "{file} has no test {test}");
    }
}

/// A recorded example stands below a comment that names its file, in a block of its own.
#[test]
fn every_recorded_example_in_the_docs_is_what_a_test_recorded() {
    let mut pages = Vec::new();
    files(&root().join("docs"), "md", &mut pages);
    pages.push(root().join("README.md"));
    let mut shown = BTreeSet::new();
    for path in pages {
        let page = std::fs::read_to_string(&path).unwrap();
        for recorded in page.split("<!-- golden: ").skip(1) {
            let (file, rest) = recorded.split_once(" -->").unwrap();
            let block = rest.split("```text\n").nth(1).and_then(|block| block.split("```").next());
            let golden = std::fs::read_to_string(root().join(file));
            let golden = golden.unwrap_or_else(|error| panic!("{file}: {error}"));
            assert_eq!(block, Some(golden.as_str()), "{} shows another {file}", path.display());
            shown.insert(file.to_owned());
        }
    }
    let mut recorded = Vec::new();
    files(&root().join("crates"), "txt", &mut recorded);
    recorded.retain(|path| path.parent().is_some_and(|folder| folder.ends_with("tests/golden")));
    assert!(recorded.len() > 20, "{} recorded examples", recorded.len());
    for path in recorded {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap();
        assert!(shown.contains(name), "no page shows {name}");
    }
}

/// The list of counters as the table of `docs/operations/metrics.md`.
fn counters_in_words() -> String {
    let row = |counter: &Counter| {
        let CounterEntry { name, unit, ledger, metric, meaning } = counter.entry();
        let ledger = match ledger {
            LedgerSums::None => "no",
            LedgerSums::Total => "yes",
            LedgerSums::ByCampaign => "by campaign",
            LedgerSums::TotalAndByCampaign => "yes, also by campaign",
        };
        let metric = metric.map(|name| format!("`{name}`")).unwrap_or_default();
        format!("| `{name}` | {} | {metric} | {ledger} | {meaning} |\n", unit.as_str())
    };
    let head = "| counter | unit | metric | sum in the ledger | meaning |\n|---|---|---|---|---|\n";
    Counter::ALL.iter().map(row).fold(head.to_owned(), |table, row| table + &row)
}

#[test]
fn the_docs_list_the_counters_as_the_code_does() {
    const BEGIN: &str = "<!-- counters -->\n";
    const END: &str = "<!-- /counters -->";
    let path = root().join("docs/operations/metrics.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let expected = counters_in_words();
    if std::env::var_os("SNAPSHOTS").is_some_and(|wanted| wanted == "overwrite") {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, expected, "SNAPSHOTS=overwrite writes it");
    }
}

#[test]
fn the_doctor_names_the_price_of_a_short_wake_time_that_is_calculated() {
    let page = std::fs::read_to_string(root().join("docs/cost.md")).unwrap();
    let row = page.lines().find_map(|line| line.strip_prefix("| `IdleWakeSeconds` 5 | +"));
    assert!(
        row.is_some_and(|row| row.starts_with(tidegate_operator::doctor::SOON_COSTS)),
        "{row:?}"
    );
}
