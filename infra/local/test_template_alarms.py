"""What the template promises of the alarms and the dashboard."""

from __future__ import annotations

import json
import re
import unittest
from typing import Any

from sam_template import INFRA, NAME, Rendered, stack
from test_support import arn

POLLER = {"Stack": "mail", "Function": "poller"}
SCHEDULER = {"Stack": "mail", "Function": "scheduler"}
AGE = "AWS/SQS ApproximateAgeOfOldestMessage"
Row = tuple[str, dict[str, str], str, int, int, float]


def queue(name: str) -> dict[str, str]:
    return {"QueueName": f"{NAME}-{name}"}


def function(name: str) -> dict[str, str]:
    return {"FunctionName": f"{NAME}-{name}"}


# Metric, dimensions, statistic, period, periods that are looked at, threshold.
ALARMS: dict[str, Row] = {
    "refusals": ("Tidegate Refused", POLLER, "Sum", 300, 1, 10),
    "dead-letters": (
        "AWS/SQS ApproximateNumberOfMessagesVisible",
        queue("dead-letter"),
        "Maximum",
        300,
        1,
        1,
    ),
    "held": ("Tidegate Holds", SCHEDULER, "Maximum", 60, 2, 1),
    "blocked": ("Tidegate BlockedWindows", POLLER, "Sum", 60, 1, 1),
    "age-first": (AGE, queue("campaign-first"), "Maximum", 300, 1, 864000),
    "age-second": (AGE, queue("campaign-second"), "Maximum", 300, 1, 864000),
    "age-express": (AGE, queue("express"), "Maximum", 300, 1, 864000),
    "age-merge": (AGE, queue("merge.fifo"), "Maximum", 300, 1, 864000),
    "age-dead-letter": (AGE, queue("dead-letter"), "Maximum", 300, 1, 864000),
    "minute-missed": ("AWS/Lambda Invocations", function("scheduler"), "Sum", 60, 3, 1),
    "ticks-failed": ("Tidegate TicksFailed", SCHEDULER, "Sum", 300, 1, 10),
    "quota-unknown": ("Tidegate QuotaUnknown", SCHEDULER, "Sum", 300, 1, 3),
    "ledger": ("Tidegate LedgerFailed", POLLER, "Sum", 60, 1, 3),
    "poller-errors": ("AWS/Lambda Errors", function("poller"), "Sum", 60, 1, 3),
    "scheduler-errors": ("AWS/Lambda Errors", function("scheduler"), "Sum", 60, 1, 1),
    "poller-throttles": ("AWS/Lambda Throttles", function("poller"), "Sum", 60, 1, 1),
    "scheduler-throttles": ("AWS/Lambda Throttles", function("scheduler"), "Sum", 60, 1, 1),
    "receive-count": ("Tidegate HighestReceiveCount", POLLER, "Maximum", 300, 1, 100),
    "bounce-rate": ("AWS/SES Reputation.BounceRate", {}, "Average", 3600, 1, 0.05),
    "complaint-rate": ("AWS/SES Reputation.ComplaintRate", {}, "Average", 3600, 1, 0.001),
}
ALARMS |= {
    "busy": ("Tidegate BackPressureLevel", SCHEDULER, "Maximum", 300, 12, 1),
    "overloaded": ("Tidegate BackPressureLevel", SCHEDULER, "Maximum", 300, 3, 2),
    "backlog-grows": ("Tidegate BacklogGrows", SCHEDULER, "Maximum", 300, 1, 1),
    "store-failed": ("Tidegate StoreFailed", POLLER, "Sum", 300, 1, 1),
    "refill-failed": ("Tidegate RefillFailed", SCHEDULER, "Sum", 900, 3, 1),
}
# Those of what is switched on by a parameter.
WITH: dict[str, tuple[dict[str, str], dict[str, Row]]] = {
    "a shared bucket": (
        {"SharedBucket": "redis://a"},
        {
            "bucket-lost": ("Tidegate BucketLost", POLLER, "Sum", 60, 1, 3),
            "bucket-refused": ("Tidegate BucketRefused", POLLER, "Sum", 300, 12, 1),
        },
    ),
    "limits": (
        {"Limits": "*=10%"},
        {"age-limits": (AGE, {f"QueueName {n}": f"{NAME}-limit-{n}" for n in range(1, 7)}, "Maximum", 300, 1, 864000)},
    ),
}
ALL = {"Alarms": "all"}
EVERYTHING = ALL | {name: value for given, _ in WITH.values() for name, value in given.items()}
# Those of the default, on metrics that cost nothing.
FEW = {
    "dead-letters", "minute-missed", "poller-errors", "scheduler-errors", "poller-throttles", "bounce-rate",
    "complaint-rate",
}  # fmt: skip
COMPARISONS = {
    "minute-missed": "LessThanThreshold",
    "receive-count": "GreaterThanThreshold",
}


