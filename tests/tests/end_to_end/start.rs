//! A start with an environment that makes no sense.

use std::process::{Command, Output};

use serde_json::Value;

use crate::site::bin_dir;

/// The variables without which neither function starts.
const VALID: [(&str, &str); 5] = [
    (
        "TIDEGATE_CAMPAIGNS",
        r#"[{"name": "news", "queue_url": "http://127.0.0.1:9/0/news", "weight": 1}]"#,
    ),
    ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1:9/0/dead-letter"),
    ("TIDEGATE_LEDGER", "dynamodb:tidegate"),
    ("TIDEGATE_POLLER_FUNCTION", "tidegate-poller"),
    ("AWS_REGION", "us-east-1"),
];

fn start(binary: &str, variables: &[(&str, &str)]) -> Output {
    let path = bin_dir().join(binary);
    let output =
        Command::new(&path).env_clear().envs(VALID).envs(variables.iter().copied()).output();
    output.unwrap_or_else(|error| {
        panic!("`make test` builds what this test needs: {}: {error}", path.display())
    })
}

/// The error that a refused start tells: one line of JSON, and exit code 1.
fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{said}");
    let event: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!((&event["level"], &event["message"]), (&"ERROR".into(), &"start refused".into()));
    event["error"].as_str().unwrap().to_owned()
}

#[test]
fn an_invalid_variable_ends_the_start_with_its_name_its_value_and_what_is_allowed() {
    let cases = [
        ("poller", "TIDEGATE_RATE_MARGIN", "2", "a number from 0.005 to 0.5"),
        ("poller", "TIDEGATE_UNSENT", "keep", "timeout or release"),
        ("poller", "TIDEGATE_LEDGER", "redis", "memory or dynamodb:TABLE"),
        ("scheduler", "TIDEGATE_OVERLAP_WINDOWS", "-1", "a whole number from 0 to 20"),
        ("scheduler", "TIDEGATE_QUOTA_PER_SECOND", "fast", "a number from 0.001 to 10000"),
    ];
    for (binary, name, value, allowed) in cases {
        let said = refusal(&start(binary, &[(name, value)]));
        assert_eq!(said, format!("{name} is \"{value}\"; allowed is {allowed}"), "{binary}");
    }
}

#[test]
fn one_start_tells_all_that_is_wrong() {
    let campaigns = r#"[{"name": "news", "queue_url": "http://127.0.0.1:9/0/news", "weight": 0}]"#;
    let wrong = [("TIDEGATE_CAMPAIGNS", campaigns), ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "")];
    let said = refusal(&start("poller", &wrong));
    assert!(said.contains("TIDEGATE_CAMPAIGNS is \"[{"), "{said}");
    assert!(said.contains("TIDEGATE_DEAD_LETTER_QUEUE_URL is not set; allowed is"), "{said}");
}
