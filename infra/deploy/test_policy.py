"""The guide's policy of a role that deploys: what CloudFormation's own handlers ask for, and no more.

cfn-lint has the registry's schemas, in which AWS states the permissions of each type's handlers, and the service
authorization reference, which states on which resources an action may be allowed.
"""

from __future__ import annotations

import functools
import json
import re
import unittest
from pathlib import Path
from typing import Any

import cfnlint

import deploy

DATA = Path(cfnlint.__file__).parent / "data"
# A stack's resources are never listed; each has tags of CloudFormation's.
HANDLERS = ("create", "read", "update", "delete", "tagging")
# Services that only properties ask for which no resource of ours has.
OTHER_SERVICES = {"elasticfilesystem", "firehose", "kinesis", "kms", "s3files", "s3tables"}
# As are these actions: the reason, and what it makes needless.
NOT_USED = {
    "the topics have no data protection policy": {"sns:PutDataProtectionPolicy"},
    "a subscription is replaced, not changed": {"sns:SetSubscriptionAttributes"},
    "the ledger has no replica, import, stream, insight or policy": {
        "dynamodb:AssociateTableReplica", "dynamodb:BatchWriteItem", "dynamodb:CreateTableReplica",
        "dynamodb:DeleteItem", "dynamodb:DeleteResourcePolicy", "dynamodb:DescribeImport",
        "dynamodb:DisableKinesisStreamingDestination", "dynamodb:EnableKinesisStreamingDestination",
        "dynamodb:ImportTable", "dynamodb:PutItem", "dynamodb:PutResourcePolicy", "dynamodb:Query", "dynamodb:Scan",
        "dynamodb:UpdateContributorInsights", "dynamodb:UpdateItem", "dynamodb:UpdateKinesisStreamingDestination",
        "iam:CreateServiceLinkedRole", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents",
    },
    "the roles have neither managed policies nor a boundary nor a description": {
        "iam:AttachRolePolicy", "iam:DeleteRolePermissionsBoundary", "iam:PutRolePermissionsBoundary",
        "iam:UpdateRole", "iam:UpdateRoleDescription",
    },
    "the functions have no layers, versions, signed code or capacity, and no settings of recursion and runtime": {
        "lambda:DeleteFunctionCodeSigningConfig", "lambda:GetCodeSigningConfig", "lambda:GetLayerVersion",
        "lambda:PassCapacityProvider", "lambda:PublishVersion", "lambda:PutFunctionCodeSigningConfig",
        "lambda:PutFunctionRecursionConfig", "lambda:PutFunctionScalingConfig", "lambda:PutRuntimeManagementConfig",
    },
    "the logs have a retention and nothing else": {
        "logs:AssociateKmsKey", "logs:CreateLogDelivery", "logs:DeleteIndexPolicy", "logs:DeleteResourcePolicy",
        "logs:DisassociateKmsKey", "logs:PutBearerTokenAuthentication", "logs:PutDataProtectionPolicy",
        "logs:PutIndexPolicy", "logs:PutLogGroupDeletionProtection", "logs:PutResourcePolicy",
    },
    "the buckets have encryption, a lifecycle, an owner, versions, tags and no public access, and nothing else": {
        "s3:CreateBucketMetadataTableConfiguration", "s3:DeleteBucketMetadataTableConfiguration", "s3:DeleteBucketWebsite",
        "s3:PutAccelerateConfiguration", "s3:PutAnalyticsConfiguration", "s3:PutBucketAbac", "s3:PutBucketAcl",
        "s3:PutBucketCORS", "s3:PutBucketLogging", "s3:PutBucketNotification", "s3:PutBucketObjectLockConfiguration",
        "s3:PutBucketWebsite", "s3:PutIntelligentTieringConfiguration", "s3:PutInventoryConfiguration",
        "s3:PutMetricsConfiguration", "s3:PutObjectAcl", "s3:PutReplicationConfiguration",
        "s3:UpdateBucketMetadataAnnotationTableConfiguration", "s3:UpdateBucketMetadataInventoryTableConfiguration",
        "s3:UpdateBucketMetadataJournalTableConfiguration",
    },
    "SES's configuration set has options of reputation and sending alone": {
        "ses:PutConfigurationSetArchivingOptions", "ses:PutConfigurationSetDeliveryOptions",
        "ses:PutConfigurationSetSuppressionOptions", "ses:PutConfigurationSetTrackingOptions",
        "ses:PutConfigurationSetVdmOptions",
    },
    "that of texts has neither a sender of its own nor message feedback nor protection": {
        "sms-voice:AssociateProtectConfiguration", "sms-voice:DeleteDefaultSenderId",
        "sms-voice:DisassociateProtectConfiguration",
        "sms-voice:SetDefaultMessageFeedbackEnabled", "sms-voice:SetDefaultSenderId",
    },
}  # fmt: skip
# What is allowed for others than CloudFormation's handlers: who asks for it.
OTHERS = {
    "sam deploy, sam delete and this folder's commands, of stacks": {
        "cloudformation:CreateChangeSet", "cloudformation:DeleteChangeSet", "cloudformation:DeleteStack",
        "cloudformation:DescribeChangeSet", "cloudformation:DescribeStackEvents", "cloudformation:DescribeStacks",
        "cloudformation:ExecuteChangeSet", "cloudformation:GetTemplate", "cloudformation:GetTemplateSummary",
        "cloudformation:ListStackResources", "cloudformation:UpdateTerminationProtection",
        "cloudformation:ValidateTemplate",
    },
    "sam deploy and sam delete, of the bucket with the code": {
        "s3:DeleteObjectVersion", "s3:GetBucketLocation", "s3:PutObject",
    },
    "the check before a deployment, and the doctor after it": {
        "cloudwatch:GetMetricData", "lambda:GetAccountSettings", "lambda:GetFunctionConcurrency",
        "lambda:GetFunctionConfiguration", "ses:GetAccount", "ses:GetEmailIdentity",
        "ses:GetTenant", "ses:ListTenantResources", "sms-voice:DescribeAccountAttributes",
        "sms-voice:DescribePhoneNumbers", "sms-voice:DescribePools", "sms-voice:DescribeSenderIds",
        "sms-voice:DescribeSpendLimits",
    },
}  # fmt: skip
# Inline policies of a role have at most this many characters together, without white space.
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
LARGEST_POLICY = 10_240


