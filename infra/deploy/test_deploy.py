"""What `make deploy` hands on to `sam deploy`, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from samcli.cli.types import CfnParameterOverridesType

import deploy

ROOT = deploy.INFRA.parent
KNOWN = deploy.sam_template.source()["Parameters"]


def written(text: str) -> dict[str, str]:
    """What a parameter file of this text says."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mail.yaml"
        path.write_text(text, encoding="utf-8")
        return deploy.read_parameters(path, KNOWN)


def environment(function: str, **given: str) -> dict[str, str]:
    """A stack of these parameters."""
    return deploy.environments(deploy.values({"Parameters": KNOWN}, given), "mail", "ap-southeast-1")[function]


class Parameters(unittest.TestCase):
    def test_lines_after_the_first_count_and_every_value_is_as_it_is_written(self) -> None:
        given = written(
            "SharedBucket: '{{resolve:secretsmanager:tidegate/bucket}}'\n"
            "SubnetIds: subnet-0a1b2c3d,subnet-1b2c3d4e\n"
            "# a comment\n"
            "Deferral: on\nExpressQueue: true\nRateMargin: 0.020\nSecondCampaignName:\n"
            'Campaigns: \'[{"name": "a", "queue_url": "https://q/$HOME", "weight": 1}]\'\n'
            "Limits: gmail.com+googlemail.com=10/s, *=25%\n"
        )
        self.assertEqual(given["SubnetIds"], "subnet-0a1b2c3d,subnet-1b2c3d4e")
        self.assertEqual(given["SharedBucket"], "{{resolve:secretsmanager:tidegate/bucket}}")
        self.assertEqual((given["Deferral"], given["ExpressQueue"]), ("on", "true"))
        self.assertEqual((given["RateMargin"], given["SecondCampaignName"]), ("0.020", ""))
        self.assertIn("https://q/$HOME", given["Campaigns"])
        self.assertEqual(given["Limits"], "gmail.com+googlemail.com=10/s, *=25%")

    def test_an_empty_file_gives_nothing(self) -> None:
        self.assertEqual(written(""), {})

    def test_what_is_no_parameter_is_refused_by_its_name(self) -> None:
        for text, said in (
            ("Moed: direct", "the template has no parameter Moed; it has Channel, "),
            ("Architecture: x86_64", "Architecture is given by make's ARCH"),
            ("Channel: sms", "Channel is given by make's CHANNEL"),
            ("Campaigns: [{name: a}]", "Campaigns is not one text"),
            ("Mode", "holds no parameters"),
            ("a: [", "is not YAML"),
        ):
            with self.subTest(text), self.assertRaisesRegex(deploy.Refused, said):
                written(text)

    def test_sam_hands_every_value_on_as_it_is(self) -> None:
        texts = ("", " ", "a b", '[{"name": "a\\"b"}]', '"quoted"', "'", "\\ ", "\\\\ ", "\\'x\\\"", "$HOME",
                 "{{resolve:secretsmanager:a}}", "Name=value", "a,b")  # fmt: skip
        given = {f"P{place}": deploy.for_sam(text) for place, text in enumerate(texts)}
        handed = CfnParameterOverridesType().convert(given, None, None)
        self.assertEqual(list(handed.values()), list(texts))

    def test_every_parameter_is_given_so_that_a_new_default_reaches_a_stack_that_is_there(self) -> None:
        values = deploy.values(deploy.sam_template.source(), {"Mode": "direct"})
        self.assertEqual(set(values), set(KNOWN))
        self.assertEqual((values["Mode"], values["RateMargin"]), ("direct", "0.01"))


