//! The program's exit codes and messages, where it needs nothing but itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn devstack(options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_devstack")).args(options).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_wrong_option_ends_with_2_and_what_is_allowed() {
    let output = devstack(&["--quota", "12000"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("allowed is a number from 0.001 to 10000"), "{}", said(&output));
}

#[test]
fn what_is_missing_ends_with_2_and_what_to_do_and_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_str().unwrap();
    let output = devstack(&["--root", root, "--python", "/nonexistent/python"]);
    assert_eq!(output.status.code(), Some(2));
    let said = said(&output);
    assert!(said.contains("not found: the Python /nonexistent/python; run `make tools`"), "{said}");
    assert!(output.stdout.is_empty());
    let runs = std::fs::read_dir(folder.path().join(".local")).unwrap();
    assert_eq!(runs.count(), 0, "an empty run folder is left");
}

#[test]
fn in_json_mode_an_error_is_all_that_is_said() {
    let folder = TempDir::new().unwrap();
    let root = folder.path().to_str().unwrap();
    let output = devstack(&["--json", "--root", root, "--python", "/nonexistent/python"]);
    assert_eq!(said(&output).lines().count(), 1, "{}", said(&output));
    assert!(said(&output).starts_with("devstack: not found"));
    assert!(output.stdout.is_empty());
}

/// A Python that has every module, and a checkout with every file, as far as the search goes.
fn pretend(folder: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt as _;
    for file in ["python", "scheduler", "poller", "ses-sandbox"] {
        let path = folder.join(file);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    for file in ["infra/local/local_aws.py", "infra/sam/template.yaml"] {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let at = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    vec![
        "--root".to_owned(),
        at(""),
        "--python".to_owned(),
        at("python"),
        "--bin-dir".to_owned(),
        at(""),
    ]
}

#[test]
fn a_taken_port_ends_with_2_and_is_named_with_its_option() {
    let folder = TempDir::new().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port().to_string();
    let checkout = pretend(folder.path());
    for option in ["--port", "--sandbox-port"] {
        let options = checkout.iter().map(String::as_str).chain([option, &port]);
        let output = devstack(&options.collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2));
        let expected =
            format!("port {port} is taken: end the program that holds it, or leave out {option}");
        assert!(said(&output).contains(&expected), "{}", said(&output));
    }
}

#[test]
fn a_program_that_ends_at_once_is_told_and_ends_with_2() {
    let folder = TempDir::new().unwrap();
    let checkout = pretend(folder.path());
    let output = devstack(&checkout.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("ended (exit status: 0), and said nothing in"),
        "{}",
        said(&output)
    );
}
