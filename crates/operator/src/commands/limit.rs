mod providers;

use crate::status;
use crate::status::Status;
use crate::steer::SteerAction;
use clap::{Args, Subcommand};
use tidegate_adapters::aws::SystemClock;
use tidegate_core::Timestamp;
use tidegate_core::limits::{
    Date, Hours, InvalidKey, Limit, LimitKey, LimitRate, Ramp, RampDays, Zone,
};
use tidegate_delivery::ports::Clock as _;

use super::steer::{AuthorArgs, change};
use crate::shell::{CommandEnd, CommandError, OutputArgs, Shell};
use crate::stack::OnStack;

/// Show the limits, set one, or remove one
///
/// A limit holds for the mail of a campaign, of a sender, to a recipient's domain, through a configuration set or
/// for a tenant: how fast it is sent, and when. Limits are stored in the ledger. A change is in force within two
/// seconds, without a deployment.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  tidegate limit
  tidegate limit set news 5000/h --reason 'support can answer no more'
  tidegate limit set gmail.com+googlemail.com 10/s --reason 'deferred by the provider'
  tidegate limit set provider:gmail 50/s --adaptive --reason 'as fast as Gmail takes it'
  tidegate limit set news --hours 'Mon-Fri 08:00-20:00' --zone Europe/Berlin --reason 'by day only'
  tidegate limit set sender:new.example --warm-up '50 x1.5 to 50000' --from 2026-12-01 --reason 'a new domain'
  tidegate limit remove news --reason 'no limit needed'"
)]
pub struct LimitArgs {
    #[command(subcommand)]
    action: Option<LimitAction>,
    #[command(flatten)]
    list: ListArgs,
}

#[derive(Clone, Debug, Subcommand)]
enum LimitAction {
    /// Show the limits in force
    List(ListArgs),
    /// Set a limit, or replace it
    Set(Box<SetArgs>),
    /// Remove a limit
    Remove(RemoveArgs),
}

#[derive(Clone, Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    on: OnStack,
}

#[derive(Clone, Debug, Args)]
struct SetArgs {
    /// The mail: a campaign's name, a domain (or several, joined by +), an address, `campaign:NAME`, `sender:NAME`,
    /// `set:NAME`, `tenant:NAME`; of texts a country such as +49, or `origin:NAME`; `*` in place of a name is each other
    /// name separately; `provider:NAME` is all domains of a large provider, such as gmail
    #[arg(value_parser = key)]
    key: LimitKey,
    /// Recipients (of texts: parts) per second, minute, hour or day such as 10/s or 5000/h, or a share of the quota such as 25%
    rate: Option<LimitRate>,
    /// Hours of the week outside which nothing is sent, such as 'Mon-Fri 08:00-20:00, Sat 10:00-16:00'
    #[arg(long, value_name = "HOURS")]
    hours: Option<Hours>,
    /// The time zone of hours, times and warm-up, such as Europe/Berlin [default: UTC]
    #[arg(long, value_name = "ZONE")]
    zone: Option<Zone>,
    #[command(flatten)]
    span: SpanArgs,
    /// Recipients of each day: a table such as 50,100,500, or '50 x1.5 to 50000'
    #[arg(long, value_name = "DAYS", requires = "from", conflicts_with = "rate")]
    warm_up: Option<RampDays>,
    /// Send what is over the limit through this configuration set instead of letting it wait (a sender, set or tenant)
    #[arg(long, value_name = "SET", value_parser = set_name)]
    overflow: Option<String>,
    /// Deferrals by the recipients' provider lower the rate, and time raises it again (domains; the stack counts feedback)
    #[arg(long)]
    adaptive: bool,
    /// The first day of the warm-up, such as 2026-12-01
    #[arg(long, value_name = "DAY", requires = "warm_up")]
    from: Option<Date>,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    on: OnStack,
}

