"""What the template of one more campaign promises, beside the main template's own queues."""

from __future__ import annotations

import re
import unittest
from pathlib import Path
from typing import Any

import local_aws

SAM = Path(__file__).parent.parent / "sam"
TEMPLATE = SAM / "campaign.yaml"
ALIKE = ("VisibilityTimeout", "MessageRetentionPeriod", "MaximumMessageSize", "SqsManagedSseEnabled")


class CampaignTemplate(unittest.TestCase):
    template: dict[str, Any]
    queue: dict[str, Any]
    alarm: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.template = local_aws.read_template(TEMPLATE)
        cls.queue = cls.template["Resources"]["CampaignQueue"]["Properties"]
        cls.alarm = cls.template["Resources"]["AgeAlarm"]["Properties"]

    def allows(self, parameter: str, value: str) -> bool:
        pattern = self.template["Parameters"][parameter]["AllowedPattern"]
        return re.fullmatch(pattern, value) is not None

    def test_its_queue_is_like_the_main_templates(self) -> None:
        main = local_aws.read_template(SAM / "template.yaml")["Resources"]["FirstCampaignQueue"]
        for attribute in ALIKE:
            self.assertEqual(self.queue[attribute], main["Properties"][attribute], attribute)
        self.assertNotIn("RedrivePolicy", self.queue)
        self.assertNotIn("FifoQueue", self.queue)

    def test_the_scheduler_finds_it_by_its_name_and_its_tags(self) -> None:
        name = "${Stack}-campaign-${Campaign}"
        self.assertEqual(self.queue["QueueName"], {"Fn::If": [
            "HasPriority", {"Fn::Sub": name + "-${Priority}"}, {"Fn::Sub": name}]})
        def tag(key: str, parameter: str) -> dict[str, Any]:
            return {"Key": f"tidegate:{key}", "Value": {"Ref": parameter}}

        nothing = {"Ref": "AWS::NoValue"}
        self.assertEqual([given["Fn::If"] for given in self.queue["Tags"]], [
            ["HasPriority", nothing, tag("weight", "Weight")],
            ["HasPriority", tag("campaign", "Campaign"), nothing],
            ["HasPriority", tag("priority", "Priority"), nothing],
            ["HasTenant", tag("tenant", "Tenant"), nothing],
        ])
        self.assertEqual(self.template["Parameters"]["Priority"]["AllowedValues"], ["", "critical", "high", "low"])

    def test_only_what_the_scheduler_takes_can_be_given(self) -> None:
        weight = self.template["Parameters"]["Weight"]
        self.assertEqual((weight["MinValue"], weight["MaxValue"]), (1, 10000))
        for name in ("spring", "Spring-2026_b", "expressive", "a" * 64):
            self.assertTrue(self.allows("Campaign", name), name)
        for tenant in ("", "acme_EU-1", "a" * 64):
            self.assertTrue(self.allows("Tenant", tenant), tenant)
        for tenant in ("acme corp", "acme/eu", "a" * 65):
            self.assertFalse(self.allows("Tenant", tenant), tenant)
        for name in ("", "express", "first", "second", "a b", "é", "a/b", "a" * 65):
            self.assertFalse(self.allows("Campaign", name), name)

    def test_a_queues_name_has_room_for_the_stacks(self) -> None:
        self.assertTrue(self.allows("Stack", "s" * 68))
        self.assertFalse(self.allows("Stack", "s" * 69))
        self.assertEqual(len("s" * 68 + "-campaign-" + "ab"), 80)

    def test_nothing_reaches_it_without_tls(self) -> None:
        policy = self.template["Resources"]["CampaignQueuePolicy"]["Properties"]
        self.assertEqual(policy["Queues"], [{"Ref": "CampaignQueue"}])
        (statement,) = policy["PolicyDocument"]["Statement"]
        self.assertEqual((statement["Effect"], statement["Action"]), ("Deny", "sqs:*"))
        self.assertEqual(statement["Principal"], "*")
        self.assertEqual(statement["Condition"], {"Bool": {"aws:SecureTransport": "false"}})

    def test_old_mail_is_told_where_the_main_stack_tells_its_alarms(self) -> None:
        topic = [{"Fn::ImportValue": {"Fn::Sub": "${Stack}-AlarmTopic"}}]
        self.assertEqual(self.alarm["AlarmActions"], topic)
        self.assertEqual(self.alarm["OKActions"], topic)
        self.assertEqual(self.alarm["MetricName"], "ApproximateAgeOfOldestMessage")
        (dimension,) = self.alarm["Dimensions"]
        self.assertEqual(dimension["Value"], {"Fn::GetAtt": ["CampaignQueue", "QueueName"]})
        self.assertEqual(self.alarm["Threshold"], {"Ref": "AgeAlarmSeconds"})
        retention = self.queue["MessageRetentionPeriod"]
        self.assertEqual(self.template["Parameters"]["AgeAlarmSeconds"]["MaxValue"], retention)

    def test_every_parameter_and_output_is_described(self) -> None:
        for part in ("Parameters", "Outputs"):
            for name, value in self.template[part].items():
                self.assertTrue(value.get("Description"), name)


if __name__ == "__main__":
    unittest.main()
