//! End User Messaging, for a stack for text messages: the account, its origins and its configuration sets.

mod records;
#[cfg(test)]
mod tests;

use tidegate_adapters::aws::SmsAccount;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::format::{counted, rate};
use tidegate_core::in_full;
use tidegate_core::number::real;
use tidegate_core::rate::Rate;
use tidegate_core::text_message::RECEIPTS;
use tidegate_delivery::ports::{Clock as _, PortError};

use super::finding::{CheckState, Finding, ReadResult};
use crate::status::ServingStatus;
use records::{AccountAttribute, ConfigurationSet, PhoneNumber, Pool, SenderId, SpendLimit};

/// Above this share of the spend limit a month may end before its days do.
const MUCH_SPENT: f64 = 0.8;

/// The facts about End User Messaging, in its own records.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TextFacts {
    /// `TIDEGATE_ORIGINS`; empty for any.
    origins: Vec<String>,
    /// `TIDEGATE_ALLOWED_COUNTRIES`; empty for all.
    countries: Vec<String>,
    /// `TIDEGATE_QUOTA_PER_SECOND`, in parts.
    quota: Option<f64>,
    /// Whether receipts are read.
    feedback: bool,
    attributes: ReadResult<Vec<AccountAttribute>>,
    limits: ReadResult<Vec<SpendLimit>>,
    /// US dollars that texts have cost this month; `None` if CloudWatch has no figure.
    spent: ReadResult<Option<f64>>,
    identities: ReadResult<Identities>,
    /// The configuration set of texts that name none.
    configuration_set: Option<String>,
    /// All sets of the account.
    configuration_sets: ReadResult<Vec<ConfigurationSet>>,
}

/// All that texts of the account may come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Identities {
    numbers: Vec<PhoneNumber>,
    pools: Vec<Pool>,
    sender_ids: Vec<SenderId>,
}

pub(super) async fn read(stack: &Stack, account: &SmsAccount) -> TextFacts {
    let (poller, allowed) = (&stack.poller, &stack.poller.rules.texts);
    let functions = [&stack.scheduler_function, &stack.poller_function].map(|of| of.name.clone());
    let monitor = stack.clients().monitor(&stack.name, functions);
    let sets = account.list("DescribeConfigurationSets", "ConfigurationSets").await;
    TextFacts {
        origins: allowed.origins.0.clone(),
        countries: allowed.countries.0.clone(),
        quota: poller.cap.quota.map(Rate::as_per_second),
        feedback: stack.scheduler.feedback.is_some(),
        attributes: told(account.list("DescribeAccountAttributes", "AccountAttributes").await),
        limits: told(account.list("DescribeSpendLimits", "SpendLimits").await),
        spent: told(monitor.text_spend(stack.clock().wall()).await),
        identities: told(identities(account).await),
        configuration_set: poller.configuration_set.clone(),
        configuration_sets: told(sets),
    }
}

async fn identities(account: &SmsAccount) -> Result<Identities, PortError> {
    Ok(Identities {
        numbers: account.list("DescribePhoneNumbers", "PhoneNumbers").await?,
        pools: account.list("DescribePools", "Pools").await?,
        sender_ids: account.list("DescribeSenderIds", "SenderIds").await?,
    })
}

fn told<T>(answer: Result<T, PortError>) -> ReadResult<T> {
    answer.map_err(|error| in_full(&error))
}

pub(super) fn judge(facts: &TextFacts, serving: &ServingStatus) -> Vec<Finding> {
    let mut findings = vec![production(facts), spend(facts)];
    findings.extend(build(serving));
    match &facts.identities {
        Ok(identities) => findings.extend(origins(facts, identities)),
        Err(why) => findings.push(Finding::unread("origins", why)),
    }
    findings.push(countries(facts));
    findings.extend(configuration_set(facts));
    findings
}

/// A function that was built without texts ends at its start. Nothing that Lambda tells of it shows that.
fn build(serving: &ServingStatus) -> Option<Finding> {
    let found = "perhaps built for e-mail alone, since no window is served: then their logs say so (TIDEGATE_CHANNEL)";
    let remedy = "deploy with CHANNEL=sms, or from a release by template-sms.yaml";
    let suspect = ["never", "stopped"].contains(&serving.state);
    suspect.then(|| Finding::warning("text messages: functions", found, remedy))
}

fn production(facts: &TextFacts) -> Finding {
    Finding::on("text messages: production access", &facts.attributes, |check, attributes| {
        let tier = attributes.iter().find(|attribute| attribute.name == "ACCOUNT_TIER");
        match tier.map(|tier| tier.value.as_str()) {
            Some("PRODUCTION") => Finding::ok(check, "granted"),
            Some("SANDBOX") => Finding::failed(
                check,
                "the account is in End User Messaging's sandbox: verified numbers only, and $1 a month",
                "request production access: End User Messaging's console, Overview",
            ),
            other => Finding::unread(check, &format!("ACCOUNT_TIER is {other:?}")),
        }
    })
}

