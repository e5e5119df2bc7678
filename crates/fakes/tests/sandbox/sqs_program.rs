use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn program(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sqs-sandbox"));
    command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts it on a free port and reads what it says.
fn started() -> (Child, Value) {
    let mut child =
        program(&["--listen", "127.0.0.1:0", "--json", "--create"]).spawn().expect("spawn");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("line");
    (child, serde_json::from_str(&line).expect("one line of JSON"))
}

#[test]
fn it_says_where_it_listens_names_a_taken_port_and_ends_well_when_told() {
    let (mut child, said) = started();
    let address = said["address"].as_str().expect("address");
    assert_eq!(said["url"], format!("http://{address}"));
    let second = program(&["--listen", address]).output().expect("run");
    let complaint = String::from_utf8(second.stderr).expect("UTF-8");
    assert_eq!(second.status.code(), Some(1));
    assert!(complaint.contains(&format!("cannot listen on {address}: ")), "{complaint}");
    assert!(complaint.contains("another with --listen"), "{complaint}");
    end(&mut child, "-TERM");
    let (mut child, _) = started();
    end(&mut child, "-INT");
}

#[test]
fn tls_needs_a_certificate_and_its_key_and_both_can_be_read() {
    let alone = program(&["--tls-key", "key.pem"]).output().expect("run");
    assert_eq!(alone.status.code(), Some(2));
    let options = ["--tls-cert", "/no/such/file", "--tls-key", "/no/such/file"];
    let missing = program(&options).output().expect("run");
    let said = String::from_utf8(missing.stderr).expect("UTF-8");
    assert_eq!(missing.status.code(), Some(1));
    let told = "--tls-cert /no/such/file: must be a PEM file with certificates";
    assert!(said.contains(told), "{said}");
}

fn end(child: &mut Child, signal: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
    assert!(child.wait().expect("end").success(), "{signal}");
}
