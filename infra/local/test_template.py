"""What the template promises of its parameters, conditions, functions and outputs."""

from __future__ import annotations

import itertools
import json
import re
import unittest
from collections.abc import Iterator

from sam_template import NAME, Rendered, source, stack
from test_support import actions, arn

OFF = {"Schedule": "DISABLED"}
ON = {
    "ExpressQueue": "true",
    "QuotaPerSecond": "14",
    "MaxInFlight": "100",
    "ReservedConcurrency": "20",
    "Tracing": "on",
    "PointInTimeRecovery": "true",
    "AllowedSenders": "news@example.org,*@example.net",
    "SenderIdentityArns": "arn:aws:ses:eu-west-1:123456789012:identity/example.org",
    "CampaignFloor": "10%",
    "Limits": "gmail.com+googlemail.com=10/s, *=25%",
    "SharedBucket": "rediss://tidegate:secret@bucket.example.org:6379",
    "SubnetIds": "subnet-0a1b2c3d,subnet-1b2c3d4e",
    "SecurityGroupIds": "sg-0a1b2c3d",
    "BackPressureBusy": "depth=4h,age=6h,refused=5%",
    "BackPressureOverloaded": "off",
    "EndpointUrl": "http://127.0.0.1:4566",
    "SqsEndpointUrl": "http://127.0.0.1:4567",
    "SesEndpointUrl": "http://127.0.0.1:4568",
}
# What makes resources or stands in another condition: all of it with all, and with the rest off and on.
CROSSED = {
    "Campaigns": ["", "tags", "ledger", '[{"name": "a", "queue_url": "u", "weight": 1}]'],
    "SecondCampaignName": ["", "minor"],
    "Mode": ["merge", "direct"],
    "Channel": ["email", "sms"],
    "Feedback": ["off", "count", "hold"],
    "AlarmEmail": ["", "ops@example.org"],
    "Deferral": ["off", "on"],
}
# Lambda's limit of a function's environment, names and values together.
# CloudFormation's limit of a template that is uploaded first, as `sam deploy` does.
BODY_BYTES = 1_000_000


def combinations() -> Iterator[dict[str, str]]:
    for rest in (OFF, ON):
        for values in itertools.product(*CROSSED.values()):
            yield rest | dict(zip(CROSSED, values, strict=True))


