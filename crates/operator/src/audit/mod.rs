//! `tidegate audit`: judges a run by what its pollers and Lambda have logged, and not by the stack's counters.

pub(crate) mod command;
mod judge;
#[cfg(test)]
mod tests;

pub use command::judge_stack;

use std::collections::{BTreeMap, HashSet};

use serde::Serialize;
use serde_json::Deserializer;
use tidegate_core::audit::AuditRecord;
use tidegate_core::control::ChangeRecord;
use tidegate_core::{Timestamp, Window};

use crate::page::{Page, Span, TextTable, Tone, View};

/// Broken promises are shown up to so many times each.
const MOST_SHOWN: usize = 20;

/// Reads a run's log line by line, in any order, and judges it. For ten million mails it needs about 800 MB.
#[derive(Debug, Default)]
pub struct Judge {
    records: Vec<AuditRecord>,
    /// Lambda's reports that were read: two files may have the same one.
    reports: HashSet<String>,
    events: Vec<Event>,
    figures: BTreeMap<String, f64>,
}

/// An event by which mails may be sent twice.
#[derive(Clone, Copy, Debug)]
struct Event {
    at: Timestamp,
    cause: &'static str,
    /// The mails that it can still explain.
    left: u64,
}

/// A promise, and whether the run kept it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditPromise {
    pub promise: &'static str,
    /// How often it was broken.
    pub broken: u64,
    /// The first of what shows it, each with window and request.
    pub shown: Vec<String>,
}

impl AuditPromise {
    const fn of(promise: &'static str) -> Self {
        Self { promise, broken: 0, shown: Vec::new() }
    }

    fn broke(&mut self, record: &AuditRecord, how: &str) {
        self.broken += 1;
        if self.shown.len() < MOST_SHOWN {
            let AuditRecord { window, request, .. } = record;
            self.shown.push(format!("window {window}, request {request}: {how}"));
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditReport {
    /// The first and the last window with a record; none without one.
    pub windows: Option<[Window; 2]>,
    pub promises: Vec<AuditPromise>,
    pub figures: BTreeMap<String, f64>,
    /// Pauses, resumes and lifted holds, from the ledger's history.
    pub holds: Vec<ChangeRecord>,
}

impl AuditReport {
    /// Whether no promise was broken.
    pub fn is_kept(&self) -> bool {
        self.promises.iter().all(|promise| promise.broken == 0)
    }
}

impl Judge {
    /// Takes a line that Lambda logged, as text or as JSON, whatever stands before it. Without the time at which it was
    /// logged it counts to the record before.
    pub fn line(&mut self, line: &str, at: Option<Timestamp>) {
        // A record may be the text of an event in JSON.
        let is_quoted = line.contains(r#"{\"audit\":"#);
        let line = if is_quoted { line.replace("\\\"", "\"") } else { line.to_owned() };
        if let Some(begin) = line.find("{\"audit\":") {
            match Deserializer::from_str(&line[begin..]).into_iter().next() {
                Some(Ok(record)) => self.records.push(record),
                Some(Err(_)) | None => self.count("lines that cannot be read", 1.0),
            }
        } else if ["REPORT RequestId: ", "platform.report"].iter().any(|of| line.contains(of)) {
            let begin = line.find("RequestId").or(line.find("requestId")).unwrap_or(0);
            if self.reports.insert(line[begin..].to_owned()) {
                self.invocation(&line, at);
            }
        }
    }

    fn invocation(&mut self, line: &str, at: Option<Timestamp>) {
        let number = |names: [&str; 2]| {
            let (_, rest) = names.iter().find_map(|name| line.split_once(name))?;
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            rest[..end].parse::<f64>().ok()
        };
        let billed = number(["Billed Duration: ", "\"billedDurationMs\":"]).unwrap_or(0.0) / 1e3;
        let memory = number(["Memory Size: ", "\"memorySizeMB\":"]).unwrap_or(0.0) / 1_024.0;
        let is_cold = number(["Init Duration: ", "\"initDurationMs\":"]).is_some();
        let is_json_killed =
            line.contains("\"status\":") && !line.contains("\"status\":\"success\"");
        self.count("invocations", 1.0);
        self.count("billed GB-seconds", billed * memory);
        self.count("cold starts", f64::from(u8::from(is_cold)));
        if line.contains("Status: ") || is_json_killed {
            let newest = self.records.last().map(|record| record.window.closes());
            self.killed(at.or(newest).unwrap_or_default());
        }
    }

    /// Notes that a poller was killed. It may have had the mails of a window in hand, and have fed as many.
    pub fn killed(&mut self, at: Timestamp) {
        self.count("pollers killed", 1.0);
        let slots = self.records.last().map_or(0, |record| record.rate.ceil());
        self.event(at, "1, 5, 6, 9 or 10: a poller was killed", 2 * slots + 20);
    }

    fn event(&mut self, at: Timestamp, cause: &'static str, left: u64) {
        if left > 0 {
            self.events.push(Event { at, cause, left });
        }
    }

    fn count(&mut self, figure: &str, by: f64) {
        *self.figures.entry(figure.to_owned()).or_default() += by;
    }
}

impl View for AuditReport {
    fn view(&self, page: &mut Page) {
        let Some([from, until]) = &self.windows else {
            return page.line(Tone::Warning, "There is no record of a window: nothing is proven.");
        };
        page.heading(format!("Windows {from} to {until}"));
        let mut promises = TextTable::bare();
        for promise in &self.promises {
            let (tone, mark) = match promise.broken {
                0 => (Tone::Good, "kept".to_owned()),
                times => (Tone::Bad, format!("BROKEN ({times})")),
            };
            promises.row([Span::new(tone, mark), Span::from(promise.promise)]);
        }
        page.table(promises);
        for shown in self.promises.iter().flat_map(|promise| &promise.shown) {
            page.line(Tone::Bad, format!("  {shown}"));
        }
        page.heading("Figures");
        let shown = |value: f64| format!("{value:.*}", if value.fract() == 0.0 { 0 } else { 3 });
        page.fields(self.figures.iter().map(|(of, value)| (of.as_str(), shown(*value).into())));
        if !self.holds.is_empty() {
            page.heading("Holds");
            self.holds.view(page);
        }
    }
}
