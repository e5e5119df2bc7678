use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::status;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_adapters::aws::SystemClock;
use tidegate_core::Window;
use tidegate_core::channel::Channel;
use tidegate_core::format::span;
use tidegate_core::limits::InitialLimits;
use tidegate_core::number::{real, whole};
use tidegate_delivery::ports::Clock as _;
use tidegate_simulator::plan::{
    self, CampaignLoad, DailyQuotaSettings, DomainShare, Forecast, ForecastOptions, PlanError,
    PlanReport, PlannedFault, Scenario, Variant, WeightList,
};

use super::chart;
use crate::shell::{CommandEnd, CommandError, Shell};
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
    #[command(flatten)]
    pub(crate) on: OnStack,
    /// A campaign and its mails, such as `big=40000`, `news=20k`, or `teams=500x8` for mails of 8
    /// recipients, or texts of 8 parts each; may be given many times
    #[arg(long = "campaign", value_name = "NAME=MAILS", required_unless_present = "live", value_parser = parsed::<CampaignLoad>)]
    campaigns: Vec<CampaignLoad>,
    /// Forecast what stands on the stack's queues now, with its weights, quota and settings; mails of
    /// --campaign come on top
    #[arg(long)]
    live: bool,
    /// Weights, such as `big=90,small=10` [default: 1 each, or the stack's]
    #[arg(long, value_name = "NAME=WEIGHT", value_parser = parsed::<WeightList>)]
    weights: Vec<WeightList>,
    /// Recipients, or parts of texts, a second [default: 14, or the stack's]
    #[arg(long, value_name = "RECIPIENTS")]
    quota: Option<f64>,
    /// The channel: `email`, or `sms` for text messages [default: email; with --live the stack's]
    #[arg(long, value_name = "CHANNEL", value_parser = channel, conflicts_with = "live")]
    channel: Option<Channel>,
    /// AWS's price of a part of a text, in US dollars: <https://aws.amazon.com/end-user-messaging/pricing/>
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    price_per_part: Option<f64>,
    /// SES's price for 1,000 recipients, in US dollars [default: 0.10]
    #[arg(long, value_name = "DOLLARS", value_parser = ses_price)]
    ses_price: Option<f64>,
    /// Recipients in any 24 hours [default: no limit, or the stack's]
    #[arg(long, value_name = "RECIPIENTS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    daily_quota: Option<u64>,
    /// How the daily quota is used: `full` speed until it is used up, or `spread` over the day
    #[arg(long, value_name = "PACE", value_parser = ["full", "spread"])]
    daily: Option<String>,
    /// Recipients sent in the 24 hours before the start [default: 0, or what SES tells]
    #[arg(long, value_name = "RECIPIENTS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    sent_today: Option<u64>,
    /// Time that SES takes to answer: `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`
    #[arg(long, value_name = "TIME", default_value = "80ms")]
    latency: String,
    /// Time that a call to SQS takes, written as --latency
    #[arg(long, value_name = "TIME", default_value = "5ms..15ms")]
    sqs_latency: String,
    /// Faults: `throttle`, `5xx`, `reset`, `lost-answer` or `rejected`, with `ratio=0.01`, `from=10m` and
    /// `to=1h` behind commas; may be given many times
    #[arg(long = "fault", value_name = "FAULT", value_parser = parsed::<PlannedFault>)]
    faults: Vec<PlannedFault>,
    /// Part of the quota that is kept free, 0.005 to 0.5 [default: 0.02, or the stack's]
    #[arg(long, value_name = "SHARE")]
    rate_margin: Option<f64>,
    /// How the poller takes mails: `merge` or `direct` [default: merge, or the stack's]
    #[arg(long, value_name = "MODE", value_parser = ["merge", "direct"])]
    mode: Option<String>,
    /// Express mails a second that come all along, up to nine tenths of what may be sent
    #[arg(long, value_name = "MAILS")]
    express: Option<f64>,
    /// Part of the mails that goes to one domain, such as `gmail.com=40%`; each of the others goes to a
    /// domain of its own; may be given many times
    #[arg(long = "domain", value_name = "DOMAIN=SHARE", value_parser = parsed::<DomainShare>)]
    domains: Vec<DomainShare>,
    /// Limits of recipient domains, such as `gmail.com+googlemail.com=10/s, *=25%` [default: none, or the
    /// stack's]
    #[arg(long, value_name = "LIMITS", value_parser = parsed::<InitialLimits>)]
    limits: Option<InitialLimits>,
    /// Size of a mail in KB: whether the poller's memory reaches for it
    #[arg(long, value_name = "KB", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    mail_kb: u32,
    /// When the mails are on their queues, such as `2026-11-20T20:36:07Z` [default: now]
    #[arg(long, value_name = "TIME", value_parser = parsed::<Window>)]
    start: Option<Window>,
    /// A variant to compare: a name, and what it changes, such as `equal: weights=50/50 quota=28`; may be
    /// given many times
    #[arg(long = "variant", value_name = "NAME: CHANGES", value_parser = parsed::<Variant>)]
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
}