class Parameters(unittest.TestCase):
    def test_each_is_described_and_stands_in_one_group(self) -> None:
        template = source()
        groups = template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]
        grouped = [name for group in groups for name in group["Parameters"]]
        self.assertEqual(sorted(grouped), sorted(template["Parameters"]))
        for name, parameter in template["Parameters"].items():
            self.assertIn("Description", parameter, name)
            self.assertIn("Default", parameter, name)

    def test_each_says_what_is_allowed(self) -> None:
        for name, parameter in source()["Parameters"].items():
            if parameter["Type"] == "Number":
                limited = {"MinValue", "MaxValue"} <= parameter.keys()
                self.assertTrue(limited or "AllowedValues" in parameter, name)
            elif "AllowedValues" not in parameter:
                self.assertIn("AllowedPattern", parameter, name)
                self.assertIn("ConstraintDescription", parameter, name)

    def test_patterns_take_what_they_should_and_nothing_else(self) -> None:
        parameters = source()["Parameters"]
        for name, good, bad in (
            ("ReservedConcurrency", ["0", "10", "999", "1000"], ["1", "9", "1001", "05", ""]),
            ("AllowedSenders", ["*", "a@b.org", "*@b.org"], ["b.org", "a b@c.org", "a@b@c", ""]),
            ("Campaigns", ["", "tags", "ledger", "[]"], ["tag", "Tags", "{}"]),
            ("Origins", ["*", "+12065550100", "NEWS", "pool-0a"], ["two words", "+0", ""]),
            ("AllowedCountries", ["*", "+1", "+1340"], ["49", "DE", "+0", ""]),
            ("AlarmEmail", ["", "ops@example.org"], ["ops", "a@b,c@d"]),
            ("CampaignFloor", ["0%", "9%", "12%", "90%"], ["91%", "9.5%", "10", "100%", ""]),
            (
                "Limits",
                [
                    "",
                    "*=25%",
                    "gmail.com+googlemail.com=10/s, tiny.example=6/m, *=25%",
                    "a.b=0.5/h,c.d=2/d",
                    ",".join(["a.b=1/s"] * 6),
                ],
                ["a.b", "a.b=10", "a.b=10/w", "a.b=1/s,", "=1/s", "a b=1/s", ",".join(["a.b=1/s"] * 7)],
            ),
            (
                "SharedBucket",
                [
                    "",
                    "redis://10.0.0.1:6379",
                    "rediss://user:password@bucket.example.org:6379",
                    "{{resolve:secretsmanager:tidegate/bucket:SecretString:url}}",
                ],
                ["bucket.example.org", "http://a", "redis://a b", "{{resolve:ssm-secure:a}}"],
            ),
            ("Traces", ["", "http://localhost:4318/v1/traces"], ["localhost:4318", "http://localhost", "http://a b/"]),
            ("TracesLayer", ["", "arn:aws:lambda:eu-west-1:123456789012:layer:otel:7"], ["otel", "arn:aws:lambda:eu-west-1:1:layer:a:1"]),
            ("EventBus", ["", "default", "a.b/c"], ["a b", "a,b", "arn:aws:events:eu-west-1:123456789012:event-bus/a"]),
            ("SharedBucketPrefix", ["tidegate", "mail-2", "a.b"], ["", "a b", "a:b", "a" * 33]),
            (
                "SubnetIds",
                ["", "subnet-0a1b2c3d", "subnet-0a1b2c3d4e5f60718,subnet-1b2c3d4e"],
                ["sg-0a1b2c3d", "subnet-0a", "subnet-0a1b2c3d,", "subnet-0a1b2c3d,,subnet-1b2c3d4e"],
            ),
            ("SecurityGroupIds", ["", "sg-0a1b2c3d", "sg-0a1b2c3d,sg-1b2c3d4e"], ["subnet-0a1b2c3d", "sg-", "sg-0a1b2c3d,"]),
            (
                "BackPressureBusy",
                ["", "off", "depth=4h", "depth=4h,age=6h,refused=5%", "refused=0.5%"],
                ["depth=4", "depth=4h,", "age=6%", "refused=5", "on", "a=1h"],
            ),
            ("BackPressureOverloaded", ["", "off", "age=2d"], ["age", "depth=h"]),
            (
                "SenderIdentityArns",
                ["*", "arn:aws:ses:eu-west-1:123456789012:identity/example.org"],
                ["example.org", "arn:aws:ses:eu-west-1:123456789012:template/x"],
            ),
        ):
            pattern = re.compile(parameters[name]["AllowedPattern"])
            for value in good:
                self.assertTrue(pattern.fullmatch(value), f"{name}={value}")
            for value in bad:
                self.assertFalse(pattern.fullmatch(value), f"{name}={value}")


