//! The terminal: another screen, keys one by one.

use std::io::{self, Read as _, Write as _, stdin, stdout};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::page::Page;

/// The longest time for which the thread that reads keys waits, before it checks whether the view has ended.
const KEYS_WAIT: Duration = Duration::from_millis(200);
/// Another screen without a cursor, on which long lines are cut; and the screen of before.
const OTHER_SCREEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const OWN_SCREEN: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// A key that the board knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Esc,
    Backspace,
    Up,
    Down,
}

/// The terminal of standard input and output while a board is shown on it; as it was before when this is dropped.
pub(super) struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Ctrl-C stays a signal; Ctrl-Z is none, because the shell would find another screen.
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut now = before.clone();
        now.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        now.special_codes[SpecialCodeIndex::VSUSP] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &now)?;
        let opened = Self { before };
        stdout().write_all(OTHER_SCREEN.as_bytes())?;
        Ok(opened)
    }

    /// Draws the page that `page` makes for so many columns and lines.
    pub(super) fn draw(page: impl FnOnce(usize, usize) -> Page) -> io::Result<()> {
        let size = tcgetwinsize(stdout())?;
        let (width, height) = (usize::from(size.ws_col), usize::from(size.ws_row));
        let page = page(width, height);
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        let text = if is_plain { page.plain() } else { page.to_string() };
        let lines: Vec<&str> = text.lines().take(height).collect();
        write!(stdout(), "\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n"))?;
        stdout().flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
        let _ = stdout().write_all(OWN_SCREEN.as_bytes()).and_then(|()| stdout().flush());
    }
}

/// Keys, read by a thread of its own: a terminal is read by waiting. After an error nothing more is read.
pub(super) fn keys() -> UnboundedReceiver<io::Result<Key>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let read = read_keys();
            let failed = read.is_err();
            let read = read
                .map_or_else(|error| vec![Err(error)], |keys| keys.into_iter().map(Ok).collect());
            if read.into_iter().any(|key| sender.send(key).is_err()) || failed {
                return;
            }
        }
    });
    receiver
}

/// The keys that were pressed; none if there were none for a while.
fn read_keys() -> io::Result<Vec<Key>> {
    let wait = Timespec::try_from(KEYS_WAIT).map_err(io::Error::other)?;
    if poll(&mut [PollFd::new(&stdin(), PollFlags::IN)], Some(&wait))? == 0 {
        return Ok(Vec::new());
    }
    let mut bytes = [0; 64];
    match stdin().read(&mut bytes)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => Ok(parse(&String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()))),
    }
}

/// The keys for which a terminal sends this; other keys send sequences, which are passed over.
fn parse(sent: &str) -> Vec<Key> {
    let (mut keys, mut rest) = (Vec::new(), sent);
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let sequence = rest.starts_with(['[', 'O']);
        match c {
            '\x1b' if sequence => {
                let is_end = |c: char| c.is_ascii_alphabetic() || c == '~';
                let end = rest[1..].find(is_end).map_or(rest.len(), |end| end + 2);
                keys.extend(match &rest[..end] {
                    "[A" | "OA" => Some(Key::Up),
                    "[B" | "OB" => Some(Key::Down),
                    _ => None,
                });
                rest = &rest[end..];
            }
            '\x1b' => keys.push(Key::Esc),
            '\r' | '\n' => keys.push(Key::Enter),
            '\x7f' | '\x08' => keys.push(Key::Backspace),
            c if c.is_control() => {}
            c => keys.push(Key::Char(c)),
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_terminal_sends_for_them() {
        assert_eq!(parse("\x1b[A"), [Key::Up]);
        assert_eq!(parse("\x1bOB"), [Key::Down]);
        assert_eq!(parse("\x1b"), [Key::Esc]);
        assert_eq!(parse("\x1b[5~"), []);
        assert_eq!(parse("\x1b["), []);
        assert_eq!(parse("\x1b[Bp\x1b[6~q"), [Key::Down, Key::Char('p'), Key::Char('q')]);
        assert_eq!(
            parse("pé\n\x7f\t"),
            [Key::Char('p'), Key::Char('é'), Key::Enter, Key::Backspace]
        );
    }
}
