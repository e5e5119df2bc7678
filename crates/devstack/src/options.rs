//! Options of `devstack`, as clap reads them.

use std::path::PathBuf;

use clap::Parser;

use super::error::LocalError;
use super::plan::{LocalCampaign, LocalPlan, MOST_RECIPIENTS, WeightPair, split};
use super::setup::Setup;

/// Send two campaigns through a local AWS, and report
///
/// Starts ministack and the SES sandbox on loopback, deploys the stack into it, puts two
/// campaigns onto the queues, shows what happens in a browser and on the terminal, and reports:
/// on the terminal, and as report.json. Everything it started ends with it.
///
/// The first minute's run of the scheduler is invoked at the start; EventBridge fires it from then on.
///
/// While it sends, a terminal shows what `tidegate top` shows; q ends the run.
///
/// Exit code: 0 every promise was kept; 1 one was not, or the run broke off; 2 an option is wrong or
/// something is missing; 130 interrupted.
#[derive(Clone, Debug, Parser)]
#[command(name = "devstack", version, max_term_width = 100, allow_negative_numbers = true)]
#[expect(clippy::struct_excessive_bools, reason = "every switch of a command is one")]
// More than 12 fields: one for each option of the command.
pub struct LocalArgs {
    /// Messages of both campaigns, each counted by its recipients or parts; the small one gets three fifths of its share,
    /// and so ends first
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    messages: u64,
    /// Messages of the big campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    big: Option<u64>,
    /// Messages of the small campaign, instead of what --messages leaves it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    small: Option<u64>,
    /// Weights of the big and the small campaign
    #[arg(long, value_name = "BIG/SMALL", default_value_t = WeightPair(90, 10))]
    weights: WeightPair,
    /// Recipients of each mail of the small campaign, or parts of each of its texts; a second that holds one of N can hold N - 1 more
    /// than the quota, which --strict refuses
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_RECIPIENTS)))]
    recipients_small: u32,
    #[command(flatten)]
    setup: Setup,
    /// End this many seconds after the first arrival, even if some is left
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(super) seconds: Option<u64>,
    /// Leave everything running after the report, until Ctrl-C
    #[arg(long)]
    pub(super) keep_running: bool,
    /// Print the report as JSON, and nothing else, to standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Run the functions under `cargo lambda watch`, and invoke them by hand
    #[arg(long, conflicts_with_all = ["seconds", "json", "keep_running"])]
    pub(super) watch: bool,
    /// Folder for logs and report [default: a new one in .local of a checkout, or among this
    /// user's runs (`tidegate runs`)]
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Port of the console [default: a free one]; none is started where the report is JSON
    #[arg(long, value_name = "PORT", conflicts_with = "json")]
    pub(super) console_port: Option<u16>,
    /// Leave the browser alone; without this it opens the console, where there is a terminal and a screen
    #[arg(long)]
    pub(super) no_browser: bool,
}

impl LocalArgs {
    fn campaigns(&self) -> [LocalCampaign; 2] {
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

    /// The local AWS that the options ask for, and the mails for it.
    pub(super) fn setup(&self) -> Result<(Setup, LocalPlan), LocalError> {
        let mut setup = self.setup.clone();
        setup.settings.campaigns = self.campaigns();
        setup.schedule = !self.watch;
        let plan = setup.settings.plan();
        if plan.mails() == 0 {
            return Err(LocalError::Option(
                "--big 0 and --small 0: there is nothing to send".to_owned(),
            ));
        }
        Ok((setup, plan))
    }
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
        let none = parse(&["--big", "0", "--small", "0"]).unwrap().setup().unwrap_err();
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