class Combinations(unittest.TestCase):
    def test_every_combination_of_conditions_renders_a_whole_stack(self) -> None:
        count = 0
        for given in combinations():
            with self.subTest(given):
                # A reference to a resource that a condition leaves out would be a KeyError.
                made = stack(**given)
                for value in made.evaluate(list(self.outputs(made))):
                    self.assertTrue(value)
                for role in ("SchedulerRole", "PollerRole"):
                    self.assertTrue(actions(made, role))
                self.check_environment(given, made)
            count += 1
        self.assertEqual(count, 2 * 4 * 2 * 2 * 2 * 3 * 2 * 2)

    def outputs(self, made: Rendered) -> Iterator[object]:
        for output in source()["Outputs"].values():
            if "Condition" not in output or made.condition(output["Condition"]):
                yield output["Value"]

    def check_environment(self, given: dict[str, str], made: Rendered) -> None:
        scheduler = made.resources["SchedulerFunction"]["Environment"]["Variables"]
        poller = made.resources["PollerFunction"]["Environment"]["Variables"]
        tags = given["Campaigns"] == "tags"
        feedback = given["Feedback"] != "off"
        self.assertEqual("TIDEGATE_CAMPAIGN_QUEUES" in scheduler, tags)
        self.assertEqual("TIDEGATE_FEEDBACK_QUEUE_URL" in scheduler, feedback)
        self.assertEqual("TIDEGATE_CONFIGURATION_SET" in poller, feedback)
        for name in ("CHANNEL", "ORIGINS", "ALLOWED_COUNTRIES"):
            self.assertEqual(f"TIDEGATE_{name}" in poller, given["Channel"] == "sms")
        self.assertEqual("TIDEGATE_MERGE_QUEUE_URL" in poller, given["Mode"] == "merge")
        self.assertEqual("TIDEGATE_EXPRESS_QUEUE_URL" in poller, "ExpressQueue" in given)
        on = "Limits" in given
        self.assertEqual("TIDEGATE_LIMITS" in poller, on)
        for name in ("", "_LOST", "_PREFIX"):
            self.assertEqual(f"TIDEGATE_SHARED_BUCKET{name}" in poller, on)
            self.assertNotIn(f"TIDEGATE_SHARED_BUCKET{name}", scheduler)
        for level in ("BUSY", "OVERLOADED"):
            self.assertEqual(f"TIDEGATE_BACK_PRESSURE_{level}" in scheduler, on)
        self.assertEqual(poller["TIDEGATE_DEFERRAL"], given["Deferral"])
        # The scheduler measures how deep and how old they are.
        for name in ("CAMPAIGNS", "MERGE_QUEUE_URL", "EXPRESS_QUEUE_URL", "LIMIT_QUEUES", "STORE"):
            of_both = (variables.get(f"TIDEGATE_{name}") for variables in (scheduler, poller))
            self.assertEqual(len(set(of_both)), 1, name)
        if tags or given["Campaigns"] == "ledger":
            self.assertEqual(poller["TIDEGATE_CAMPAIGNS"], "ledger")
        else:
            listed = [c["name"] for c in json.loads(poller["TIDEGATE_CAMPAIGNS"])]
            both = ["main", *filter(None, [given["SecondCampaignName"]])]
            self.assertEqual(listed, ["a"] if given["Campaigns"] else both)
        for variables in (scheduler, poller):
            self.assertNotIn("", variables.values())


