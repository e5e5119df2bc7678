use super::{CheckState, DeploymentFacts, Finding, ReadResult, unread};

/// Actions on one resource that a function needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    pub resource: String,
    pub what: String,
    pub actions: Vec<&'static str>,
}

/// The permissions of a function's role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolePermissions {
    pub kind: &'static str,
    /// The needed permissions, each with those of its actions that IAM denies.
    pub denied: ReadResult<Vec<(Permission, Vec<String>)>>,
}

/// The ARNs of a stack's resources.
#[derive(Clone, Copy, Debug)]
// More than 12 fields: one for each kind of resource.
pub struct StackArns<'a> {
    pub campaigns: &'a [String],
    pub express: Option<&'a str>,
    pub merge: Option<&'a str>,
    pub dead_letter: &'a str,
    pub ledger: &'a str,
    pub poller: &'a str,
    pub domains: &'a [String],
    pub feedback: Option<&'a str>,
    /// The bucket of deferred mail, and the ARN pattern of Tidegate's objects in it.
    pub deferral: Option<(&'a str, &'a str)>,
    /// The resources of the service that sends.
    pub channel: ChannelArns<'a>,
    /// Whether campaigns are found by their queues' tags.
    pub tags: bool,
    /// The topic to which the scheduler tells incidents.
    pub topic: Option<&'a str>,
}

/// The ARNs of the service that sends; a prefix is that of the account's resources, up to the colon after the account.
#[derive(Clone, Copy, Debug)]
pub enum ChannelArns<'a> {
    /// The prefix of SES, and the identities that mails are sent from.
    Email { ses: &'a str, identities: &'a [String] },
    /// The prefix of End User Messaging.
    Sms { sms_voice: &'a str },
}

impl ChannelArns<'_> {
    fn poller_needs(self) -> Vec<Permission> {
        let (ses, identities) = match self {
            Self::Email { ses, identities } => (ses, identities),
            Self::Sms { sms_voice } => return texts_need(sms_voice, &SMS_SENDERS),
        };
        let send = ["ses:SendEmail", "ses:SendRawEmail", "ses:SendTemplatedEmail"];
        let mut all: Vec<_> = identities.iter().map(|arn| needed(arn, "a sender", &send)).collect();
        for (kind, what) in
            [("template", "a template"), ("configuration-set", "a configuration set")]
        {
            all.push(needed(&format!("{ses}{kind}/any"), what, &send));
        }
        all.push(needed("*", "the account", &["ses:GetAccount"]));
        all
    }

    fn scheduler_needs(self) -> Vec<Permission> {
        let ses = match self {
            Self::Email { ses, .. } => ses,
            Self::Sms { sms_voice } => return texts_need(sms_voice, &[]),
        };
        let tenant = ["ses:GetTenant", "ses:ListTenantResources"];
        vec![
            needed("*", "the account", &["ses:GetAccount"]),
            needed(&format!("{ses}tenant/any/any"), "a tenant", &tenant),
        ]
    }
}

/// The kinds of resources that a text is sent with.
const SMS_SENDERS: [&str; 4] = ["phone-number", "pool", "sender-id", "configuration-set"];

/// Sending with resources of these kinds, and reading the quota and the spend limit.
fn texts_need(sms_voice: &str, senders: &[&str]) -> Vec<Permission> {
    let on = |kind: &str, what, action| needed(&format!("{sms_voice}{kind}/any"), what, &[action]);
    let mut all: Vec<Permission> =
        senders.iter().map(|kind| on(kind, "texts", "sms-voice:SendTextMessage")).collect();
    all.push(on("phone-number", "the numbers", "sms-voice:DescribePhoneNumbers"));
    all.push(needed("*", "the account", &["sms-voice:DescribeSpendLimits"]));
    all
}

impl StackArns<'_> {
    /// The queues that producers send to.
    fn producers(&self) -> impl Iterator<Item = &str> {
        self.campaigns.iter().map(String::as_str).chain(self.express)
    }
}

