use std::time::Duration;

use clap::{Args, Subcommand};
use tidegate_core::config::{BucketUrl, InvalidBucketUrl, KeyPrefix};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_delivery::ports::LimitTake;

use crate::commands::{OnStack, UnparsedUrl};
use crate::shell::OutputArgs;

/// Take from the shared bucket, look at it, or print its script
///
/// Whatever else sends from the account takes here before it sends, or calls the script itself: then
/// all senders together stay within the quota. The bucket is the one that the stack's poller is
/// configured with (`TIDEGATE_SHARED_BUCKET`), or the one at --url.
///
/// Exit codes: 0 granted; 1 refused, nothing was taken; 2 wrong options; 3 the stack or the bucket is
/// out of reach: it is not known whether recipients were taken.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  tidegate bucket take --wait 5 && send-one-mail
  tidegate bucket take --recipients 3 --domain gmail.com=10/s:2
  tidegate bucket take --up-to 20 --url redis://cache.example --rate 14 --json
  tidegate bucket show
  tidegate bucket script | redis-cli -x SCRIPT LOAD")]
pub struct BucketArgs {
    #[command(subcommand)]
    pub(super) command: BucketCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(super) enum BucketCommand {
    /// Take recipients: all buckets or none
    Take(Box<TakeArgs>),
    /// Show each bucket's tokens and when it is full
    Show(Box<BucketShowArgs>),
    /// Print the script, for other software to call it
    Script(ScriptArgs),
}

/// Selects the shared bucket: by URL, or the one that a stack's poller is configured with.
#[derive(Clone, Debug, Args)]
pub(super) struct WhereArgs {
    /// The server, redis:// or rediss:// with user and password [default: the poller's]
    #[arg(long, value_name = "URL", env = "TIDEGATE_SHARED_BUCKET", hide_env_values = true)]
    url: Option<UnparsedUrl>,
    /// Prefix of the bucket's keys [default: the poller's; with --url `tidegate`]
    #[arg(long, value_name = "PREFIX", env = "TIDEGATE_SHARED_BUCKET_PREFIX")]
    pub(super) prefix: Option<KeyPrefix>,
    #[command(flatten)]
    pub(super) on: OnStack,
}

#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("amount"))]
pub(super) struct TakeArgs {
    /// Recipients of one mail: all of them or none
    #[arg(long, value_name = "N", default_value_t = 1, group = "amount", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    recipients: u32,
    /// As many as are free now, up to N
    #[arg(long, value_name = "N", group = "amount", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    up_to: Option<u32>,
    /// Recipients of a domain, with its rate: 10/s, 6/m, 100/h, 500/d; may be given more than once.
    /// Any name is a bucket: crm=4/s:1 holds this software to 4 a second of the account
    #[arg(long, value_name = "NAME=RATE:N", value_parser = domain)]
    domain: Vec<LimitTake>,
    /// The account's rate [default: the rate in force of the stack]
    #[arg(long, value_name = "PER_SECOND")]
    pub(super) rate: Option<Rate>,
    /// Rate margin: the part of every rate that is not used [default: the poller's; with --url
    /// 0.02]
    #[arg(long, value_name = "SHARE", value_parser = rate_margin)]
    pub(super) rate_margin: Option<RateMargin>,
    /// Wait up to this long for a grant
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    pub(super) wait: Duration,
    #[command(flatten)]
    pub(super) place: WhereArgs,
}

#[derive(Clone, Debug, Args)]
pub(super) struct BucketShowArgs {
    #[command(flatten)]
    pub(super) place: WhereArgs,
}

#[derive(Clone, Debug, Args)]
pub(super) struct ScriptArgs {
    /// Prefix of the bucket's keys
    #[arg(long, value_name = "PREFIX", env = "TIDEGATE_SHARED_BUCKET_PREFIX", default_value_t)]
    pub(super) prefix: KeyPrefix,
    /// The rate of the call that is shown
    #[arg(long, value_name = "PER_SECOND", default_value = "14")]
    pub(super) rate: Rate,
    /// Rate margin of the call that is shown
    #[arg(long, value_name = "SHARE", default_value = "0.02", value_parser = rate_margin)]
    pub(super) rate_margin: RateMargin,
    #[command(flatten)]
    output: OutputArgs,
}

impl WhereArgs {
    /// The server of `--url`, if it is given.
    pub(super) fn url(&self) -> Result<Option<BucketUrl>, InvalidBucketUrl> {
        self.url.as_ref().map(UnparsedUrl::parse).transpose()
    }
}

impl BucketArgs {
    pub(in crate::commands) fn output(&self) -> OutputArgs {
        match &self.command {
            BucketCommand::Take(args) => args.place.on.output,
            BucketCommand::Show(args) => args.place.on.output,
            BucketCommand::Script(args) => args.output,
        }
    }
}

impl TakeArgs {
    /// The number of recipients to take, and the smallest number that is of any use: equal for one
    /// mail, 1 for `--up-to`.
    pub(super) fn amount(&self) -> (u32, u32) {
        self.up_to.map_or((self.recipients, self.recipients), |most| (most, 1))
    }

