//! The settings of a local run: its campaigns with their mails and the quota they share, and the local AWS.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use strum::IntoStaticStr;
use tidegate_core::InvalidText;
use tidegate_core::channel::{Channel, Words};
use tidegate_core::rate::{Rate, RateMargin};
use tidegate_operator::plan::channel;

use crate::place::Place;

/// The most recipients of one mail, as SES has it.
pub(super) const MOST_RECIPIENTS: u32 = 50;

/// One campaign of a local run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalCampaign {
    pub name: String,
    /// From 1 to 10,000; shares are in proportion.
    pub weight: u32,
    pub mails: u64,
    /// Recipients of each of its mails, or parts of each of its texts: 1 to 50.
    pub recipients: u32,
}

impl LocalCampaign {
    pub fn total(&self) -> u64 {
        self.mails * u64::from(self.recipients)
    }
}

/// The workload of a local run.
#[derive(Clone, Debug, PartialEq, Serialize, Args)]
pub struct LocalPlan {
    /// Recipients a second that the account may send
    #[arg(long, value_name = "RATE", default_value = "14", value_parser = rate)]
    pub quota: f64,
    /// The channel of the campaigns: `email`, or `sms` for text messages
    #[arg(long, value_name = "CHANNEL", default_value = "email", value_parser = channel)]
    pub channel: Channel,
    /// The campaigns, in the order of the template's queues.
    #[arg(skip)]
    pub campaigns: Vec<LocalCampaign>,
}

impl LocalPlan {
    pub fn total(&self) -> u64 {
        self.campaigns.iter().map(LocalCampaign::total).sum()
    }

    pub fn mails(&self) -> u64 {
        self.campaigns.iter().map(|campaign| campaign.mails).sum()
    }

    /// The messages, and the parts of the quota that they take where that is not one each: `384 texts (400 parts:
    /// each of small has 3)`.
    pub fn in_words(&self) -> String {
        let Words { message, unit, .. } = self.channel.words();
        let several = self.campaigns.iter().filter(|campaign| campaign.recipients > 1);
        let several = several.map(|of| format!("each of {} has {}", of.name, of.recipients));
        let several: Vec<String> = several.collect();
        let messages = format!("{} {message}s", self.mails());
        if several.is_empty() {
            return messages;
        }
        format!("{messages} ({} {unit}s: {})", self.total(), several.join(", "))
    }

    /// A campaign's place in the list.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.campaigns.iter().position(|campaign| campaign.name == name)
    }

    /// A campaign's share of the quota while all have mails waiting, 0 to 1.
    pub fn share(&self, campaign: usize) -> f64 {
        let weights: u32 = self.campaigns.iter().map(|campaign| campaign.weight).sum();
        let weight = self.campaigns.get(campaign).map_or(0, |campaign| campaign.weight);
        f64::from(weight) / f64::from(weights.max(1))
    }
}

/// The weights of the big and the small campaign, written `90/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightPair(pub u32, pub u32);

impl FromStr for WeightPair {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let allowed = "two whole numbers from 1 to 10000 with a slash between, such as 90/10";
        let weight =
            |text: &str| text.trim().parse().ok().filter(|weight| (1..=10_000).contains(weight));
        let (big, small) = text.split_once('/').ok_or(allowed)?;
        Ok(Self(weight(big).ok_or(allowed)?, weight(small).ok_or(allowed)?))
    }
}

/// Splits `mails` so that the small campaign ends first. It gets three fifths of its share: of
/// 1,000 mails at 90/10 its share is 100, so it gets 60 and ends when 600 are sent. Both get at
/// least one mail if there are two.
///
/// ```
/// use tidegate_devstack::{WeightPair, split};
/// assert_eq!(split(1_000, WeightPair(90, 10)), (940, 60));
/// ```
pub fn split(mails: u64, weights: WeightPair) -> (u64, u64) {
    let (big, small) = (u64::from(weights.0), u64::from(weights.1));
    let few = (mails * small * 3 / ((big + small) * 5)).clamp(mails.min(1), mails.max(2) - 1);
    (mails - few, few)
}

/// The way in which mail gets from the campaign queues to the poller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, IntoStaticStr, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// Through one FIFO queue, the merge queue.
    #[default]
    Merge,
    /// Straight, at less than half the SQS calls.
    Direct,
}

/// The server that holds the queues of a local AWS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sqs {
    /// ministack's, which slow down as they get deeper.
    #[default]
    Ministack,
    /// The SQS sandbox's, which keep up at every rate.
    Sandbox,
}

