//! `tidegate top`: the shell around a [`Dashboard`]: reads each second, draws, hands keys over.

mod draw;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tidegate_aws::stack::Stack;
use tidegate_operate::status::StackFacts;
use tidegate_operate::steer::{Author, steer};
use tidegate_operate::top::{Dashboard, Key, KeyRequest};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{OnStack, status};
use crate::shell::{CommandEnd, CommandError, Shell, in_full};

/// The longest time for which the thread that reads keys blocks, before it checks whether the
/// command has ended.
const KEYS_WAIT: Duration = Duration::from_millis(200);
/// Queues and account are asked this often: SQS counts up to a minute late.
const DEPTHS_EVERY: Duration = Duration::from_secs(5);

/// Watch a running stack, live, and steer it
///
/// Shows quota and use, the last minutes as a curve, each campaign's share, rate, backlog and end,
/// holds, breaker, refusals and dead letters. Reads the ledger once a second, the queues' depths every
/// five. Rates are of the last ten seconds.
///
/// Keys: arrows select a campaign; p pauses it, r resumes it, w changes its weight; P and R pause and
/// resume all sending; q ends. Each change asks for its reason; Esc leaves it.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate top --local                 beside `make run` in another terminal
  tidegate top --stack mail            a stack on AWS
  tidegate top --once                  one look, as text; with --json for machines")]
pub struct TopArgs {
    /// Seconds between two looks, 1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    every: u64,
    /// One look, as `tidegate status` shows it: where there is no terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

pub(super) async fn run(args: &TopArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let facts = status::facts(&stack, shell.output.addresses(), 5).await?;
    if args.once || shell.output.is_json() {
        let status = tidegate_operate::status::Status::of(&facts);
        shell.output.show(&status).map_err(CommandError::Terminal)?;
        return Ok(CommandEnd::Done);
    }
    if !io::stdout().is_terminal() {
        return Err(CommandError::Input(
            "standard output is no terminal: `tidegate top` draws on one; --once shows one look"
                .to_owned(),
        ));
    }
    let mut dashboard = Dashboard::new(&facts);
    let mut terminal = ratatui::try_init().map_err(CommandError::Terminal)?;
    let watched = watch(args, shell, &stack, &mut dashboard, facts, &mut terminal).await;
    // The terminal is given back whatever happened.
    ratatui::try_restore().map_err(CommandError::Terminal)?;
    watched
}

async fn watch(
    args: &TopArgs,
    shell: &Shell,
    stack: &Stack,
    dashboard: &mut Dashboard,
    mut facts: StackFacts,
    terminal: &mut DefaultTerminal,
) -> Result<CommandEnd, CommandError> {
    let mut keys = keys();
    let mut looks = interval(Duration::from_secs(args.every));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut counted = Instant::now();
    loop {
        terminal.draw(|frame| draw::draw(dashboard, frame)).map_err(CommandError::Terminal)?;
        tokio::select! {
            _ = looks.tick() => {
                let due = counted.elapsed() >= DEPTHS_EVERY;
                if due {
                    counted = Instant::now();
                }
                match read(stack, shell, &facts, due).await {
                    Ok(now) => {
                        facts = now;
                        dashboard.update(&facts);
                    }
                    Err(error) => dashboard.set_error(in_full(&error)),
                }
            }
            key = keys.recv() => match key {
                None => return Ok(CommandEnd::Done),
                Some(Input::Redraw) => {}
                Some(Input::Interrupt) => return Ok(CommandEnd::Interrupted),
                Some(Input::Key(key)) => match dashboard.handle_key(key) {
                    KeyRequest::Nothing => {}
                    KeyRequest::Quit => return Ok(CommandEnd::Done),
                    KeyRequest::Steer { action, reason } => {
                        let author = Author { by: stack.operator().await, reason };
                        let campaigns = &facts.campaigns;
                        let ledger = stack.ledger();
                        let made = steer(&action, &author, campaigns, &ledger, &stack.clock()).await;
                        dashboard.set_message(match made {
                            Ok(made) => {
                                let of = made.record.campaign.as_deref().unwrap_or("all");
                                format!("done {} {of}: {}", made.record.action, made.record.detail)
                            }
                            Err(error) => format!("not done: {}", in_full(&error)),
                        });
                        looks.reset_immediately();
                    }
                },
            },
            () = shell.interrupted() => return Ok(CommandEnd::Interrupted),
        }
    }
}

/// Reads the ledger, and queues and account if it is time for them.
async fn read(
    stack: &Stack,
    shell: &Shell,
    before: &StackFacts,
    all: bool,
) -> Result<StackFacts, CommandError> {
    if all {
        return status::facts(stack, shell.output.addresses(), 5).await;
    }
    let (standing, campaigns) = stack.standing().await?;
    let at = tidegate_delivery::ports::Clock::wall(&stack.clock());
    Ok(StackFacts { at, standing, campaigns, ..before.clone() })
}

enum Input {
    Key(Key),
    Redraw,
    Interrupt,
}

/// Keys, read by a thread of its own: a terminal is read by waiting.
fn keys() -> UnboundedReceiver<Input> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while !sender.is_closed() {
            match event::poll(KEYS_WAIT) {
                Ok(false) => {}
                Ok(true) => match event::read() {
                    Ok(event) => {
                        if let Some(input) = input(&event)
                            && sender.send(input).is_err()
                        {
                            return;
                        }
                    }
                    Err(_) => return,
                },
                Err(_) => return,
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
