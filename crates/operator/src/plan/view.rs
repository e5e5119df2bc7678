//! Forecasts as a page.

use std::time::Duration;

use crate::page::{Page, Span as Text, TextTable, Tone, View, bar};
use tidegate_core::Window;
use tidegate_core::channel::{Channel, Words};
use tidegate_core::format::{count, span, time};
use tidegate_core::number::{real, whole};

use tidegate_simulator::plan::{
    Bottleneck, Cost, EndEstimate, Forecast, Phase, PlanReport, Simulation,
};

/// The most phases that are shown; JSON output has all of them.
const MOST_PHASES: usize = 12;
/// The most campaigns that have a column, as they have in JSON.
const MOST_COLUMNS: usize = 12;

impl View for PlanReport {
    fn view(&self, page: &mut Page) {
        match self.forecasts.as_slice() {
            [only] => only.view(page),
            [first, ..] => {
                first.view(page);
                compared(&self.forecasts, page);
            }
            [] => {}
        }
    }
}

impl View for Forecast {
    fn view(&self, page: &mut Page) {
        let total: u64 = self.campaigns.iter().map(|campaign| campaign.mails).sum();
        let quota = self.quota_per_second;
        let Words { message, unit, .. } = self.channel.words();
        let all = format!("{} {message}s at {quota} {unit}s a second", count(total));
        page.heading(format!("{all} from {}", at(self.start)));
        let messages = format!("{message}s");
        let names = ["campaign", "weight", &messages, "ends after", "between", "at"];
        let mut table = TextTable::new(names).right(1).right(2);
        for campaign in &self.campaigns {
            let end = campaign.ends_after_seconds;
            let at = campaign.ends_at.map(at).unwrap_or_default();
            table.row([
                Text::new(Tone::Strong, &campaign.name),
                Text::from(campaign.weight),
                mails(campaign.mails, campaign.recipients_per_mail),
                ends_after(end),
                Text::from(end.map(between).unwrap_or_default()),
                Text::new(Tone::Faint, at),
            ]);
        }
        page.table(table);
        chart(self, page);
        phases(self, page);
        costs(self, page);
        for warning in &self.warnings {
            page.line(Tone::Warning, format!("Note: {warning}."));
        }
        for assumption in &self.assumptions {
            page.line(Tone::Faint, format!("Assumed: {assumption}."));
        }
        let Simulation { seeds, windows, simulated_windows, simulated_mails } = self.simulation;
        let part = real(simulated_windows) * 100.0 / real((windows * seeds).max(1));
        let (windows, mails) = (count(windows * seeds), count(simulated_mails));
        let said = format!(
            "{seeds} runs; of {windows} windows {part:.1} % were simulated, {mails} {message}s in all"
        );
        page.line(Tone::Faint, said);
    }
}

fn at(window: Window) -> String {
    time(window.opens().into())
}

/// A row of bars for each campaign, all to one scale.
fn chart(forecast: &Forecast, page: &mut Page) {
    let timeline = &forecast.timeline;
    let all = timeline.per_minute.values().flatten();
    let highest = all.copied().fold(0.0, f64::max);
    if highest <= 0.0 {
        return;
    }
    let bucket = duration_text(real(timeline.bucket_seconds));
    page.heading(format!(
        "Sent a minute, {bucket} a column; a full column is {} {}s",
        count(whole(highest.round())),
        forecast.channel.words().unit
    ));
    let names = forecast.campaigns.iter().map(|campaign| campaign.name.as_str());
    let express = timeline.per_minute.keys().map(String::as_str).filter(|name| *name == "express");
    let mut table = TextTable::bare();
    for name in names.chain(express) {
        let Some(rates) = timeline.per_minute.get(name) else { continue };
        let bars: String = rates.iter().map(|rate| bar(rate / highest)).collect();
        table.row([Text::new(Tone::Strong, name), Text::new(Tone::Good, bars)]);
    }
    page.table(table);
}

