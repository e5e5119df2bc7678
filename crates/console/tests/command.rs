//! The command's exit codes and messages, where it needs nothing but itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside of them")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn console(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["console", "--local", "--local-runs", "/nonexistent"]).args(options);
    command.env_remove("TIDEGATE_CONSOLE_TOKEN").output().unwrap()
}

fn tidegate(words: &[&str], folder: &TempDir) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.args(words).current_dir(folder.path()).output().unwrap();
    assert!(output.stdout.is_empty(), "{words:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn with_json_an_error_is_json_as_well() {
    let folder = TempDir::new().unwrap();
    for (words, code, said) in [
        (&["status", "--local", "--local-runs", "/nonexistent"][..], 3, "/nonexistent"),
        (&["status", "--no-such-option"], 2, "unexpected argument"),
    ] {
        let (ended, error) = tidegate(&[words, &["--json"]].concat(), &folder);
        let error: serde_json::Value = serde_json::from_str(&error).unwrap();
        assert_eq!((ended, &error["exit_code"]), (Some(code), &code.into()), "{error}");
        assert!(error["error"].as_str().unwrap().contains(said), "{error}");
        let (_, error) = tidegate(words, &folder);
        assert!(error.contains(said) && !error.starts_with('{'), "{error}");
    }
}

#[test]
fn local_becomes_the_program_of_the_package_with_its_options_and_its_exit_code() {
    let prefix = TempDir::new().unwrap();
    // A child that another test starts meanwhile holds what this process has open, and Linux
    // starts no program that somebody has open for writing: another process writes these.
    let install = |from: &std::path::Path, to: &str| {
        let to = prefix.path().join(to);
        let done = Command::new("install").args(["-D", "-m", "755"]).arg(from).arg(&to).status();
        assert!(done.unwrap().success());
        to
    };
    let own = install(env!("CARGO_BIN_EXE_tidegate").as_ref(), "bin/tidegate");
    let local = |options: &[&str]| Command::new(&own).arg("local").args(options).output().unwrap();
    let missing = local(&[]);
    let said = String::from_utf8(missing.stderr).unwrap();
    assert_eq!(missing.status.code(), Some(2), "{said}");
    assert!(said.contains("uvx 'tidegate[local]' local"), "{said}");
    let script = prefix.path().join("script");
    std::fs::write(&script, "#!/bin/sh\necho \"$@\"\nexit 7\n").unwrap();
    install(&script, "libexec/tidegate/devstack");
    for options in [&["--quota", "-1", "--json"][..], &["--help"], &[]] {
        let output = local(options);
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), options.join(" "));
    }
}

#[test]
fn results_say_that_a_journal_is_empty() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("big.journal"), "").unwrap();
    let (code, error) = tidegate(&["results", "big.journal"], &folder);
    assert_eq!(
        (code, error.contains("big.journal: its run enqueued nothing")),
        (Some(2), true),
        "{error}"
    );
}

