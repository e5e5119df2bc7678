use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::status;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Command, FromArgMatches as _};
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_adapters::aws::SystemClock;
use tidegate_core::Window;
use tidegate_core::channel::Channel;
use tidegate_core::daily::DailyPace;
use tidegate_core::format::span;
use tidegate_core::limits::InitialLimits;
use tidegate_core::number::{real, whole};
use tidegate_delivery::ports::Clock as _;
use tidegate_simulator::plan::{
    self, CampaignLoad, DailyQuotaSettings, DomainShare, Forecast, ForecastOptions, Latency,
    PlanError, PlanReport, PlannedFault, Scenario, WeightList,
};
use tokio::time::timeout;

use super::chart;
use crate::shell::{CommandEnd, CommandError, CommandResult, Shell};
use crate::stack::OnStack;

/// Forecast when each campaign ends, what limits it, and what it costs
///
/// The poller and the scheduler as they are deployed run against queues and an SES in memory, in
/// simulated time; stretches in which nothing changes are stepped over at the rate that was measured
/// right before. Nothing is sent, and no queue is touched.
///
/// A range is what three runs with other chance came to (latencies, faults, the scheduler's minute),
/// plus twice the standard error of each stretch that was stepped over, plus 0.5 % or a second for what
/// a local run differs by. It is not about what the options may be wrong in.
///
/// Exit code: 0; 1 where some mails are never sent; 2 where an option is wrong.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate plan --campaign news=40000
      One campaign at 14 a second.
  tidegate plan --campaign big=900k --campaign small=50k --weights big=90,small=10 --quota 200
      Two campaigns, and whose mails leave when.
  tidegate plan --campaign big=200k --daily-quota 50000 --sent-today 12000 --variant 'evenly: daily=spread'
      What a daily quota does, and what spreading it would.
  tidegate plan --campaign a=40k --campaign b=4k --variant 'equal: weights=50/50' --variant 'more: quota=28'
      Variants side by side.
  tidegate plan --campaign big=40k --fault 5xx,from=10m,to=40m --fault throttle,ratio=0.01 --chart plan.svg
      An outage of half an hour, and a chart.
  tidegate plan --channel sms --campaign codes=20k --campaign news=5kx3 --quota 3 --price-per-part 0.0075
      Text messages: those of news have three parts each, and the quota counts parts.
  tidegate plan --live --stack mail --variant 'hurry: weights=small=50'
      What stands on a stack's queues now, with its settings, and what other weights would do.")]
