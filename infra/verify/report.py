"""Figures of a run from the functions' logs, the bill by docs/cost.md's tariff, and the report's Markdown."""

import json
import math
import re
from bisect import bisect_left
from collections import Counter
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

REPORT = re.compile(r"^REPORT .*Billed Duration: (\d+) ms\s+Memory Size: (\d+) MB(?:.*Init Duration: ([\d.]+) ms)?")
PRICES = json.loads((Path(__file__).resolve().parent.parent / "cost" / "prices.json").read_text())
# Writes of a window to the ledger, at most.
WRITES = 3
# Bytes that CloudWatch adds to each line.
LINE_BYTES = 26
# Metrics of two campaigns, at most (docs/operations/metrics.md), and the template's alarms.
METRICS, ALARMS = 45, 7
HOURS_OF_A_MONTH = 730
# While mail waits, nothing that is done keeps all of it for more seconds, but for a rate below one a second.
LONGEST_GAP = 5.0


class Row(NamedTuple):
    """A line of a table."""

    name: str
    seen: str
    # Whether that is as promised; none where nothing is promised.
    holds: bool | None


class Step(NamedTuple):
    """Something that was done, from its effect on, and the recipients a second that it allows."""

    name: str
    began: float
    ended: float
    allowed: float


def dollars(**quantities: float) -> float:
    return sum(float(PRICES[name]["dollars"]) * quantity for name, quantity in quantities.items())


def of_times(times: list[float]) -> str:
    half, slow = (sorted(times)[math.ceil(len(times) * share) - 1] if times else math.nan for share in (0.5, 0.99))
    return f"p50 {half:.0f} ms, p99 {slow:.0f} ms of {len(times):,}"


class Figures:
    def __init__(self, lines: list[str]) -> None:
        events = [json.loads(line) for line in lines if line.startswith("{")]
        self.feedback = Counter(event["what"] for event in events if event.get("message") == "reported by SES")
        sent = [event for event in events if event.get("message") == "sent"]
        self.latencies = [float(event["latency_ms"]) for event in sent]
        ends = (datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp() for event in sent)
        self.starts = sorted(end - latency / 1e3 for end, latency in zip(ends, self.latencies, strict=True))
        reports = [report.groups() for line in lines if (report := REPORT.search(line))]
        self.invocations, self.init = len(reports), [float(init) for _, _, init in reports if init]
        self.gb_seconds = sum(int(ms) / 1e3 * int(mb) / 1024 for ms, mb, _ in reports)
        self.log_gb = sum(len(line.encode()) + LINE_BYTES for line in lines) / 1e9

    def worst_second(self) -> int:
        """Of all seconds, whenever they begin: the most mails that were begun in one."""
        return max((bisect_left(self.starts, start + 1) - place for place, start in enumerate(self.starts)), default=0)

    def of(self, step: Step) -> Row:
        """How much was sent during a step, and whether the step allows it."""
        starts, seconds = [start for start in self.starts if step.began <= start < step.ended], step.ended - step.began
        most, gap = math.ceil(step.allowed * seconds), max(b - a for a, b in pairwise([step.began, *starts, step.ended]))
        seen = f"{len(starts)} mails in {seconds:.0f} s, at most {most}; longest time without one {gap:.1f} s"
        return Row(step.name, seen, len(starts) <= most and (not most or gap <= max(LONGEST_GAP, 3 / step.allowed)))

    def bill(self, counters: dict[str, int], seconds: float) -> dict[str, float]:
        months, writes = (math.ceil(seconds / 3600) + 1) / HOURS_OF_A_MONTH, WRITES * counters.get("windows", 0)
        parts = {"Lambda": dollars(lambda_request=self.invocations, lambda_gb_s_arm64=self.gb_seconds),
                 "SQS": dollars(sqs_fifo=counters.get("sqs_calls", 0)), "SES": dollars(ses_mail=counters.get("sent", 0)),
                 "DynamoDB": dollars(dynamodb_write=writes, dynamodb_read=writes),
                 "CloudWatch": dollars(log_gb=self.log_gb, metric=METRICS * months, alarm=ALARMS * months)}  # fmt: skip
        return parts | {"all": sum(parts.values())}


def table(rows: list[Row]) -> str:
    said = {True: "yes", False: "**no**", None: ""}
    return "\n".join(["| | seen | as promised |", "|---|---|---|", *(f"| {name} | {seen} | {said[holds]} |" for name, seen, holds in rows)])


def masked(text: str) -> str:
    """Without an account's number and without an address."""
    return re.sub(r"\b\d{12}\b", "ACCOUNT", re.sub(r"[\w.+*-]+@(?=[\w-]+\.)", "***@", text))
