use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn program(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ses-sandbox"));
    command.args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts it on a free port and reads what it says.
fn started(options: &[&str]) -> (Child, Value) {
    let listen = ["--listen", "127.0.0.1:0", "--json"];
    let mut child = program(&[&listen, options].concat()).spawn().expect("spawn");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("stdout")).read_line(&mut line).expect("line");
    (child, serde_json::from_str(&line).expect("one line of JSON"))
}

fn output(options: &[&str]) -> (Output, String) {
    let output = program(options).output().expect("run");
    let said = String::from_utf8(output.stderr.clone()).expect("UTF-8");
    (output, said)
}

#[test]
fn it_says_where_it_listens_names_a_taken_port_and_ends_well_when_told() {
    let (child, said) = started(&["--quota", "200", "--strict", "--fault", "reset,ratio=0.1"]);
    let address = said["address"].as_str().expect("address");
    assert_eq!(said["url"], format!("http://{address}"));
    let (second, complaint) = output(&["--listen", address]);
    assert_eq!(second.status.code(), Some(1));
    assert!(complaint.contains(&format!("cannot listen on {address}: ")), "{complaint}");
    assert!(complaint.contains("another with --listen"), "{complaint}");
    for signal in ["-TERM", "-INT"] {
        let (mut child, _) = started(&[]);
        kill(&child, signal);
        assert!(child.wait().expect("end").success(), "{signal}");
    }
    let mut child = child;
    kill(&child, "-TERM");
    assert!(child.wait().expect("end").success());
}

#[test]
fn a_wrong_option_is_refused_with_its_name_the_value_and_what_is_allowed() {
    for (options, parts) in [
        (["--quota", "0"], ["--quota", "'0'", "from 0.001 to 10000"]),
        (["--latency", "soon"], ["--latency", "'soon'", "p50=80ms,p99=400ms"]),
        (["--fault", "reset,ratio=2"], ["--fault", "'reset,ratio=2'", "from 0 to 1"]),
    ] {
        let (output, said) = output(&options);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}

#[test]
fn tls_needs_a_certificate_and_its_key_and_both_can_be_read() {
    let (alone, said) = output(&["--tls-cert", "cert.pem"]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(said.contains("--tls-key <FILE>"), "{said}");
    let (missing, said) = output(&["--tls-cert", "/no/such/file", "--tls-key", "/no/such/file"]);
    assert_eq!(missing.status.code(), Some(1));
    let told = "--tls-cert /no/such/file: must be a PEM file with certificates";
    assert!(said.contains(told), "{said}");
}

fn kill(child: &Child, signal: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().expect("kill").success());
}