// More than 12 fields: one for each option of the command.
pub struct PlanArgs {
    /// A campaign and its mails, such as `big=40000`, `news=20k`, or `teams=500x8` for mails of 8
    /// recipients, or texts of 8 parts each; may be given many times
    #[arg(long = "campaign", value_name = "NAME=MAILS", required_unless_present = "live")]
    campaigns: Vec<CampaignLoad>,
    /// Forecast what stands on the stack's queues now, with its weights, quota and settings; mails of
    /// --campaign come on top
    #[arg(long)]
    live: bool,
    /// The channel: `email`, or `sms` for text messages [default: email; with --live the stack's]
    #[arg(long, value_name = "CHANNEL", value_parser = channel, conflicts_with = "live")]
    channel: Option<Channel>,
    #[command(flatten)]
    scenario: ScenarioArgs,
    /// When the mails are on their queues, such as `2026-11-20T20:36:07Z` [default: now]
    #[arg(long, value_name = "TIME")]
    start: Option<Window>,
    /// The mails have --start as their `not_before`: they wait in the store until then
    #[arg(long, requires = "start")]
    timed: bool,
    /// A variant to compare: a name, and any of the options from --weights to --mail-kb, such as
    /// `equal: weights=50/50 quota=28`; may be given many times
    #[arg(long = "variant", value_name = "NAME: CHANGES")]
    variants: Vec<Variant>,
    /// Write a chart into this file, which ends in `.svg`
    #[arg(long, value_name = "FILE")]
    chart: Option<PathBuf>,
    /// Runs with other chance, for the range
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    runs: u64,
    /// Simulate every window, which takes a minute for a million mails
    #[arg(long)]
    every_window: bool,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

/// The options that describe what is forecast. A variant changes what it gives, and leaves the rest.
#[derive(Clone, Debug, Args)]
// More than 12 fields: one for each option of the command.
struct ScenarioArgs {
    /// Weights, such as `big=90,small=10`, or `90/10` in the campaigns' order [default: 1 each, or the stack's]
    #[arg(long, value_name = "NAME=WEIGHT")]
    weights: Vec<WeightList>,
    /// Recipients, or parts of texts, a second [default: 14, or the stack's]
    #[arg(long, value_name = "RECIPIENTS", value_parser = number("recipients a second such as 14 or 0.5"))]
    quota: Option<f64>,
    /// AWS's price of a part of a text, in US dollars: <https://aws.amazon.com/end-user-messaging/pricing/>
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    price_per_part: Option<f64>,
    /// SES's price for 1,000 recipients, in US dollars [default: 0.10]
    #[arg(long, value_name = "DOLLARS", value_parser = ses_price)]
    ses_price: Option<f64>,
    /// Recipients in any 24 hours, such as `50k`, or `none` [default: none, or the stack's]
    #[arg(long, value_name = "RECIPIENTS", value_parser = or_none(plan::count))]
    daily_quota: Option<OrNone<u64>>,
    /// How the daily quota is used: `full` speed until it is used up, or `spread` over the day
    #[arg(long, value_name = "PACE", value_parser = PossibleValuesParser::new(["full", "spread"])
        .try_map(|pace| pace.parse::<DailyPace>().map_err(|error| error.to_string())))]
    daily: Option<DailyPace>,
    /// Recipients sent in the 24 hours before the start [default: 0, or what SES tells]
    #[arg(long, value_name = "RECIPIENTS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    sent_today: Option<u64>,
    /// Time that SES takes to answer: `80ms`, `50ms..5s` or `p50=80ms,p99=400ms` [default: 80ms]
    #[arg(long, value_name = "TIME", value_parser = plan::latency)]
    latency: Option<Latency>,
    /// Time that a call to SQS takes, written as --latency [default: 5ms..15ms]
    #[arg(long, value_name = "TIME", value_parser = plan::latency)]
    sqs_latency: Option<Latency>,
    /// Faults: `throttle`, `5xx`, `reset`, `lost-answer` or `rejected`, with `ratio=0.01`, `from=10m` and
    /// `to=1h` behind commas, or `none`; may be given many times
    #[arg(long = "fault", value_name = "FAULT", value_parser = or_none(str::parse::<PlannedFault>))]
    faults: Vec<OrNone<PlannedFault>>,
    /// Part of the quota that is kept free, 0.005 to 0.5 [default: 0.01, or the stack's]
    #[arg(long, value_name = "SHARE", value_parser = number("shares from 0.005 to 0.5"))]
    rate_margin: Option<f64>,
    /// How the poller takes mails: `merge` or `direct` [default: merge, or the stack's]
    #[arg(long = "mode", value_name = "MODE", value_parser = PossibleValuesParser::new(["merge", "direct"])
        .map(|mode| mode == "merge"))]
    merge: Option<bool>,
    /// Express mails a second that come all along, up to nine tenths of what may be sent
    #[arg(long, value_name = "MAILS", value_parser = number("mails a second such as 2 or 0.5"))]
    express: Option<f64>,
    /// Part of the mails that goes to one domain, such as `gmail.com=40%`; each of the others goes to a
    /// domain of its own; may be given many times
    #[arg(long = "domain", value_name = "DOMAIN=SHARE")]
    domains: Vec<DomainShare>,
    /// Limits of recipient domains, such as `gmail.com+googlemail.com=10/s, *=25%` [default: none, or the
    /// stack's]
    #[arg(long, value_name = "LIMITS")]
    limits: Option<InitialLimits>,
    /// Size of a mail in KB: whether the poller's memory reaches for it [default: 2]
    #[arg(long, value_name = "KB", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    mail_kb: Option<u32>,
}

/// An option's value, or none of it. The name keeps clap from taking it for an option without a value.
type OrNone<T> = Option<T>;

/// Reads `none`, or a value.
fn or_none<T, E>(
    read: impl Fn(&str) -> Result<T, E> + Clone,
) -> impl Fn(&str) -> Result<OrNone<T>, E> + Clone {
    move |text| if text == "none" { Ok(None) } else { read(text).map(Some) }
}

/// A variant of a scenario: its name, and the options that differ.
///
/// ```
/// use tidegate_core::Timestamp;
/// use tidegate_operator::plan::Variant;
/// use tidegate_simulator::plan::Scenario;
/// let mut base = Scenario::new(Timestamp::from_millis(0));
/// base.campaigns = vec!["big=40k".parse().unwrap(), "small=4k".parse().unwrap()];
/// let variant: Variant = "equal: weights=big=50,small=50 quota=28".parse().unwrap();
/// let scenario = variant.of(&base).unwrap();
/// assert_eq!((scenario.name.as_str(), scenario.quota, scenario.campaigns[1].weight), ("equal", 28.0, 50));
/// ```
#[derive(Clone, Debug)]
pub struct Variant {
    name: String,
    changes: ScenarioArgs,
}