/// Begin and end.
#[derive(Clone, Debug, Args)]
struct SpanArgs {
    /// Nothing is sent before, such as '2026-12-01 08:00' in the zone, or RFC 3339
    #[arg(long, value_name = "TIME")]
    not_before: Option<String>,
    /// Nothing is sent from then on: what is left waits, or is deferred
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Defer what is left of a campaign at its end to the stack's deferral bucket; it returns when the limit is changed
    #[arg(long, requires = "until")]
    defer: bool,
}

#[derive(Clone, Debug, Args)]
struct RemoveArgs {
    /// The limit's key, as `tidegate limit list` shows it, or `provider:NAME`
    #[arg(value_parser = key)]
    key: LimitKey,
    #[command(flatten)]
    author: AuthorArgs,
    #[command(flatten)]
    on: OnStack,
}

fn set_name(text: &str) -> Result<String, String> {
    let key: LimitKey =
        format!("set:{text}").parse().map_err(|error: InvalidKey| error.to_string())?;
    Ok(key.name().to_owned())
}

impl LimitArgs {
    pub(super) const fn output(&self) -> OutputArgs {
        match &self.action {
            None => self.list.on.output,
            Some(LimitAction::List(args)) => args.on.output,
            Some(LimitAction::Set(args)) => args.on.output,
            Some(LimitAction::Remove(args)) => args.on.output,
        }
    }
}

impl SetArgs {
    fn limit(&self, now: Timestamp) -> Result<Limit, CommandError> {
        let zone = self.zone.clone().unwrap_or_default();
        let at = |text: &Option<String>| {
            let read = |text: &String| zone.instant(text, now);
            text.as_ref()
                .map(read)
                .transpose()
                .map_err(|error| CommandError::Input(error.to_string()))
        };
        let ramp = self.from.zip(self.warm_up.clone()).map(|(from, days)| Ramp {
            from,
            days,
            setback: None,
        });
        Ok(Limit {
            rate: self.rate,
            hours: self.hours.clone(),
            zone: self.zone.clone(),
            not_before: at(&self.span.not_before)?,
            until: at(&self.span.until)?,
            defers: self.span.defer,
            ramp,
            adaptive: self.adaptive,
            overflow: self.overflow.clone(),
            ..Limit::default()
        })
    }
}

/// A limit's key, where `provider:NAME` stands for the domains of a provider.
fn key(text: &str) -> Result<LimitKey, String> {
    let Some(name) = text.trim().strip_prefix("provider:") else {
        return text.parse().map_err(|error: InvalidKey| error.to_string());
    };
    let domains = providers::domains(name.trim());
    if domains.is_empty() {
        return Err(format!(
            "{name:?} is no provider; allowed are {}",
            providers::names().join(", ")
        ));
    }
    format!("domain:{}", domains.join("+")).parse().map_err(|error: InvalidKey| error.to_string())
}

pub(super) async fn limit(args: &LimitArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    match &args.action {
        None => listed(&args.list, shell).await,
        Some(LimitAction::List(args)) => listed(args, shell).await,
        Some(LimitAction::Set(args)) => {
            let limit = args.limit(SystemClock::new().wall())?;
            limit.check().map_err(|error| CommandError::Input(error.to_string()))?;
            Box::pin(set(&args.on, &args.key, Some(Box::new(limit)), &args.author, shell)).await
        }
        Some(LimitAction::Remove(args)) => {
            Box::pin(set(&args.on, &args.key, None, &args.author, shell)).await
        }
    }
}

async fn listed(args: &ListArgs, shell: &Shell) -> Result<CommandEnd, CommandError> {
    let stack = args.on.stack.open().await?;
    let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
    shell.output.show(&Status::of(&facts).limits).map_err(CommandError::Terminal)?;
    Ok(CommandEnd::Done)
}

async fn set(
    on: &OnStack,
    key: &LimitKey,
    limit: Option<Box<Limit>>,
    author: &AuthorArgs,
    shell: &Shell,
) -> Result<CommandEnd, CommandError> {
    let stack = on.stack.open().await?;
    let action = SteerAction::Limit { key: key.clone(), limit };
    change(&stack, &action, author.author(&stack).await, shell).await
}