#[test]
fn a_console_says_what_is_wrong_before_it_looks_for_a_stack() {
    let folder = TempDir::new().unwrap();
    let short = folder.path().join("token");
    std::fs::write(&short, "short\n").unwrap();
    let short = short.to_str().unwrap();
    let weak = folder.path().join("weak");
    std::fs::write(&weak, "passwordpassword\n").unwrap();
    let weak = weak.to_str().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    for (options, code, words) in [
        (["--stream-rate", "0/s:1"], 2, "0.1 to 1000 events a second"),
        (["--token-file", short], 2, "allowed are 16 to 256"),
        (["--token-file", weak], 2, "take a random one"),
        (["--token-file", "/nonexistent"], 3, "/nonexistent: cannot be read"),
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

#[test]
fn a_profile_or_configuration_that_cannot_be_used_is_named() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let good = file("good", "[profile news]\nregion = eu-west-1\n[default]\nregion = eu-west-1\n");
    let torn = file("torn", "[profile news\n");
    let read = folder.path().to_owned();
    for (config, profile, words) in [
        (&good, &["--profile", "nws"][..], "has no profile nws; it has default, news"),
        (&torn, &[], "torn"),
        (&read, &[], "could not read file"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .arg("status")
            .args(profile)
            .env("AWS_CONFIG_FILE", config)
            .env_remove("AWS_PROFILE");
        let output = command.env("AWS_SHARED_CREDENTIALS_FILE", &good).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{config:?}: {said}");
        assert!(said.contains(words) && output.stdout.is_empty(), "{config:?}: {said}");
    }
}

#[test]
fn a_limits_key_may_name_a_provider() {
    let folder = TempDir::new().unwrap();
    let (code, error) = tidegate(&["limit", "set", "provider:gmial", "5/s"], &folder);
    assert_eq!(code, Some(2));
    assert!(error.contains("\"gmial\" is no provider; allowed are gmail, microsoft"), "{error}");
    let local = ["--local", "--local-runs", "/nonexistent", "--reason", "test"];
    let words = [&["limit", "set", "provider:gmail", "5/s"][..], &local].concat();
    assert_eq!(tidegate(&words, &folder).0, Some(3), "the key is understood");
}

/// The first line that a client of the command sends to this listener.
fn asked(listener: &TcpListener, proxy: &str, more: &[(&str, &str)], options: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["status", "--stack", "mail", "--region", "eu-west-1"]).args(options);
    command.env_clear().env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", "secret");
    let to = format!("http://{}", listener.local_addr().unwrap());
    let mut running = command.env(proxy, to).envs(more.iter().copied()).spawn().unwrap();
    let mut line = String::new();
    let (stream, _) = listener.accept().unwrap();
    BufReader::new(stream).read_line(&mut line).unwrap();
    running.kill().unwrap();
    running.wait().unwrap();
    line
}

#[test]
fn the_command_goes_through_the_proxy_of_its_environment_and_past_it_where_that_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let line = asked(&listener, variable, &[], &[]);
        assert!(line.starts_with("CONNECT cloudformation.eu-west-1.amazonaws.com:443"), "{line}");
    }
    let here = format!("http://{}", listener.local_addr().unwrap());
    let direct = [("NO_PROXY", "127.0.0.1"), ("HTTP_PROXY", "http://127.0.0.1:1")];
    let line = asked(&listener, "HTTPS_PROXY", &direct, &["--endpoint-url", &here]);
    assert!(line.starts_with("POST / HTTP/1.1"), "{line}");
}

#[test]
fn a_relay_beyond_loopback_or_with_passwords_in_the_clear_is_refused_before_it_looks_for_a_stack() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("keys.json"), r#"{"A": {"secret": "0123456789abcdef"}}"#)
        .unwrap();
    std::fs::write(folder.path().join("rules.json"), r#"{"sender": {}}"#).unwrap();
    let local = ["relay", "--local", "--local-runs", "/nonexistent"];
    for (options, said) in [
        (&["--listen", "0.0.0.0:0"][..], "0.0.0.0:0 is reached by other machines"),
        (&["--smtp", "[::]:0"], "[::]:0 is reached by other machines"),
        (&["--credentials", "keys.json"], "passwords are taken over TLS alone"),
        (&["--rules", "rules.json"], "unknown field `sender`"),
        (&["--tls-cert", "keys.json", "--tls-key", "keys.json"], "keys.json"),
    ] {
        let (code, error) = tidegate(&[&local[..], options].concat(), &folder);
        assert!(code == Some(2) && error.contains(said), "{options:?}: {code:?} {error}");
    }
}

/// What an assistant hears that sends these requests.
fn assistant(options: &[&str], requests: &[(&str, serde_json::Value)]) -> Vec<serde_json::Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["mcp", "--local", "--local-runs", "/nonexistent"]).args(options);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut to = child.stdin.take().unwrap();
    let mut from = BufReader::new(child.stdout.take().unwrap()).lines();
    let begin = serde_json::json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"},
    });
    let mut answers = Vec::new();
    for (id, (method, params)) in [("initialize", begin)].iter().chain(requests).enumerate() {
        writeln!(
            to,
            "{}",
            serde_json::json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        )
        .unwrap();
        let answer: serde_json::Value =
            serde_json::from_str(&from.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answers.push(answer);
        if id == 0 {
            writeln!(
                to,
                "{}",
                serde_json::json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
            )
            .unwrap();
        }
    }
    drop(to);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    answers.remove(0);
    answers
}