class Functions(unittest.TestCase):
    def test_neither_is_retried_and_what_fails_is_kept(self) -> None:
        configurations = stack().of_type("AWS::Lambda::EventInvokeConfig")
        self.assertEqual(len(configurations), 2)
        for name, configuration in configurations.items():
            self.assertEqual(configuration["MaximumRetryAttempts"], 0, name)
            self.assertEqual(configuration["MaximumEventAgeInSeconds"], 60, name)
            told = configuration["DestinationConfig"]["OnFailure"]["Destination"]
            self.assertEqual(told, arn("sqs", f"{NAME}-failed-invocations"), name)

    def test_the_scheduler_starts_every_minute(self) -> None:
        rules = stack().of_type("AWS::Events::Rule").values()
        (rule,) = [rule for rule in rules if "ScheduleExpression" in rule]
        self.assertEqual(rule["ScheduleExpression"], "rate(1 minute)")
        self.assertEqual(rule["State"], "ENABLED")

    def test_memory_architecture_tracing_and_concurrency_are_as_given(self) -> None:
        plain = stack().of_type("AWS::Lambda::Function")
        self.assertEqual(set(plain), {f"{NAME}-scheduler", f"{NAME}-poller"})
        for name, function in plain.items():
            self.assertEqual(function["Runtime"], "provided.al2023", name)
            self.assertEqual(function["Architectures"], ["arm64"], name)
            memory = {f"{NAME}-scheduler": 128, f"{NAME}-poller": 256}[name]
            self.assertEqual(int(function["MemorySize"]), memory, name)
            self.assertEqual(function["TracingConfig"], {"Mode": "PassThrough"}, name)
            self.assertNotIn("ReservedConcurrentExecutions", function, name)
        given = stack(Tracing="on", ReservedConcurrency="20", PollerMemory="512")
        functions = given.of_type("AWS::Lambda::Function")
        self.assertEqual(functions[f"{NAME}-poller"]["MemorySize"], "512")
        self.assertEqual(functions[f"{NAME}-poller"]["ReservedConcurrentExecutions"], "20")
        for name, function in functions.items():
            self.assertEqual(function["TracingConfig"], {"Mode": "Active"}, name)

    def test_the_poller_alone_is_put_into_subnets_where_some_are_given(self) -> None:
        given = {"SubnetIds": "subnet-0a,subnet-0b", "SecurityGroupIds": "sg-0a,sg-0b"}
        functions = stack(**given).of_type("AWS::Lambda::Function")
        self.assertEqual(
            functions[f"{NAME}-poller"]["VpcConfig"],
            {name: value.split(",") for name, value in given.items()},
        )
        self.assertNotIn("VpcConfig", functions[f"{NAME}-scheduler"])
        self.assertNotIn("VpcConfig", stack().of_type("AWS::Lambda::Function")[f"{NAME}-poller"])

    def test_subnets_need_security_groups_and_they_need_subnets(self) -> None:
        def refused(**given: str) -> list[str]:
            made = stack(**given)
            rules = source()["Rules"].values()
            in_force = [rule for rule in rules if made.evaluate(rule.get("RuleCondition", True))]
            asserted = [a for rule in in_force for a in rule["Assertions"]]
            return [a["AssertDescription"] for a in asserted if not made.evaluate(a["Assert"])]

        subnets, groups = {"SubnetIds": "subnet-0a,subnet-0b"}, {"SecurityGroupIds": "sg-0a"}
        bucket = {"SharedBucket": "redis://10.0.0.1"}
        self.assertEqual(refused(), [])
        self.assertEqual(refused(**bucket), [])
        self.assertEqual(refused(**bucket, **subnets, **groups), [])
        lonely = ["SubnetIds are there to reach SharedBucket, which is not given"]
        self.assertEqual(refused(**subnets, **groups), lonely)
        for given, expected in (
            (subnets, "SubnetIds need SecurityGroupIds; give both, or neither of them"),
            (groups, "SecurityGroupIds need SubnetIds; give both, or neither of them"),
        ):
            self.assertEqual(refused(**bucket, **given), [expected])

    def test_no_rule_asks_about_a_list_which_may_be_empty(self) -> None:
        text = json.dumps(source()["Rules"])
        asked = set(re.findall(r'{"Ref": "(\w+)"}', text))
        self.assertEqual({source()["Parameters"][name]["Type"] for name in asked}, {"String"})
        self.assertEqual(set(re.findall(r"Fn::\w+", text)), {"Fn::Equals", "Fn::Not"})

    def test_the_shared_buckets_password_is_shown_by_no_template_and_no_output(self) -> None:
        self.assertIs(source()["Parameters"]["SharedBucket"]["NoEcho"], True)
        secret = "rediss://user:secret@host:6379"
        made = stack(SharedBucket=secret)
        holders = [logical for logical, r in made.resources.items() if secret in json.dumps(r)]
        self.assertEqual(holders, ["PollerFunction"])
        self.assertNotIn("SharedBucket", json.dumps(source()["Outputs"]))


class Outputs(unittest.TestCase):
    def test_there_are_these_and_each_is_described(self) -> None:
        outputs = source()["Outputs"]
        queues = {"FirstCampaign", "SecondCampaign", "Express", "Merge", "DeadLetter", "Feedback"}
        queues |= {"FailedInvocations"}
        others = {"LedgerTable", "SchedulerFunction", "PollerFunction", "SchedulerLogGroup"}
        others |= {"LimitQueueUrls", "StoreBucket"}
        others |= {"PollerLogGroup", "AlarmTopic", "Dashboard", "ConfigurationSet"}
        self.assertEqual(set(outputs), {f"{name}QueueUrl" for name in queues} | others)
        for name, output in outputs.items():
            self.assertIn("Description", output, name)

    def test_campaigns_of_their_own_stack_find_the_alarm_topic(self) -> None:
        exported = stack().evaluate(source()["Outputs"]["AlarmTopic"]["Export"]["Name"])
        self.assertEqual(exported, f"{NAME}-AlarmTopic")


class Size(unittest.TestCase):
    def test_cloudformation_takes_the_template_once_it_is_uploaded(self) -> None:
        body = json.dumps(source(), separators=(",", ":"))
        self.assertLessEqual(len(body.encode()), BODY_BYTES)


if __name__ == "__main__":
    unittest.main()