fn phases(forecast: &Forecast, page: &mut Page) {
    page.heading("What limits");
    let names = forecast.campaigns.iter().map(|one| one.name.as_str());
    let names: Vec<&str> = names.take(MOST_COLUMNS).collect();
    let columns = ["from", "to", "a second", "limited by"].into_iter().chain(names.iter().copied());
    let mut table = TextTable::new(columns).right(0).right(1).right(2);
    for phase in forecast.phases.iter().take(MOST_PHASES) {
        let tone = match phase.limit {
            Bottleneck::Breaker | Bottleneck::Failures | Bottleneck::Throttling => Tone::Bad,
            Bottleneck::Hold
            | Bottleneck::Closed
            | Bottleneck::DailyQuota
            | Bottleneck::Feed
            | Bottleneck::Lateness => Tone::Warning,
            _ => Tone::Plain,
        };
        let fixed = [
            Text::from(duration_text(phase.from_seconds)),
            Text::from(duration_text(phase.to_seconds)),
            Text::from(format!("{:.1}", phase.per_second)),
            Text::new(tone, phase.limit),
        ];
        let shares = names.iter().map(|name| share(phase, name));
        table.row(fixed.into_iter().chain(shares));
    }
    page.table(table);
    let more = forecast.phases.len().saturating_sub(MOST_PHASES);
    if more > 0 {
        page.line(Tone::Faint, format!("  and {more} more (--json has them all)"));
    }
}

fn share(phase: &Phase, name: &str) -> Text {
    let Some(of_it) = phase.campaigns.get(name) else { return Text::from("") };
    if of_it.per_second <= 0.0 && of_it.limit == Bottleneck::NothingLeft {
        return Text::new(Tone::Faint, "-");
    }
    let rate = format!("{:.1}", of_it.per_second);
    let same = of_it.limit == phase.limit;
    Text::from(if same { rate } else { format!("{rate} ({})", of_it.limit) })
}

fn costs(forecast: &Forecast, page: &mut Page) {
    let message = forecast.channel.words().message;
    page.heading("What it costs");
    let Cost { total, ses, texts, sqs, sqs_calls_per_mail, lambda, dynamodb, .. } = forecast.cost;
    let Cost { metrics, logs, idle_month, .. } = forecast.cost;
    let sent = match (forecast.channel, texts) {
        (Channel::Email, _) => format!("SES ${ses:.2}, "),
        (Channel::Sms, Some(texts)) => format!("texts ${texts:.2}, "),
        (Channel::Sms, None) => String::new(),
    };
    let costs = format!(
        "  ${total:.2}: {sent}SQS ${sqs:.2} ({sqs_calls_per_mail:.2} calls a {message}), Lambda ${lambda:.2}, DynamoDB ${dynamodb:.2}, metrics ${metrics:.2}, logs ${logs:.2}"
    );
    let store = forecast.cost.store;
    let store = if store > 0.0 { format!(", the store ${store:.2}") } else { String::new() };
    page.line(Tone::Plain, costs + &store);
    let idle = format!("  A stack that sends nothing costs ${idle_month:.2} a month.");
    page.line(Tone::Plain, idle);
    if forecast.channel == Channel::Sms && texts.is_none() {
        let said = "  What AWS asks for the texts is not in it: --price-per-part DOLLARS.";
        page.line(Tone::Warning, said);
    }
}

/// The forecasts side by side: a row each, a column for each campaign's end.
fn compared(forecasts: &[Forecast], page: &mut Page) {
    page.heading("Compared");
    let Some(first) = forecasts.first() else { return };
    let names = first.campaigns.iter().map(|one| one.name.as_str());
    let names: Vec<&str> = names.take(MOST_COLUMNS).collect();
    let columns = std::iter::once("variant").chain(names.iter().copied());
    let table = TextTable::new(columns.chain(["all sent after", "mostly limited by", "cost"]));
    let numbers = (1..=names.len() + 1).chain([names.len() + 3]);
    let mut table = numbers.fold(table, TextTable::right);
    for forecast in forecasts {
        let ends = names.iter().map(|name| {
            let of_it = forecast.campaigns.iter().find(|one| one.name == *name);
            ends_after(of_it.and_then(|one| one.ends_after_seconds))
        });
        let mostly = forecast.mostly().map_or_else(String::new, |limit| limit.to_string());
        let row = std::iter::once(Text::new(Tone::Strong, &forecast.name)).chain(ends);
        table.row(row.chain([
            ends_after(forecast.ends_after_seconds),
            Text::from(mostly),
            Text::from(format!("${:.2}", forecast.cost.total)),
        ]));
    }
    page.table(table);
}

fn mails(mails: u64, recipients: u32) -> Text {
    let times = if recipients > 1 { format!(" x {recipients}") } else { String::new() };
    Text::from(format!("{}{times}", count(mails)))
}

fn ends_after(span: Option<EndEstimate>) -> Text {
    span.map_or(Text::new(Tone::Bad, "never"), |span| duration_text(span.expected).into())
}

fn between(span: EndEstimate) -> String {
    format!("{} to {}", duration_text(span.earliest), duration_text(span.latest))
}

/// A duration in its two largest units, to the second.
pub(super) fn duration_text(seconds: f64) -> String {
    span(Duration::from_secs_f64(seconds.round().clamp(0.0, 1e12)))
}