def alarms(of: Rendered) -> dict[str, dict[str, Any]]:
    """By what follows the stack's name in theirs."""
    found = of.of_type("AWS::CloudWatch::Alarm")
    return {name.removeprefix(f"{NAME}-"): alarm for name, alarm in found.items()}


def of_several(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The alarm of the greatest of several metrics, as if it were one of all their dimensions."""
    whole, *single = metrics
    filled = ", ".join(f"FILL({metric['Id']}, 0)" for metric in single)
    assert whole["Expression"] == f"MAX([{filled}])", whole
    (kind,) = {json.dumps([m["MetricStat"]["Stat"], m["MetricStat"]["Period"], m["MetricStat"]["Metric"]["Namespace"],
                           m["MetricStat"]["Metric"]["MetricName"], m["ReturnData"]]) for m in single}  # fmt: skip
    statistic, period, namespace, name, returned = json.loads(kind)
    assert returned is False
    dimensions = [d | {"Name": f"{d['Name']} {n}"} for n, m in enumerate(single, 1) for d in m["MetricStat"]["Metric"]["Dimensions"]]
    return {"Namespace": namespace, "MetricName": name, "Dimensions": dimensions, "Statistic": statistic, "Period": period,
            "Metrics": None}


def row(alarm: dict[str, Any]) -> Row:
    if alarm.get("Metrics"):
        return row(alarm | of_several(alarm["Metrics"]))
    dimensions = {d["Name"]: d["Value"] for d in alarm.get("Dimensions", [])}
    return (
        f"{alarm['Namespace']} {alarm['MetricName']}",
        dimensions,
        alarm["Statistic"],
        alarm["Period"],
        alarm["EvaluationPeriods"],
        float(alarm["Threshold"]),
    )


def published() -> set[str]:
    """The metrics that the functions publish, as their source names them."""
    found: set[str] = set()
    for path in (INFRA.parent / "crates").glob("*/src/**/*.rs"):
        found |= set(re.findall(r'\(\s*"(\w+)",\s*Unit::', path.read_text(encoding="utf-8")))
    counters = (INFRA.parent / "crates/core/src/state/counters.rs").read_text(encoding="utf-8")
    return found | set(re.findall(r'\bSome\("(\w+)"\)', counters))


class Alarms(unittest.TestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.alarms = alarms(stack(**EVERYTHING))

    def test_these_are_the_alarms(self) -> None:
        plain = {name: row(alarm) for name, alarm in alarms(stack(**ALL)).items()}
        self.assertEqual(plain, ALARMS)
        for name, (given, more) in WITH.items():
            with self.subTest(name):
                found = {name: row(alarm) for name, alarm in alarms(stack(**ALL, **given)).items()}
                self.assertEqual(found, ALARMS | more)
                few = stack(**given)
                self.assertEqual(set(alarms(few)), FEW)
                self.assertEqual(few.of_type("AWS::CloudWatch::Dashboard"), {})
        texts = alarms(stack(Channel="sms"))
        self.assertEqual(set(texts), FEW - {"bounce-rate", "complaint-rate"})
        for name, alarm in self.alarms.items():
            expected = COMPARISONS.get(name, "GreaterThanOrEqualToThreshold")
            self.assertEqual(alarm["ComparisonOperator"], expected, name)

    def test_each_tells_the_topic_when_it_comes_and_when_it_goes(self) -> None:
        topic = arn("sns", f"{NAME}-alarms")
        for name, alarm in self.alarms.items():
            self.assertEqual(alarm["AlarmActions"], [topic], name)
            self.assertEqual(alarm["OKActions"], [topic], name)
            self.assertIsNot(alarm.get("ActionsEnabled", True), False, name)

    def test_each_says_what_to_do_in_what_a_mail_of_sns_holds(self) -> None:
        for name, alarm in self.alarms.items():
            description = alarm["AlarmDescription"]
            self.assertGreaterEqual(len(re.findall(r"[.:?;](?: |$)", description)), 2, name)
            self.assertLessEqual(len(description), 1024, name)

    def test_only_a_scheduler_that_says_nothing_is_missed(self) -> None:
        for name, alarm in self.alarms.items():
            expected = "breaching" if name == "minute-missed" else "notBreaching"
            self.assertEqual(alarm["TreatMissingData"], expected, name)
        self.assertEqual(self.alarms["minute-missed"]["DatapointsToAlarm"], 2)
        self.assertEqual(self.alarms["held"].get("DatapointsToAlarm", 2), 2)

    def test_a_scheduler_that_is_switched_off_is_not_missed(self) -> None:
        off = alarms(stack(Schedule="DISABLED"))
        silent = [name for name, alarm in off.items() if alarm.get("ActionsEnabled") is False]
        self.assertEqual(silent, ["minute-missed"])

    def test_the_age_that_alarms_is_a_parameter(self) -> None:
        for name, alarm in alarms(stack(AgeAlarmSeconds="600", **EVERYTHING)).items():
            if name.startswith("age-"):
                self.assertEqual(alarm["Threshold"], "600", name)

    def test_every_metric_of_ours_is_published(self) -> None:
        known = published()
        for name, alarm in self.alarms.items():
            if alarm.get("Namespace") == "Tidegate":
                self.assertIn(alarm["MetricName"], known, name)


class Dashboard(unittest.TestCase):
    def setUp(self) -> None:
        made = stack(**EVERYTHING)
        self.alarms = set(made.of_type("AWS::CloudWatch::Alarm"))
        self.queues = set(made.of_type("AWS::SQS::Queue"))
        dashboard = made.resources["Dashboard"]
        self.assertEqual(dashboard["DashboardName"], NAME)
        self.widgets = json.loads(dashboard["DashboardBody"])["widgets"]

    def metrics(self) -> list[list[Any]]:
        """Every row of every widget, written out: `...` repeats the row before, `.` one of its places."""
        found: list[list[Any]] = []
        for widget in self.widgets:
            before: list[str] = []
            for given in widget["properties"].get("metrics", []):
                texts = [place for place in given if isinstance(place, str)]
                if texts[:1] == ["..."]:
                    texts = before[:-1] + texts[1:]
                texts = [before[i] if place == "." else place for i, place in enumerate(texts)]
                before = texts or before
                found.append(texts + [place for place in given if isinstance(place, dict)])
        return found

    def test_it_shows_the_state_of_every_alarm(self) -> None:
        (widget,) = [widget for widget in self.widgets if widget["type"] == "alarm"]
        shown = {given.rsplit(":", 1)[1] for given in widget["properties"]["alarms"]}
        self.assertEqual(shown, self.alarms)
        for given in widget["properties"]["alarms"]:
            self.assertTrue(given.startswith(arn("cloudwatch", "alarm:")), given)

    def test_it_shows_no_alarm_that_there_is_not(self) -> None:
        for given in ({}, *(given for given, _ in WITH.values())):
            made = stack(**ALL, **given)
            body = made.resources["Dashboard"]["DashboardBody"]
            shown = set(re.findall(r":alarm:([\w-]+)", body))
            self.assertEqual(shown, set(made.of_type("AWS::CloudWatch::Alarm")))

    def test_it_shows_the_queues_that_come_and_go_and_the_limits(self) -> None:
        for title in ("Backlog, messages", "Age of the oldest message, seconds"):
            (widget,) = [w for w in self.widgets if w["properties"]["title"] == title]
            searches = [row[0]["expression"] for row in widget["properties"]["metrics"] if len(row) == 1]
            named = [re.search(r"QueueName=([\w-]+)", search)[1] for search in searches]
            self.assertEqual(named, [f"{NAME}-campaign", f"{NAME}-limit"], title)

    def test_every_metric_of_ours_is_published(self) -> None:
        known = published()
        shown = {row[1] for row in self.metrics() if row[0] == "Tidegate"}
        for row in self.metrics():
            if isinstance(row[0], dict) and "{Tidegate," in row[0]["expression"]:
                shown |= set(re.findall(r'MetricName="(\w+)"', row[0]["expression"]))
        self.assertEqual(shown - known, set())
        wanted = {"Sent", "Rate", "Quota", "SlotsSkipped", "SlotsUnused", "Refused", "Failed"}
        wanted |= {"DeadLettered", "Holds", "BlockedWindows", "HeldWindows", "Bounced"}
        wanted |= {"Complained", "Suppressed", "Dropped", "SqsCalls", "BackPressureLevel", "BacklogSeconds", "MeanAgeSeconds"}
        wanted |= {"Deferred", "Timed", "BroughtBack", "LimitMoved", "BucketRefused", "BucketLost"}
        self.assertEqual(wanted - shown, set())

    def test_it_shows_this_stacks_metrics_and_no_others(self) -> None:
        for row in self.metrics():
            if row[0] == "Tidegate":
                self.assertEqual(row[2:4], ["Stack", NAME], row)
            elif isinstance(row[0], dict) and "{Tidegate," in row[0]["expression"]:
                self.assertIn(f'{{Tidegate,Stack,Campaign}} Stack="{NAME}"', row[0]["expression"])

    def test_every_queue_it_names_is_the_stacks(self) -> None:
        named = {row[3] for row in self.metrics() if row[0] == "AWS/SQS"}
        self.assertEqual(named, {f"{NAME}-{n}" for n in ("express", "merge.fifo", "dead-letter")})
        self.assertLessEqual(named, self.queues)

    def test_widgets_stand_beside_and_below_each_other(self) -> None:
        taken: set[tuple[int, int]] = set()
        for widget in self.widgets:
            across = range(widget["x"], widget["x"] + widget["width"])
            down = range(widget["y"], widget["y"] + widget["height"])
            places = {(x, y) for x in across for y in down}
            self.assertEqual(places & taken, set(), widget["properties"]["title"])
            self.assertLessEqual(across.stop, 24)
            taken |= places


if __name__ == "__main__":
    unittest.main()
