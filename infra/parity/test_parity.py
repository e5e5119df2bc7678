"""The SAM template and the CDK construct render the same stack.

Every difference is printed, one a line. What may differ stands in `ALLOWED` with its reason; a
difference that is no longer there must leave that list.
"""

from __future__ import annotations

import copy
import functools
import logging
import os
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samtranslator.translator.transform import transform

import cdk_app
import local_aws
from compare import Pairs, differences, pairs
from rendered import REGION, Rendered

# The translator counts what it does, and complains that nobody reads that.
logging.getLogger("samtranslator").setLevel(logging.CRITICAL)

INFRA = Path(__file__).parent.parent
NAME = "mail"
# The SAM template's queues are called first and second whatever the campaigns' names are.
CAMPAIGNS = {"FirstCampaignName": "first", "SecondCampaignName": "second"}
CASES: dict[str, dict[str, str]] = {
    "the defaults": {},
    "direct mode, one campaign, nothing around it": {
        "Mode": "direct",
        "SecondCampaignName": "",
        "Feedback": "off",
        "Schedule": "DISABLED",
        "Alarms": "all",
    },
    "text messages": {
        "Channel": "sms",
        "Origins": "+12065550100,NEWS",
        "AllowedCountries": "+1,+49",
        "Alarms": "all",
    },
    "text messages without receipts, on a local service": {
        "Channel": "sms",
        "Feedback": "off",
        "SesEndpointUrl": "http://127.0.0.1:4567",
    },
    "everything that can be switched on": {
        "ExpressQueue": "true",
        "AlarmEmail": "ops@example.org",
        "Alarms": "all",
        "AllowedSenders": "news@example.org,*@example.net",
        "SenderIdentityArns": f"arn:aws:ses:{REGION}:123456789012:identity/example.org",
        "Architecture": "x86_64",
        "PollerMemory": "512",
        "SchedulerMemory": "512",
        "ReservedConcurrency": "20",
        "Tracing": "on",
        "PointInTimeRecovery": "true",
        "LogRetentionDays": "7",
        "LogLevel": "warn",
        "Campaigns": "tags",
        "FirstCampaignWeight": "70",
        "SecondCampaignWeight": "30",
        "QuotaPerSecond": "14",
        "RateMargin": "0.05",
        "TickLeadMs": "300",
        "OverlapWindows": "5",
        "MaxInFlight": "100",
        "MaxAttempts": "3",
        "Unsent": "release",
        "IdleWindows": "10",
        "IdleWakeSeconds": "30",
        "Daily": "spread",
        "DailyReserve": "500",
        "Deduplication": "park",
        "DeduplicationDays": "20",
        "BreakerShare": "0.5",
        "BreakerSeconds": "120",
        "BreakerOutcomes": "50",
        "BreakerStopSeconds": "60",
        "BreakerProbeSeconds": "20",
        "Feedback": "count",
        "BounceShare": "0.1",
        "ComplaintShare": "0.002",
        "FeedbackMinimum": "5000",
        "AgeAlarmSeconds": "600000",
        "CampaignFloor": "10%",
        "Limits": "gmail.com+googlemail.com=10/s, *=25%",
        "SharedBucket": "{{resolve:secretsmanager:tidegate/bucket}}",
        "SharedBucketLost": "open",
        "SharedBucketPrefix": "mail",
        "SubnetIds": "subnet-0a1b2c3d,subnet-1b2c3d4e",
        "SecurityGroupIds": "sg-0a1b2c3d",
        "BackPressureBusy": "depth=4h,age=6h",
        "BackPressureOverloaded": "off",
        "Deferral": "on",
        "DeferralReplay": "off",
    },
}
ONE_CAMPAIGN = "direct mode, one campaign, nothing around it"
OWN_NAME = "SAM calls its queues first and second; in CDK a queue is its campaign's"
STAYS = "no parameter deletes a queue with mail in it; in CDK a campaign comes and goes as code"
QUEUES = f"https://sqs.{REGION}.amazonaws.com/123456789012"
# What may differ: the case, the beginning of the path, and the reason.
ALLOWED: dict[tuple[str, str], str] = {
    ("everything that can be switched on", "alarm mail-age-second AlarmDescription"): OWN_NAME,
    ("text messages", "alarm mail-age-second AlarmDescription"): OWN_NAME,
    (ONE_CAMPAIGN, "alarm mail-age-second"): STAYS,
    (ONE_CAMPAIGN, "queue mail-campaign-second"): STAYS,
    (ONE_CAMPAIGN, f"queue policy {QUEUES}/mail-campaign-second"): STAYS,
    (ONE_CAMPAIGN, "number of AWS::SQS::Queue"): STAYS,
    (ONE_CAMPAIGN, "number of AWS::CloudWatch::Alarm"): STAYS,
    (ONE_CAMPAIGN, "dashboard mail 'Alarms' alarms"): STAYS,
}


def allowed(case: str, line: str) -> tuple[str, str] | None:
    """The entry that lets a difference be."""
    return next((e for e in ALLOWED if e[0] == case and line.startswith(e[1])), None)


@functools.cache
def found_in(case: str) -> tuple[str, ...]:
    """The differences in a case."""
    given = CAMPAIGNS | CASES[case]
    return tuple(differences(sam(given), cdk(given)))


def sam(parameters: dict[str, str]) -> Pairs:
    template = copy.deepcopy(local_aws.read_template(INFRA / "sam" / "template.yaml"))
    for function in ("SchedulerFunction", "PollerFunction"):
        template["Resources"][function]["Properties"]["CodeUri"] = "s3://bucket/key"
    made: dict[str, Any] = transform(template, {}, SimpleNamespace(load=dict))
    # Parameters that a run gives; SAM itself fills in none.
    return pairs(Rendered(made, NAME, parameters))


def cdk(parameters: dict[str, str]) -> Pairs:
    app = INFRA / "cdk" / "build" / "bin" / "tidegate.js"
    return pairs(Rendered(cdk_app.synthesize(app, NAME, parameters), NAME))


class Parity(unittest.TestCase):
    maxDiff = None

    def test_both_templates_render_the_same_stack(self) -> None:
        for case in CASES:
            with self.subTest(case):
                unexpected = [line for line in found_in(case) if allowed(case, line) is None]
                if unexpected:
                    self.fail("\n" + "\n".join(unexpected))

    def test_what_may_differ_does(self) -> None:
        used = {allowed(case, line) for case in CASES for line in found_in(case)}
        self.assertEqual(set(ALLOWED) - used, set())

    def test_the_cases_give_every_parameter_a_value_that_is_not_its_default(self) -> None:
        template = local_aws.read_template(INFRA / "sam" / "template.yaml")
        for name, parameter in template["Parameters"].items():
            if name.endswith("EndpointUrl"):
                continue
            given = {case.get(name, str(parameter["Default"])) for case in CASES.values()}
            given |= {CAMPAIGNS.get(name, str(parameter["Default"]))}
            self.assertGreater(len(given | {str(parameter["Default"])}), 1, name)


if __name__ == "__main__":
    os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
    unittest.main()