@functools.cache
def schemas() -> dict[str, dict[str, Any]]:
    """The registry's schemas, by the names of their types."""
    read = (json.loads(path.read_text(encoding="utf-8")) for path in (DATA / "schemas" / "resources").glob("*.json"))
    return {schema["typeName"]: schema for schema in read}


@functools.cache
def reference() -> dict[str, Any]:
    """The service authorization reference, by service."""
    found: dict[str, Any] = json.loads((DATA / "AdditionalSpecs" / "Policies.json").read_text(encoding="utf-8"))
    return found


def known(action: str) -> dict[str, Any] | None:
    """What the reference says of an action; schemas have some that there are not."""
    service, name = action.split(":")
    found: dict[str, Any] | None = reference()[service]["Actions"].get(name.lower())
    return found


def arns(action: str) -> list[str]:
    """Patterns of the ARNs of the resources on which an action may be allowed; none: it knows no resources."""
    service = action.split(":")[0]
    kinds = (known(action) or {}).get("Resources", [])
    resources = (reference()[service]["Resources"].get(kind.lower(), {}) for kind in kinds)
    formats = [form for resource in resources for form in resource.get("ARNFormats", [])]
    return [re.sub(r"\$\{\w+\}", "[^:]*", form) for form in formats]


def asked(handlers: tuple[str, ...]) -> set[str]:
    """What these handlers of the template's types ask for."""
    types = {resource["Type"] for resource in deploy.sam_template.source()["Resources"].values()}
    parts = [schemas()[kind]["handlers"] | {"tagging": schemas()[kind].get("tagging", {})} for kind in types]
    found = {a for part in parts for handler in handlers for a in part.get(handler, {}).get("permissions", [])}
    return {a for a in found if a.split(":")[0] not in OTHER_SERVICES and known(a) is not None}


class Policy(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        guide = (deploy.INFRA.parent / "docs" / "deployment.md").read_text(encoding="utf-8")
        blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", guide, re.S)]
        self.policy, self.trust = blocks
        self.statements = self.policy["Statement"]
        self.allowed = {action for s in self.statements for action in _list(s["Action"])}
        self.not_used = set().union(*NOT_USED.values())

    def test_it_allows_what_cloudformations_handlers_of_the_templates_types_ask_for(self) -> None:
        self.assertEqual(sorted(asked(HANDLERS) - self.not_used - self.allowed), [])

    def test_it_allows_nothing_else_without_a_reason(self) -> None:
        others = set().union(*OTHERS.values())
        self.assertEqual(sorted(self.allowed - asked(HANDLERS)), sorted(others))

    def test_what_it_leaves_out_is_asked_for_by_a_handler_that_creates_or_updates_and_by_no_other(self) -> None:
        self.assertEqual(sorted(self.not_used - asked(("create", "update"))), [])
        # These ask for it whatever the resource has.
        self.assertEqual(sorted(self.not_used & asked(("read", "delete"))), [])
        self.assertEqual(sorted(self.not_used & self.allowed), [])

    def test_each_action_is_allowed_on_resources_that_it_knows_and_on_all_if_it_knows_none(self) -> None:
        for statement in self.statements:
            resources = _list(statement["Resource"])
            for action in _list(statement["Action"]):
                with self.subTest(statement["Sid"], action=action):
                    fits = any(re.fullmatch(form, resource) for form in arns(action) for resource in resources)
                    self.assertTrue(fits or resources == ["*"], resources)

    def test_no_action_and_no_resource_is_wider_than_named_but_for_reads_and_what_knows_none(self) -> None:
        for statement in self.statements:
            self.assertEqual([a for a in _list(statement["Action"]) if "*" in a], [], statement["Sid"])
            if "*" in _list(statement["Resource"]):
                reads = re.compile(r"[\w-]+:(Get|Describe|Validate)")
                wider = [a for a in _list(statement["Action"]) if not reads.match(a) and arns(a)]
                self.assertEqual(wider, [], statement["Sid"])
        (passes,) = [s for s in self.statements if s["Action"] == "iam:PassRole"]
        to = {"StringEquals": {"iam:PassedToService": "lambda.amazonaws.com"}}
        self.assertEqual(passes["Condition"], to)
        # A narrower permission hides composite alarms, among which the handler looks for the name, too.
        (alarms,) = [s for s in self.statements if "cloudwatch:DescribeAlarms" in s["Action"]]
        self.assertEqual(alarms["Resource"], "*")

    def test_it_fits_into_a_role(self) -> None:
        self.assertLess(len(json.dumps(self.policy, separators=(",", ":"))), LARGEST_POLICY)

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
