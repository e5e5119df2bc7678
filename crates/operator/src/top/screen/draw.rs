//! Draws the dashboard on a terminal.

use std::time::Duration;

use crate::page::{self, Tone};
use crate::status::{CampaignStatus, RunStatus, Status};
use crate::top::{CampaignRow, Dashboard};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};
use tidegate_core::format::{count, percent, rate, span, time};
use tidegate_core::waits::WaitBound;

/// The time that one column of the curve stands for.
const COLUMN: Duration = Duration::from_secs(2);
const KEYS: &str = "arrows select  p pause  r resume  w weight  P/R all sending  q end";

pub(super) fn draw(dashboard: &Dashboard, caption: &str, frame: &mut Frame<'_>) {
    let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let held_lines = hold_lines(dashboard);
    let holds = lines(held_lines.len());
    let campaigns = lines(dashboard.status().campaigns.len());
    let [said, head, curve, table, held, foot] = Layout::vertical([
        Constraint::Length(lines(caption.lines().count())),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Min(3.min(campaigns.saturating_add(3))),
        Constraint::Length(holds.min(8)),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(caption), said);
    frame.render_widget(Paragraph::new(head_lines(dashboard)), head);
    draw_curve(dashboard, frame, curve);
    draw_table(dashboard, frame, table);
    frame.render_widget(Paragraph::new(held_lines), held);
    frame.render_widget(Paragraph::new(foot_lines(dashboard)), foot);
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
    }
}

fn said(piece: page::Span) -> Span<'static> {
    Span::styled(piece.text, style(piece.tone))
}

fn toned(tone: Tone, text: String) -> Span<'static> {
    // A message steers no terminal.
    said(page::Span::new(tone, text))
}

fn head_lines(dashboard: &Dashboard) -> Vec<Line<'static>> {
    let status = dashboard.status();
    let mut title = vec![toned(Tone::Strong, status.stack.clone())];
    if let Some(since) = dashboard.unread_since() {
        let text = format!("  not read since {}: the figures are of then", time(since));
        title.push(toned(Tone::Bad, text));
    } else {
        title.push(toned(Tone::Faint, format!("  {}  sending: ", time(status.at))));
        title.push(said(status.sending()));
    }
    let slots = status.quota.slots_per_second;
    let when = if dashboard.unread_since().is_some() { "sent then " } else { "sent now  " };
    let mut used = vec![toned(Tone::Faint, when.to_owned())];
    match (dashboard.rate(), slots) {
        (Some(now), Some(slots)) if slots > 0.0 => {
            used.push(toned(Tone::Strong, rate(now)));
            used.push(toned(
                Tone::Plain,
                format!(" of {} ({})", rate(slots), percent(now / slots)),
            ));
        }
        (Some(now), _) => used.push(toned(Tone::Strong, rate(now))),
        (None, _) => used.push(toned(Tone::Faint, "looking…".to_owned())),
    }
    if let Some(express) = dashboard.express() {
        let waits = express.p99.map_or_else(
            || format!("waits {:.1} s on average", express.mean.as_secs_f64()),
            |p99| match p99 {
                WaitBound::AtMost(_) => format!("99 of 100 wait {p99} at most"),
                WaitBound::More => format!("some wait {p99}"),
            },
        );
        let text = format!("{}, {waits}", rate(express.per_second));
        used.push(toned(Tone::Faint, "  express ".to_owned()));
        used.push(toned(Tone::Plain, text));
    }
    let quota = vec![toned(Tone::Faint, "quota     ".to_owned()), said(status.quota.line())];
    let dead = status.queues.get("dead_letters").map_or(0, |depth| depth.all());
    let alarm = |count: u64| if count > 0 { Tone::Warning } else { Tone::Plain };
    let mut counts = vec![
        toned(Tone::Faint, "dead letters ".to_owned()),
        toned(alarm(dead), count(dead)),
        toned(Tone::Faint, "  refused for the rate ".to_owned()),
        toned(alarm(dashboard.refused()), count(dashboard.refused())),
    ];
    if dashboard.missed() > 0 {
        counts.push(toned(Tone::Faint, "  seconds not served ".to_owned()));
        counts.push(toned(Tone::Warning, count(dashboard.missed())));
    }
    if status.level.in_words().is_some() {
        counts.push(toned(Tone::Faint, "  level ".to_owned()));
        counts.push(toned(Tone::Warning, status.level.level.to_string()));
    }
    if let Some(daily) = &status.quota.daily {
        let text = format!("{} of {}", count(daily.sent), count(daily.quota));
        counts.push(toned(Tone::Faint, "  today ".to_owned()));
        counts.push(toned(Tone::Plain, text));
    }
    let waiting = vec![
        toned(Tone::Faint, "waiting   ".to_owned()),
        toned(Tone::Plain, status.waiting.in_words()),
    ];
    [title, used, quota, waiting, counts].map(Line::from).to_vec()
}

