use super::{Facts, Finding, Read, State, unread};

/// Actions on one resource that a function needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// Its ARN, or `*`.
    pub resource: String,
    /// What it is, in words.
    pub what: String,
    /// The actions.
    pub actions: Vec<&'static str>,
}

/// A function's role, and the actions that it is denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// `scheduler` or `poller`.
    pub kind: &'static str,
    /// What it needs, each with the actions that IAM denies.
    pub denied: Read<Vec<(Needed, Vec<String>)>>,
}

/// What stands in a stack, as ARNs.
#[derive(Clone, Copy, Debug)]
pub struct Arns<'a> {
    /// The campaigns' and the express queue.
    pub campaigns: &'a [String],
    /// The merge queue.
    pub merge: Option<&'a str>,
    /// The dead-letter queue.
    pub dead_letter: &'a str,
    /// The ledger's table.
    pub ledger: &'a str,
    /// The poller.
    pub poller: &'a str,
    /// The feedback queue.
    pub feedback: Option<&'a str>,
    /// The identities that are sent as.
    pub identities: &'a [String],
}

fn needed(resource: &str, what: &str, actions: &[&'static str]) -> Needed {
    Needed { resource: resource.to_owned(), what: what.to_owned(), actions: actions.to_vec() }
}

/// What a poller does.
#[must_use]
pub fn poller_needs(arns: Arns<'_>) -> Vec<Needed> {
    let mail = [
        "sqs:ReceiveMessage",
        "sqs:SendMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
    ];
    let send = ["ses:SendEmail", "ses:SendRawEmail", "ses:SendTemplatedEmail"];
    let ledger = ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"];
    let mut all: Vec<Needed> =
        arns.campaigns.iter().map(|queue| needed(queue, "a queue of mails", &mail)).collect();
    if let Some(merge) = arns.merge {
        all.push(needed(merge, "the merge queue", &mail));
        all.push(needed(merge, "the merge queue", &["sqs:GetQueueAttributes"]));
    }
    all.push(needed(arns.dead_letter, "the dead-letter queue", &["sqs:SendMessage"]));
    all.push(needed(arns.ledger, "the ledger", &ledger));
    all.extend(arns.identities.iter().map(|arn| needed(arn, "a sender", &send)));
    all.push(needed("*", "the account", &["ses:GetAccount"]));
    all
}

/// What a scheduler does.
#[must_use]
pub fn scheduler_needs(arns: Arns<'_>) -> Vec<Needed> {
    let mut all = vec![
        needed(arns.poller, "the poller", &["lambda:InvokeFunction"]),
        needed(arns.ledger, "the ledger", &["dynamodb:GetItem", "dynamodb:UpdateItem"]),
        needed("*", "the account", &["ses:GetAccount"]),
    ];
    if let Some(feedback) = arns.feedback {
        let actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage"];
        all.push(needed(feedback, "the feedback queue", &actions));
    }
    all
}

pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    facts.roles.iter().flat_map(of_role).collect()
}

fn of_role(role: &Role) -> Vec<Finding> {
    let check = format!("{}: permissions", role.kind);
    let denied = match &role.denied {
        Ok(denied) => denied,
        Err(why) => return vec![unread(check, why)],
    };
    let wrong = denied.iter().filter(|(_, actions)| !actions.is_empty());
    let findings: Vec<Finding> = wrong
        .map(|(needed, actions)| {
            let found = format!("denied on {} ({}): {}", needed.what, needed.resource, actions.join(", "));
            let remedy = "deploy the template again, or look for a permissions boundary or an organization's policy";
            Finding::of(State::Failed, check.clone(), found, remedy)
        })
        .collect();
    if findings.is_empty() {
        let actions: usize = denied.iter().map(|(needed, _)| needed.actions.len()).sum();
        return vec![Finding::ok(check, format!("all {actions} actions allowed"))];
    }
    findings
}