/// The description that a stack is deployed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Infra {
    /// The SAM template.
    #[default]
    Sam,
    /// The CDK app, built by `make cdk`.
    Cdk,
}

/// Settings of the sandboxes and of the stack, which a run's report repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Args)]
pub struct RunSettings {
    #[command(flatten)]
    #[serde(flatten)]
    pub plan: LocalPlan,
    /// Part of the quota that is kept free, 0.005 to 0.5 [default: the template's, 0.02]
    #[arg(long, value_name = "SHARE", value_parser = rate_margin)]
    #[serde(rename = "margin")]
    pub rate_margin: Option<f64>,
    /// The stack's description: the SAM template, or the CDK app (which `make cdk` builds)
    #[arg(long, value_name = "WHICH", default_value = "sam")]
    pub infra: Infra,
    /// How the poller takes mails: through the merge queue, or straight from the campaigns' queues
    #[arg(long, value_name = "MODE", default_value = "merge")]
    pub mode: Mode,
    /// Whose queues are used: ministack's, or the SQS sandbox's, which keep up with high rates
    #[arg(long, value_name = "WHOSE", default_value = "ministack")]
    pub sqs: Sqs,
    /// Time that the sandbox takes to answer: `80ms`, `50ms..5s` or `p50=80ms,p99=400ms`
    #[arg(long, value_name = "TIME", default_value = "80ms")]
    pub latency: Option<String>,
    /// Depth of the sandbox's token bucket, in seconds' worth of quota [default: 1]
    #[arg(long, value_name = "SECONDS", conflicts_with = "strict")]
    pub bucket_seconds: Option<f64>,
    /// Let the sandbox refuse whatever exceeds the quota in any half-open second
    #[arg(long)]
    pub strict: bool,
}

/// A local AWS with its sandboxes.
#[derive(Clone, Debug, Args)]
pub struct Setup {
    #[command(flatten)]
    pub settings: RunSettings,
    /// A fault of the sandbox's, such as `reset,ratio=0.01`; may be given many times
    #[arg(long = "fault", value_name = "FAULT")]
    pub faults: Vec<String>,
    /// A parameter of the SAM template, also where the CDK app is deployed; may be given many times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
    /// Port of ministack [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Port of the SES sandbox [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub sandbox_port: Option<u16>,
    /// Python with ministack and what deploys into it
    #[arg(long, value_name = "FILE", default_value_os_t = Place::of_this_program().python())]
    pub python: PathBuf,
    /// Folder with the binaries `scheduler`, `poller` and `ses-sandbox`
    #[arg(long, value_name = "DIR", default_value_os_t = Place::of_this_program().bin_dir())]
    pub bin_dir: PathBuf,
    /// Tidegate's checkout, or what a package has of it
    #[arg(long, value_name = "DIR", default_value_os_t = Place::of_this_program().root())]
    pub root: PathBuf,
    /// Whether EventBridge fires the scheduler.
    #[arg(skip = true)]
    pub schedule: bool,
}

impl Setup {
    /// Command-line options for `ses-sandbox`.
    pub(super) fn sandbox_options(&self) -> Vec<String> {
        let settings = &self.settings;
        let given = [
            ("--quota", Some(settings.plan.quota.to_string())),
            ("--latency", settings.latency.clone()),
            ("--bucket-seconds", settings.bucket_seconds.map(|seconds| seconds.to_string())),
        ];
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let faults = self.faults.iter().map(|fault| ("--fault", fault.clone()));
        let options = given.chain(faults).flat_map(|(name, value)| [name.to_owned(), value]);
        options.chain(settings.strict.then(|| "--strict".to_owned())).collect()
    }