fn call(name: &str, arguments: &serde_json::Value) -> (&'static str, serde_json::Value) {
    ("tools/call", serde_json::json!({"name": name, "arguments": arguments}))
}

#[test]
fn an_assistant_has_the_reading_commands_with_their_options_and_others_only_with_act() {
    let names = |options: &[&str]| -> Vec<String> {
        let answers = assistant(options, &[("tools/list", serde_json::json!({}))]);
        let tools = answers[0]["result"]["tools"].as_array().unwrap();
        for tool in tools {
            let acts = tool["annotations"]["destructiveHint"].as_bool().unwrap();
            assert_eq!(tool["annotations"]["readOnlyHint"], !acts, "{tool}");
            assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
            let properties = tool["inputSchema"]["properties"].as_object().unwrap();
            let has_reason =
                tool["inputSchema"]["required"].as_array().unwrap().contains(&"reason".into());
            assert_eq!(has_reason, acts, "{tool}");
            for (name, property) in properties {
                assert!(!property["description"].as_str().unwrap().is_empty(), "{name}");
                assert!(
                    !["show_addresses", "csv", "chart", "body", "stack", "json"]
                        .contains(&name.as_str()),
                    "{name}"
                );
            }
        }
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let reading = [
        "status",
        "why",
        "plan",
        "results",
        "dead",
        "dead_list",
        "dead_show",
        "history",
        "limit_list",
    ];
    let acting =
        ["pause", "resume", "lift", "weights", "rate", "limit_set", "limit_remove", "dead_replay"];
    let unreasoned = assistant(&["--act"], &[call("weights", &serde_json::json!({"reset": true}))]);
    assert!(
        unreasoned[0]["error"].to_string().contains("weights wants reason"),
        "{}",
        unreasoned[0]
    );
    assert_eq!(names(&[]), reading);
    assert_eq!(names(&["--act"]), [&reading[..], &acting[..]].concat());
}

#[test]
fn an_assistant_gets_reports_and_what_is_wrong_in_words() {
    let mails = serde_json::json!({"campaign": ["big=1000", "small=100"], "weights": "90/10", "quota": 14, "every_window": false});
    let mut answers = assistant(
        &[],
        &[
            ("tools/list", serde_json::json!({})),
            call("plan", &mails),
            call("plan", &serde_json::json!({"campaign": ["--live"]})),
            call("status", &serde_json::json!({"show_addresses": true})),
            call("pause", &serde_json::json!({"reason": "a typo"})),
            call("history", &serde_json::json!({"limit": 5})),
        ],
    );
    let tools = answers.remove(0);
    let mut tools = tools["result"]["tools"].as_array().unwrap().iter();
    let tool = tools.find(|tool| tool["name"] == "plan").unwrap();
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("plan.json", tool["outputSchema"].clone()).unwrap();
    let schema = compiler.compile("plan.json", &mut schemas).unwrap();
    let plan = &answers[0]["result"];
    assert_eq!(plan["isError"], false, "{plan}");
    schemas.validate(&plan["structuredContent"], schema).unwrap();
    let said = |answer: &serde_json::Value| answer.to_string();
    assert!(
        answers[1]["result"]["isError"] == true && said(&answers[1]).contains("--live"),
        "{}",
        answers[1]
    );
    assert!(said(&answers[2]["error"]).contains("status has no show_addresses"), "{}", answers[2]);
    assert!(said(&answers[3]["error"]).contains("it is offered with --act"), "{}", answers[3]);
    assert!(
        answers[4]["result"]["isError"] == true && said(&answers[4]).contains("/nonexistent"),
        "{}",
        answers[4]
    );
}
