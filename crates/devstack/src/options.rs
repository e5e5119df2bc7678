//! Options of `devstack`, as clap reads them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use tidegate_core::rate::{Rate, RateMargin};

use super::error::LocalError;
use super::plan::{LocalCampaign, LocalPlan, MOST_RECIPIENTS, WeightPair, split};
use super::report::RunSettings;
use super::run::RunOptions;
use super::setup::{Infra, Mode, Setup, Sqs};

/// Send two campaigns through a local AWS, and report
///
/// Starts ministack and the SES sandbox on loopback, deploys the stack into it, puts two
/// campaigns onto the queues, lets EventBridge fire the scheduler, shows what happens, and reports:
/// on the terminal, as report.json, and as chart.svg. Everything it started ends with it.
///
/// Exit code: 0 every promise was kept; 1 one was not, or the run broke off; 2 an option is wrong or
/// something is missing; 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "devstack", version, max_term_width = 100)]
#[expect(clippy::struct_excessive_bools, reason = "every switch of a command is one")]
// More than 12 fields: one for each option of the command.
pub struct LocalArgs {
    /// Recipients a second that the account may send
    #[arg(long, value_name = "RATE", default_value = "14", value_parser = rate)]
    quota: f64,
    /// Mails of both campaigns; the small one gets three fifths of its share, and so ends first
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    messages: u64,
    /// Mails of the big campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    big: Option<u64>,
    /// Mails of the small campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    small: Option<u64>,
    /// Weights of the big and the small campaign
    #[arg(long, value_name = "BIG/SMALL", default_value_t = WeightPair(90, 10))]
    weights: WeightPair,
    /// Recipients of each mail of the small campaign; a second that holds one of N can hold N - 1 more
    /// than the quota, which --strict refuses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RECIPIENTS)))]
    recipients_small: u32,
    /// Time that the sandbox takes to answer: `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`
    #[arg(long, value_name = "TIME", default_value = "80ms")]
    latency: String,
    /// Depth of the sandbox's token bucket, in seconds' worth of quota [default: 1]
    #[arg(long, value_name = "SECONDS", conflicts_with = "strict")]
    bucket_seconds: Option<f64>,
    /// Let the sandbox refuse whatever exceeds the quota in any half-open second
    #[arg(long)]
    strict: bool,
    /// A fault of the sandbox's, such as `reset,ratio=0.01`; may be given many times
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// Part of the quota that is kept free, 0.005 to 0.5 [default: the template's, 0.02]
    #[arg(long, value_name = "SHARE", value_parser = rate_margin)]
    rate_margin: Option<f64>,
    /// The stack's description: the SAM template, or the CDK app (which `make cdk` builds)
    #[arg(long, value_name = "WHICH", default_value = "sam")]
    infra: Infra,
    /// How the poller takes mails: through the merge queue, or straight from the campaigns' queues
    #[arg(long, value_name = "MODE", default_value = "merge")]
    mode: Mode,
    /// Whose queues are used: ministack's, or the SQS sandbox's, which keep up with high rates
    #[arg(long, value_name = "WHOSE", default_value = "ministack")]
    sqs: Sqs,
    /// A parameter of the SAM template, also where the CDK app is deployed; may be given many times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<(String, String)>,
    /// End this many seconds after the first mail, even if mails are left
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Invoke the scheduler at once; EventBridge fires it from its first minute on
    #[arg(long)]
    invoke_now: bool,
    /// Leave everything running after the report, until Ctrl-C
    #[arg(long)]
    keep_running: bool,
    /// Print the report as JSON, and nothing else, to standard output
    #[arg(long)]
    json: bool,
    /// Run the functions under `cargo lambda watch`, and invoke them by hand
    #[arg(long, conflicts_with_all = ["invoke_now", "seconds", "json", "keep_running"])]
    watch: bool,
    /// Folder for logs, report and chart [default: a new one in .local]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Port of ministack [default: a free one]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Port of the SES sandbox [default: a free one]
    #[arg(long, value_name = "PORT")]
    sandbox_port: Option<u16>,
    /// Port of the console [default: a free one]; none is started where the report is JSON
    #[arg(long, value_name = "PORT", conflicts_with = "json")]
    console_port: Option<u16>,
    /// Python with ministack and what deploys into it; `make tools` makes this one
    #[arg(long, value_name = "FILE", default_value = ".tools/local/bin/python")]
    python: PathBuf,
    /// Folder with the binaries `scheduler`, `poller` and `ses-sandbox`
    #[arg(long, value_name = "DIR", default_value = "target/local")]
    bin_dir: PathBuf,
    /// Tidegate's checkout
    #[arg(long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
}

