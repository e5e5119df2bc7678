"""What each function may do: every action, each on its own resources, and nothing else."""

from __future__ import annotations

import json
import unittest
from typing import Any

from sam_template import NAME, Rendered, stack
from test_support import actions, arn

POLLER = arn("lambda", f"function:{NAME}-poller")
LEDGER = "arn:aws:AWS::DynamoDB::Table"
SENDS = ("ses:SendEmail", "ses:SendRawEmail", "ses:SendTemplatedEmail")


def queue(name: str) -> str:
    return arn("sqs", f"{NAME}-{name}")


def log(function: str) -> str:
    return arn("logs", f"log-group:/aws/lambda/{NAME}-{function}:*")


def vpc(what: str) -> dict[str, dict[str, object]]:
    return {arn("ec2", what): {}}


DOMAINS = {queue(f"limit-{number}"): {} for number in range(1, 7)}
MAIL = {queue(name): {} for name in ("campaign-*", "express", "merge.fifo")} | DOMAINS
CAMPAIGNS = {queue("campaign-*"): {}}
BUCKET = "arn:aws:AWS::S3::Bucket"
STORE = {f"{BUCKET}/store/*": {}}
FAILED = {queue("failed-invocations"): {}}
ANYWHERE = {"*": {}}
SEND_WITH = {arn("ses", "template/*"): {}, arn("ses", "configuration-set/*"): {}}
SCHEDULER_MAY = {
    "logs:CreateLogStream": {log("scheduler"): {}},
    "logs:PutLogEvents": {log("scheduler"): {}},
    "lambda:InvokeFunction": {POLLER: {}},
    "dynamodb:BatchGetItem": {LEDGER: {}},
    "dynamodb:GetItem": {LEDGER: {}},
    "dynamodb:UpdateItem": {LEDGER: {}},
    "ses:GetAccount": ANYWHERE,
    "ses:GetTenant": {arn("ses", "tenant/*"): {}},
    "ses:ListTenantResources": {arn("ses", "tenant/*"): {}},
    "sns:Publish": {arn("sns", "mail-alarms"): {}},
    "sqs:SendMessage": FAILED | CAMPAIGNS,
    "sqs:GetQueueAttributes": MAIL,
    "s3:ListBucket": {BUCKET: {}},
    "s3:GetObject": STORE,
    "s3:PutObject": STORE,
    "s3:DeleteObject": STORE,
}
POLLER_MAY = {
    "logs:CreateLogStream": {log("poller"): {}},
    "logs:PutLogEvents": {log("poller"): {}},
    "dynamodb:BatchGetItem": {LEDGER: {}},
    "dynamodb:GetItem": {LEDGER: {}},
    "dynamodb:UpdateItem": {LEDGER: {}},
    "dynamodb:DeleteItem": {LEDGER: {}},
    "ses:GetAccount": ANYWHERE,
    "sqs:ReceiveMessage": MAIL,
    "sqs:DeleteMessage": MAIL,
    "sqs:ChangeMessageVisibility": MAIL,
    "sqs:GetQueueAttributes": {queue("merge.fifo"): {}} | DOMAINS,
    "s3:ListBucket": {BUCKET: {}},
    "s3:GetObject": STORE,
    "s3:PutObject": STORE,
    "s3:DeleteObject": STORE,
    "sqs:SendMessage": MAIL | {queue("dead-letter"): {}} | FAILED,
} | {action: {arn("ses", "identity/*"): {}} | SEND_WITH for action in SENDS}
FEEDBACK = {
    "sqs:ReceiveMessage": {queue("feedback"): {}},
    "sqs:DeleteMessage": {queue("feedback"): {}},
}
TAGS = {"sqs:ListQueues": ANYWHERE, "sqs:ListQueueTags": {queue("campaign-*"): {}}}
NETWORK = {
    "ec2:DescribeNetworkInterfaces": ANYWHERE,
    "ec2:DescribeSubnets": ANYWHERE,
} | {
    f"ec2:{action}": vpc("*/*")
    for action in (
        "CreateNetworkInterface",
        "DeleteNetworkInterface",
        "AssignPrivateIpAddresses",
        "UnassignPrivateIpAddresses",
    )
}
VPC = {"SubnetIds": "subnet-0a,subnet-0b", "SecurityGroupIds": "sg-0a"}
TRACES = {"xray:PutTraceSegments": ANYWHERE, "xray:PutTelemetryRecords": ANYWHERE}


def sms(*names: str) -> dict[str, dict[str, object]]:
    return {arn("sms-voice", f"{name}/*"): {} for name in names}


# In place of everything of SES.
TEXT_QUOTA = {
    "sms-voice:DescribePhoneNumbers": sms("phone-number"),
    "sms-voice:DescribeSpendLimits": ANYWHERE,
}
TEXTS = TEXT_QUOTA | {
    "sms-voice:SendTextMessage": sms("phone-number", "pool", "sender-id", "configuration-set")
}


def wide(of: Rendered, role: str) -> set[str]:
    return {action for action, resources in actions(of, role).items() if "*" in resources}


def without_ses(may: dict[str, Any]) -> dict[str, Any]:
    return {action: on for action, on in may.items() if not action.startswith("ses:")}


