use std::time::Duration;

use tidegate_core::format::{count, percent, rate, span, time};
use tidegate_core::waits::WaitBound;

use super::terminal::Key;
use crate::page::{Page, Span, TextTable, Tone};
use crate::status::{CampaignRow, CampaignStatus, LiveStatus, Status};
use crate::steer::{MAX_REASON_CHARS, SteerAction};

/// The time that one column of the curve stands for.
const COLUMN: Duration = Duration::from_secs(2);
const COLUMNS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Lines beside those of campaigns, holds and runs.
const OTHER_LINES: usize = 11;
const KEYS: &str = "arrows select  p pause  r resume  P/R all sending  q end";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Nothing,
    Quit,
    Steer { action: SteerAction, reason: String },
}

/// A change that waits for its reason: Enter does it, Esc leaves it.
#[derive(Clone, Debug)]
struct Question {
    asked: String,
    reason: String,
    is_wrong: bool,
    action: SteerAction,
}

/// All that is shown: a live status, the selected campaign, and the question to the operator.
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) live: LiveStatus,
    selected: usize,
    question: Option<Question>,
    /// The result of the last change.
    pub(super) message: Option<String>,
}

impl Board {
    pub(super) fn new(live: LiveStatus) -> Self {
        Self { live, selected: 0, question: None, message: None }
    }

    /// Handles a key: first the question's, if one is asked.
    pub(super) fn handle_key(&mut self, key: Key) -> Request {
        let Some(mut question) = self.question.take() else { return self.command(key) };
        let reason = question.reason.trim();
        match key {
            Key::Esc => return Request::Nothing,
            Key::Enter if !reason.is_empty() => {
                return Request::Steer { reason: reason.to_owned(), action: question.action };
            }
            Key::Char(c) if question.reason.chars().count() < MAX_REASON_CHARS => {
                question.reason.push(c);
            }
            Key::Backspace => drop(question.reason.pop()),
            Key::Enter | Key::Char(_) | Key::Up | Key::Down => {}
        }
        question.is_wrong = key == Key::Enter;
        self.question = Some(question);
        Request::Nothing
    }

    fn command(&mut self, key: Key) -> Request {
        self.message = None;
        let campaigns = &self.live.status().campaigns;
        self.selected = self.selected.min(campaigns.len().saturating_sub(1));
        let selected = campaigns.get(self.selected).map(|campaign| campaign.name.clone());
        match key {
            Key::Up => self.selected = self.selected.saturating_sub(1),
            Key::Down if self.selected + 1 < campaigns.len() => self.selected += 1,
            Key::Char('q') | Key::Esc => return Request::Quit,
            Key::Char('P') => self.ask(None, true),
            Key::Char('R') => self.ask(None, false),
            Key::Char('p') if selected.is_some() => self.ask(selected, true),
            Key::Char('r') if selected.is_some() => self.ask(selected, false),
            _ => {}
        }
        Request::Nothing
    }

    fn ask(&mut self, campaign: Option<String>, pauses: bool) {
        let of = campaign.clone().unwrap_or_else(|| "all sending".to_owned());
        let (verb, action) = if pauses {
            ("Pause", SteerAction::Pause { campaign, until: None })
        } else {
            ("Resume", SteerAction::Resume { campaign })
        };
        let asked = format!("{verb} {of}. Why? (Enter does it, Esc leaves it)");
        self.question = Some(Question { asked, reason: String::new(), is_wrong: false, action });
    }

    /// The board below the lines of `caption`, on a terminal of so many columns and lines.
    pub(super) fn page(&self, caption: &str, width: usize, height: usize) -> Page {
        let mut page = Page::default();
        for line in caption.lines() {
            page.line(Tone::Plain, line);
        }
        self.head(&mut page);
        self.curve(&mut page, width);
        let notes = self.notes();
        let room = height.saturating_sub(OTHER_LINES + caption.lines().count() + notes.len());
        page.table(self.campaigns(room.max(1)));
        page.line(Tone::Plain, "");
        for note in notes {
            page.spans(note);
        }
        match (&self.question, self.live.error(), &self.message) {
            (Some(asked), _, _) if asked.is_wrong => {
                page.line(Tone::Bad, "a reason is needed: 1 to 200 characters");
            }
            (_, Some(failed), _) => page.line(Tone::Bad, format!("not read: {failed}")),
            (_, None, said) => page.line(Tone::Good, said.as_deref().unwrap_or_default()),
        }
        match &self.question {
            Some(Question { asked, reason, .. }) => page.spans([
                Span::new(Tone::Strong, format!("{asked} ")),
                Span::from(format!("{reason}_")),
            ]),
            None => page.line(Tone::Faint, KEYS),
        }
        page
    }

