"""What the template promises once SAM has rendered it, and what the deployment does to it."""

from __future__ import annotations

import copy
import io
import tempfile
import unittest
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samtranslator.translator.transform import transform

import local_aws

TEMPLATE = Path(__file__).parent.parent / "sam" / "template.yaml"
NO_MANAGED_POLICIES = SimpleNamespace(load=dict)


def rendered() -> dict[str, Any]:
    template = copy.deepcopy(local_aws.read_template(TEMPLATE))
    for function in ("SchedulerFunction", "PollerFunction"):
        template["Resources"][function]["Properties"]["CodeUri"] = "s3://bucket/key"
    result: dict[str, Any] = transform(template, {}, NO_MANAGED_POLICIES)
    return result


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return {n: r["Properties"] for n, r in resources.items() if r["Type"] == kind}


def actions(role: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            action = statement["Action"]
            found |= {action} if isinstance(action, str) else set(action)
    return found


class RenderedTemplate(unittest.TestCase):
    resources: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.resources = rendered()["Resources"]

    def test_mail_that_waits_never_drifts_into_a_dead_letter_queue(self) -> None:
        for name, queue in of_type(self.resources, "AWS::SQS::Queue").items():
            self.assertNotIn("RedrivePolicy", queue, name)

    def test_every_queue_keeps_mail_encrypted_for_fourteen_days(self) -> None:
        queues = of_type(self.resources, "AWS::SQS::Queue")
        self.assertEqual(len(queues), 5)
        for name, queue in queues.items():
            self.assertEqual(queue["MessageRetentionPeriod"], 14 * 24 * 3600, name)
            self.assertIs(queue["SqsManagedSseEnabled"], True, name)

    def test_mail_does_not_come_back_while_its_poller_may_send_it(self) -> None:
        poller = self.resources["PollerFunction"]["Properties"]
        for name, queue in of_type(self.resources, "AWS::SQS::Queue").items():
            self.assertLess(poller["Timeout"], queue["VisibilityTimeout"], name)

    def test_the_queues_of_producers_leave_room_for_our_attributes(self) -> None:
        for name in ("FirstCampaignQueue", "SecondCampaignQueue", "ExpressMailQueue"):
            queue = self.resources[name]["Properties"]
            self.assertEqual(queue["MaximumMessageSize"], 1032192, name)

    def test_the_merge_queue_has_high_throughput(self) -> None:
        queue = self.resources["MergeQueue"]["Properties"]
        self.assertEqual(queue["DeduplicationScope"], "messageGroup")
        self.assertEqual(queue["FifoThroughputLimit"], "perMessageGroupId")

    def test_a_tick_is_not_retried(self) -> None:
        configurations = of_type(self.resources, "AWS::Lambda::EventInvokeConfig")
        self.assertEqual(len(configurations), 2)
        for name, configuration in configurations.items():
            self.assertEqual(configuration["MaximumRetryAttempts"], 0, name)
            self.assertEqual(configuration["MaximumEventAgeInSeconds"], 60, name)

    def test_the_scheduler_starts_every_minute(self) -> None:
        (rule,) = of_type(self.resources, "AWS::Events::Rule").values()
        self.assertEqual(rule["ScheduleExpression"], "rate(1 minute)")

    def test_each_function_may_do_what_it_does_and_no_more(self) -> None:
        roles = of_type(self.resources, "AWS::IAM::Role")
        self.assertEqual(set(roles), {"SchedulerRole", "PollerRole"})
        common = {
            "logs:CreateLogStream",
            "logs:PutLogEvents",
            "dynamodb:GetItem",
            "dynamodb:UpdateItem",
            "ses:GetAccount",
        }
        self.assertEqual(actions(roles["SchedulerRole"]), common | {"lambda:InvokeFunction"})
        self.assertEqual(
            actions(roles["PollerRole"]),
            common
            | {"dynamodb:DeleteItem"}
            | {"sqs:ReceiveMessage", "sqs:SendMessage", "sqs:DeleteMessage"}
            | {"sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes"}
            | {"ses:SendEmail", "ses:SendRawEmail", "ses:SendTemplatedEmail"},
        )


class Deployment(unittest.TestCase):
    def test_a_package_holds_one_executable_bootstrap(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            binary.write(b"\x7fELF")
            binary.flush()
            package = local_aws.zip_bootstrap(Path(binary.name))
            self.assertEqual(package, local_aws.zip_bootstrap(Path(binary.name)))
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            (entry,) = archive.infolist()
            self.assertEqual(entry.filename, "bootstrap")
            self.assertEqual(entry.external_attr >> 16, 0o100755)
            self.assertEqual(archive.read(entry), b"\x7fELF")

    def test_a_missing_binary_is_named(self) -> None:
        with self.assertRaisesRegex(local_aws.Failure, "/nowhere/poller.*build it first"):
            local_aws.zip_bootstrap(Path("/nowhere/poller"))

    def test_a_template_needs_the_binaries_of_its_functions_and_no_others(self) -> None:
        none = SimpleNamespace(scheduler=None, poller=None)
        queue = {"Resources": {"CampaignQueue": {"Type": "AWS::SQS::Queue"}}}
        self.assertEqual(local_aws.binaries_of(queue, none), {})
        function = {"Resources": {"PollerFunction": {"Type": "AWS::Serverless::Function"}}}
        with self.assertRaisesRegex(local_aws.Failure, "no binary for the template's PollerFunction"):
            local_aws.binaries_of(function, none)
        given = SimpleNamespace(scheduler=None, poller=Path("poller"))
        self.assertEqual(local_aws.binaries_of(function, given), {"PollerFunction": Path("poller")})

    def test_a_misspelt_parameter_is_refused_with_what_there_is(self) -> None:
        template = {"Parameters": {"Guard": {}}}
        with self.assertRaisesRegex(local_aws.Failure, "no parameter Gard; it has Guard"):
            local_aws.stack_parameters(template, [("Gard", "0.02")], "http://127.0.0.1:4566")

    def test_functions_are_given_the_endpoint_unless_told_another(self) -> None:
        template = {"Parameters": {"EndpointUrl": {}}}
        for given, expected in ([], "http://a"), ([("EndpointUrl", "http://b")], "http://b"):
            (parameter,) = local_aws.stack_parameters(template, given, "http://a")
            self.assertEqual(parameter["ParameterValue"], expected)

    def test_short_forms_are_read_as_the_long_ones(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("Resources: {A: !GetAtt B.C.D, E: !If [F, !Ref G, !Sub x]}")
            file.flush()
            resources = local_aws.read_template(Path(file.name))["Resources"]
        self.assertEqual(resources["A"], {"Fn::GetAtt": ["B", "C.D"]})
        self.assertEqual(resources["E"], {"Fn::If": ["F", {"Ref": "G"}, {"Fn::Sub": "x"}]})


if __name__ == "__main__":
    unittest.main()
