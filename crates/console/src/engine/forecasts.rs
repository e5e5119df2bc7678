use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tidegate_core::Timestamp;
use tidegate_core::identity::EpochMillis;
use tidegate_operator::plan::{forecast, scenario_of};
use tidegate_simulator::plan::{self, EndEstimate, ForecastOptions, PlanError};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::{Engine, PortTypes};
use crate::event::Telemetry;
use crate::figures::{seconds, size};

/// Interval of forecasts while a page is open.
const EVERY: Duration = Duration::from_mins(5);
/// A forecast that takes longer is not shown.
const WITHIN: Duration = Duration::from_secs(30);
/// The curve's entries are at least as long as the span over which current rates are averaged.
const SMOOTH: Duration = Duration::from_secs(10);
/// Time until a change is in force and visible in the ledger's counters.
const AFTER_A_CHANGE: Duration = Duration::from_secs(4);

/// The time at which something is expected to end, and the span in which it does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct EndTimes {
    ends_at: Option<EpochMillis>,
    earliest: Option<EpochMillis>,
    latest: Option<EpochMillis>,
}

impl EndTimes {
    fn of(start: Timestamp, estimate: Option<EndEstimate>) -> Self {
        let at = |seconds: f64| {
            EpochMillis::from(start + Duration::try_from_secs_f64(seconds).unwrap_or_default())
        };
        let ends = estimate.map(|end| [end.expected, end.earliest, end.latest].map(at));
        let [ends_at, earliest, latest] = ends.map_or([None; 3], |ends| ends.map(Some));
        Self { ends_at, earliest, latest }
    }
}

/// The forecast end of a campaign, as JSON for the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct CampaignEnd {
    name: String,
    #[serde(flatten)]
    ends: EndTimes,
    left: u64,
}

/// A forecast, as a page shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct ForecastView {
    state: &'static str,
    why: Option<String>,
    made_at: Option<EpochMillis>,
    from_t: f64,
    bucket_s: u64,
    per_second: BTreeMap<String, Vec<f64>>,
    #[serde(flatten)]
    ends: EndTimes,
    limited_by: Option<String>,
    campaigns: Vec<CampaignEnd>,
    /// US dollars for what waits now.
    cost: Option<plan::Cost>,
    warnings: Vec<String>,
    /// The forecast is right only if these hold.
    assumptions: Vec<String>,
}

impl ForecastView {
    fn without(state: &'static str, why: impl Into<String>) -> Self {
        Self { state, why: Some(why.into()), ..Self::default() }
    }

    /// How long after its begin its end has come.
    fn lasts(&self) -> Duration {
        let ends = self.made_at.zip(self.ends.latest);
        let lasts = ends.map(|(begin, end)| Timestamp::from(end).saturating_since(begin.into()));
        lasts.unwrap_or(2 * EVERY)
    }

    fn of(forecast: &plan::Forecast) -> Self {
        let start = forecast.start.opens();
        let campaign = |campaign: &plan::CampaignForecast| CampaignEnd {
            name: campaign.name.clone(),
            ends: EndTimes::of(start, campaign.ends_after_seconds),
            left: campaign.left,
        };
        let timeline = &forecast.timeline;
        // Entries of a second or two show the slots' grid, which no curve of the last ten seconds has.
        let joined = SMOOTH.as_secs().div_ceil(timeline.bucket_seconds.max(1)).max(1);
        let at_once = usize::try_from(joined).unwrap_or(1);
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / size(rates.len()) / 60.0;
        let per_second = |rates: &Vec<f64>| {
            let mut rates: Vec<f64> = rates.chunks(at_once).map(mean).collect();
            // The first is of pollers that begin, while those of the stack are at work.
            if let [first, second, ..] = &mut rates[..] {
                *first = *second;
            }
            rates
        };
        let rates = timeline.per_minute.iter();
        Self {
            state: "ready",
            why: None,
            made_at: Some(EpochMillis::from(start)),
            from_t: seconds(start),
            bucket_s: timeline.bucket_seconds * joined,
            per_second: rates.map(|(name, rates)| (name.clone(), per_second(rates))).collect(),
            ends: EndTimes::of(start, forecast.ends_after_seconds),
            limited_by: forecast.mostly().map(|limit| limit.to_string()),
            campaigns: forecast.campaigns.iter().map(campaign).collect(),
            cost: Some(forecast.cost),
            warnings: forecast.warnings.clone(),
            assumptions: forecast.assumptions.clone(),
        }
    }
}

impl<P: PortTypes> Engine<P> {
    /// Makes a forecast at the start, after each change and every five minutes, while a page is open.
    pub(super) async fn keep_forecasting(&self) {
        loop {
            self.hub.watched().await;
            let began = Instant::now();
            let shown = self.forecast().await;
            self.publish(Telemetry::Forecast, &shown);
            // What is over is not shown.
            let over = began + shown.lasts().max(AFTER_A_CHANGE);
            tokio::select! {
                () = sleep(EVERY) => {}
                () = sleep_until(over) => {
                    let over = ForecastView::without("none", "its end has come");
                    self.publish(Telemetry::Forecast, &over);
                }
                () = self.forecast_now.notified() => sleep(AFTER_A_CHANGE).await,
            }
        }
    }

    async fn forecast(&self) -> ForecastView {
        let scenario = scenario_of(&self.stack_view.borrow().facts);
        if scenario.mails() == 0 {
            return ForecastView::without("none", "no campaign has mail");
        }
        if scenario.is_held_for_good() {
            return ForecastView::without("none", "sending is held");
        }
        let simulated = forecast(scenario, ForecastOptions::default(), |_| {});
        match timeout(WITHIN, simulated).await {
            Ok(Ok(forecast)) => ForecastView::of(&forecast),
            Ok(Err(PlanError::NoWeight)) => {
                ForecastView::without("none", "what waits is held, or has no weight")
            }
            Ok(Err(error)) => ForecastView::without("failed", error.to_string()),
            Err(_) => ForecastView::without("failed", "it takes longer than 30 s"),
        }
    }
}