fn draw_curve(dashboard: &Dashboard, frame: &mut Frame<'_>, area: Rect) {
    let width = usize::from(area.width.saturating_sub(2)).max(1);
    let curve = dashboard.curve(width, COLUMN);
    let top = dashboard.status().quota.in_force.unwrap_or_default();
    let top = curve.iter().copied().fold(top, f64::max);
    let shown = Duration::from_secs(COLUMN.as_secs() * u64::try_from(curve.len()).unwrap_or(0));
    let title = format!(" sent a second, the last {} (full height: {}) ", span(shown), rate(top));
    // A hundredth of a recipient is as fine as a column can show.
    let whole = |value: f64| hundredths(value);
    let data: Vec<u64> = curve.into_iter().map(whole).collect();
    let sparkline = Sparkline::default().data(data).max(whole(top).max(1));
    frame.render_widget(sparkline.block(Block::bordered().title(title)), area);
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate, never negative, at most 10,000"
)]
fn hundredths(value: f64) -> u64 {
    (value * 100.0).round() as u64
}

fn draw_table(dashboard: &Dashboard, frame: &mut Frame<'_>, area: Rect) {
    let names =
        ["campaign", "weight", "share now", "rate", "sent", "waiting", "age", "ends in", ""];
    let rows = dashboard.rows();
    let rows = rows.iter().map(|one| row(one, dashboard.status()));
    let widths = [
        Constraint::Min(12),
        Constraint::Length(10),
        Constraint::Length(17),
        Constraint::Length(9),
        Constraint::Length(10),
        Constraint::Length(10),
        Constraint::Length(11),
        Constraint::Length(11),
        Constraint::Length(9),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(names).style(style(Tone::Faint)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(" campaigns "));
    let mut state = TableState::default().with_selected(Some(dashboard.selected()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn row(row: &CampaignRow, stack: &Status) -> Row<'static> {
    let status = &row.status;
    let unknown = || "-".to_owned();
    let weight = if status.weight == status.configured_weight {
        status.weight.to_string()
    } else {
        format!("{} (of {})", status.weight, status.configured_weight)
    };
    let share = row.share.map_or_else(unknown, percent);
    let cells = [
        status.name.clone(),
        weight,
        format!("{share} of {}", percent(status.share)),
        row.rate.map_or_else(unknown, rate),
        count(status.sent),
        count(status.backlog.all()),
        row.age.map_or_else(unknown, span),
        row.eta.map_or_else(unknown, span),
    ];
    let cells = cells.into_iter().map(Cell::from);
    Row::new(cells.chain([Cell::from(said(stack.stands(status)))]))
}

fn hold_lines(dashboard: &Dashboard) -> Vec<Line<'static>> {
    let line = |hold: &crate::status::HoldStatus| {
        let of = hold.campaign.clone().unwrap_or_else(|| "all sending".to_owned());
        let until = hold.until.map(|until| format!(" until {}", time(until))).unwrap_or_default();
        Line::from(vec![
            toned(Tone::Bad, format!("{of}: {}", hold.what)),
            toned(Tone::Plain, format!("{until}  {}", hold.detail)),
            toned(Tone::Faint, format!("  lifted by {}", hold.lifted_by)),
        ])
    };
    let closed = |campaign: &CampaignStatus| {
        let limit = dashboard.status().closed(&campaign.name)?;
        let opens = limit.opens_at.map(|at| format!(" until {}", time(at))).unwrap_or_default();
        Some(Line::from(vec![
            toned(Tone::Warning, format!("{}: closed", campaign.name)),
            toned(Tone::Faint, format!("{opens}  by its limit {}", limit.limit)),
        ]))
    };
    let status = dashboard.status();
    let run = |run: &RunStatus| Line::from(toned(Tone::Plain, run.in_words()));
    let held = status.holds.iter().map(line);
    let runs = status.runs.iter().filter(|run| run.to_come > 0).map(run);
    held.chain(status.campaigns.iter().filter_map(closed)).chain(runs).collect()
}

fn foot_lines(dashboard: &Dashboard) -> Vec<Line<'static>> {
    let keys = Line::from(toned(Tone::Faint, KEYS.to_owned()));
    if let Some(prompt) = dashboard.prompt() {
        let wrong = prompt
            .wrong
            .clone()
            .map_or_else(Line::default, |wrong| Line::from(toned(Tone::Bad, wrong)));
        let asked = Line::from(vec![
            toned(Tone::Strong, format!("{} ", prompt.question)),
            toned(Tone::Plain, prompt.text.clone()),
            Span::styled("_", style(Tone::Strong)),
        ]);
        return vec![asked, wrong];
    }
    let said = match (dashboard.error(), dashboard.message()) {
        (Some(failed), _) => toned(Tone::Bad, format!("not read: {failed}")),
        (None, Some(said)) => toned(Tone::Good, said.to_owned()),
        (None, None) => Span::default(),
    };
    vec![Line::from(said), keys]
}
