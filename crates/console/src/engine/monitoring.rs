use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::in_full;
use tidegate_delivery::ports::{Clock as _, Monitor as _};
use tokio::time::sleep;

use super::{Engine, PortTypes};
use crate::figures::{LongSpan, MonitorFigures};

/// Interval of reads while a page is open; metrics are no newer than a minute.
const EVERY: Duration = Duration::from_mins(1);
/// Metrics of the last minutes may be incomplete.
const LAG: Duration = Duration::from_mins(2);

impl<P: PortTypes> Engine<P> {
    /// Reads alarms and failed invocations, while a page is open.
    pub(super) async fn keep_monitoring(&self) {
        loop {
            self.hub.watched().await;
            let report = self.site.monitor.report(self.site.clock.wall()).await;
            let failed = report.as_ref().err().map(|error| in_full(error));
            if let Some(error) = &failed {
                tracing::warn!(error, "alarms and failed invocations are not known");
            }
            let figures = MonitorFigures { failed, report: report.ok() };
            self.stack_view.borrow_mut().monitor = figures;
            sleep(EVERY).await;
        }
    }

    /// Fills the gaps of a long curve with the metrics of before this console, once. Without them the curve
    /// begins with the console.
    pub(super) async fn recall_past(&self, span: LongSpan) {
        if self.stack_view.borrow().long.has_past(span) {
            return;
        }
        let now = self.site.clock.wall();
        let (from, step) = (now.saturating_sub(span.length()), span.past_step());
        let facts = self.stack_view.borrow().facts.clone();
        let names: Vec<String> = facts
            .campaigns
            .into_iter()
            .map(|campaign| campaign.name)
            .chain([EXPRESS.to_owned()])
            .collect();
        match self.site.monitor.past(&names, from, now.saturating_sub(LAG), step).await {
            Ok(past) => self.stack_view.borrow_mut().long.fill(span, &past),
            Err(error) => {
                let error = in_full(&error);
                tracing::warn!(error, "the curves of before this console are not known");
            }
        }
    }
}
