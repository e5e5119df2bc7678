//! Settings of a local AWS.

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};
use tidegate_core::InvalidText;
use tidegate_core::rate::{Rate, RateMargin};

use super::place::Place;
use super::plan::{LocalCampaign, LocalChannel, LocalPlan};

/// The way in which mail gets from the campaign queues to the poller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Through one FIFO queue, the merge queue.
    #[default]
    Merge,
    /// Straight, at less than half the SQS calls.
    Direct,
}

impl Mode {
    /// The value of the template's parameter `Mode`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Direct => "direct",
        }
    }
}

/// The server that holds the queues of a local AWS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sqs {
    /// ministack's, which slow down as they get deeper.
    #[default]
    Ministack,
    /// The SQS sandbox's, which keep up at every rate.
    Sandbox,
}

/// The description that a stack is deployed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Infra {
    /// The SAM template.
    #[default]
    Sam,
    /// The CDK app, built by `make cdk`.
    Cdk,
}

/// Settings of the sandboxes and of the stack, which a run's report repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Args)]
pub struct RunSettings {
    /// Recipients a second that the account may send
    #[arg(long, value_name = "RATE", default_value = "14", value_parser = rate)]
    pub quota: f64,
    /// Part of the quota that is kept free, 0.005 to 0.5 [default: the template's, 0.02]
    #[arg(long, value_name = "SHARE", value_parser = rate_margin)]
    #[serde(rename = "margin")]
    pub rate_margin: Option<f64>,
    /// The channel of the campaigns: e-mail, or text messages
    #[arg(long, value_name = "CHANNEL", default_value = "email")]
    #[serde(default)]
    pub channel: LocalChannel,
    /// The stack's description: the SAM template, or the CDK app (which `make cdk` builds)
    #[arg(long, value_name = "WHICH", default_value = "sam")]
    #[serde(default)]
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
    /// The first two campaigns of the template.
    #[arg(skip)]
    pub campaigns: [LocalCampaign; 2],
}

impl RunSettings {
    /// The campaigns' mails, and the quota they share.
    pub fn plan(&self) -> LocalPlan {
        let Self { quota, channel, campaigns, .. } = self;
        LocalPlan { quota: *quota, channel: *channel, campaigns: campaigns.to_vec() }
    }
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

impl Setup {
    /// Command-line options for `ses-sandbox`.
    pub(super) fn sandbox_options(&self) -> Vec<String> {
        let settings = &self.settings;
        let given = [
            ("--quota", Some(settings.quota.to_string())),
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
        let [first, second] = &settings.campaigns;
        let mut parameters = vec![
            ("SesEndpointUrl", sandbox.to_owned()),
            ("Mode", settings.mode.name().to_owned()),
            ("ExpressQueue", "true".to_owned()),
            ("Schedule", if self.schedule { "ENABLED" } else { "DISABLED" }.to_owned()),
            ("FirstCampaignName", first.name.clone()),
            ("FirstCampaignWeight", first.weight.to_string()),
            ("SecondCampaignName", second.name.clone()),
            ("SecondCampaignWeight", second.weight.to_string()),
        ];
        if settings.channel == LocalChannel::Sms {
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

#[cfg(test)]
pub(super) mod tests {
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
                quota: 0.5,
                rate_margin: Some(0.05),
                channel: LocalChannel::Email,
                infra: Infra::Sam,
                mode: Mode::Direct,
                sqs: Sqs::Ministack,
                latency: Some("80ms".to_owned()),
                bucket_seconds: Some(2.0),
                strict: true,
                campaigns: [campaign("big", 90), campaign("small", 10)],
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
        setup.settings.channel = LocalChannel::Sms;
        let parameters = setup.parameters("http://127.0.0.1:1");
        for given in [("Channel", "sms"), ("Origins", "pool-sandbox"), ("Feedback", "off")] {
            assert!(parameters.iter().any(|(name, value)| (&**name, &**value) == given));
        }
    }
}