class Stack(unittest.TestCase):
    WANTED = {"Mode": "merge", "RateMargin": "0.03", "SharedBucket": ""}

    def check(self, values: dict[str, str], given: set[str], variables: dict[str, str] | None = None) -> None:
        defaults = {"Mode": "merge", "RateMargin": "0.02", "SharedBucket": ""}
        client = mock.Mock()
        client.describe_stacks.return_value = {"Stacks": [{
            "StackStatus": "CREATE_COMPLETE",
            "Parameters": [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items()],
            "Outputs": [{"OutputKey": "PollerFunction", "OutputValue": "mail-poller"}],
        }]}  # fmt: skip
        client.get_template_summary.return_value = {"Parameters": [
            {"ParameterKey": name, "DefaultValue": value} for name, value in defaults.items()
        ]}  # fmt: skip
        client.get_function_configuration.return_value = {"Environment": {"Variables": variables or {}}}
        with mock.patch("boto3.client", return_value=client):
            there = deploy.Deployed(deploy.parse(["check", "--stack", "mail"]))
        there.check_nothing_is_lost(self.WANTED, given, "mail.yaml")

    def test_what_was_left_at_its_default_follows_to_the_new_one(self) -> None:
        self.check({"Mode": "merge", "RateMargin": "0.02", "SharedBucket": "****"}, set())

    def test_a_value_that_the_file_does_not_say_is_not_lost_unseen(self) -> None:
        with self.assertRaisesRegex(deploy.Refused, r'mail.yaml does not say(.|\n)*Mode: "direct"'):
            self.check({"Mode": "direct", "RateMargin": "0.02"}, {"RateMargin"})
        self.check({"Mode": "direct", "RateMargin": "0.02"}, {"Mode"})

    def test_a_shared_bucket_is_not_lost_though_its_value_is_not_shown(self) -> None:
        with self.assertRaisesRegex(deploy.Refused, "SharedBucket: .its value is not shown"):
            self.check({"SharedBucket": "****"}, set(), {"TIDEGATE_SHARED_BUCKET": "redis://a"})
        self.check({"SharedBucket": "****"}, {"SharedBucket"}, {"TIDEGATE_SHARED_BUCKET": "redis://a"})


class Account(unittest.TestCase):
    TEXTS = {"TIDEGATE_CHANNEL": "sms"}

    def there(self, variables: dict[str, str] | None, most: int = 1000, left: int = 1000, kept: int = 0) -> Any:
        """A stack whose poller has these variables and `kept` reserved executions; one that was never deployed has
        none. The account may run `most` functions at a time, and `left` of them without a reservation."""
        outputs = [] if variables is None else [{"OutputKey": "PollerFunction", "OutputValue": "texts-poller"}]
        client = mock.Mock()
        client.meta.region_name = "eu-west-1"
        limit = {"ConcurrentExecutions": most, "UnreservedConcurrentExecutions": left}
        client.get_account_settings.return_value = {"AccountLimit": limit}
        client.get_function_concurrency.return_value = {"ReservedConcurrentExecutions": kept} if kept else {}
        stack = {"StackStatus": "CREATE_COMPLETE", "Outputs": outputs}
        client.describe_stacks.return_value = {"Stacks": [stack]}
        client.get_function_configuration.return_value = {"Environment": {"Variables": variables}}
        return mock.patch("boto3.client", return_value=client)

    def run_with(self, command: str, *more: str) -> None:
        args = deploy.parse([command, "--stack", "texts", *more])
        args.run(args)

    def test_a_stack_is_not_turned_to_another_channel(self) -> None:
        for variables, given, said in (
            (self.TEXTS, (), "the stack texts sends sms, and this would make it send email.*CHANNEL=sms"),
            (self.TEXTS, ("--channel", "email"), "sends sms, and this would make it send email"),
            ({}, ("--channel", "sms"), "sends email, and this would make it send sms.*CHANNEL=email"),
        ):
            with self.subTest(said), self.there(variables), self.assertRaisesRegex(deploy.Refused, said):
                self.run_with("check", *given)
        for variables, given in ((self.TEXTS, ("--channel", "sms")), ({}, ()), (None, ()), (None, ("--channel", "sms"))):
            with self.subTest(given), self.there(variables):
                self.run_with("check", *given)

    def test_settings_of_the_cdk_app_say_no_other_channel_than_make(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.there(None):
            settings = Path(folder) / "texts.json"
            settings.write_text('{"channel": "sms"}', encoding="utf-8")
            given = ("--settings", str(settings))
            with self.assertRaisesRegex(deploy.Refused, "texts.json: channel is sms, and make is told email"):
                self.run_with("check", *given)
            self.run_with("check", "--channel", "sms", *given)

    def test_an_account_of_10_concurrent_executions_is_told_what_to_ask_for_before_anything_is_deployed(self) -> None:
        said = "may run 10 functions at the same time in eu-west-1, and Tidegate needs 20(.|\n)*--quota-code L-B99A9384"
        given = ("--architecture", "arm64", "--binaries", ".", "--tidegate", ".")
        for command, more in (("deploy", given), ("check", ())):
            for variables in (None, {}):
                with self.subTest(command), self.there(variables, most=10, left=10), \
                        mock.patch.object(deploy, "sam") as sam, self.assertRaisesRegex(deploy.Refused, said):
                    self.run_with(command, *more)
                sam.assert_not_called()
        with self.there(None, most=20, left=20):
            self.run_with("check")

    def test_a_reservation_that_lambda_would_refuse_is_refused_before_anything_is_deployed(self) -> None:
        said = "ReservedConcurrency 30 leaves 99 to other functions, and Lambda wants 100 left"
        with tempfile.TemporaryDirectory() as folder:
            settings = Path(folder) / "mail.json"
            settings.write_text('{"reservedConcurrency": 30}', encoding="utf-8")
            given = ("--settings", str(settings))
            with self.there(None, left=129), self.assertRaisesRegex(deploy.Refused, said):
                self.run_with("check", *given)
            with self.there(None, left=130):
                self.run_with("check", *given)
            # What the poller has is not taken twice.
            with self.there({}, left=100, kept=30):
                self.run_with("check", *given)
            settings.write_text("ReservedConcurrency: 30", encoding="utf-8")
            sam = ("deploy", "--architecture", "arm64", "--binaries", ".", "--tidegate", ".", *given)
            with self.there(None, left=129), self.assertRaisesRegex(deploy.Refused, said):
                self.run_with(*sam)

    def test_the_least_concurrency_is_that_of_the_doctor_and_of_the_guide(self) -> None:
        doctor = (ROOT / "crates/operator/src/doctor/functions.rs").read_text(encoding="utf-8")
        self.assertIn(f"LEAST_CONCURRENCY: i64 = {deploy.LEAST_CONCURRENCY};", doctor)
        guide = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
        self.assertRegex(guide, rf"`ConcurrentExecutions` of {deploy.LEAST_CONCURRENCY} or\s+more")

    def test_both_ways_to_deploy_ask_before_they_do(self) -> None:
        given = ("--architecture", "arm64", "--binaries", ".", "--tidegate", ".")
        with self.there(self.TEXTS), mock.patch.object(deploy, "sam") as sam:
            with self.assertRaisesRegex(deploy.Refused, "sends sms"):
                self.run_with("deploy", *given)
            sam.assert_not_called()
        for channel, asked in ((), "email"), (("CHANNEL=sms",), "sms"):
            dry = ["make", "--dry-run", "deploy-cdk", "STACK=texts", *channel]
            said = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True).stdout
            said = " ".join(said.split())
            asks = said.index(f'check --stack "texts" --channel {asked}')
            self.assertLess(asks, said.index("cdk deploy"))


