//! A live view of a running stack's status on a terminal, with pauses that the operator types.

mod board;
mod terminal;
#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use board::{Board, Request};
use terminal::{Key, Terminal};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::in_full;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::status::{LiveStatus, StackFacts, facts, facts_after};
use crate::steer::{Author, SteerAction, steer};

/// Queues and account are asked this often: SQS counts up to a minute late.
const DEPTHS_EVERY: Duration = Duration::from_secs(5);

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
) -> io::Result<()> {
    let board = Board::new(LiveStatus::new(&first));
    let mut view = TopView { stack, board, facts: first, counted: Instant::now() };
    let _open = Terminal::open()?;
    let mut keys = terminal::keys();
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        Terminal::draw(|width, height| view.board.page(&caption(), width, height))?;
        tokio::select! {
            _ = looks.tick() => view.look().await,
            key = keys.recv() => match view.board.handle_key(key.unwrap_or(Ok(Key::Esc))?) {
                Request::Nothing => {}
                Request::Quit => return Ok(()),
                Request::Steer { action, reason } => {
                    view.steer(&action, reason).await;
                    looks.reset_immediately();
                }
            },
        }
    }
}

/// A board with its stack.
struct TopView<'a> {
    stack: &'a Stack,
    board: Board,
    facts: StackFacts,
    /// When queues and account were last asked.
    counted: Instant,
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
                self.board.live.update(&now);
                self.facts = now;
            }
            Err(error) => self.board.live.set_error(in_full(&error)),
        }
    }

    async fn steer(&mut self, action: &SteerAction, reason: String) {
        let author = Author { by: self.stack.operator().await, reason };
        let ledger = self.stack.ledger();
        let deployed = (&*self.facts.campaigns, &self.facts.settings.limits);
        let made = steer(action, &author, deployed, &ledger, &self.stack.clock()).await;
        self.board.message = Some(match made {
            Ok(made) => {
                let of = made.record.campaign.as_deref().unwrap_or("all");
                format!("done {} {of}: {}", made.record.action, made.record.detail)
            }
            Err(error) => format!("not done: {}", in_full(&error)),
        });
    }
}
