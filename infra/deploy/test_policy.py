"""The guide's policy of a role that deploys covers what the template makes, and lets it do no more."""

from __future__ import annotations

import json
import re
import unittest

import deploy

# The prefixes of the actions by which CloudFormation makes, changes and deletes a type.
NEEDED = {
    "AWS::CloudWatch::Alarm": {"cloudwatch:PutMetricAlarm", "cloudwatch:DeleteAlarms"},
    "AWS::CloudWatch::Dashboard": {"cloudwatch:PutDashboard", "cloudwatch:DeleteDashboards"},
    "AWS::DynamoDB::Table": {"dynamodb:CreateTable", "dynamodb:UpdateTable", "dynamodb:DeleteTable",
                             "dynamodb:UpdateTimeToLive"},
    "AWS::Events::Rule": {"events:PutRule", "events:PutTargets", "events:RemoveTargets", "events:DeleteRule"},
    "AWS::IAM::Role": {"iam:CreateRole", "iam:PutRolePolicy", "iam:DeleteRolePolicy", "iam:DeleteRole",
                       "iam:PassRole"},
    "AWS::Lambda::EventInvokeConfig": {"lambda:PutFunctionEventInvokeConfig",
                                       "lambda:DeleteFunctionEventInvokeConfig"},
    "AWS::Lambda::Function": {"lambda:CreateFunction", "lambda:UpdateFunctionCode", "lambda:DeleteFunction",
                              "lambda:UpdateFunctionConfiguration"},
    "AWS::Lambda::Permission": {"lambda:AddPermission", "lambda:RemovePermission"},
    "AWS::Logs::LogGroup": {"logs:CreateLogGroup", "logs:PutRetentionPolicy", "logs:DeleteLogGroup"},
    "AWS::S3::Bucket": {"s3:CreateBucket", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration",
                        "s3:PutBucketOwnershipControls", "s3:PutBucketPublicAccessBlock"},
    "AWS::S3::BucketPolicy": {"s3:PutBucketPolicy", "s3:DeleteBucketPolicy"},
    "AWS::SES::ConfigurationSet": {"ses:CreateConfigurationSet", "ses:DeleteConfigurationSet"},
    "AWS::SES::ConfigurationSetEventDestination": {"ses:CreateConfigurationSetEventDestination",
                                                   "ses:DeleteConfigurationSetEventDestination"},
    "AWS::SMSVOICE::ConfigurationSet": {"sms-voice:CreateConfigurationSet", "sms-voice:DeleteConfigurationSet",
                                        "sms-voice:CreateEventDestination", "sms-voice:UpdateEventDestination",
                                        "sms-voice:DeleteEventDestination"},
    "AWS::SNS::Subscription": {"sns:Subscribe", "sns:Unsubscribe"},
    "AWS::SNS::Topic": {"sns:CreateTopic", "sns:DeleteTopic"},
    "AWS::SNS::TopicPolicy": {"sns:SetTopicAttributes"},
    "AWS::SQS::Queue": {"sqs:CreateQueue", "sqs:SetQueueAttributes", "sqs:DeleteQueue", "sqs:TagQueue"},
    "AWS::SQS::QueuePolicy": {"sqs:SetQueueAttributes"},
}  # fmt: skip


class Policy(unittest.TestCase):
    def setUp(self) -> None:
        guide = (deploy.INFRA.parent / "docs" / "deployment.md").read_text(encoding="utf-8")
        blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", guide, re.S)]
        self.policy, self.trust = blocks
        self.statements = self.policy["Statement"]

    def actions(self) -> set[str]:
        return {action for s in self.statements for action in _list(s["Action"])}

    def test_it_may_make_change_and_delete_each_type_that_the_template_has(self) -> None:
        types = {r["Type"] for r in deploy.sam_template.rendered()["Resources"].values()}
        self.assertEqual(types, set(NEEDED), "a type that the policy of this page does not know")
        for kind in types:
            self.assertEqual(NEEDED[kind] - self.actions(), set(), kind)

    def test_it_has_no_service_that_the_template_and_the_doctor_do_not_need(self) -> None:
        needed = {action.split(":")[0] for actions in NEEDED.values() for action in actions}
        services = {action.split(":")[0] for action in self.actions()}
        self.assertEqual(services - needed, {"cloudformation", "ec2"})

    def test_no_action_and_no_resource_is_wider_than_named_but_for_reads_that_know_no_resource(self) -> None:
        for statement in self.statements:
            self.assertEqual([a for a in _list(statement["Action"]) if "*" in a], [], statement["Sid"])
            if "*" in _list(statement["Resource"]):
                reads = [a for a in statement["Action"] if re.match(r"[\w-]+:(Get|Describe|Validate)", a)]
                self.assertEqual(reads, statement["Action"], statement["Sid"])
        (passes,) = [s for s in self.statements if s["Action"] == "iam:PassRole"]
        to = {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}
        self.assertEqual(passes["Condition"], to)

    def test_github_is_trusted_for_one_environment_of_one_repository(self) -> None:
        (statement,) = self.trust["Statement"]
        self.assertEqual(statement["Action"], "sts:AssumeRoleWithWebIdentity")
        self.assertEqual(set(statement["Condition"]), {"StringEquals"})
        subject = statement["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"]
        self.assertEqual(subject, "repo:OWNER/REPOSITORY:environment:production")


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


if __name__ == "__main__":
    unittest.main()
