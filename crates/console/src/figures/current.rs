use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_core::waits::WaitBound;
use tidegate_delivery::ports::MonitorReport;
use tidegate_operator::status::LiveStatus;
use tidegate_operator::status::Status;

/// Figures of one campaign.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CampaignFigures {
    pub name: String,
    /// Recipients a second, over the last ten seconds; none until two looks were taken.
    pub rate: Option<f64>,
    /// The campaign's part of all campaigns' recipients in the last ten seconds, 0 to 1.
    pub share: Option<f64>,
    /// Mean age, in seconds, of the mail that was sent in the last ten seconds.
    pub age_s: Option<u64>,
    /// Seconds until the backlog is sent at the current rate.
    pub eta_s: Option<u64>,
    /// Recipients sent to since the ledger began.
    pub sent: u64,
    pub waiting: u64,
    /// Sent recipients over sent, waiting and dead-lettered ones, 0 to 1; none if all are 0.
    pub progress: Option<f64>,
}

/// Express mail of the last ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExpressFigures {
    /// Recipients a second over the last ten seconds.
    pub per_second: f64,
    /// Mean time between enqueueing and sending, in seconds.
    pub waited_s: f64,
    /// The time that 99 of 100 mails did not exceed, in seconds; `None` above a minute, or if all of it was
    /// sent after a failed attempt.
    pub p99_s: Option<f64>,
}

/// All figures that a page shows, as JSON.
/// Alarms and failed invocations, as they were read last; neither part before the first reading.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MonitorFigures {
    /// Why they are not known.
    pub failed: Option<String>,
    pub report: Option<MonitorReport>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StackFigures {
    /// Time of the look.
    pub at: EpochMillis,
    /// Error of the newest look if it failed; all other figures are then of the last good one.
    pub failed: Option<String>,
    /// Recipients a second, over the last ten seconds.
    pub rate: Option<f64>,
    /// In the order of the configuration.
    pub rows: Vec<CampaignFigures>,
    /// Express mail; none where none was sent.
    pub express: Option<ExpressFigures>,
    /// Mails that SES refused for the rate since the console began to look.
    pub refused: u64,
    pub monitor: MonitorFigures,
    /// The state of the stack, as `tidegate status` prints it.
    pub status: Status,
}

impl StackFigures {
    pub fn of(dashboard: &LiveStatus, monitor: &MonitorFigures) -> Self {
        let status = dashboard.status().clone();
        let row = |row: tidegate_operator::status::CampaignRow| {
            let (sent, waiting) = (row.status.sent, row.status.backlog.all());
            let all = sent + waiting + row.status.dead;
            CampaignFigures {
                name: row.status.name,
                rate: row.rate,
                share: row.share,
                age_s: row.age.map(|age| age.as_secs()),
                eta_s: row.eta.map(|eta| eta.as_secs()),
                sent,
                waiting,
                progress: (all > 0).then(|| precise(sent) / precise(all)),
            }
        };
        let express = dashboard.express().map(|express| ExpressFigures {
            per_second: express.per_second,
            waited_s: express.mean.as_secs_f64(),
            p99_s: express.p99.and_then(WaitBound::at_most).map(|bound| bound.as_secs_f64()),
        });
        Self {
            at: status.at,
            failed: dashboard.error().map(str::to_owned),
            rate: dashboard.rate(),
            rows: dashboard.rows().into_iter().map(row).collect(),
            express,
            refused: dashboard.refused(),
            monitor: monitor.clone(),
            status,
        }
    }
}

/// A small number of things, as a number that is divided by.
pub(crate) fn size(count: usize) -> f64 {
    precise(count as u64)
}

/// Seconds since 1970, to a tenth: what a chart has on its axis.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    precise(EpochMillis::from(at).as_millis() / 100) / 10.0
}

#[expect(clippy::cast_precision_loss, reason = "counts of mails, far below 2^52")]
pub(crate) fn precise(count: u64) -> f64 {
    count as f64
}
