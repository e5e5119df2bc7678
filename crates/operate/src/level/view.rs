use std::time::Duration;

use tidegate_core::Timestamp;
use tidegate_core::back_pressure::{BackPressureFigures, BackPressureLevel};
use tidegate_core::identity::EpochMillis;

use super::LevelReport;
use crate::format::{count, counted, span, time};
use crate::page::{Page, Span, Tone, View};

impl View for LevelReport {
    fn view(&self, page: &mut Page) {
        let tone = match self.level {
            BackPressureLevel::Clear => Tone::Good,
            BackPressureLevel::Busy => Tone::Warning,
            BackPressureLevel::Overloaded => Tone::Bad,
        };
        let of = match self.defers.as_slice() {
            [] => "nothing is deferred".to_owned(),
            deferred => format!("messages of {} priority are deferred", deferred.join(" and ")),
        };
        page.spans([Span::new(tone, self.level), Span::from(format!(": {of}"))]);
        if self.is_old {
            let text = "what was judged last is too old to count: does the scheduler run?";
            page.line(Tone::Warning, text);
        }
        let mut fields = Vec::new();
        if let Some(since) = self.since {
            let ago = self.ago(since);
            fields.push(("since", Span::from(format!("{} ({} ago)", time(since), span(ago)))));
        }
        let figures = self.figures.unwrap_or_default();
        fields.extend(shown(&figures));
        if let Some(since) = self.growing_since {
            let text = format!("{}: more messages come than the quota lets go", time(since));
            fields.push(("growing since", Span::new(Tone::Warning, text)));
        }
        if let Some(read_at) = self.read_at {
            fields.push(("judged", Span::from(format!("{} ago", span(self.ago(read_at))))));
        }
        for (name, thresholds) in [("busy from", &self.busy), ("overloaded from", &self.overloaded)]
        {
            fields.extend(thresholds.as_ref().map(|thresholds| (name, Span::from(thresholds))));
        }
        let deferral = self.deferral.as_deref().unwrap_or("nowhere: deferral is off");
        fields.push(("deferred to", Span::from(deferral)));
        let deferred = self.deferred_mails.map(|mails| counted(mails, "message"));
        fields.extend(deferred.map(|mails| ("deferred", Span::from(mails))));
        page.fields(fields);
        if self.read_at.is_none() {
            page.line(Tone::Faint, "not judged yet: the scheduler judges it once a minute");
        }
    }
}

impl LevelReport {
    fn ago(&self, at: EpochMillis) -> Duration {
        Timestamp::from(self.now).saturating_since(at.into())
    }
}

fn shown(figures: &BackPressureFigures) -> Vec<(&'static str, Span)> {
    let seconds = |seconds: u64| span(Duration::from_secs(seconds));
    let backlog = figures.backlog_mails.map(|mails| {
        let takes = figures.backlog_seconds.map(|s| format!(", {} of sending", seconds(s)));
        format!("{} messages{}", count(mails), takes.unwrap_or_default())
    });
    let share =
        |millionths: u64| format!("{}.{:02} %", millionths / 10_000, millionths % 10_000 / 100);
    [
        ("backlog", backlog),
        ("mean age", figures.age_seconds.map(seconds)),
        ("refused", figures.refused_millionths.map(share)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, Span::from(value?))))
    .collect()
}