impl LocalArgs {
    pub(super) fn campaigns(&self) -> [LocalCampaign; 2] {
        let (big, small) = split(self.messages, self.weights);
        // A mail of several recipients spends the slots of as many.
        let small = small.div_ceil(u64::from(self.recipients_small));
        let campaign = |name: &str, weight, mails, recipients| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails,
            recipients,
        };
        [
            campaign("big", self.weights.0, self.big.unwrap_or(big), 1),
            campaign("small", self.weights.1, self.small.unwrap_or(small), self.recipients_small),
        ]
    }

    pub(super) fn plan(&self) -> Result<LocalPlan, LocalError> {
        let plan = LocalPlan { quota: self.quota, campaigns: self.campaigns().to_vec() };
        if plan.mails() == 0 {
            return Err(LocalError::Option(
                "--big 0 and --small 0: there is no mail to send".to_owned(),
            ));
        }
        Ok(plan)
    }

    pub(super) fn setup(&self) -> Setup {
        Setup {
            root: self.root.clone(),
            python: self.python.clone(),
            bin_dir: self.bin_dir.clone(),
            port: self.port,
            sandbox_port: self.sandbox_port,
            quota: self.quota,
            latency: Some(self.latency.clone()),
            bucket_seconds: self.bucket_seconds,
            strict: self.strict,
            sandbox_options: self
                .faults
                .iter()
                .flat_map(|fault| ["--fault".to_owned(), fault.clone()])
                .collect(),
            rate_margin: self.rate_margin,
            infra: self.infra,
            mode: self.mode,
            campaigns: self.campaigns(),
            schedule: !self.watch,
            parameters: self.parameters.clone(),
        }
    }

    pub(super) fn run(&self) -> RunOptions {
        RunOptions { limit: self.seconds.map(Duration::from_secs), invoke_now: self.invoke_now }
    }

    pub(super) fn settings(&self) -> RunSettings {
        RunSettings {
            quota: self.quota,
            rate_margin: self.rate_margin,
            infra: self.infra,
            mode: self.mode,
            sqs: self.sqs,
            latency: Some(self.latency.clone()),
            bucket_seconds: self.bucket_seconds,
            strict: self.strict,
            campaigns: self.campaigns().to_vec(),
        }
    }

    pub(super) fn console_port(&self) -> Option<u16> {
        self.console_port
    }

    pub(super) fn sqs(&self) -> Sqs {
        self.sqs
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    pub(super) fn is_watch(&self) -> bool {
        self.watch
    }

    pub(super) fn keeps_running(&self) -> bool {
        self.keep_running
    }

    pub(super) fn out(&self) -> Option<&Path> {
        self.out.as_deref()
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    Rate::per_second(number).map(f64::from).map_err(|error| error.to_string())
}

fn rate_margin(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    RateMargin::new(number).map(f64::from).map_err(|error| error.to_string())
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or("it is not NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(options: &[&str]) -> Result<LocalArgs, clap::Error> {
        LocalArgs::try_parse_from(std::iter::once("devstack").chain(options.iter().copied()))
    }

    #[test]
    fn the_options_are_consistent_and_every_one_is_explained() {
        let command = LocalArgs::command();
        command.clone().debug_assert();
        assert!(command.get_about().is_some());
        for option in command.get_arguments() {
            assert!(option.get_help().is_some(), "{} is not explained", option.get_id());
        }
    }

    #[test]
    fn counts_follow_from_messages_or_are_given() {
        let mails = |options: &[&str]| parse(options).unwrap().campaigns().map(|c| c.mails);
        assert_eq!(mails(&[]), [940, 60]);
        assert_eq!(mails(&["--messages", "6000"]), [5640, 360]);
        assert_eq!(mails(&["--big", "100", "--small", "7"]), [100, 7]);
        assert_eq!(mails(&["--recipients-small", "50"]), [940, 2]);
        let none = parse(&["--big", "0", "--small", "0"]).unwrap().plan().unwrap_err();
        assert!(none.is_usage());
    }

    #[test]
    fn a_wrong_value_is_refused_with_what_is_allowed() {
        for (options, said) in [
            (["--quota", "0"], "allowed is a number from 0.001 to 10000"),
            (["--rate-margin", "0.9"], "allowed is a number from 0.005 to 0.5"),
            (["--weights", "90"], "such as 90/10"),
            (["--recipients-small", "51"], "51 is not in 1..=50"),
            (["--parameter", "=x"], "it is not NAME=VALUE"),
            (["--messages", "0"], "0 is not in 1..=1000000"),
        ] {
            let error = parse(&options).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(parse(&["--watch", "--json"]).is_err());
    }
}
