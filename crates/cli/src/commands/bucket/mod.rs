//! Runs `tidegate bucket`: opens the bucket, takes from it, and prints the result.

mod args;

use tidegate_aws::SystemClock;
use tidegate_aws::stack::Stack;
use tidegate_core::bucket::Pace;
use tidegate_core::config::{BucketUrl, KeyPrefix, SharedBucketConfig};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::quota;
use tidegate_operate::bucket::{TakeOptions, TakeScript, levels, take};
use tidegate_operate::page::Page;
use tidegate_redis::{RedisBucket, SCRIPT, digest};

pub use args::BucketArgs;
use args::{BucketCommand, ScriptArgs, TakeArgs, WhereArgs};

use crate::shell::{CommandEnd, CommandError, Shell};

pub(super) async fn run(args: &BucketArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    match &args.command {
        BucketCommand::Take(args) => take_recipients(args, shell).await,
        BucketCommand::Show(args) => {
            let (bucket, _) = find_bucket(&args.place).await?;
            let levels = levels(&bucket).await?;
            shell.output.show(&levels).map_err(CommandError::Terminal)?;
            Ok(CommandEnd::Done)
        }
        BucketCommand::Script(args) => script(args, shell),
    }
}

/// The bucket, and the stack where that names it.
async fn find_bucket(place: &WhereArgs) -> Result<(RedisBucket, Option<Stack>), CommandError> {
    if let Some(url) = given_url(place)? {
        return Ok((bucket(&url, place.prefix.clone().unwrap_or_default()), None));
    }
    let stack = place.on.stack.open().await?;
    let Some(SharedBucketConfig { url, prefix, .. }) = stack.poller.shared_bucket.clone() else {
        let name = &stack.name;
        return Err(CommandError::Input(format!(
            "the stack {name} has no shared bucket (TIDEGATE_SHARED_BUCKET): name one with --url"
        )));
    };
    Ok((bucket(&url, place.prefix.clone().unwrap_or(prefix)), Some(stack)))
}

/// The server that an option names.
fn given_url(place: &WhereArgs) -> Result<Option<BucketUrl>, CommandError> {
    place.url().map_err(|error| CommandError::Refused(error.into()))
}

fn bucket(url: &BucketUrl, prefix: KeyPrefix) -> RedisBucket {
    RedisBucket::new(url.clone(), prefix)
}

async fn take_recipients(args: &TakeArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let domains = args.domains().map_err(|name| {
        CommandError::Input(format!("--domain {name} is given twice; allowed is each domain once"))
    })?;
    if given_url(&args.place)?.is_some() && args.rate.is_none() {
        let text = "--rate is not given; with --url allowed is a number from 0.001 to 10000";
        return Err(CommandError::Input(text.to_owned()));
    }
    let (bucket, stack) = find_bucket(&args.place).await?;
    let rate = match (args.rate, &stack) {
        (Some(rate), _) => rate,
        (None, Some(stack)) => in_force(stack).await?,
        (None, None) => Rate::MIN, // refused above
    };
    let poller = stack.map(|stack| stack.poller.rate_margin);
    let rate_margin: RateMargin = args.rate_margin.or(poller).unwrap_or_default();
    let (wanted, least) = args.amount();
    let pace = Pace { rate, rate_margin };
    let asked = TakeOptions { pace, wanted, least, domains, patience: args.wait };
    let report = take(&bucket, &SystemClock::new(), &asked).await?;
    shell.output.show(&report).map_err(CommandError::Terminal)?;
    Ok(if report.refused.is_none() { CommandEnd::Done } else { CommandEnd::ProblemsFound })
}

/// The rate that the stack's pollers go by.
async fn in_force(stack: &Stack) -> Result<Rate, CommandError> {
    let (standing, _) = stack.standing().await?;
    let quota = quota::remembered(Some(&standing.control), &stack.poller.cap);
    let rate = quota.map(|quota| standing.factor.of(quota));
    rate.ok_or_else(|| {
        CommandError::Input("the stack knows no quota yet: name the rate with --rate".to_owned())
    })
}

fn script(args: &ScriptArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let pace = Pace { rate: args.rate, rate_margin: args.rate_margin };
    let script = TakeScript::of(SCRIPT, digest(), &args.prefix, pace);
    shell.output.show(&script).map_err(CommandError::Terminal)?;
    let mut how = Page::default();
    script.say_how(&mut how);
    shell.output.say(&how);
    Ok(CommandEnd::Done)
}
