//! Settings of a local AWS.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::plan::LocalCampaign;

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

/// Settings of a local AWS and of its sandboxes.
#[derive(Clone, Debug)]
// More than 12 fields: one for each setting of the local AWS.
pub struct Setup {
    /// Tidegate's checkout: template and deployment are taken from it.
    pub root: PathBuf,
    /// A Python that has ministack and what the deployment needs.
    pub python: PathBuf,
    /// The folder with the binaries `scheduler`, `poller` and `ses-sandbox`.
    pub bin_dir: PathBuf,
    /// ministack's port; none takes a free one.
    pub port: Option<u16>,
    /// The sandbox's port; none takes a free one.
    pub sandbox_port: Option<u16>,
    /// Recipients a second that the sandbox lets the account send.
    pub quota: f64,
    /// The sandbox's latency, as its option `--latency` has it; none answers at once.
    pub latency: Option<String>,
    /// Depth of the sandbox's bucket in seconds; none leaves it at 1.
    pub bucket_seconds: Option<f64>,
    /// Whether the sandbox counts every half-open second, instead of using a token bucket.
    pub strict: bool,
    /// More of the sandbox's options, such as `--fault reset,ratio=0.01`.
    pub sandbox_options: Vec<String>,
    /// The part of the quota that is kept free; none leaves it at the template's.
    pub rate_margin: Option<f64>,
    /// The description to deploy: the SAM template, or the output of the CDK app.
    pub infra: Infra,
    pub mode: Mode,
    /// The first two campaigns: names and weights.
    pub campaigns: [LocalCampaign; 2],
    pub schedule: bool,
    /// More of the template's parameters, which replace what the rest of the setup gives.
    pub parameters: Vec<(String, String)>,
}

impl Setup {
    /// Command-line options for `ses-sandbox`.
    pub(super) fn sandbox_options(&self) -> Vec<String> {
        let mut options = vec!["--quota".to_owned(), self.quota.to_string()];
        if let Some(latency) = &self.latency {
            options.extend(["--latency".to_owned(), latency.clone()]);
        }
        if let Some(seconds) = self.bucket_seconds {
            options.extend(["--bucket-seconds".to_owned(), seconds.to_string()]);
        }
        if self.strict {
            options.push("--strict".to_owned());
        }
        options.extend(self.sandbox_options.iter().cloned());
        options
    }

    /// The template's parameters that are not left at their defaults.
    pub(super) fn parameters(&self, sandbox: &str) -> Vec<(String, String)> {
        let [first, second] = &self.campaigns;
        let mut parameters = vec![
            ("SesEndpointUrl", sandbox.to_owned()),
            ("Mode", self.mode.name().to_owned()),
            ("ExpressQueue", "true".to_owned()),
            ("Schedule", if self.schedule { "ENABLED" } else { "DISABLED" }.to_owned()),
            ("FirstCampaignName", first.name.clone()),
            ("FirstCampaignWeight", first.weight.to_string()),
            ("SecondCampaignName", second.name.clone()),
            ("SecondCampaignWeight", second.weight.to_string()),
        ];
        parameters
            .extend(self.rate_margin.map(|rate_margin| ("RateMargin", rate_margin.to_string())));
        let own = parameters.into_iter().map(|(name, value)| (name.to_owned(), value));
        let replaced = |name: &str| self.parameters.iter().any(|(other, _)| other == name);
        own.filter(|(name, _)| !replaced(name)).chain(self.parameters.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        let campaign = |name: &str, weight| LocalCampaign {
            name: name.to_owned(),
            weight,
            mails: 1,
            recipients: 1,
        };
        Setup {
            root: PathBuf::new(),
            python: PathBuf::new(),
            bin_dir: PathBuf::new(),
            port: None,
            sandbox_port: None,
            quota: 0.5,
            latency: Some("80ms".to_owned()),
            bucket_seconds: Some(2.0),
            strict: true,
            sandbox_options: vec!["--seed".to_owned(), "7".to_owned()],
            rate_margin: Some(0.05),
            infra: Infra::Sam,
            mode: Mode::Direct,
            campaigns: [campaign("big", 90), campaign("small", 10)],
            schedule: false,
            parameters: vec![("Schedule".to_owned(), "ENABLED".to_owned())],
        }
    }

    #[test]
    fn the_sandbox_gets_its_options_as_it_reads_them() {
        let expected = "--quota 0.5 --latency 80ms --bucket-seconds 2 --strict --seed 7";
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
    }
}
