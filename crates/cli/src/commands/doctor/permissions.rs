//! What the functions' roles may do, asked of IAM's policy simulator; and the ledger's table.

use aws_sdk_iam::Client;
use aws_sdk_iam::types::{ContextEntry, ContextKeyTypeEnum, PolicyEvaluationDecisionType};
use tidegate_delivery::ports::QueueUrl;
use tidegate_operate::doctor::{
    Arns, Kind, Needed, Queue, Read, Role, poller_needs, scheduler_needs,
};

use super::read;
use crate::stack::Stack;

/// The ARN of the ledger's table.
pub(super) async fn table_arn(stack: &Stack) -> Read<String> {
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let answer = client.describe_table().table_name(&stack.table).send().await;
    let answer = read("DescribeTable", &stack.table, answer)?;
    let arn = answer.table().and_then(|table| table.table_arn()).map(str::to_owned);
    arn.ok_or_else(|| "the answer has no TableArn".to_owned())
}

/// Whether the ledger's table deletes what has expired.
pub(super) async fn expiry(stack: &Stack) -> Read<bool> {
    let client = aws_sdk_dynamodb::Client::new(stack.clients().config());
    let answer = client.describe_time_to_live().table_name(&stack.table).send().await;
    let answer = read("DescribeTimeToLive", &stack.table, answer)?;
    let status = answer.time_to_live_description().and_then(|expiry| expiry.time_to_live_status());
    Ok(status.is_some_and(|status| ["ENABLED", "ENABLING"].contains(&status.as_str())))
}

pub(super) async fn roles(
    stack: &Stack,
    queues: &[(Queue, Option<String>)],
    table: &Read<String>,
) -> Vec<Role> {
    let arns = |kind| -> Vec<String> {
        let of_kind = queues.iter().filter(|(queue, _)| queue.kind == kind);
        of_kind.filter_map(|(_, arn)| arn.clone()).collect()
    };
    let (campaigns, merge) = (arns(Kind::Campaign), arns(Kind::Merge));
    let dead = arns(Kind::DeadLetter);
    let (Some(dead_letter), Ok(ledger)) = (dead.first(), table) else {
        let why =
            table.clone().err().unwrap_or_else(|| "the queues' ARNs are not known".to_owned());
        let role = |kind| Role { kind, denied: Err(why.clone()) };
        return vec![role("scheduler"), role("poller")];
    };
    let feedback = feedback_arn(stack, dead_letter);
    let identities = identities(stack, dead_letter);
    let arns = Arns {
        campaigns: &campaigns,
        merge: merge.first().map(String::as_str),
        dead_letter,
        ledger,
        poller: &stack.poller_function.arn,
        feedback: feedback.as_deref(),
        identities: &identities,
    };
    let client = Client::new(stack.clients().config());
    let sender = stack.poller.allowed_senders.identities().next().map(from_address);
    let (scheduler, poller) = (&stack.scheduler_function.role, &stack.poller_function.role);
    let scheduled = denied(&client, scheduler, scheduler_needs(arns), None).await;
    let polled = denied(&client, poller, poller_needs(arns), sender.as_deref()).await;
    vec![Role { kind: "scheduler", denied: scheduled }, Role { kind: "poller", denied: polled }]
}

/// An address of a listed identity: a domain allows any local part.
fn from_address(identity: &str) -> String {
    if identity.contains('@') { identity.to_owned() } else { format!("news@{identity}") }
}

/// A queue beside another one: same partition, region and account.
fn feedback_arn(stack: &Stack, beside: &str) -> Option<String> {
    let config = stack.scheduler.feedback.as_ref()?;
    let url = QueueUrl::new(config.queue_url.as_str());
    let (place, _) = beside.rsplit_once(':')?;
    Some(format!("{place}:{}", url.name()))
}

/// The identities that mails are sent as: an address's may be its domain's.
fn identities(stack: &Stack, beside: &str) -> Vec<String> {
    let mut parts = beside.splitn(6, ':');
    let (_, partition, _, region, account) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next());
    let (Some(partition), Some(region), Some(account)) = (partition, region, account) else {
        return Vec::new();
    };
    let listed = stack.poller.allowed_senders.identities();
    let arn =
        |identity: &str| format!("arn:{partition}:ses:{region}:{account}:identity/{identity}");
    listed.map(arn).collect()
}

/// Of each need, the actions that are denied.
async fn denied(
    client: &Client,
    role: &str,
    needs: Vec<Needed>,
    from: Option<&str>,
) -> Read<Vec<(Needed, Vec<String>)>> {
    let mut found = Vec::new();
    for need in needs {
        let mut call = client
            .simulate_principal_policy()
            .policy_source_arn(role)
            .set_action_names(Some(need.actions.iter().map(|&action| action.to_owned()).collect()))
            .resource_arns(&need.resource);
        if let Some(from) = from.filter(|_| need.what == "a sender") {
            call = call.context_entries(
                ContextEntry::builder()
                    .context_key_name("ses:FromAddress")
                    .context_key_type(ContextKeyTypeEnum::String)
                    .context_key_values(from)
                    .build(),
            );
        }
        let answer = read("SimulatePrincipalPolicy", role, call.send().await)?;
        let refused = answer
            .evaluation_results()
            .iter()
            .filter(|result| *result.eval_decision() != PolicyEvaluationDecisionType::Allowed);
        let refused = refused.map(|result| result.eval_action_name().to_owned()).collect();
        found.push((need, refused));
    }
    Ok(found)
}