impl FromStr for Variant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed is `NAME: OPTION=VALUE …` with options of a forecast, such as `equal: weights=50/50 quota=28`";
        let (name, changes) = text.split_once(':').ok_or(allowed)?;
        if name.trim().is_empty() || changes.trim().is_empty() {
            return Err(allowed.to_owned());
        }
        // A blank behind a comma is within a value.
        let changes = changes.replace(", ", ",");
        let options = changes.split_whitespace().map(|change| format!("--{change}"));
        let command = Command::new("variant").no_binary_name(true).disable_help_flag(true);
        let found = ScenarioArgs::augment_args(command).try_get_matches_from(options);
        let changes = found.and_then(|found| ScenarioArgs::from_arg_matches(&found));
        let changes = changes.map_err(|error| {
            let said = error.to_string();
            let said = said.lines().map(str::trim).take_while(|line| !line.is_empty());
            let said = said.collect::<Vec<_>>().join(" ");
            format!("{}; {allowed}", said.trim_start_matches("error: "))
        })?;
        Ok(Self { name: name.trim().to_owned(), changes })
    }
}

impl Variant {
    /// `base` with this variant's changes.
    ///
    /// # Errors
    /// [`PlanError`] where the change does not go with the scenario.
    pub fn of(&self, base: &Scenario) -> Result<Scenario, PlanError> {
        let mut scenario = Scenario { name: self.name.clone(), ..base.clone() };
        self.changes.set(&mut scenario)?;
        Ok(scenario)
    }
}

/// Reads the option `--channel`.
///
/// # Errors
/// The names that are allowed.
pub fn channel(text: &str) -> Result<Channel, String> {
    text.parse().map_err(|_| "allowed is email or sms".to_owned())
}

/// Reads a number, and says what is allowed where it is none.
fn number(allowed: &'static str) -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| text.parse().map_err(|_| format!("allowed are {allowed}"))
}

fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse().ok().filter(|dollars| (0.0..1_000.0).contains(dollars));
    dollars.ok_or_else(|| "allowed are US dollars such as 0.0075".to_owned())
}

/// The price of a recipient, from that of 1,000.
pub fn ses_price(text: &str) -> Result<f64, String> {
    dollars(text).map(|dollars| dollars / 1e3)
}

pub(crate) async fn run(args: &PlanArgs, shell: &Shell) -> CommandResult {
    if let Some(path) =
        args.chart.as_deref().filter(|path| path.extension() != Some("svg".as_ref()))
    {
        let given = path.display();
        let said = format!("--chart is `{given}`; allowed is a file that ends in .svg");
        return Err(CommandError::Input(said));
    }
    let base = args.scenario(shell).await?;
    let variants = args.variants.iter().map(|variant| variant.of(&base));
    let variants: Vec<Scenario> =
        variants.collect::<Result<_, _>>().map_err(CommandError::refused)?;
    let all: Vec<Scenario> = std::iter::once(base).chain(variants).collect();
    for scenario in &all {
        scenario.check().map_err(CommandError::refused)?;
    }
    let options = ForecastOptions { seeds: args.runs, every_window: args.every_window };
    let Some(forecasts) = forecasts(all, options, Duration::MAX, shell).await? else {
        return Ok(CommandEnd::Interrupted);
    };
    let report = PlanReport { forecasts };
    // The forecast is printed first: it is not lost if the chart cannot be written.
    shell.show(&report)?;
    if let Some(path) = &args.chart {
        let drawn = chart::draw(&report).map_err(CommandError::refused)?;
        let written = std::fs::write(path, drawn);
        written.map_err(CommandError::of_file(path, "the chart cannot be written"))?;
    }
    Ok(if report.all_end() { CommandEnd::Done } else { CommandEnd::ProblemsFound })
}

