use clap::{Args, Subcommand};
use tidegate_adapters::aws::SystemClock;
use tidegate_core::limits::{Date, Hours, Limit, LimitKey, LimitRate, Ramp, RampDays, Zone};
use tidegate_core::{InvalidText, Timestamp};
use tidegate_delivery::ports::Clock as _;

use crate::shell::{CommandError, CommandResult, Shell};
use crate::stack::OnStack;
use crate::status::{self, Status};
use crate::steer::SteerAction;
use crate::steer::command::{AuthorArgs, change};

/// Show the limits, set one, or remove one
///
/// A limit holds for the mail of a campaign, of a sender, to a recipient's domain, to one recipient, through a
/// configuration set or for a tenant: how fast it is sent, and when. Limits are stored in the ledger. A change is in force within two
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
  tidegate limit set 'recipient:*' 5/h --reason 'no loop fills a mailbox'
  tidegate limit remove news --reason 'no limit needed'"
)]
pub struct LimitArgs {
    #[command(subcommand)]
    action: Option<LimitAction>,
    #[command(flatten)]
    pub(crate) on: OnStack,
}

#[derive(Clone, Debug, Subcommand)]
enum LimitAction {
    /// Show the limits in force
    List,
    /// Set a limit, or replace it
    Set(Box<SetArgs>),
    /// Remove a limit
    Remove(RemoveArgs),
}

#[derive(Clone, Debug, Args)]
struct SetArgs {
    /// The mail: a campaign's name, a domain (or several, joined by +), an address, `campaign:NAME`, `sender:NAME`,
    /// `set:NAME`, `tenant:NAME`, `recipient:ADDRESS` (with a shared bucket); of texts a country such as +49, or `origin:NAME`; `*` in place of a name is each other
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
    /// Nothing is sent before, such as '2026-12-01 08:00' in the zone, or RFC 3339
    #[arg(long, value_name = "TIME")]
    not_before: Option<String>,
    /// Nothing is sent from then on: what is left waits, or is deferred
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Defer what is left of a campaign at its end to the stack's deferral bucket; it returns when the limit is changed
    #[arg(long, requires = "until")]
    defer: bool,
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
}

#[derive(Clone, Debug, Args)]
struct RemoveArgs {
    /// The limit's key, as `tidegate limit list` shows it, or `provider:NAME`
    #[arg(value_parser = key)]
    key: LimitKey,
    #[command(flatten)]
    author: AuthorArgs,
}

fn set_name(text: &str) -> Result<String, String> {
    let key: LimitKey =
        format!("set:{text}").parse().map_err(|error: InvalidText| error.to_string())?;
    Ok(key.name().to_owned())
}

impl SetArgs {
    fn limit(&self, now: Timestamp) -> CommandResult<Limit> {
        let zone = self.zone.clone().unwrap_or_default();
        let at = |text: &Option<String>| {
            let read = text.as_ref().map(|text| zone.instant(text, now));
            read.transpose().map_err(CommandError::refused)
        };
        let ramp = self.from.zip(self.warm_up.clone());
        let ramp = ramp.map(|(from, days)| Ramp { from, days, setback: None });
        Ok(Limit {
            rate: self.rate,
            hours: self.hours.clone(),
            zone: self.zone.clone(),
            not_before: at(&self.not_before)?,
            until: at(&self.until)?,
            defers: self.defer,
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
        return text.parse().map_err(|error: InvalidText| error.to_string());
    };
    let domains = domains_of(name.trim());
    if domains.is_empty() {
        return Err(format!("{name:?} is no provider; allowed are {}", providers().join(", ")));
    }
    format!("domain:{}", domains.join("+")).parse().map_err(|error: InvalidText| error.to_string())
}

pub(crate) async fn run(args: &LimitArgs, shell: &Shell) -> CommandResult {
    let (key, limit, author) = match &args.action {
        None | Some(LimitAction::List) => {
            let stack = args.on.stack.open().await?;
            let facts = status::facts(&stack, shell.output.addresses(), 0).await?;
            return shell.done(&Status::of(&facts).limits);
        }
        Some(LimitAction::Set(args)) => {
            let limit = args.limit(SystemClock::new().wall())?;
            limit.check().map_err(CommandError::refused)?;
            (&args.key, Some(Box::new(limit)), &args.author)
        }
        Some(LimitAction::Remove(args)) => (&args.key, None, &args.author),
    };
    let stack = args.on.stack.open().await?;
    let action = SteerAction::Limit { key: key.clone(), limit };
    change(&stack, &action, author.author(&stack).await, shell).await
}

/// Lines of a provider's name and its domains, and comments.
const TABLE: &str = include_str!("providers.txt");

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(": "))
}

/// The domains whose mail the provider takes; none of an unknown one.
fn domains_of(provider: &str) -> Vec<&'static str> {
    let own = lines().filter(|(name, _)| *name == provider);
    own.flat_map(|(_, domains)| domains.split_whitespace()).collect()
}

/// The providers in the order of the table.
fn providers() -> Vec<&'static str> {
    let mut names: Vec<_> = lines().map(|(name, _)| name).collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_core::limits::LimitKey;

    use super::*;

    #[test]
    fn each_line_has_a_provider_and_the_domains_of_each_are_a_key() {
        let is_empty = |line: &&str| line.is_empty() || line.starts_with('#');
        assert_eq!(lines().count(), TABLE.lines().filter(|line| !is_empty(line)).count());
        for name in providers() {
            let domains = domains_of(name);
            let key: LimitKey = format!("domain:{}", domains.join("+")).parse().unwrap();
            assert_eq!(key.names, domains, "{name}");
        }
    }

    #[test]
    fn a_provider_stands_at_one_place_and_a_domain_has_one_provider() {
        let names = providers();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let all: Vec<_> = names.into_iter().flat_map(domains_of).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn the_domains_of_a_provider_are_known_and_of_no_other_name() {
        assert_eq!(domains_of("gmail"), ["gmail.com", "googlemail.com"]);
        assert!(domains_of("microsoft").contains(&"hotmail.co.uk"));
        assert!(domains_of("gmx").contains(&"web.de"));
        assert!(domains_of("gmial").is_empty());
    }
}
