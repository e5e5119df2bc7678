//! `tidegate top`: the status of a running stack on a terminal, live.

use std::io::{self, IsTerminal as _, Read as _, Write as _, stdin, stdout};
use std::time::Duration;

use clap::Args;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::format::{count, percent, rate, span, time};
use tidegate_core::in_full;
use tidegate_core::waits::WaitBound;
use tokio::sync::oneshot;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::page::{Page, Span, TextTable, Tone, bar};
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell};
use crate::stack::OnStack;
use crate::status::{CampaignRow, CampaignStatus, LiveStatus, StackFacts, Status, facts};

/// Queues and account are asked this often: SQS counts up to a minute late.
const DEPTHS_EVERY: Duration = Duration::from_secs(5);
/// The time that one column of the curve stands for.
const COLUMN: Duration = Duration::from_secs(2);
/// Another screen without a cursor, on which long lines are cut; and the screen of before.
const OTHER_SCREEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const OWN_SCREEN: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Watch a running stack, live
///
/// Shows quota and use, the last minutes as a curve, each campaign's share, rate, backlog and end, holds, closed limits,
/// and the runs that still enqueue. Reads the ledger once a second, the queues' depths every five. Rates are of the last
/// ten seconds. The key q ends it; `tidegate pause` and the like, in another terminal, steer the stack.
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

pub(crate) async fn run(args: &TopArgs, shell: &Shell) -> CommandResult {
    let stack = args.on.stack.open().await?;
    let facts = facts(&stack, shell.output.addresses(), 5).await?;
    if args.once || shell.output.is_json() {
        return shell.done(&Status::of(&facts));
    }
    if !stdout().is_terminal() {
        let draws = "`tidegate top` draws on one; --once shows one look";
        return Err(CommandError::Input(format!("standard output is no terminal: {draws}")));
    }
    let ended = tokio::select! {
        ended = watch(&stack, facts, Duration::from_secs(args.every), String::new) => ended,
        () = shell.interrupted() => return Ok(CommandEnd::Interrupted),
    };
    ended.map_err(CommandError::Terminal).map(|()| CommandEnd::Done)
}

/// Shows `stack` until the operator ends it, with a look `every` so often, below the lines of `caption`. The
/// terminal is given back at the end, also where the future is dropped.
///
/// # Errors
/// The terminal's.
pub async fn watch(
    stack: &Stack,
    mut last: StackFacts,
    every: Duration,
    caption: impl Fn() -> String,
) -> io::Result<()> {
    let mut live = LiveStatus::new(&last);
    let mut counted = Instant::now();
    let _open = Terminal::open()?;
    let mut quit = quit_key();
    let mut looks = interval(every);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        Terminal::draw(|width, height| page(&live, &caption(), width, height))?;
        tokio::select! {
            _ = looks.tick() => {}
            // A dropped sender is the end of standard input.
            _ = &mut quit => return Ok(()),
        }
        let read = if counted.elapsed() >= DEPTHS_EVERY {
            counted = Instant::now();
            facts(stack, last.settings.addresses, last.settings.changes).await
        } else {
            last.read_again(&stack.ledger(), &stack.clock()).await
        };
        match read {
            Ok(now) => {
                live.update(&now);
                last = now;
            }
            Err(error) => live.set_error(in_full(&error)),
        }
    }
}

