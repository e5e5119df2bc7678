//! The view on a terminal: reads the stack each second, draws a [`Dashboard`], hands keys over.

mod draw;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use crate::status::StackFacts;
use crate::steer::{Author, SteerAction, steer};
use crate::top::{Dashboard, Key, KeyRequest};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::in_full;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::status::{facts, facts_after};

/// The longest time for which the thread that reads keys blocks, before it checks whether the
/// view has ended.
const KEYS_WAIT: Duration = Duration::from_millis(200);
/// Queues and account are asked this often: SQS counts up to a minute late.
const DEPTHS_EVERY: Duration = Duration::from_secs(5);

/// The reason why a view ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopEnd {
    /// The operator pressed `q`.
    Quit,
    /// Ctrl-C, which sends no signal while the view is shown.
    Interrupted,
}

/// Shows the view of `stack` until the operator ends it, with a look `every` so often, below the lines of
/// `caption`. The terminal is given back at the end, also where the future is dropped.
///
/// # Errors
/// The terminal's.
pub async fn watch(
    stack: &Stack,
    first: StackFacts,
    every: Duration,
    caption: impl Fn() -> String,
) -> io::Result<TopEnd> {
    let mut view = TopView {
        stack,
        dashboard: Dashboard::new(&first),
        facts: first,
        counted: Instant::now(),
        terminal: ratatui::try_init()?,
    };
    let mut keys = keys();
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        view.terminal.draw(|frame| draw::draw(&view.dashboard, &caption(), frame))?;
        tokio::select! {
            _ = looks.tick() => view.look().await,
            key = keys.recv() => match key {
                None => return Ok(TopEnd::Quit),
                Some(Err(error)) => return Err(error),
                Some(Ok(Input::Redraw)) => {}
                Some(Ok(Input::Interrupt)) => return Ok(TopEnd::Interrupted),
                Some(Ok(Input::Key(key))) => match view.dashboard.handle_key(key) {
                    KeyRequest::Nothing => {}
                    KeyRequest::Quit => return Ok(TopEnd::Quit),
                    KeyRequest::Steer { action, reason } => {
                        view.steer(&action, reason).await;
                        looks.reset_immediately();
                    }
                },
            },
        }
    }
}

/// A dashboard with its stack and its terminal.
struct TopView<'a> {
    stack: &'a Stack,
    dashboard: Dashboard,
    facts: StackFacts,
    /// When queues and account were last asked.
    counted: Instant,
    terminal: DefaultTerminal,
}

impl TopView<'_> {
    /// Reads the ledger, and queues and account if it is time for them.
    async fn look(&mut self) {
        let read = if self.counted.elapsed() >= DEPTHS_EVERY {
            self.counted = Instant::now();
            let settings = &self.facts.settings;
            facts(self.stack, settings.addresses, settings.changes).await
        } else {
            facts_after(self.stack, &self.facts).await
        };
        match read {
            Ok(now) => {
                self.dashboard.update(&now);
                self.facts = now;
            }
            Err(error) => self.dashboard.set_error(in_full(&error)),
        }
    }

    async fn steer(&mut self, action: &SteerAction, reason: String) {
        let author = Author { by: self.stack.operator().await, reason };
        let ledger = self.stack.ledger();
        let deployed = (&*self.facts.campaigns, &self.facts.settings.limits);
        let made = steer(action, &author, deployed, &ledger, &self.stack.clock()).await;
        self.dashboard.set_message(match made {
            Ok(made) => {
                let of = made.record.campaign.as_deref().unwrap_or("all");
                format!("done {} {of}: {}", made.record.action, made.record.detail)
            }
            Err(error) => format!("not done: {}", in_full(&error)),
        });
    }
}

impl Drop for TopView<'_> {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

enum Input {
    Key(Key),
    Redraw,
    Interrupt,
}

/// Keys, read by a thread of its own: a terminal is read by waiting. After an error nothing more is read.
fn keys() -> UnboundedReceiver<io::Result<Input>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            let read = match event::poll(KEYS_WAIT) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let (failed, input) = match read {
                Ok(event) => (false, input(&event).map(Ok)),
                Err(error) => (true, Some(Err(error))),
            };
            if input.is_some_and(|input| sender.send(input).is_err()) || failed {
                return;
            }
        }
    });
    receiver
}

fn input(event: &Event) -> Option<Input> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
        return matches!(event, Event::Resize(..)).then_some(Input::Redraw);
    };
    let key = match code {
        // A terminal in raw mode sends no signal.
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => {
            return Some(Input::Interrupt);
        }
        KeyCode::Char(letter) => Key::Char(*letter),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Esc,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        _ => return None,
    };
    Some(Input::Key(key))
}