/// Reads the option `--channel`.
///
/// # Errors
/// The names that are allowed.
pub fn channel(text: &str) -> Result<Channel, String> {
    text.parse().map_err(|_| "allowed is email or sms".to_owned())
}

fn dollars(text: &str) -> Result<f64, String> {
    let dollars = text.parse().ok().filter(|dollars| (0.0..1_000.0).contains(dollars));
    dollars.ok_or_else(|| "allowed are US dollars such as 0.0075".to_owned())
}

/// The price of a recipient, from that of 1,000.
pub fn ses_price(text: &str) -> Result<f64, String> {
    dollars(text).map(|dollars| dollars / 1e3)
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| error.to_string())
}

fn refused(error: PlanError) -> CommandError {
    CommandError::Refused(Box::new(error))
}

pub(crate) async fn run(args: &PlanArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    if let Some(path) =
        args.chart.as_deref().filter(|path| path.extension() != Some("svg".as_ref()))
    {
        let given = path.display();
        let said = format!("--chart is `{given}`; allowed is a file that ends in .svg");
        return Err(CommandError::Input(said));
    }
    let base = args.scenario(shell).await?;
    let variants = args.variants.iter().map(|variant| variant.of(&base));
    let variants: Vec<Scenario> = variants.collect::<Result<_, _>>().map_err(refused)?;
    let all: Vec<Scenario> = std::iter::once(base).chain(variants).collect();
    for scenario in &all {
        scenario.check().map_err(refused)?;
    }
    let options = ForecastOptions { seeds: args.runs, every_window: args.every_window };
    let Some(forecasts) = forecasts(all, options, Duration::MAX, shell).await? else {
        return Ok(CommandEnd::Interrupted);
    };
    let report = PlanReport { forecasts };
    // The forecast is printed first: it is not lost if the chart cannot be written.
    shell.show(&report)?;
    if let Some(path) = &args.chart {
        let drawn = chart::draw(&report).map_err(|error| CommandError::Refused(Box::new(error)))?;
        std::fs::write(path, drawn).map_err(|source| CommandError::File {
            path: path.clone(),
            doing: "the chart cannot be written",
            source,
        })?;
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
) -> Result<Option<Vec<Forecast>>, CommandError> {
    let bar = if shell.output.shows_progress() {
        let style = ProgressStyle::with_template("Simulating {wide_bar} {percent} %, {elapsed}");
        ProgressBar::new(1_000).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    } else {
        ProgressBar::hidden()
    };
    let go_on = Arc::new(AtomicBool::new(true));
    let (shown, told, count) = (bar.clone(), Arc::clone(&go_on), scenarios.len());
    let simulating = tokio::task::spawn_blocking(move || {
        let numbered = scenarios.iter().enumerate();
        let one = |(index, scenario): (usize, &Scenario)| {
            let progress = |part: f64| {
                let done = real(index as u64) + part.clamp(0.0, 1.0);
                shown.set_position(whole(done * 1e3 / real(count as u64)));
                told.load(Ordering::Relaxed)
            };
            plan::forecast(scenario, options, &progress)
        };
        numbered.map(one).collect::<Result<Vec<_>, _>>()
    });
    tokio::pin!(simulating);
    let ended = tokio::select! {
        ended = &mut simulating => ended,
        () = shell.interrupted() => {
            go_on.store(false, Ordering::Relaxed);
            simulating.await
        }
        () = tokio::time::sleep(within) => {
            go_on.store(false, Ordering::Relaxed);
            bar.finish_and_clear();
            let said = format!("it takes longer than {}", span(within));
            return Err(CommandError::Unfinished(said.into()));
        }
    };
    bar.finish_and_clear();
    match ended {
        Ok(Ok(forecasts)) => Ok(Some(forecasts)),
        Ok(Err(PlanError::Stopped)) => Ok(None),
        Ok(Err(error @ (PlanError::Lost(_) | PlanError::Port(_) | PlanError::Start(_)))) => {
            Err(CommandError::Unfinished(Box::new(error)))
        }
        Ok(Err(error)) => Err(refused(error)),
        Err(error) => Err(CommandError::Unfinished(Box::new(error))),
    }
}

impl PlanArgs {
    async fn scenario(&self, shell: &Shell) -> Result<Scenario, CommandError> {
        let now = || SystemClock::new().wall();
        let mut scenario = Scenario::new(self.start.map_or_else(now, Window::opens));
        if self.live {
            self.live(&mut scenario, shell).await?;
        }
        for load in &self.campaigns {
            if self.live {
                scenario.add(load);
            } else {
                scenario.campaigns.push(load.clone());
            }
        }
        for weights in &self.weights {
            weights.set(&mut scenario).map_err(refused)?;
        }
        scenario.channel = self.channel.unwrap_or(scenario.channel);
        scenario.price_per_part = self.price_per_part;
        scenario.ses_price = self.ses_price;
        scenario.quota = self.quota.unwrap_or(scenario.quota);
        scenario.latency = plan::latency(&self.latency).map_err(refused)?;
        scenario.sqs_latency = plan::latency(&self.sqs_latency).map_err(refused)?;
        scenario.rate_margin = self.rate_margin.or(scenario.rate_margin);
        scenario.faults.clone_from(&self.faults);
        scenario.domains.clone_from(&self.domains);
        scenario.limits.clone_from(&self.limits);
        if let Some(mode) = &self.mode {
            scenario.merge = mode == "merge";
        }
        scenario.express = self.express.or(scenario.express);
        scenario.mail_kb = self.mail_kb;
        self.day(&mut scenario)?;
        Ok(scenario)
    }

    fn day(&self, scenario: &mut Scenario) -> Result<(), CommandError> {
        if let Some(quota) = self.daily_quota {
            let pace = scenario.daily.map(|daily| daily.pace).unwrap_or_default();
            let sent = scenario.daily.map_or(0, |daily| daily.sent);
            scenario.daily = Some(DailyQuotaSettings { quota, sent, pace });
        }
        let Some(daily) = &mut scenario.daily else {
            if self.daily.is_some() || self.sent_today.is_some() {
                let said = "--daily and --sent-today go with --daily-quota, which is not given";
                return Err(CommandError::Input(said.to_owned()));
            }
            return Ok(());
        };
        if let Some(pace) = &self.daily {
            daily.pace = plan::pace(pace).map_err(refused)?;
        }
        daily.sent = self.sent_today.unwrap_or(daily.sent);
        Ok(())
    }

    /// Takes campaigns, backlogs, weights and settings from a running stack.
    async fn live(&self, scenario: &mut Scenario, shell: &Shell) -> Result<(), CommandError> {
        let stack = self.on.stack.open().await?;
        let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
        let standing = crate::plan::scenario_of(&facts);
        *scenario = Scenario { start: scenario.start, ..standing };
        Ok(())
    }
}