/// The status below the lines of `caption`, on a terminal of so many columns and lines: as many campaigns as have room.
fn page(live: &LiveStatus, caption: &str, width: usize, height: usize) -> Page {
    let status = live.status();
    let mut page = Page::default();
    caption.lines().for_each(|line| page.line(Tone::Plain, line));
    let title = Span::new(Tone::Strong, &status.stack);
    page.spans(match live.error() {
        Some(failed) => {
            let since = time(status.at);
            let text = format!("  not read since {since}, the figures are of then: {failed}");
            vec![title, Span::new(Tone::Bad, text)]
        }
        None => vec![title, Span::new(Tone::Faint, format!("  {}   q ends", time(status.at)))],
    });
    page.fields(lately(live).into_iter().chain(status.summary(live.error().is_none())));
    let curve = live.curve(width.max(1), COLUMN);
    let top = status.quota.in_force.unwrap_or_default();
    let top = curve.iter().copied().fold(top, f64::max);
    let shown = COLUMN.saturating_mul(u32::try_from(curve.len()).unwrap_or(u32::MAX));
    page.heading(format!("sent a second, the last {} (full height: {})", span(shown), rate(top)));
    // Rounded up: a rate just below the quota is the full height.
    let bars = curve.into_iter().map(|value| bar((value / top * 8.0).ceil() / 8.0));
    page.line(Tone::Good, bars.collect::<String>());
    let mut brief = status.clone();
    brief.limits.retain(|limit| limit.closed);
    brief.runs.retain(|run| run.to_come > 0);
    let mut below = Page::default();
    brief.sections(&mut below);
    let rows = live.rows();
    // A line for the table's names, and one for the number of the rows that have no room.
    let room = height.saturating_sub(page.height() + below.height() + 1);
    let room = if rows.len() > room { room.saturating_sub(1).max(1) } else { room };
    let names =
        ["campaign", "weight", "share now", "rate", "sent", "waiting", "age", "ends in", ""];
    let mut table = (1..8).fold(TextTable::new(names), TextTable::right);
    let campaigns = status.campaigns.iter().zip(&rows).take(room);
    campaigns.for_each(|(campaign, row)| table.row(cells(row, campaign, status)));
    page.table(table);
    if rows.len() > room {
        let more = count((rows.len() - room) as u64);
        page.line(Tone::Faint, format!("  and {more} more: `tidegate status` shows all"));
    }
    page.append(below);
    page
}

/// The figures of the last ten seconds.
fn lately(live: &LiveStatus) -> Vec<(&'static str, Span)> {
    let slots = live.status().quota.slots_per_second.filter(|slots| *slots > 0.0);
    let sent = match (live.rate(), slots) {
        (None, _) => "looking…".to_owned(),
        (Some(now), None) => rate(now),
        (Some(now), Some(slots)) => {
            format!("{} of {} ({})", rate(now), rate(slots), percent(now / slots))
        }
    };
    let name = if live.error().is_some() { "sent then" } else { "sent now" };
    let mut fields = vec![(name, Span::new(Tone::Strong, sent))];
    if let Some(express) = live.express() {
        let waits = match express.p99 {
            None => format!("waits {:.1} s on average", express.waited_s),
            Some(p99 @ WaitBound::AtMost(_)) => format!("99 of 100 wait {p99} at most"),
            Some(p99 @ WaitBound::More) => format!("some wait {p99}"),
        };
        fields.push(("express", Span::from(format!("{}, {waits}", rate(express.per_second)))));
    }
    fields
}

fn cells(row: &CampaignRow, campaign: &CampaignStatus, stack: &Status) -> [Span; 9] {
    let unknown = || "-".to_owned();
    let share = row.share.map_or_else(unknown, percent);
    let seconds = |known: Option<u64>| known.map(Duration::from_secs).map_or_else(unknown, span);
    [
        Span::new(Tone::Strong, &row.name),
        Span::from(campaign.weight_in_words()),
        Span::from(format!("{share} of {}", percent(campaign.share))),
        Span::from(row.rate.map_or_else(unknown, rate)),
        Span::from(count(row.sent)),
        Span::from(count(row.waiting)),
        Span::from(seconds(row.age_s)),
        Span::from(seconds(row.eta_s)),
        stack.stands_until(campaign),
    ]
}

/// The terminal of standard input and output while the status is shown on it; as it was before when this is dropped.
struct Terminal {
    before: Termios,
}

impl Terminal {
    /// Ctrl-C stays a signal; Ctrl-Z is none, because the shell would find another screen.
    fn open() -> io::Result<Self> {
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
    fn draw(page: impl FnOnce(usize, usize) -> Page) -> io::Result<()> {
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

/// Ready when q is pressed or standard input ends. A thread of its own waits for it, because a terminal is read by
/// waiting; it ends with the program.
fn quit_key() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = stdin().lock().bytes().find(|byte| !matches!(byte, Ok(byte) if *byte != b'q'));
        drop(sender);
    });
    receiver
}

#[cfg(test)]
mod tests;
