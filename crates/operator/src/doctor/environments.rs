use std::collections::BTreeMap;

use serde::Deserialize;
use tidegate_core::config::{ConfigError, InvalidVariable, PollerConfig, SchedulerConfig};

use super::{CheckState, DoctorReport, Finding};

/// Bytes that Lambda allows of an environment, measured as JSON.
/// <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
const LARGEST: usize = 4_096;

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
        findings.extend(too_large("poller", &given.poller));
        findings.extend(too_large("scheduler", &given.scheduler));
        Self { stack: stack.to_owned(), findings }
    }
}

/// Lambda would refuse it in the middle of a deployment.
fn too_large(function: &str, environment: &BTreeMap<String, String>) -> Option<Finding> {
    let size = serde_json::to_string(environment).map_or(0, |json| json.len());
    let (name, value) = environment.iter().max_by_key(|(_, value)| value.len())?;
    let found = format!("{size} bytes, and AWS allows {LARGEST}");
    let remedy = format!(
        "{name} is the longest, with {} characters: *@example.org is all senders of a domain, and `tags` finds any number of campaigns",
        value.chars().count()
    );
    let check = format!("{function}: environment");
    (size > LARGEST).then(|| Finding::of(CheckState::Failed, check, found, remedy))
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

        let measured = serde_json::to_string(&given.poller).unwrap().len();
        let senders = |length: usize| {
            let mut given = given.clone();
            given.poller.insert("TIDEGATE_ALLOWED_SENDERS".into(), "a.b,".repeat(length / 4));
            DoctorReport::of_environments("mail", &given).findings
        };
        let found = senders(4_096 - measured);
        let large = found.iter().find(|finding| finding.check == "poller: environment").unwrap();
        assert!(large.remedy.starts_with("TIDEGATE_ALLOWED_SENDERS is the longest"));
        assert!(senders(3_000).iter().all(|finding| finding.check != "poller: environment"));

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
