use std::time::Duration;

use tidegate_core::config::EXPRESS;
use tidegate_core::in_full;
use tidegate_delivery::ports::{Clock as _, Monitor as _};
use tokio::time::{Instant, sleep, timeout};

use super::{Engine, PortTypes};
use crate::event::ChangeKind;
use crate::figures::{LongSpan, MonitorFigures};

/// Intervals while a page is open: for the ledger; and for queues and account, which can wait longer,
/// since SQS's counts lag by up to a minute.
const EVERY: Duration = Duration::from_secs(1);
const COUNTED_EVERY: Duration = Duration::from_secs(5);
/// Interval of reads while a page is open; metrics are no newer than a minute.
const MONITOR_EVERY: Duration = Duration::from_mins(1);
/// Metrics of the last minutes may be incomplete.
const LAG: Duration = Duration::from_mins(2);
/// A look that takes longer counts as failed, so that pages can say so.
const PATIENCE: Duration = Duration::from_secs(10);
/// Changes by any operator after which a forecast is out of date.
const FORECAST_ANEW: [ChangeKind; 4] =
    [ChangeKind::Hold, ChangeKind::Pause, ChangeKind::Quota, ChangeKind::Change];
/// The interval of looks while no page is open.
const UNWATCHED: Duration = Duration::from_secs(15);

impl<P: PortTypes> Engine<P> {
    pub(super) async fn keep_refreshing(&self) {
        let mut counted = Instant::now();
        loop {
            let is_watched = self.hub.look(crate::stream::StreamRegistry::streams) > 0;
            let pause = if is_watched { EVERY } else { UNWATCHED };
            let mut is_asked = false;
            tokio::select! {
                () = sleep(pause) => {}
                () = self.hub.opened() => {}
                () = self.look_now.notified() => is_asked = true,
            }
            let is_due = is_asked || counted.elapsed() >= COUNTED_EVERY;
            if is_due {
                counted = Instant::now();
            }
            self.refresh(is_due).await;
        }
    }

    async fn refresh(&self, all: bool) {
        let before = self.stack_view.borrow().facts.clone();
        let look = async {
            if all {
                self.site.look().await
            } else {
                before.read_again(&self.site.ledger, &self.site.clock).await
            }
        };
        let read = match timeout(PATIENCE, look).await {
            Ok(read) => read.map_err(|error| in_full(&error)),
            Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        };
        match read {
            Ok(facts) => {
                let dead = self.stack_view.borrow().dead_letters();
                let changes = self.stack_view.borrow_mut().see(facts, all);
                if changes.iter().any(|change| FORECAST_ANEW.contains(&change.kind)) {
                    self.forecast_now.notify_one();
                }
                self.tell(changes);
                if self.stack_view.borrow().dead_letters() != dead {
                    self.dead_now.notify_one();
                }
            }
            Err(error) => {
                tracing::warn!(error, "the stack cannot be looked at");
                self.stack_view.borrow_mut().live.set_error(error);
            }
        }
        self.show();
    }

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
            sleep(MONITOR_EVERY).await;
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
        let campaigns = facts.campaigns.into_iter().map(|campaign| campaign.name);
        let names: Vec<String> = campaigns.chain([EXPRESS.to_owned()]).collect();
        match self.site.monitor.past(&names, from, now.saturating_sub(LAG), step).await {
            Ok(past) => self.stack_view.borrow_mut().long.fill(span, &past),
            Err(error) => {
                let error = in_full(&error);
                tracing::warn!(error, "the curves of before this console are not known");
            }
        }
    }
}
