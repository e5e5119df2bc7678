use std::time::Duration;

use super::{BucketStatus, BucketsReport, TakeReport, TakeScript};
use crate::format::{count, counted, rate, span};
use crate::page::{Page, Span, TextTable, Tone, View};

impl View for TakeReport {
    fn view(&self, page: &mut Page) {
        let waited = match self.waited_ms {
            0 => String::new(),
            ms => format!(" after {}", soon(ms_of(ms))),
        };
        match &self.refused {
            None => {
                let granted = counted(self.granted.into(), "recipient");
                let of = if self.granted == self.wanted {
                    String::new()
                } else {
                    format!(" of {}", count(self.wanted.into()))
                };
                page.spans([
                    Span::new(Tone::Good, "granted "),
                    Span::from(format!("{granted}{of}{waited}")),
                    Span::new(Tone::Faint, format!(", at {} by the server's clock", self.at)),
                ]);
                for (domain, recipients) in &self.domains {
                    let taken = counted((*recipients).into(), "recipient");
                    page.line(Tone::Faint, format!("of {domain}: {taken}"));
                }
            }
            Some(refusal) => {
                page.spans([
                    Span::new(Tone::Warning, "refused"),
                    Span::from(format!("{waited}: nothing was taken")),
                ]);
                let again = soon(Duration::from_secs_f64(refusal.again_after_ms / 1e3));
                let whose = format!("the bucket of {} is free again in {again}", refusal.by);
                page.line(Tone::Plain, whose);
            }
        }
    }
}

impl View for BucketsReport {
    fn view(&self, page: &mut Page) {
        if self.buckets.is_empty() {
            page.line(Tone::Plain, "Every bucket is full: there were no recent takes.");
            return;
        }
        let columns = ["bucket", "lets through", "free now", "next free in"];
        let mut table = TextTable::new(columns).right(1).right(2).right(3);
        for level in &self.buckets {
            table.row(row(level));
        }
        page.table(table);
        page.line(Tone::Faint, format!("at {} by the server's clock", self.at));
    }
}

fn row(level: &BucketStatus) -> [Span; 4] {
    let wait = Duration::from_secs_f64(level.next_free_ms / 1e3);
    let (tone, next) =
        if wait.is_zero() { (Tone::Good, "now".to_owned()) } else { (Tone::Plain, soon(wait)) };
    [
        Span::new(Tone::Strong, &level.bucket),
        Span::from(rate(level.per_second)),
        Span::from(count(level.free_now)),
        Span::new(tone, next),
    ]
}

/// A wait in milliseconds below a minute, else in larger units.
fn soon(wait: Duration) -> String {
    if wait < Duration::from_mins(1) {
        format!("{} ms", count(u64::try_from(wait.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)))
    } else {
        span(wait)
    }
}

const fn ms_of(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Prints the script alone, so that standard output can be loaded into the server.
impl View for TakeScript {
    fn view(&self, page: &mut Page) {
        for line in self.script.lines() {
            page.line(Tone::Plain, line);
        }
    }
}

impl TakeScript {
    /// Explains how to call the script; printed to standard error.
    pub fn say_how(&self, page: &mut Page) {
        page.heading("To take one recipient of the account");
        page.line(Tone::Plain, format!("  SCRIPT LOAD   gives {}", self.sha1));
        page.line(Tone::Plain, format!("  {}", self.example));
        page.line(
            Tone::Faint,
            "The answer is four numbers: granted, microseconds to wait, the key that waits, the server's time.",
        );
        page.line(Tone::Faint, format!("A domain's key begins with {}", self.domain_keys));
    }
}