class Roles(unittest.TestCase):
    maxDiff = None

    def test_there_are_two_and_neither_has_a_policy_of_another(self) -> None:
        roles = stack().of_type("AWS::IAM::Role")
        self.assertEqual(set(roles), {"SchedulerRole", "PollerRole"})
        for name, role in roles.items():
            self.assertNotIn("ManagedPolicyArns", role, name)
            (trusted,) = role["AssumeRolePolicyDocument"]["Statement"]
            self.assertEqual(trusted["Principal"], {"Service": "lambda.amazonaws.com"}, name)

    def test_the_scheduler_may_do_this_and_no_more(self) -> None:
        for given, expected in (
            ({"Feedback": "off"}, SCHEDULER_MAY),
            ({}, SCHEDULER_MAY | FEEDBACK),
            ({"Campaigns": "ledger"}, SCHEDULER_MAY | FEEDBACK),
            ({"Campaigns": "tags"}, SCHEDULER_MAY | FEEDBACK | TAGS),
            ({"Tracing": "on", "Feedback": "off"}, SCHEDULER_MAY | TRACES),
            # What was put aside is brought back after Deferral went off; subnets are the poller's.
            ({"Deferral": "on", "Feedback": "off"} | VPC, SCHEDULER_MAY),
        ):
            with self.subTest(given):
                self.assertEqual(actions(stack(**given), "SchedulerRole"), expected)

    def test_the_poller_may_do_this_and_no_more(self) -> None:
        for given, expected in (
            ({}, POLLER_MAY),
            ({"Campaigns": "tags", "Feedback": "off"}, POLLER_MAY),
            # An update changes the role first: what was sent must still be deleted.
            ({"Mode": "direct", "ExpressQueue": "false"}, POLLER_MAY),
            ({"Deferral": "on", "Limits": "*=10%", "SharedBucket": "redis://a"}, POLLER_MAY),
            ({"Tracing": "on"}, POLLER_MAY | TRACES),
            (VPC, POLLER_MAY | NETWORK),
        ):
            with self.subTest(given):
                self.assertEqual(actions(stack(**given), "PollerRole"), expected)

    def test_a_stack_for_texts_may_do_nothing_with_ses_and_one_for_mail_nothing_with_texts(self) -> None:
        given = {"Channel": "sms", "AllowedSenders": "*@example.org"}
        made = stack(**given)
        scheduler = without_ses(SCHEDULER_MAY) | FEEDBACK | TEXT_QUOTA
        self.assertEqual(actions(made, "SchedulerRole"), scheduler)
        self.assertEqual(actions(made, "PollerRole"), without_ses(POLLER_MAY) | TEXTS)
        for text, channel in (("ses:", "sms"), ("AWS::SES", "sms"), ("sms-voice", "email"), ("SMSVOICE", "email")):
            for more in ({}, {"Alarms": "all", "Campaigns": "tags", "Feedback": "off"}):
                shown = json.dumps(stack(Channel=channel, **more).resources)
                self.assertNotIn(text, shown)

    def test_the_poller_sends_with_the_given_identities_as_the_given_senders(self) -> None:
        identities = [arn("ses", f"identity/{domain}") for domain in ("example.org", "example.net")]
        made = stack(
            SenderIdentityArns=",".join(identities), AllowedSenders="news@example.org,*@example.net"
        )
        senders = {"StringLike": {"ses:FromAddress": ["news@example.org", "*@example.net"]}}
        for action in SENDS:
            may = actions(made, "PollerRole")[action]
            self.assertEqual(may, {identity: senders for identity in identities} | SEND_WITH)
        variables = made.resources["PollerFunction"]["Environment"]["Variables"]
        self.assertEqual(variables["TIDEGATE_ALLOWED_SENDERS"], "news@example.org,*@example.net")

    def test_only_what_knows_no_resource_is_allowed_on_every_resource(self) -> None:
        made = stack(Campaigns="tags", Tracing="on", **VPC)
        self.assertEqual(wide(stack(Channel="sms"), "PollerRole"), {"sms-voice:DescribeSpendLimits"})
        network = {"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"}
        for role in ("SchedulerRole", "PollerRole"):
            self.assertLessEqual(wide(made, role), {"ses:GetAccount", "sqs:ListQueues", *TRACES, *network}, role)

    def test_no_action_is_a_pattern(self) -> None:
        for role in ("SchedulerRole", "PollerRole"):
            for action in actions(stack(Campaigns="tags", Tracing="on", **VPC), role):
                self.assertNotIn("*", action)


class AlarmTopic(unittest.TestCase):
    def test_cloudwatch_alone_may_publish_and_only_by_tls(self) -> None:
        made = stack().resources["AlarmTopicPolicy"]
        refused, allowed = made["PolicyDocument"]["Statement"]
        self.assertEqual(refused["Effect"], "Deny")
        self.assertEqual(refused["Condition"], {"Bool": {"aws:SecureTransport": "false"}})
        self.assertEqual(allowed["Effect"], "Allow")
        self.assertEqual(allowed["Principal"], {"Service": "cloudwatch.amazonaws.com"})
        self.assertEqual(allowed["Condition"], {"StringEquals": {"aws:SourceAccount": "123456789012"}})

    def test_an_address_is_subscribed_where_one_is_given(self) -> None:
        self.assertEqual(stack().of_type("AWS::SNS::Subscription"), {})
        (made,) = stack(AlarmEmail="ops@example.org").of_type("AWS::SNS::Subscription").values()
        self.assertEqual((made["Protocol"], made["Endpoint"]), ("email", "ops@example.org"))
        self.assertEqual(made["TopicArn"], arn("sns", f"{NAME}-alarms"))


if __name__ == "__main__":
    unittest.main()
