//! The variables of back-pressure and deferral: `TIDEGATE_BACK_PRESSURE_…` and `TIDEGATE_DEFERRAL…`.

use super::Campaigns;
use super::limits::urls;
use super::settings;
use super::variables::Variables;
use crate::back_pressure::{BackPressurePolicy, Thresholds};
use crate::deferral::Location;

/// The scheduler's settings for the back-pressure level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackPressureConfig {
    /// `TIDEGATE_CAMPAIGNS`, as the poller has it: the queues whose mail waits.
    pub campaigns: Campaigns,
    /// `TIDEGATE_MERGE_QUEUE_URL`, as the poller has it; `None` in direct mode.
    pub merge_queue_url: Option<String>,
    /// `TIDEGATE_EXPRESS_QUEUE_URL`, as the poller has it; `None` without express mail.
    pub express_queue_url: Option<String>,
    /// `TIDEGATE_LIMIT_QUEUES`, as the poller has it; empty without limit queues.
    pub limit_queues: Vec<String>,
    /// `TIDEGATE_BACK_PRESSURE_BUSY` and `TIDEGATE_BACK_PRESSURE_OVERLOADED`: the thresholds of both
    /// levels.
    pub policy: BackPressurePolicy,
    /// `TIDEGATE_DEFERRAL_REPLAY`: whether deferred mail is replayed once the level is clear. Without `TIDEGATE_DEFERRAL` it has no effect.
    pub replays: bool,
    /// Whether `TIDEGATE_DEFERRAL` is set.
    pub stores_deferred: bool,
}

impl Variables<'_> {
    /// `None` if the scheduler does not know the campaigns; then it computes no level.
    pub(super) fn back_pressure(&mut self) -> Option<BackPressureConfig> {
        let policy = self.back_pressure_policy();
        // The poller needs the campaigns; the scheduler may do without.
        let is_given = self.get(settings::CAMPAIGNS.name).is_some();
        let campaigns =
            is_given.then(|| self.read(&settings::CAMPAIGNS, Campaigns::parse)).flatten();
        let merge_queue_url = self.text(&settings::MERGE_QUEUE);
        let express_queue_url = self.text(&settings::EXPRESS_QUEUE);
        let limit_queues = self.read(&settings::LIMIT_QUEUES, urls).unwrap_or_default();
        let replays = self.choice(&settings::DEFERRAL_REPLAY, &[("auto", true), ("off", false)]);
        Some(BackPressureConfig {
            campaigns: campaigns?,
            merge_queue_url,
            express_queue_url,
            limit_queues,
            policy,
            replays,
            stores_deferred: self.get(settings::DEFERRAL.name).is_some(),
        })
    }

    fn back_pressure_policy(&mut self) -> BackPressurePolicy {
        let (lower, upper) = (settings::BACK_PRESSURE_BUSY, settings::BACK_PRESSURE_OVERLOADED);
        let busy = self.read(&lower, Thresholds::parse).unwrap_or_default();
        let overloaded = self.read(&upper, Thresholds::parse).unwrap_or_default();
        if self.get(upper.name).is_none() {
            return BackPressurePolicy { busy, overloaded: overloaded.at_least(&busy) };
        }
        if !overloaded.is_above(&busy) {
            let allowed = format!("nothing below {}, which is {busy}", lower.name);
            self.refuse_with(upper.name, allowed);
        }
        BackPressurePolicy { busy, overloaded }
    }

    /// The place where deferred mail is stored; `None` defers no mail.
    pub(super) fn deferral(&mut self) -> Option<Location> {
        self.read(&settings::DEFERRAL, Location::parse)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::{ConfigError, PollerConfig, SchedulerConfig};
    use super::*;

    const BUSY: &str = settings::BACK_PRESSURE_BUSY.name;
    const OVERLOADED: &str = settings::BACK_PRESSURE_OVERLOADED.name;

    fn lookup<'a>(given: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        let needed = [
            ("TIDEGATE_POLLER_FUNCTION", "poller"),
            ("TIDEGATE_LEDGER", "dynamodb:ledger"),
            ("TIDEGATE_CAMPAIGNS", "ledger"),
            ("TIDEGATE_DEAD_LETTER_QUEUE_URL", "https://sqs.example/1/dead"),
        ];
        let all: BTreeMap<_, _> = needed.into_iter().chain(given.iter().copied()).collect();
        move |name| all.get(name).map(|value| (*value).to_owned())
    }

    fn read(given: &[(&str, &str)]) -> Result<Option<BackPressureConfig>, ConfigError> {
        SchedulerConfig::from_variables(lookup(given)).map(|config| config.back_pressure)
    }

    #[test]
    fn without_campaigns_there_is_no_level_and_with_them_the_defaults_hold() {
        assert_eq!(read(&[("TIDEGATE_CAMPAIGNS", "")]).unwrap(), None);
        let config = read(&[]).unwrap().unwrap();
        assert_eq!(config.campaigns, Campaigns::Ledger);
        assert_eq!(config.policy, BackPressurePolicy::default());
        assert!(config.replays);
    }

    #[test]
    fn parts_may_be_left_out_and_what_is_not_given_follows_the_lower_level() {
        let given = [(BUSY, "depth=4h,age=96h"), ("TIDEGATE_DEFERRAL_REPLAY", "off")];
        let config = read(&given).unwrap().unwrap();
        assert_eq!(config.policy.busy.refused, None);
        assert_eq!(config.policy.overloaded.depth, Some(48 * 3_600));
        assert_eq!(config.policy.overloaded.age, Some(96 * 3_600));
        assert!(!config.replays);
    }

    #[test]
    fn every_invalid_value_is_refused_with_name_value_and_what_is_allowed() {
        for (name, value, allowed) in [
            (BUSY, "depth=4", "off, or one or more of depth=TIME"),
            (OVERLOADED, "age=1h", "nothing below TIDEGATE_BACK_PRESSURE_BUSY, which is depth=12h"),
            ("TIDEGATE_DEFERRAL_REPLAY", "on", "auto or off"),
            ("TIDEGATE_DEFERRAL", "bucket", "s3://BUCKET or s3://BUCKET/PREFIX"),
            ("TIDEGATE_MERGE_QUEUE_URL", "https://sqs.example/1/x", "ending in .fifo"),
        ] {
            let text = read(&[(name, value)]).unwrap_err().to_string();
            let shown = format!("{name} is \"{value}\"; allowed is ");
            assert!(text.starts_with(&shown) && text.contains(allowed), "{text}");
        }
    }

    #[test]
    fn both_functions_read_where_deferred_mail_stands() {
        let given = [("TIDEGATE_DEFERRAL", "s3://tides/deferral")];
        let poller = PollerConfig::from_variables(lookup(&given)).unwrap().deferral;
        let scheduler = SchedulerConfig::from_variables(lookup(&given)).unwrap().deferral;
        assert_eq!(
            poller.as_ref().map(ToString::to_string).as_deref(),
            Some("s3://tides/deferral")
        );
        assert_eq!(poller, scheduler);
        assert_eq!(PollerConfig::from_variables(lookup(&[])).unwrap().deferral, None);
    }
}