    /// The domains to take from. A domain that is given twice is an error, which names it.
    pub(super) fn domains(&self) -> Result<Vec<LimitTake>, &str> {
        let twice = |(index, take): (usize, &LimitTake)| {
            self.domain[..index].iter().any(|before| before.name == take.name)
        };
        match self.domain.iter().enumerate().find(|&one| twice(one)) {
            Some((_, take)) => Err(&take.name),
            None => Ok(self.domain.clone()),
        }
    }
}

fn rate_margin(text: &str) -> Result<RateMargin, String> {
    let rate_margin = text.parse().ok().and_then(|share| RateMargin::new(share).ok());
    rate_margin.ok_or_else(|| "allowed is a number from 0.005 to 0.5".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or("allowed is a number of seconds from 0 to 86400")?;
    Ok(Duration::from_secs_f64(seconds))
}

/// `gmail.com=10/s:2`; without a unit the rate is a second's, without a number one recipient is taken.
fn domain(text: &str) -> Result<LimitTake, String> {
    parse_take(text).ok_or_else(|| {
        "allowed is NAME=RATE:N, such as gmail.com=10/s:2: a name without blanks, a rate of 0.001 to 10000 a second (units /s, /m, /h, /d), recipients from 1 to 10000".to_owned()
    })
}

fn parse_take(text: &str) -> Option<LimitTake> {
    let (name, rest) = text.split_once('=')?;
    let (rate, recipients) = rest.split_once(':').unwrap_or((rest, "1"));
    let legal = |c: char| !c.is_whitespace() && !c.is_control();
    let name = (1..=253).contains(&name.len()) && name.chars().all(legal);
    let name = name.then(|| text.split_once('=').map_or("", |(name, _)| name).to_lowercase())?;
    Some(LimitTake {
        name,
        rate: rate.parse().ok()?,
        recipients: recipients.parse().ok().filter(|count| (1..=10_000).contains(count))?,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Program {
        #[command(flatten)]
        bucket: BucketArgs,
    }

    fn take(options: &[&str]) -> Result<Box<TakeArgs>, String> {
        let options = ["bucket", "take"].iter().chain(options);
        let program = Program::try_parse_from(options).map_err(|error| error.to_string())?;
        match program.bucket.command {
            BucketCommand::Take(args) => Ok(args),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn a_mail_is_taken_whole_and_a_claim_up_to_what_there_is() {
        assert_eq!(take(&[]).unwrap().amount(), (1, 1));
        assert_eq!(take(&["--recipients", "3"]).unwrap().amount(), (3, 3));
        assert_eq!(take(&["--up-to", "20"]).unwrap().amount(), (20, 1));
        assert!(take(&["--up-to", "20", "--recipients", "3"]).is_err());
        assert!(take(&["--recipients", "0"]).is_err());
        let twice = take(&["--domain", "crm=4/s", "--domain", "CRM=5/s"]).unwrap();
        assert_eq!(twice.domains(), Err("crm"));
    }

    #[test]
    fn a_password_is_shown_by_no_error() {
        let args = take(&["--url", "http://ada:hush@cache.example"]).unwrap();
        let said = args.place.url().unwrap_err().to_string();
        assert!(said.contains("allowed is redis://") && !said.contains("hush"), "{said}");
        assert!(!format!("{args:?}").contains("hush"), "{args:?}");
    }

    #[test]
    fn a_domain_is_a_name_a_rate_and_recipients() {
        let take = |name: &str, rate, recipients| {
            Ok(LimitTake {
                name: name.to_owned(),
                rate: Rate::per_second(rate).unwrap(),
                recipients,
            })
        };
        assert_eq!(domain("Gmail.com=10/s:2"), take("gmail.com", 10.0, 2));
        assert_eq!(domain("*=6/m"), take("*", 0.1, 1));
        assert_eq!(domain("tiny.example=0.5:3"), take("tiny.example", 0.5, 3));
        for wrong in [
            "gmail.com",
            "=1/s:1",
            "a b=1/s",
            "gmail.com=0/s",
            "gmail.com=1/y",
            "gmail.com=20000",
            "gmail.com=1/s:0",
            "gmail.com=1/s:x",
            "gmail.com=1/d",
        ] {
            assert!(domain(wrong).unwrap_err().starts_with("allowed is NAME=RATE:N"), "{wrong}");
        }
    }
}