fn needed(resource: &str, what: &str, actions: &[&'static str]) -> Permission {
    Permission { resource: resource.to_owned(), what: what.to_owned(), actions: actions.to_vec() }
}

/// Actions that roles also need and that are not checked: logs, X-Ray and network interfaces belong
/// to Lambda itself, and their absence is noticed immediately.
pub const NOT_CHECKED: [&str; 10] = [
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "xray:PutTraceSegments",
    "xray:PutTelemetryRecords",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
];

pub fn poller_needs(arns: StackArns<'_>) -> Vec<Permission> {
    let mail = [
        "sqs:ReceiveMessage",
        "sqs:SendMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
    ];
    let ledger =
        ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"];
    let mut all: Vec<Permission> =
        arns.producers().map(|queue| needed(queue, "a queue of mails", &mail)).collect();
    let domains = arns.domains.iter().map(|queue| (queue.as_str(), "a recipient domain's queue"));
    for (queue, what) in
        arns.merge.map(|queue| (queue, "the merge queue")).into_iter().chain(domains)
    {
        all.push(needed(queue, what, &mail));
        all.push(needed(queue, what, &["sqs:GetQueueAttributes"]));
    }
    if let Some((_, objects)) = arns.deferral {
        all.push(needed(objects, "the deferral bucket", &["s3:PutObject"]));
    }
    all.push(needed(arns.dead_letter, "the dead-letter queue", &["sqs:SendMessage"]));
    all.push(needed(arns.ledger, "the ledger", &ledger));
    all.extend(arns.channel.poller_needs());
    all
}

pub fn scheduler_needs(arns: StackArns<'_>) -> Vec<Permission> {
    let ledger = ["dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem"];
    let mut all = vec![
        needed(arns.poller, "the poller", &["lambda:InvokeFunction"]),
        needed(arns.ledger, "the ledger", &ledger),
    ];
    all.extend(arns.channel.scheduler_needs());
    all.extend(arns.topic.map(|topic| needed(topic, "the alarm topic", &["sns:Publish"])));
    if let Some(feedback) = arns.feedback {
        let actions = ["sqs:ReceiveMessage", "sqs:DeleteMessage"];
        all.push(needed(feedback, "the feedback queue", &actions));
    }
    for queue in arns.producers() {
        all.push(needed(queue, "a queue of mails", &["sqs:GetQueueAttributes"]));
    }
    for queue in arns.merge.into_iter().chain(arns.domains.iter().map(String::as_str)) {
        all.push(needed(queue, "a queue's depth", &["sqs:GetQueueAttributes"]));
    }
    if let Some((bucket, objects)) = arns.deferral {
        let actions = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"];
        all.push(needed(objects, "the deferral bucket", &actions));
        all.push(needed(bucket, "the deferral bucket", &["s3:ListBucket"]));
        for queue in arns.campaigns {
            all.push(needed(queue, "a campaign's queue, for deferred mail", &["sqs:SendMessage"]));
        }
    }
    if arns.tags {
        all.push(needed("*", "the account's queues", &["sqs:ListQueues"]));
        for queue in arns.campaigns {
            all.push(needed(queue, "a campaign's tags", &["sqs:ListQueueTags"]));
        }
    }
    all
}

pub(super) fn judge(facts: &DeploymentFacts) -> Vec<Finding> {
    facts.roles.iter().flat_map(of_role).collect()
}

fn of_role(role: &RolePermissions) -> Vec<Finding> {
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
            Finding::of(CheckState::Failed, check.clone(), found, remedy)
        })
        .collect();
    if findings.is_empty() {
        let actions: usize = denied.iter().map(|(needed, _)| needed.actions.len()).sum();
        let found = format!(
            "{actions} actions allowed; not checked: its log, X-Ray, network interfaces, the queue of failed invocations"
        );
        return vec![Finding::ok(check, found)];
    }
    findings
}
