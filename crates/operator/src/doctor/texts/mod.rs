//! The checks of AWS End User Messaging, for a stack for text messages.

mod origins;
mod records;
#[cfg(test)]
mod tests;

use tidegate_core::text_message::RECEIPTS;

use super::{CheckState, Finding, ReadResult, unread};
use crate::status::ServingStatus;
pub use records::{
    AccountAttribute, ConfigurationSet, EventDestination, Identities, PhoneNumber, Pool, SenderId,
    SpendLimit,
};

/// The facts about End User Messaging, in its own records.
#[derive(Clone, Debug, PartialEq)]
pub struct TextFacts {
    /// `TIDEGATE_ORIGINS`; empty for any.
    pub origins: Vec<String>,
    /// `TIDEGATE_ALLOWED_COUNTRIES`; empty for all.
    pub countries: Vec<String>,
    /// `TIDEGATE_QUOTA_PER_SECOND`, in parts.
    pub quota: Option<f64>,
    /// Whether receipts are read.
    pub feedback: bool,
    pub attributes: ReadResult<Vec<AccountAttribute>>,
    pub limits: ReadResult<Vec<SpendLimit>>,
    /// US dollars that texts have cost this month; `None` if CloudWatch has no figure.
    pub spent: ReadResult<Option<f64>>,
    pub identities: ReadResult<Identities>,
    /// The configuration set of texts that name none.
    pub configuration_set: Option<String>,
    /// All sets of the account.
    pub configuration_sets: ReadResult<Vec<ConfigurationSet>>,
}

/// Above this share of the spend limit a month may end before its days do.
const MUCH_SPENT: f64 = 0.8;

pub(super) fn judge(facts: &TextFacts, serving: &ServingStatus) -> Vec<Finding> {
    let mut findings = vec![production(facts), spend(facts)];
    findings.extend(build(serving));
    findings.extend(origins::judge(facts));
    findings.push(countries(facts));
    findings.extend(configuration_set(facts));
    findings
}

/// A function that was built without texts ends at its start. Nothing that Lambda tells of it shows that.
fn build(serving: &ServingStatus) -> Option<Finding> {
    let found = "perhaps built for e-mail alone, since no window is served: then their logs say so (TIDEGATE_CHANNEL)";
    let remedy = "deploy with CHANNEL=sms, or from a release by template-sms.yaml";
    let suspect = ["never", "stopped"].contains(&serving.state);
    suspect.then(|| Finding::of(CheckState::Warning, "text messages: functions", found, remedy))
}

fn production(facts: &TextFacts) -> Finding {
    let check = "text messages: production access";
    let attributes = match &facts.attributes {
        Ok(attributes) => attributes,
        Err(why) => return unread(check, why),
    };
    let tier = attributes.iter().find(|attribute| attribute.name == "ACCOUNT_TIER");
    match tier.map(|tier| tier.value.as_str()) {
        Some("PRODUCTION") => Finding::ok(check, "granted"),
        Some("SANDBOX") => Finding::of(
            CheckState::Failed,
            check,
            "the account is in End User Messaging's sandbox: verified numbers only, and $1 a month",
            "request production access: End User Messaging's console, Overview",
        ),
        other => unread(check, &format!("ACCOUNT_TIER is {other:?}")),
    }
}

fn spend(facts: &TextFacts) -> Finding {
    let check = "text messages: spend limit";
    let limits = match &facts.limits {
        Ok(limits) => limits,
        Err(why) => return unread(check, why),
    };
    let of_texts = limits.iter().find(|limit| limit.name == "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT");
    let Some(SpendLimit { enforced_limit, max_limit, .. }) = of_texts else {
        return unread(check, "the answer has no limit of text messages");
    };
    let limit = crate::status::as_f64(*enforced_limit);
    let spent = match &facts.spent {
        Ok(Some(spent)) => *spent,
        Ok(None) => {
            return Finding::of(
                CheckState::Unknown,
                check,
                format!("${enforced_limit} a month; CloudWatch has no figure of what was spent"),
                "normal until the month's first text; after it, create the service-linked role of End User Messaging",
            );
        }
        Err(why) => {
            return unread(check, &format!("${enforced_limit} a month, of which spent: {why}"));
        }
    };
    let found = format!("${spent:.2} of ${enforced_limit} are spent this month");
    let state = match spent {
        spent if spent >= limit => CheckState::Failed,
        spent if spent >= MUCH_SPENT * limit => CheckState::Warning,
        _ => return Finding::ok(check, found),
    };
    let remedy = format!(
        "raise it up to ${max_limit} (aws pinpoint-sms-voice-v2 set-text-message-spend-limit-override); ask for more in Service Quotas"
    );
    Finding::of(state, check, found, remedy)
}

fn countries(facts: &TextFacts) -> Finding {
    let check = "allowed countries";
    if facts.countries.is_empty() {
        let found = "texts may go to every country (TIDEGATE_ALLOWED_COUNTRIES is not set)";
        let remedy =
            "set AllowedCountries to those of your recipients: some countries cost many times more";
        return Finding::of(CheckState::Warning, check, found, remedy);
    }
    Finding::ok(check, facts.countries.join(", "))
}

fn configuration_set(facts: &TextFacts) -> Option<Finding> {
    let Some(name) = &facts.configuration_set else {
        return facts.feedback.then(|| {
            let found = "texts have no configuration set (TIDEGATE_CONFIGURATION_SET is not set)";
            let remedy = "deploy the template again, with Feedback on";
            Finding::of(CheckState::Warning, "receipts", found, remedy)
        });
    };
    let check = format!("configuration set {name}");
    let sets = match &facts.configuration_sets {
        Ok(sets) => sets,
        Err(why) => return Some(unread(check, why)),
    };
    let Some(set) = sets.iter().find(|set| set.configuration_set_name == *name) else {
        let found = "End User Messaging does not know it: every text that names none is refused";
        let remedy = "create it, or deploy without TIDEGATE_CONFIGURATION_SET";
        return Some(Finding::of(CheckState::Failed, check, found, remedy));
    };
    let told = |event: &str| set.event_destinations.iter().any(|to| to.tells(event));
    let untold: Vec<&str> =
        RECEIPTS.map(|(event, _)| event).into_iter().filter(|e| !told(e)).collect();
    if untold.is_empty() || !facts.feedback {
        return Some(Finding::ok(check, "there"));
    }
    let found = format!("no enabled destination at SNS is told {}", untold.join(", "));
    let remedy = "deploy the template again: reputation and adaptive limits do not hear of them";
    Some(Finding::of(CheckState::Warning, check, found, remedy))
}