class Settings(unittest.TestCase):
    def test_the_functions_environments_are_those_of_the_parameters(self) -> None:
        given = {"MaxInFlight": "800", "SharedBucket": "{{resolve:secretsmanager:a}}", "Deferral": "on"}
        found = environment("poller", **given)
        self.assertEqual(found["TIDEGATE_MAX_IN_FLIGHT"], "800")
        # As long as AWS's may be.
        self.assertRegex(found["TIDEGATE_SHARED_BUCKET"], "^rediss://s{247}$")
        self.assertRegex(found["TIDEGATE_LEDGER"], "^dynamodb:mail-LedgerTable-[A-Z]{13}$")
        self.assertRegex(environment("scheduler", **given)["TIDEGATE_STORE"], "^s3://b{63}/store$")
        self.assertIn("ap-southeast-1", found["TIDEGATE_DEAD_LETTER_QUEUE_URL"])

    def test_nothing_is_deployed_where_the_functions_would_not_start(self) -> None:
        with mock.patch.object(deploy.subprocess, "run", return_value=mock.Mock(returncode=1)):
            with self.assertRaisesRegex(deploy.Refused, "nothing was deployed"):
                deploy.check_settings(Path("tidegate"), {"poller": environment("poller")})


class Make(unittest.TestCase):
    def test_the_binaries_of_another_target_directory_are_those_that_are_deployed(self) -> None:
        ran = subprocess.run(
            ["make", "--dry-run", "deploy", "CARGO_TARGET_DIR=/else/where"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.assertIn('--binaries "/else/where/lambda"', ran.stdout)
        template = deploy.TEMPLATE.read_text(encoding="utf-8")
        self.assertEqual(template.count(f"Code: {deploy.BINARIES}/"), len(deploy.FUNCTIONS))


if __name__ == "__main__":
    sys.exit(unittest.main())