    /// The template's parameters that are not left at their defaults.
    pub(super) fn parameters(&self, sandbox: &str) -> Vec<(String, String)> {
        let settings = &self.settings;
        let mode: &str = settings.mode.into();
        let schedule = if self.schedule { "ENABLED" } else { "DISABLED" };
        let mut parameters = vec![
            ("SesEndpointUrl", sandbox.to_owned()),
            ("Mode", mode.to_owned()),
            ("ExpressQueue", "true".to_owned()),
            ("Schedule", schedule.to_owned()),
        ];
        let campaigns = [
            ("FirstCampaignName", "FirstCampaignWeight"),
            ("SecondCampaignName", "SecondCampaignWeight"),
        ];
        for ((name, weight), campaign) in campaigns.into_iter().zip(&settings.plan.campaigns) {
            parameters.push((name, campaign.name.clone()));
            parameters.push((weight, campaign.weight.to_string()));
        }
        if settings.plan.channel == Channel::Sms {
            // The sandbox's pool, whose numbers have its whole rate. The local AWS knows no configuration set of
            // End User Messaging, and the sandbox sends no receipts.
            let given = [("Channel", "sms"), ("Origins", "pool-sandbox"), ("Feedback", "off")];
            parameters.extend(given.map(|(name, value)| (name, value.to_owned())));
        }
        parameters.extend(settings.rate_margin.map(|share| ("RateMargin", share.to_string())));
        let own = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        let replaced = |name: &str| self.parameters.iter().any(|(other, _)| other == name);
        own.filter(|(name, _)| !replaced(name)).chain(self.parameters.iter().cloned()).collect()
    }
}

fn rate(text: &str) -> Result<f64, InvalidText> {
    text.parse::<Rate>().map(f64::from)
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
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn setup() -> Setup {
        let campaign = |name: &str, weight| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails: 1,
            recipients: 1,
        };
        Setup {
            settings: RunSettings {
                plan: LocalPlan {
                    quota: 0.5,
                    channel: Channel::Email,
                    campaigns: vec![campaign("big", 90), campaign("small", 10)],
                },
                rate_margin: Some(0.05),
                infra: Infra::Sam,
                mode: Mode::Direct,
                sqs: Sqs::Ministack,
                latency: Some("80ms".to_owned()),
                bucket_seconds: Some(2.0),
                strict: true,
            },
            faults: vec!["reset,ratio=0.01".to_owned()],
            parameters: vec![("Schedule".to_owned(), "ENABLED".to_owned())],
            port: None,
            sandbox_port: None,
            python: PathBuf::new(),
            bin_dir: PathBuf::new(),
            root: PathBuf::new(),
            schedule: false,
        }
    }

    #[test]
    fn the_sandbox_gets_its_options_as_it_reads_them() {
        let expected =
            "--quota 0.5 --latency 80ms --bucket-seconds 2 --fault reset,ratio=0.01 --strict";
        assert_eq!(setup().sandbox_options().join(" "), expected);
    }

    #[test]
    fn a_given_parameter_replaces_the_setups_own() {
        let parameters = setup().parameters("http://127.0.0.1:1");
        let of = |name: &str| -> Vec<&str> {
            parameters.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect()
        };
        assert_eq!(of("Schedule"), ["ENABLED"]);
        assert_eq!((of("RateMargin"), of("Mode")), (vec!["0.05"], vec!["direct"]));
        assert_eq!(of("SesEndpointUrl"), ["http://127.0.0.1:1"]);
        assert_eq!(of("Channel"), Vec::<&str>::new());
    }

    #[test]
    fn a_stack_for_text_messages_sends_from_the_sandboxs_pool() {
        let mut setup = setup();
        setup.settings.plan.channel = Channel::Sms;
        let parameters = setup.parameters("http://127.0.0.1:1");
        for given in [("Channel", "sms"), ("Origins", "pool-sandbox"), ("Feedback", "off")] {
            assert!(parameters.iter().any(|(name, value)| (&**name, &**value) == given));
        }
    }

    proptest! {
        #[test]
        fn a_split_loses_no_mail_and_the_small_campaign_ends_first(
            mails in 50u64..100_000, big in 1u32..100, small in 1u32..100,
        ) {
            let (most, few) = split(mails, WeightPair(big, small));
            prop_assert_eq!(most + few, mails);
            // While both send, the big campaign sends big/small times as much: some of it is left.
            prop_assert!(most * u64::from(small) >= few * u64::from(big));
        }
    }

    #[test]
    fn a_mail_or_two_can_be_split() {
        assert_eq!(split(0, WeightPair(90, 10)), (0, 0));
        assert_eq!(split(1, WeightPair(90, 10)), (0, 1));
        assert_eq!(split(2, WeightPair(90, 10)), (1, 1));
    }

    #[test]
    fn weights_are_read_as_they_are_written() {
        assert_eq!("90/10".parse(), Ok(WeightPair(90, 10)));
        for wrong in ["90", "0/10", "90/", "a/b", "90/10/5", "10001/1", "-1/2"] {
            assert!(wrong.parse::<WeightPair>().is_err(), "{wrong}");
        }
    }
}
