//! When a run's mails will be sent: a forecast of the stack as it is, with the run's mails added.

use std::time::Duration;

use crate::send::{CampaignDraft, Estimate, InputSummary};
use crate::status::{StackFacts, Status};
use tidegate_core::back_pressure::BackPressureLevel;
use tidegate_core::in_full;
use tidegate_simulator::plan::{CampaignLoad, Forecast, ForecastOptions};

use super::args::SendArgs;
use crate::plan::forecasts;
use crate::shell::{CommandResult, Shell};

/// One run: for the announcement of an end its range is not needed.
const OPTIONS: ForecastOptions = ForecastOptions { seeds: 1, every_window: false };

/// An estimate that takes longer is left out: the mails are enqueued all the same.
const WITHIN: Duration = Duration::from_secs(2);

/// The estimate of a run of which that many rows are `enqueued`; none if the operator interrupts. A forecast that cannot be
/// made is a warning, because the mails can be enqueued all the same.
pub(super) async fn estimated(
    args: &SendArgs,
    facts: &StackFacts,
    draft: &CampaignDraft,
    checked: &InputSummary,
    enqueued: u64,
    shell: &Shell,
) -> CommandResult<Option<Estimate>> {
    let mut scenario = crate::plan::scenario_of(facts);
    let (name, mails) = (draft.campaign.clone(), checked.slots_after(enqueued));
    scenario.add(&CampaignLoad { name, weight: 0, mails, recipients: 1 });
    if mails > checked.rows.saturating_sub(enqueued) {
        let said = "a text of several parts takes no longer than as many of one part";
        scenario.assumptions.push(said.to_owned());
    }
    let status = Status::of(facts);
    let level = status.level.level;
    if level.defers(draft.parsed_priority()) {
        scenario.assumptions.push(of_level(level, args.run.even_if_deferred));
    }
    let forecast = match forecasts(vec![scenario], OPTIONS, WITHIN, shell).await {
        Ok(None) => return Ok(None),
        Ok(Some(forecasts)) => forecasts.into_iter().next().ok_or_else(String::new),
        Err(error) => Err(in_full(&error)),
    };
    Ok(Some(estimate(&status, &draft.campaign, forecast)))
}

fn of_level(level: BackPressureLevel, even_if_deferred: bool) -> String {
    if even_if_deferred {
        format!("pollers do not defer these mails, although the level is {level}")
    } else {
        format!("the level, which is {level}, is clear at once: until it is, nothing is enqueued")
    }
}

fn estimate(status: &Status, campaign: &str, forecast: Result<Forecast, String>) -> Estimate {
    let known = status.campaigns.iter().find(|known| known.name == campaign);
    let mut estimate = Estimate {
        quota_per_second: status.quota.slots_per_second,
        share: known.map_or(0.0, |known| known.share),
        ahead: known.map_or(0, |known| known.backlog.all()),
        ..Estimate::default()
    };
    match forecast {
        Ok(forecast) => {
            let own = forecast.campaigns.iter().find(|own| own.name == campaign);
            let end = own.and_then(|own| own.ends_after_seconds);
            estimate.ends_after_seconds = end.map(|end| end.expected);
            (estimate.warnings, estimate.assumptions) = (forecast.warnings, forecast.assumptions);
        }
        Err(why) => estimate.warnings.push(format!("no forecast: {why}")),
    }
    estimate
}

#[cfg(test)]
mod tests {
    use tidegate_core::Timestamp;
    use tidegate_simulator::plan::Scenario;
    use tokio::sync::watch;

    use super::*;
    use crate::shell::Output;
    use crate::status::tests::facts;

    /// Regression: a forecast of nine minutes kept a run from being sent.
    #[tokio::test]
    async fn an_estimate_that_takes_too_long_is_left_out_with_a_word() {
        let (_interrupt, interrupts) = watch::channel(0);
        let shell = Shell::new(Output::plain(), interrupts);
        let mut scenario = Scenario::new(Timestamp::from_millis(1_795_207_000_000));
        scenario.campaigns = vec!["big=1000000".parse().unwrap()];
        let options = ForecastOptions { every_window: true, ..OPTIONS };
        let late = forecasts(vec![scenario], options, Duration::ZERO, &shell).await.unwrap_err();
        let status = Status::of(&facts());
        let estimate = estimate(&status, "big", Err(in_full(&late)));
        assert_eq!(estimate.warnings, ["no forecast: it takes longer than 0 s"]);
        assert_eq!((estimate.ends_after_seconds, estimate.share > 0.0), (None, true));
    }
}
