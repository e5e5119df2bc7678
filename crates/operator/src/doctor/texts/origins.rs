use super::super::{CheckState, Finding, unread};
use super::{Identities, PhoneNumber, TextFacts};
use tidegate_core::format::{counted, rate};

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
        let pool = self
            .pools
            .iter()
            .find(|pool| [&pool.pool_id, &pool.pool_arn].contains(&&origin.to_owned()));
        if let Some(pool) = pool {
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

pub(super) fn judge(facts: &TextFacts) -> Vec<Finding> {
    let identities = match &facts.identities {
        Ok(identities) => identities,
        Err(why) => return vec![unread("origins", why)],
    };
    let known = facts.origins.iter().map(|origin| (origin.as_str(), identities.find(origin)));
    let known: Vec<(&str, Option<Known<'_>>)> = known.collect();
    let mut findings: Vec<Finding> =
        known.iter().map(|(origin, known)| of_origin(origin, known.as_ref())).collect();
    findings.extend(known.iter().filter_map(|(origin, known)| opt_outs(origin, known.as_ref()?)));
    if facts.origins.is_empty() {
        findings.push(Finding::of(
            CheckState::Warning,
            "origins",
            "any origin is allowed, and AWS chooses one (TIDEGATE_ORIGINS is not set): none is checked",
            "set Origins to the numbers, pools or sender ids that may send",
        ));
    }
    findings.extend(quota(facts.quota, &known));
    findings
}

fn of_origin(origin: &str, known: Option<&Known<'_>>) -> Finding {
    let check = format!("origin {origin}");
    let failed = |found: String, remedy| Finding::of(CheckState::Failed, &*check, found, remedy);
    let Some(known) = known else {
        let found = "End User Messaging has no such number, pool or sender id in this region";
        let remedy = "correct Origins, or request it in End User Messaging's console";
        return failed(format!("{found}: its texts are refused"), remedy);
    };
    let kind = &known.kind;
    if known.status != "ACTIVE" {
        let found = format!("{kind}, {}: its texts are refused", known.status.to_lowercase());
        return failed(
            found,
            "wait until it is active; some countries ask for a registration first",
        );
    }
    let capabilities = known.number.map(|number| &number.number_capabilities);
    if let Some(others) = capabilities.filter(|all| !all.iter().any(|one| one == "SMS")) {
        let found = format!("{kind} for {} alone: its texts are refused", others.join(", "));
        return failed(found, "request a number that sends text messages");
    }
    if known.number.is_some_and(|number| number.number_type == "SIMULATOR") {
        let found = "a simulator: its texts reach no phone";
        let remedy = "request a number of another type before you send to people";
        return Finding::of(CheckState::Warning, check, found, remedy);
    }
    Finding::ok(check, format!("{kind}, active"))
}

/// A recipient who answers STOP must get no further text.
fn opt_outs(origin: &str, known: &Known<'_>) -> Option<Finding> {
    let check = format!("opt-outs of {origin}");
    let (list, own) = known.opt_outs?;
    if own {
        let found = format!("self-managed: AWS does not put who answers STOP onto the list {list}");
        let remedy =
            "put them there yourself (PutOptedOutNumber), or turn self-managed opt-outs off";
        return Some(Finding::of(CheckState::Warning, check, found, remedy));
    }
    Some(Finding::ok(check, format!("AWS keeps the list {list}")))
}

/// The quota in force is the configured one, or the rate of the first origin. AWS refuses what is above an origin's rate.
fn quota(configured: Option<f64>, known: &[(&str, Option<Known<'_>>)]) -> Vec<Finding> {
    let check = "text messages: quota";
    let rate_of = |known: &Option<Known<'_>>| known.as_ref().and_then(|known| known.rate);
    let first = known.first().and_then(|(_, known)| rate_of(known));
    let Some(quota) = configured.or(first) else {
        let found = "AWS tells no rate of the first of TIDEGATE_ORIGINS: nothing is sent";
        let remedy = "set QuotaPerSecond to the parts per second that AWS allows it";
        return vec![Finding::of(CheckState::Failed, check, found, remedy)];
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
            Finding::of(CheckState::Failed, check, found, remedy)
        })
        .collect();
    if findings.is_empty() {
        let by = if configured.is_some() { "set by QuotaPerSecond" } else { "the first origin's" };
        findings.push(Finding::ok(check, format!("{} parts, {by}", rate(quota))));
    }
    findings
}