    fn head(&self, page: &mut Page) {
        let (live, status) = (&self.live, self.live.status());
        let faint = |text: &str| Span::new(Tone::Faint, text);
        let unread = live.unread_since();
        let title = Span::new(Tone::Strong, &status.stack);
        page.spans(if let Some(since) = unread {
            let text = format!("  not read since {}: the figures are of then", time(since));
            vec![title, Span::new(Tone::Bad, text)]
        } else {
            vec![title, faint(&format!("  {}  sending: ", time(status.at))), status.sending()]
        });
        let mut used = vec![faint(if unread.is_some() { "sent then " } else { "sent now  " })];
        used.push(
            live.rate().map_or_else(|| faint("looking…"), |now| Span::new(Tone::Strong, rate(now))),
        );
        if let (Some(now), Some(slots)) =
            (live.rate(), status.quota.slots_per_second.filter(|slots| *slots > 0.0))
        {
            used.push(Span::from(format!(" of {} ({})", rate(slots), percent(now / slots))));
        }
        if let Some(express) = live.express() {
            let waits = match express.p99 {
                None => format!("waits {:.1} s on average", express.mean.as_secs_f64()),
                Some(p99 @ WaitBound::AtMost(_)) => format!("99 of 100 wait {p99} at most"),
                Some(p99 @ WaitBound::More) => format!("some wait {p99}"),
            };
            used.push(faint("  express "));
            used.push(Span::from(format!("{}, {waits}", rate(express.per_second))));
        }
        page.spans(used);
        page.spans([faint("quota     "), status.quota.line()]);
        page.spans([faint("waiting   "), Span::from(status.waiting.in_words())]);
        let dead = status.queues.get("dead_letters").map_or(0, |depth| depth.all());
        let counted = |name: &str, counted: u64| {
            let tone = if counted > 0 { Tone::Warning } else { Tone::Plain };
            [faint(name), Span::new(tone, count(counted))]
        };
        let mut counts =
            [counted("dead letters ", dead), counted("  refused for the rate ", live.refused())]
                .concat();
        if live.missed() > 0 {
            counts.extend(counted("  seconds not served ", live.missed()));
        }
        if status.level.in_words().is_some() {
            counts.extend([faint("  level "), Span::new(Tone::Warning, status.level.level)]);
        }
        if let Some(daily) = &status.quota.daily {
            let text = format!("{} of {}", count(daily.sent), count(daily.quota));
            counts.extend([faint("  today "), Span::from(text)]);
        }
        page.spans(counts);
    }

    fn curve(&self, page: &mut Page, width: usize) {
        let curve = self.live.curve(width.max(1), COLUMN);
        let top = self.live.status().quota.in_force.unwrap_or_default();
        let top = curve.iter().copied().fold(top, f64::max);
        let shown = COLUMN.saturating_mul(u32::try_from(curve.len()).unwrap_or(u32::MAX));
        let title = format!("sent a second, the last {} (full height: {})", span(shown), rate(top));
        page.heading(title);
        page.line(
            Tone::Good,
            curve.into_iter().map(|value| column(value / top)).collect::<String>(),
        );
    }

    /// The campaigns around the selected one that have room.
    fn campaigns(&self, room: usize) -> TextTable {
        let names = [
            "",
            "campaign",
            "weight",
            "share now",
            "rate",
            "sent",
            "waiting",
            "age",
            "ends in",
            "",
        ];
        let mut table = (2..9).fold(TextTable::new(names), TextTable::right);
        let (rows, status) = (self.live.rows(), self.live.status());
        let selected = self.selected.min(rows.len().saturating_sub(1));
        let first = (selected + 1).saturating_sub(room);
        for (index, row) in rows.iter().enumerate().skip(first).take(room) {
            table.row(cells(row, status, index == selected));
        }
        table
    }

    /// Holds, closed limits, and the runs that still enqueue.
    fn notes(&self) -> Vec<Vec<Span>> {
        let status = self.live.status();
        let hold = |hold: &crate::status::HoldStatus| {
            let of = hold.campaign.as_deref().unwrap_or("all sending");
            let until =
                hold.until.map(|until| format!(" until {}", time(until))).unwrap_or_default();
            vec![
                Span::new(Tone::Bad, format!("{of}: {}", hold.what)),
                Span::from(format!("{until}  {}", hold.detail)),
                Span::new(Tone::Faint, format!("  lifted by {}", hold.lifted_by)),
            ]
        };
        let closed = |campaign: &CampaignStatus| {
            let limit = status.closed(&campaign.name)?;
            let opens = limit.opens_at.map(|at| format!(" until {}", time(at))).unwrap_or_default();
            let by = format!("{opens}  by its limit {}", limit.limit);
            Some(vec![
                Span::new(Tone::Warning, format!("{}: closed", campaign.name)),
                Span::new(Tone::Faint, by),
            ])
        };
        let runs = status
            .runs
            .iter()
            .filter(|run| run.to_come > 0)
            .map(|run| vec![Span::from(run.in_words())]);
        let holds = status.holds.iter().map(hold);
        holds.chain(status.campaigns.iter().filter_map(closed)).chain(runs).collect()
    }
}

/// A part of the full height, 0.0 to 1.0, as one character.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 8")]
fn column(part: f64) -> char {
    let eighths = (part.clamp(0.0, 1.0) * 8.0).ceil() as usize;
    COLUMNS.get(eighths).copied().unwrap_or(' ')
}

fn cells(row: &CampaignRow, stack: &Status, is_selected: bool) -> [Span; 10] {
    let status = &row.status;
    let unknown = || "-".to_owned();
    let weight = if status.weight == status.configured_weight {
        status.weight.to_string()
    } else {
        format!("{} (of {})", status.weight, status.configured_weight)
    };
    let share = row.share.map_or_else(unknown, percent);
    [
        Span::new(Tone::Strong, if is_selected { "›" } else { "" }),
        Span::new(if is_selected { Tone::Strong } else { Tone::Plain }, &status.name),
        Span::from(weight),
        Span::from(format!("{share} of {}", percent(status.share))),
        Span::from(row.rate.map_or_else(unknown, rate)),
        Span::from(count(status.sent)),
        Span::from(count(status.backlog.all())),
        Span::from(row.age.map_or_else(unknown, span)),
        Span::from(row.eta.map_or_else(unknown, span)),
        stack.stands(status),
    ]
}