/// Runs the forecasts on a thread of their own; none if the operator interrupts, an error if they are not made within
/// a time.
pub(crate) async fn forecasts(
    scenarios: Vec<Scenario>,
    options: ForecastOptions,
    within: Duration,
    shell: &Shell,
) -> CommandResult<Option<Vec<Forecast>>> {
    // It is drawn on a terminal alone.
    let style = ProgressStyle::with_template("Simulating {wide_bar} {percent} %, {elapsed}");
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(1_000).with_style(style);
    let simulating = async {
        let (count, mut forecasts) = (real(scenarios.len() as u64), Vec::new());
        for (scenario, done) in scenarios.into_iter().zip(0_u64..) {
            let bar = bar.clone();
            let shown = move |part: f64| bar.set_position(whole((real(done) + part) * 1e3 / count));
            forecasts.push(forecast(scenario, options, shown).await?);
        }
        Ok::<_, PlanError>(forecasts)
    };
    let ended = tokio::select! {
        ended = timeout(within, simulating) => ended,
        () = shell.interrupted() => Ok(Err(PlanError::Stopped)),
    };
    bar.finish_and_clear();
    match ended {
        Ok(Ok(forecasts)) => Ok(Some(forecasts)),
        Ok(Err(PlanError::Stopped)) => Ok(None),
        Ok(Err(error @ (PlanError::Lost(_) | PlanError::Port(_) | PlanError::Start(_)))) => {
            Err(CommandError::Unfinished(Box::new(error)))
        }
        Ok(Err(error)) => Err(CommandError::refused(error)),
        Err(_) => {
            let said = format!("it takes longer than {}", span(within));
            Err(CommandError::Unfinished(said.into()))
        }
    }
}

/// The forecast of a scenario, on a thread of its own, which stops soon after nobody waits for it any more.
///
/// # Errors
/// [`PlanError`].
pub async fn forecast(
    scenario: Scenario,
    options: ForecastOptions,
    progress: impl Fn(f64) + Send + Sync + 'static,
) -> Result<Forecast, PlanError> {
    let waits = Arc::new(());
    let waited_for = Arc::downgrade(&waits);
    let simulating = tokio::task::spawn_blocking(move || {
        plan::forecast(&scenario, options, &|part| {
            progress(part);
            waited_for.strong_count() > 0
        })
    });
    let ended = simulating.await;
    drop(waits);
    ended.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

impl PlanArgs {
    /// The scenario of the options, on top of what stands on the stack's queues where that is asked for.
    async fn scenario(&self, shell: &Shell) -> CommandResult<Scenario> {
        let start = self.start.map_or_else(|| SystemClock::new().wall(), Window::opens);
        let mut scenario = Scenario::new(start);
        if self.live {
            let stack = self.on.stack.open().await?;
            let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
            scenario = Scenario { start, ..crate::plan::scenario_of(&facts) };
        }
        for load in &self.campaigns {
            if self.live {
                scenario.add(load);
            } else {
                scenario.campaigns.push(load.clone());
            }
        }
        scenario.channel = self.channel.unwrap_or(scenario.channel);
        scenario.timed = self.timed;
        self.scenario.set(&mut scenario).map_err(CommandError::refused)?;
        Ok(scenario)
    }
}

impl ScenarioArgs {
    /// Changes a scenario by the options that are given.
    fn set(&self, scenario: &mut Scenario) -> Result<(), PlanError> {
        for weights in &self.weights {
            weights.set(scenario)?;
        }
        scenario.quota = self.quota.unwrap_or(scenario.quota);
        scenario.price_per_part = self.price_per_part.or(scenario.price_per_part);
        scenario.ses_price = self.ses_price.or(scenario.ses_price);
        scenario.latency = self.latency.unwrap_or(scenario.latency);
        scenario.sqs_latency = self.sqs_latency.unwrap_or(scenario.sqs_latency);
        scenario.rate_margin = self.rate_margin.or(scenario.rate_margin);
        scenario.merge = self.merge.unwrap_or(scenario.merge);
        scenario.express = self.express.or(scenario.express);
        scenario.mail_kb = self.mail_kb.unwrap_or(scenario.mail_kb);
        scenario.limits = self.limits.clone().or(scenario.limits.take());
        if !self.faults.is_empty() {
            scenario.faults = self.faults.iter().copied().flatten().collect();
        }
        if !self.domains.is_empty() {
            scenario.domains.clone_from(&self.domains);
        }
        if let Some(quota) = self.daily_quota {
            let DailyQuotaSettings { sent, pace, .. } = scenario.daily.unwrap_or_default();
            scenario.daily = quota.map(|quota| DailyQuotaSettings { quota, sent, pace });
        }
        match &mut scenario.daily {
            Some(daily) => {
                daily.pace = self.daily.unwrap_or(daily.pace);
                daily.sent = self.sent_today.unwrap_or(daily.sent);
            }
            None if self.daily.is_some() || self.sent_today.is_some() => {
                return Err(PlanError::NoDailyQuota);
            }
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
