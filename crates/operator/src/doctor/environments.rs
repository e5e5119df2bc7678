use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_core::config::{ConfigError, InvalidVariable, PollerConfig, SchedulerConfig};

use super::{CheckState, DoctorReport, Finding};

/// The functions' environments, each variable with its value, before they are deployed.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Environments {
    pub scheduler: BTreeMap<String, String>,
    pub poller: BTreeMap<String, String>,
}

impl DoctorReport {
    /// Checks with the functions' own parsers whether both would start.
    pub fn of_environments(stack: &str, given: &Environments) -> Self {
        let scheduler = SchedulerConfig::from_variables(|name| given.scheduler.get(name).cloned());
        let poller = PollerConfig::from_variables(|name| given.poller.get(name).cloned());
        let mut findings = judged("poller", poller.err());
        findings.extend(judged("scheduler", scheduler.err()));
        Self { stack: stack.to_owned(), findings }
    }
}

fn judged(function: &str, error: Option<ConfigError>) -> Vec<Finding> {
    let Some(ConfigError(invalid)) = error else {
        return vec![Finding::ok(format!("{function}: settings"), "all allowed")];
    };
    let finding = |InvalidVariable { name, value, allowed }| {
        let check = format!("{function}: {name}");
        Finding::of(CheckState::Failed, check, value, format!("allowed is {allowed}"))
    };
    invalid.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_functions_own_parser_refuses_is_found_before_it_is_deployed() {
        let mut given = Environments::default();
        for variables in [&mut given.scheduler, &mut given.poller] {
            variables.insert("TIDEGATE_LEDGER".into(), "dynamodb:ledger".into());
            variables.insert("TIDEGATE_CAMPAIGNS".into(), "ledger".into());
        }
        given.scheduler.insert("TIDEGATE_POLLER_FUNCTION".into(), "poller".into());
        let dead = ("TIDEGATE_DEAD_LETTER_QUEUE_URL".into(), "https://sqs/1/dead".into());
        given.poller.extend([dead]);
        assert!(!DoctorReport::of_environments("mail", &given).has_failed());

        given.poller.insert("TIDEGATE_MAX_IN_FLIGHT".into(), "950".into());
        given.scheduler.insert("TIDEGATE_QUOTA_PER_SECOND".into(), "0".into());
        let report = DoctorReport::of_environments("mail", &given);
        let found: Vec<_> =
            report.findings.iter().map(|f| (f.check.as_str(), f.remedy.as_str())).collect();
        assert_eq!(
            found,
            [
                ("poller: TIDEGATE_MAX_IN_FLIGHT", "allowed is a whole number from 1 to 900"),
                ("scheduler: TIDEGATE_QUOTA_PER_SECOND", "allowed is a number from 0.001 to 10000"),
            ]
        );
    }
}