fn spend(facts: &TextFacts) -> Finding {
    Finding::on("text messages: spend limit", &facts.limits, |check, limits| {
        let limit = limits.iter().find(|limit| limit.name == "TEXT_MESSAGE_MONTHLY_SPEND_LIMIT");
        match limit {
            Some(limit) => spent(check, limit, &facts.spent),
            None => Finding::unread(check, "the answer has no limit of text messages"),
        }
    })
}

fn spent(check: String, limit: &SpendLimit, spent: &ReadResult<Option<f64>>) -> Finding {
    let SpendLimit { enforced_limit, max_limit, .. } = limit;
    let spent = match spent {
        Ok(Some(spent)) => *spent,
        Ok(None) => {
            let found =
                format!("${enforced_limit} a month; CloudWatch has no figure of what was spent");
            let remedy = "normal until the month's first text; after it, create the service-linked role of End User Messaging";
            return Finding::new(CheckState::Unknown, check, found, remedy);
        }
        Err(why) => {
            let why = format!("${enforced_limit} a month, of which spent: {why}");
            return Finding::unread(check, &why);
        }
    };
    let found = format!("${spent:.2} of ${enforced_limit} are spent this month");
    let state = match real(*enforced_limit) {
        limit if spent >= limit => CheckState::Failed,
        limit if spent >= MUCH_SPENT * limit => CheckState::Warning,
        _ => return Finding::ok(check, found),
    };
    let remedy = format!(
        "raise it up to ${max_limit} (aws pinpoint-sms-voice-v2 set-text-message-spend-limit-override); ask for more in Service Quotas"
    );
    Finding::new(state, check, found, remedy)
}

fn countries(facts: &TextFacts) -> Finding {
    let found = "texts may go to every country (TIDEGATE_ALLOWED_COUNTRIES is not set)";
    let remedy =
        "set AllowedCountries to those of your recipients: some countries cost many times more";
    Finding::warning("allowed countries", found, remedy)
        .unless(!facts.countries.is_empty(), facts.countries.join(", "))
}

fn configuration_set(facts: &TextFacts) -> Option<Finding> {
    let Some(name) = &facts.configuration_set else {
        let found = "texts have no configuration set (TIDEGATE_CONFIGURATION_SET is not set)";
        let remedy = "deploy the template again, with Feedback on";
        return facts.feedback.then(|| Finding::warning("receipts", found, remedy));
    };
    let check = format!("configuration set {name}");
    Some(Finding::on(check, &facts.configuration_sets, |check, sets| {
        let Some(set) = sets.iter().find(|set| set.configuration_set_name == *name) else {
            let found =
                "End User Messaging does not know it: every text that names none is refused";
            let remedy = "create it, or deploy without TIDEGATE_CONFIGURATION_SET";
            return Finding::failed(check, found, remedy);
        };
        let told = |event: &&str| set.event_destinations.iter().any(|to| to.tells(event));
        let events = RECEIPTS.map(|(event, _)| event).into_iter();
        let untold: Vec<&str> = events.filter(|event| !told(event)).collect();
        let found = format!("no enabled destination at SNS is told {}", untold.join(", "));
        let remedy =
            "deploy the template again: reputation and adaptive limits do not hear of them";
        Finding::warning(check, found, remedy).unless(untold.is_empty() || !facts.feedback, "there")
    }))
}

/// An origin, as AWS knows it.
struct Known<'a> {
    kind: String,
    status: &'a str,
    /// Parts per second; `None` if AWS says none.
    rate: Option<f64>,
    /// The name of its opt-out list, and whether the account manages it. A sender id takes no replies and has none.
    opt_outs: Option<(&'a str, bool)>,
    /// The number itself; none for pools and sender ids.
    number: Option<&'a PhoneNumber>,
}

impl Identities {
    fn find(&self, origin: &str) -> Option<Known<'_>> {
        let number = self.numbers.iter().find(|number| {
            let id = number.phone_number_id.as_deref();
            [Some(number.phone_number.as_str()), Some(&number.phone_number_arn), id]
                .contains(&Some(origin))
        });
        if let Some(number) = number {
            return Some(Known {
                kind: number.number_type.to_lowercase().replace('_', " "),
                status: &number.status,
                rate: number.rate(),
                opt_outs: Some((&number.opt_out_list_name, number.self_managed_opt_outs_enabled)),
                number: Some(number),
            });
        }
        let is_meant = |pool: &&Pool| [&*pool.pool_id, &*pool.pool_arn].contains(&origin);
        if let Some(pool) = self.pools.iter().find(is_meant) {
            let of_pool = |number: &&PhoneNumber| number.pool_id.as_ref() == Some(&pool.pool_id);
            let numbers: Vec<_> = self.numbers.iter().filter(of_pool).collect();
            let rates: Option<Vec<f64>> = numbers.iter().map(|number| number.rate()).collect();
            return Some(Known {
                kind: format!("pool of {}", counted(numbers.len() as u64, "number")),
                status: &pool.status,
                rate: rates.map(|rates| rates.iter().sum()).filter(|&rate| rate > 0.0),
                opt_outs: Some((&pool.opt_out_list_name, pool.self_managed_opt_outs_enabled)),
                number: None,
            });
        }
        let of_id = self.sender_ids.iter();
        let of_id = of_id.filter(|id| id.sender_id == origin || id.sender_id_arn == origin);
        let countries: Vec<&str> = of_id.map(|id| id.iso_country_code.as_str()).collect();
        (!countries.is_empty()).then(|| Known {
            kind: format!("sender id in {}", countries.join(", ")),
            status: "ACTIVE",
            rate: None,
            opt_outs: None,
            number: None,
        })
    }
}

