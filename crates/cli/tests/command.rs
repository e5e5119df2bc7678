//! The command's exit codes and messages, where it needs nothing but itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use std::net::TcpListener;
use std::process::{Command, Output};

use tempfile::TempDir;

fn console(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["console", "--local", "--local-runs", "/nonexistent"]).args(options);
    command.env_remove("TIDEGATE_CONSOLE_TOKEN").output().unwrap()
}

#[test]
fn a_console_says_what_is_wrong_before_it_looks_for_a_stack() {
    let folder = TempDir::new().unwrap();
    let short = folder.path().join("token");
    std::fs::write(&short, "short\n").unwrap();
    let short = short.to_str().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for (options, code, words) in [
        (["--stream-rate", "0/s:1"], 2, "0.1 to 1000 events a second"),
        (["--token-file", short], 2, "allowed are 16 to 256"),
        (["--token-file", "/nonexistent"], 3, "the token cannot be read"),
        (["--public-url", "mail.example"], 2, "such as https://mail.example"),
        (["--public-url", "https://mail.example/console"], 2, "without a path"),
        (["--listen", &taken], 3, "--listen names another address"),
        (["--listen", "127.0.0.1:0"], 3, "/nonexistent"),
    ] {
        let output = console(&options);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {said}");
        assert!(said.contains(words) && output.stdout.is_empty(), "{options:?}: {said}");
    }
}
