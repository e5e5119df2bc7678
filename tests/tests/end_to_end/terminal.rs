//! A program in a real terminal: what it draws, and what is typed.

use std::io::{Read as _, Write};
use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use tokio::time::{Instant, sleep};

const ROWS: NonZero<u16> = NonZero::new(32).unwrap();
const COLUMNS: NonZero<u16> = NonZero::new(110).unwrap();

/// A program on a terminal of its own.
pub(crate) struct Terminal {
    screen: Arc<Mutex<vt100::Parser>>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    // Closed with it, the program would be hung up.
    _master: Box<dyn MasterPty + Send>,
}

impl Terminal {
    pub(crate) fn start(program: &std::path::Path, args: &[String]) -> Self {
        let size =
            PtySize { rows: ROWS.get(), cols: COLUMNS.get(), pixel_width: 0, pixel_height: 0 };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(args);
        command.env("TERM", "xterm-256color");
        let child = pair.slave.spawn_command(command).unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(ROWS, COLUMNS, 0)));
        let mut output = pair.master.try_clone_reader().unwrap();
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
        let keys = pair.master.take_writer().unwrap();
        Self { screen, keys, child, _master: pair.master }
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
    pub(crate) async fn ended(&mut self, seconds: u64) -> u32 {
        let until = Instant::now() + Duration::from_secs(seconds);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.exit_code();
            }
            assert!(Instant::now() < until, "it runs on after {seconds} s:\n{}", self.shown());
            sleep(Duration::from_millis(50)).await;
        }
    }
}