/// The origins that may send: each one's state, who keeps its opt-outs, and whether all are as fast as the quota.
fn origins(facts: &TextFacts, identities: &Identities) -> Vec<Finding> {
    let known: Vec<(&str, Option<Known<'_>>)> =
        facts.origins.iter().map(|origin| (origin.as_str(), identities.find(origin))).collect();
    let mut findings: Vec<Finding> =
        known.iter().map(|(origin, known)| of_origin(origin, known.as_ref())).collect();
    findings.extend(known.iter().filter_map(|(origin, known)| opt_outs(origin, known.as_ref()?)));
    if facts.origins.is_empty() {
        let found = "any origin is allowed, and AWS chooses one (TIDEGATE_ORIGINS is not set): none is checked";
        let remedy = "set Origins to the numbers, pools or sender ids that may send";
        findings.push(Finding::warning("origins", found, remedy));
    }
    findings.extend(quota(facts.quota, &known));
    findings
}

fn of_origin(origin: &str, known: Option<&Known<'_>>) -> Finding {
    let check = format!("origin {origin}");
    let Some(known) = known else {
        let found = "End User Messaging has no such number, pool or sender id in this region";
        let remedy = "correct Origins, or request it in End User Messaging's console";
        return Finding::failed(check, format!("{found}: its texts are refused"), remedy);
    };
    let kind = &known.kind;
    if known.status != "ACTIVE" {
        let found = format!("{kind}, {}: its texts are refused", known.status.to_lowercase());
        let remedy = "wait until it is active; some countries ask for a registration first";
        return Finding::failed(check, found, remedy);
    }
    let capabilities = known.number.map(|number| &number.number_capabilities);
    if let Some(others) = capabilities.filter(|all| !all.iter().any(|one| one == "SMS")) {
        let found = format!("{kind} for {} alone: its texts are refused", others.join(", "));
        return Finding::failed(check, found, "request a number that sends text messages");
    }
    if known.number.is_some_and(|number| number.number_type == "SIMULATOR") {
        let found = "a simulator: its texts reach no phone";
        let remedy = "request a number of another type before you send to people";
        return Finding::warning(check, found, remedy);
    }
    Finding::ok(check, format!("{kind}, active"))
}

/// A recipient who answers STOP must get no further text.
fn opt_outs(origin: &str, known: &Known<'_>) -> Option<Finding> {
    let check = format!("opt-outs of {origin}");
    let (list, own) = known.opt_outs?;
    let found = format!("self-managed: AWS does not put who answers STOP onto the list {list}");
    let remedy = "put them there yourself (PutOptedOutNumber), or turn self-managed opt-outs off";
    let own_list = Finding::warning(check, found, remedy);
    Some(own_list.unless(!own, format!("AWS keeps the list {list}")))
}

/// The quota in force is the configured one, or the rate of the first origin. AWS refuses what is above an origin's rate.
fn quota(configured: Option<f64>, known: &[(&str, Option<Known<'_>>)]) -> Vec<Finding> {
    let check = "text messages: quota";
    let rate_of = |known: &Option<Known<'_>>| known.as_ref().and_then(|known| known.rate);
    let first = known.first().and_then(|(_, known)| rate_of(known));
    let Some(quota) = configured.or(first) else {
        let found = "AWS tells no rate of the first of TIDEGATE_ORIGINS: nothing is sent";
        let remedy = "set QuotaPerSecond to the parts per second that AWS allows it";
        return vec![Finding::failed(check, found, remedy)];
    };
    let slower = known.iter().filter_map(|(origin, known)| Some((origin, rate_of(known)?)));
    let slower = slower.filter(|(_, rate)| *rate < quota);
    let mut findings: Vec<Finding> = slower
        .map(|(origin, allowed)| {
            let found = format!(
                "{} parts, but {origin} may send {}: AWS refuses what is above",
                rate(quota),
                rate(allowed)
            );
            let remedy = format!("set QuotaPerSecond to {allowed} or less, or ask AWS for more");
            Finding::failed(check, found, remedy)
        })
        .collect();
    if findings.is_empty() {
        let by = if configured.is_some() { "set by QuotaPerSecond" } else { "the first origin's" };
        findings.push(Finding::ok(check, format!("{} parts, {by}", rate(quota))));
    }
    findings
}
