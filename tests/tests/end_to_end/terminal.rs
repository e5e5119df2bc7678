//! A program in a real terminal: what it draws, and what is typed.

use std::io::{Read as _, Write as _};
use std::num::NonZero;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};

const ROWS: NonZero<u16> = NonZero::new(32).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(110).unwrap();

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keys: ChildStdin,
    child: Child,
}

/// Python's terminal hands on what is typed and what is drawn, and ends as its program does.
const PTY: &str =
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";

impl Terminal {
    pub(crate) fn start(program: &std::path::Path, args: &[String]) -> Self {
        let python = std::env::var_os("TIDEGATE_PYTHON").unwrap_or_else(|| "python3".into());
        let sized = format!("stty rows {ROWS} cols {COLUMNS}; exec \"$@\"");
        let mut child = Command::new(python)
            .args(["-c", PTY, "sh", "-c", &sized, "sh"])
            .arg(program)
            .args(args)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let mut output = child.stdout.take().unwrap();
        let drawn = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = output.read(&mut buffer) {
                if length == 0 {
                    break;
                }
                drawn.lock().unwrap().process(&buffer[..length]);
            }
        });
        let keys = child.stdin.take().unwrap();
        Self { screen, keys, child }
    }

    pub(crate) fn shown(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits until `text` is on the screen.
    pub(crate) async fn shows(&self, text: &str, seconds: u64) {
        let until = Instant::now() + Duration::from_secs(seconds);
        while !self.shown().contains(text) {
            assert!(Instant::now() < until, "no {text:?} in {seconds} s on:\n{}", self.shown());
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits for the program's end: its exit code.
    pub(crate) async fn ended(&mut self, seconds: u64) -> i32 {
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(Instant::now() < until, "it runs on after {seconds} s:\n{}", self.shown());
            sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Terminal {
    /// Without its terminal the program is hung up.
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}
