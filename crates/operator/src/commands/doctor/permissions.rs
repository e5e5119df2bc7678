//! Reads the permissions of the functions' roles from IAM's policy simulator, and the settings of
//! the ledger's table.

use crate::doctor::{
    ChannelArns, DeployedQueue, Permission, QueueKind, ReadResult, RolePermissions, StackArns,
    poller_needs, scheduler_needs,
};
use tidegate_adapters::aws::PolicySimulator;
use tidegate_adapters::aws::stack::Stack;
use tidegate_core::channel::Channel;
use tidegate_delivery::ports::QueueUrl;

use super::read;

/// The ARN of the ledger's table.
pub(super) async fn table_arn(stack: &Stack) -> ReadResult<String> {
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let answer = client.describe_table().table_name(&stack.table).send().await;
    let answer = read("DescribeTable", &stack.table, answer)?;
    let arn = answer.table().and_then(|table| table.table_arn()).map(str::to_owned);
    arn.ok_or_else(|| "the answer has no TableArn".to_owned())
}

/// Whether time to live is enabled on the ledger's table, so that DynamoDB deletes expired items.
pub(super) async fn expiry(stack: &Stack) -> ReadResult<bool> {
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let answer = client.describe_time_to_live().table_name(&stack.table).send().await;
    let answer = read("DescribeTimeToLive", &stack.table, answer)?;
    let status = answer.time_to_live_description().and_then(|expiry| expiry.time_to_live_status());
    Ok(status.is_some_and(|status| ["ENABLED", "ENABLING"].contains(&status.as_str())))
}

pub(super) async fn roles(
    stack: &Stack,
    queues: &[(DeployedQueue, Option<String>)],
    table: &ReadResult<String>,
) -> Vec<RolePermissions> {
    let arns = |kind| -> Vec<String> {
        let of_kind = queues.iter().filter(|(queue, _)| queue.kind == kind);
        of_kind.filter_map(|(_, arn)| arn.clone()).collect()
    };
    let (campaigns, express, merge) =
        (arns(QueueKind::Campaign), arns(QueueKind::Express), arns(QueueKind::Merge));
    let domains = arns(QueueKind::Domain);
    let dead = arns(QueueKind::DeadLetter);
    let (Some(dead_letter), Ok(ledger)) = (dead.first(), table) else {
        let why =
            table.clone().err().unwrap_or_else(|| "the queues' ARNs are not known".to_owned());
        let role = |kind| RolePermissions { kind, denied: Err(why.clone()) };
        return vec![role("scheduler"), role("poller")];
    };
    let feedback = feedback_arn(stack, dead_letter);
    let (ses, partition) = service("ses", dead_letter);
    let (sms_voice, _) = service("sms-voice", dead_letter);
    let identity = |identity: &str| format!("{ses}identity/{identity}");
    let identities: Vec<String> = stack.poller.rules.senders.identities().map(identity).collect();
    let deferral = stack.poller.deferral.as_ref().map(|deferral| {
        let bucket = format!("arn:{partition}:s3:::{}", deferral.bucket());
        let objects = format!("{bucket}/{}", deferral.key("mail", "any"));
        (bucket, objects)
    });
    let arns = StackArns {
        campaigns: &campaigns,
        merge: merge.first().map(String::as_str),
        dead_letter,
        ledger,
        poller: &stack.poller_function.arn,
        express: express.first().map(String::as_str),
        domains: &domains,
        feedback: feedback.as_deref(),
        deferral: deferral.as_ref().map(|(bucket, objects)| (bucket.as_str(), objects.as_str())),
        channel: match stack.poller.rules.channel {
            Channel::Email => ChannelArns::Email { ses: &ses, identities: &identities },
            Channel::Sms => ChannelArns::Sms { sms_voice: &sms_voice },
        },
        tags: stack.scheduler.campaign_queues.is_some(),
        topic: stack.scheduler.alarm_topic.as_deref(),
    };
    let simulator = PolicySimulator::new(stack.clients().config());
    let sender = stack.poller.rules.senders.identities().next().map(from_address);
    let (scheduler, poller) = (&stack.scheduler_function.role, &stack.poller_function.role);
    let scheduled = denied(&simulator, scheduler, scheduler_needs(arns), None).await;
    let polled = denied(&simulator, poller, poller_needs(arns), sender.as_deref()).await;
    vec![
        RolePermissions { kind: "scheduler", denied: scheduled },
        RolePermissions { kind: "poller", denied: polled },
    ]
}

/// An address of a listed identity: a domain allows any local part.
fn from_address(identity: &str) -> String {
    if identity.contains('@') { identity.to_owned() } else { format!("news@{identity}") }
}

/// The ARN of the feedback queue, in the partition, region and account of another queue.
fn feedback_arn(stack: &Stack, beside: &str) -> Option<String> {
    let config = stack.scheduler.feedback.as_ref()?;
    let url = QueueUrl::new(config.queue_url.as_str());
    let (place, _) = beside.rsplit_once(':')?;
    Some(format!("{place}:{}", url.name()))
}

/// The beginning of the ARN of any of the service's resources in the account and region of a queue, and the
/// partition.
fn service<'a>(name: &str, beside: &'a str) -> (String, &'a str) {
    let mut parts = beside.splitn(6, ':').skip(1);
    let partition = parts.next().unwrap_or("aws");
    let place: Vec<&str> = parts.skip(1).take(2).collect();
    (format!("arn:{partition}:{name}:{}:", place.join(":")), partition)
}

/// For each permission that a role needs, the actions that IAM denies.
async fn denied(
    simulator: &PolicySimulator,
    role: &str,
    needs: Vec<Permission>,
    from: Option<&str>,
) -> ReadResult<Vec<(Permission, Vec<String>)>> {
    let from = from.map(|from| ("ses:FromAddress", from));
    let mut found = Vec::new();
    for need in needs {
        let context = if need.what == "a sender" { from.as_slice() } else { &[] };
        let refused = simulator.denied(role, &need.actions, &need.resource, context).await;
        found.push((need, read("SimulatePrincipalPolicy", role, refused)?));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ses_stands_in_the_partition_region_and_account_of_the_queues() {
        let found =
            super::service("ses", "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:mail-dead-letter");
        assert_eq!(
            found,
            ("arn:aws-us-gov:ses:us-gov-west-1:123456789012:".to_owned(), "aws-us-gov")
        );
    }
}
