//! The server as a process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// Ends when it is dropped: with its input.
pub(crate) struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<BufReader<ChildStdout>>>,
}

fn read(output: &Mutex<BufReader<ChildStdout>>) -> Value {
    let mut line = String::new();
    output.lock().unwrap().read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

impl Process {
    pub(crate) fn start() -> (Self, SocketAddr) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("--server").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let output = Arc::new(Mutex::new(BufReader::new(output)));
        let address = read(&output);
        (Self { child, input, output }, address.as_str().unwrap().parse().unwrap())
    }

    fn tell(&self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn look(&self) -> Value {
        self.tell("look");
        read(&self.output)
    }

    /// Sends a line and returns the answer. Meanwhile the clients of this process go on reading.
    pub(crate) async fn ask(&self, line: &str) -> Value {
        self.tell(line);
        let output = Arc::clone(&self.output);
        tokio::task::spawn_blocking(move || read(&output)).await.unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
