#!/usr/bin/env python3
"""What a Tidegate stack costs a month, by service, and what each setting changes.

Measured figures (calls and milliseconds of an idle minute, calls a mail) stand in measured.json;
what is assumed stands there too, under `assumed`. Prices: prices.json, us-east-1, free tiers not
subtracted. A month has 730 hours. SES is shown beside: it costs the same with any sender.

Exit code: 0 done; 2 an option is wrong, or measured.json cannot be read.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from prices import PRICES, price

MONTH = 730 * 3_600
HERE = Path(__file__).resolve().parent
METRICS = HERE.parents[1] / "crates/lambda/src"
COUNTERS = HERE.parents[1] / "crates/core/src/state/counters.rs"
LIMIT_QUEUES = 6
GB = 1e9
Measured = dict[str, Any]

SERVICES = ["Lambda", "SQS", "DynamoDB", "CloudWatch metrics", "CloudWatch logs",
            "CloudWatch alarms and dashboard", "EventBridge"]


@dataclass(frozen=True)
class Stack:
    """How a stack is set up, and what it sends; the template's defaults."""

    mails: int = 0
    rate: float = 14.0
    mode: str = "merge"
    architecture: str = "arm64"
    # The template's default, or more if the mail needs it.
    poller_mb: int | None = None
    scheduler_mb: int = 128
    idle_wake: int = 60
    idle_windows: int = 5
    deduplication: bool = False
    log_level: str = "info"
    retention_days: int = 30
    alarms: str = "few"
    campaigns: int = 2
    mail_kb: int = 4
    compressed: bool = True
    domain_groups: int = 0
    deferred_share: float | None = None
    bucket_zones: int = 0
    # Whether the mails are texts of one part.
    texts: bool = False

    @property
    def memory_mb(self) -> int:
        """The poller's memory, as `tidegate doctor` recommends it (core::memory)."""
        if self.poller_mb is not None:
            return self.poller_mb
        processor = 1_769 * self.rate * (0.7 + 0.016 * self.mail_kb) / 1e3 / 0.75
        room = 48 + self.rate * 0.4 * self.mail_kb * 1e3 * 5 / 0.75 / 2**20
        return max(256, math.ceil(max(processor, room)))

    @property
    def busy_seconds(self) -> float:
        return self.mails / self.rate


# By the parameter `Alarms`, without those of what is switched off by default. All come with a dashboard.
ALARMS = {"few": 7, "all": 23}
# Alarms on SES's reputation, which a stack for texts does not have.
SES_ALARMS = 2
# What only some stacks have, shown where they have it.
OPTIONAL = ["S3", "Shared bucket and the way to it"]

# The functions of metrics.rs whose metrics every stack publishes.
ALWAYS = {"poller": ("poller_metrics",),
          "scheduler": ("scheduler_metrics", "minute_metrics", "back_pressure_metrics")}
# The metrics of one feature alone are those of the counters whose names begin so.
FEATURES = {"domain": "Limit", "deferral": "Defer", "bucket": "Bucket"}
# A line of the list of counters that has a metric: the counter, and the metric.
COUNTER = re.compile(r'^    (\w+), "\w+", \w+, \w+, Some\("(\w+)"\)', re.MULTILINE)


def metrics_source() -> str:
    """The code that publishes metrics and the list of counters, without tests."""
    paths = [COUNTERS, METRICS / "metrics.rs", *sorted((METRICS / "metrics").glob("*.rs"))]
    found = [p.read_text(encoding="utf-8") for p in paths if p.exists() and p.stem != "tests"]
    return "\n".join(text.split("#[cfg(test)]", 1)[0] for text in found)


def metrics_of(source: str) -> dict[str, int]:
    """The metrics that the functions publish, by dimension, counted in the code that does."""
    code = source
    names = re.compile(r'\(\s*"(\w+)",\s*Unit::')
    lines = re.compile(r'\.dimension\("Campaign".*?\.into_value', re.DOTALL)
    campaign = {name for line in lines.findall(code) for name in names.findall(line)}
    parts = re.split(r"\bfn (\w+)", lines.sub("", code))
    made = {of: set(names.findall(body)) for of, body in zip(parts[1::2], parts[2::2])}
    none: set[str] = set()
    always = {of: len(none.union(*(made.get(name, none) for name in functions)))
              for of, functions in ALWAYS.items()}
    counters = [counter for counter, _ in COUNTER.findall(source)]
    features = {of: sum(counter.startswith(begin) for counter in counters)
                for of, begin in FEATURES.items()}
    always["poller"] += len(counters) - sum(features.values())
    return always | features | {"campaign": len(campaign)}


def units(size: float, unit: int) -> int:
    return math.ceil(size / unit)


def idle_minute(measured: Measured, stack: Stack) -> Measured:
    """A minute without mail, from the two that were measured."""
    every, asleep = measured["idle_minute"]["1"], measured["idle_minute"]["60"]
    if stack.idle_wake == 1:
        return scaled_looks(every, stack.idle_windows, measured)
    if stack.idle_wake == 60:
        return asleep
    # The scheduler stays until the minute's last check. Each counts the messages of three queues.
    more = math.ceil(60 / stack.idle_wake) - 1
    billed = asleep["scheduler"]["billed_ms"] + 1_000 * stack.idle_wake * more
    return asleep | {"sqs_calls": asleep["sqs_calls"] + 3 * more,
                     "scheduler": asleep["scheduler"] | {"billed_ms": billed}}


def scaled_looks(every: Measured, idle_windows: int, measured: Measured) -> Measured:
    """The minute of a tick a window, with another pause between looks than the 5 windows measured."""
    pause = max(idle_windows, 2)  # what is looked into in one window is not in the next
    looks = 60 / pause
    look = {"billed_ms": measured["assumed"]["look_ms"]}
    was = 60 / measured["assumed"]["idle_windows_measured"]
    change = looks - was
    calls = every["sqs_calls"] / was
    at_once = every["poller"]["billed_ms"] - was * look["billed_ms"]
    rest = max(at_once / max(every["poller"]["invocations"] - was, 1), 1)
    poller = every["poller"] | {
        "billed_ms": every["poller"]["billed_ms"] + change * (look["billed_ms"] - rest)}
    return every | {"sqs_calls": calls * looks, "poller": poller,
                    "ledger_writes": every["ledger_writes"] + change}


def monthly(stack: Stack, measured: Measured) -> dict[str, float]:
    """Dollars a month by service."""
    assumed, mail = measured["assumed"], measured["mail"]
    busy = stack.busy_seconds
    if busy > MONTH:
        raise ValueError(f"{stack.mails:,} mails at {stack.rate:g} a second take more than a month")
    quiet = (MONTH - busy) / 60
    minute = idle_minute(measured, stack)
    runs = MONTH / 60
    near = min(mail, key=lambda rate: abs(math.log(float(rate) / stack.rate)))
    of_mail = mail[near]
    # The measurement has a whole processor; 128 MB have a fourteenth of one.
    quiet_ms = max(minute["scheduler"]["billed_ms"], assumed["scheduler_asleep_ms"])
    scheduler_ms = (quiet_ms * quiet
                    + measured["idle_minute"]["1"]["scheduler"]["billed_ms"] * busy / 60)
    poller_ms = minute["poller"]["billed_ms"] * quiet + assumed["busy_window_ms"] * busy
    gb_s = (poller_ms * stack.memory_mb + scheduler_ms * stack.scheduler_mb) / 1e3 / 1024
    overlap = measured["idle_minute"]["1"]["poller"]["invocations"] / 60
    invocations = runs + minute["poller"]["invocations"] * quiet + overlap * busy
    # Two campaigns and the merge queue were looked into in the minute that was measured.
    looks = minute["sqs_calls"] * (stack.campaigns + 1) / 3
    calls = of_mail[f"sqs_calls_{stack.mode}"] * stack.mails + looks * quiet
    fifo = assumed["fifo_share_of_calls"] if stack.mode == "merge" else 0.0
    # Producers send in batches of ten.
    chunks = stack.mails * more_chunks(crossing_kb(stack, assumed))
    standard = stack.mails / 10 + chunks + more_calls(stack, quiet, busy)
    # Received from a campaign's queue; with a merge queue also sent to it, and received from it.
    standard += chunks
    to_fifo = 2 * chunks if stack.mode == "merge" else 0.0
    claims = minute["poller"]["invocations"]
    idle = ledger_window(stack, assumed, stack.campaigns)
    sending = ledger_window(stack, assumed, min(stack.campaigns, int(stack.rate)))
    # A claim in each window; a report in each that sends, and in one in so many that do not.
    reports = max(minute["ledger_writes"] - claims, 0)
    writes = (claims + reports * idle["report"]) * quiet + (1 + sending["report"]) * busy
    # A claim reads the parts; the scheduler, twice a minute (once for the level), the claim's item as well.
    reads = (claims * idle["read"] + minute["ledger_reads"] * (1 + idle["read"])) * quiet
    reads += (sending["read"] + 2 / 60 * (1 + sending["read"])) * busy
    marks = stack.mails * 2 if stack.deduplication else 0
    marks_gb = stack.mails * assumed["mark_bytes"] / GB * 0.5 if stack.deduplication else 0
    log = (minute["poller"]["log_bytes"] + minute["scheduler"]["log_bytes"]) * quiet
    log += assumed["busy_window_log_bytes"] * busy
    log += assumed["mail_log_bytes"] * stack.mails if stack.log_level == "debug" else 0
    kept = log * assumed["log_compression"] * stack.retention_days / 30
    series = metrics_of(metrics_source())
    published = series["poller"] + series["scheduler"] + series["campaign"] * stack.campaigns
    # Each feature's metrics, and the alarms that it brings.
    on = {"domain": (bool(stack.domain_groups), LIMIT_QUEUES),
          "deferral": (stack.deferred_share is not None, 2), "bucket": (bool(stack.bucket_zones), 2)}
    published += sum(series[feature] for feature, (is_on, _) in on.items() if is_on)
    alarms = ALARMS[stack.alarms] - (SES_ALARMS if stack.texts else 0)
    if stack.alarms == "all":
        alarms += sum(more for is_on, more in on.values() if is_on)
    return optional(stack, assumed) | {
        "Lambda": invocations * price("lambda_request")
        + gb_s * price(f"lambda_gb_s_{stack.architecture}"),
        "SQS": calls * ((1 - fifo) * price("sqs_standard") + fifo * price("sqs_fifo"))
        + standard * price("sqs_standard") + to_fifo * price("sqs_fifo"),
        "DynamoDB": (writes + marks) * price("dynamodb_write") + reads * price("dynamodb_read")
        + marks_gb * price("dynamodb_gb_month"),
        # Billed for the hours in which they are published: those with mail.
        "CloudWatch metrics": published * price("metric") * min(1.0, math.ceil(busy / 3_600) * 3_600 / MONTH),
        "CloudWatch logs": log / GB * price("log_gb") + kept / GB * price("log_gb_month"),
        "CloudWatch alarms and dashboard": alarms * price("alarm")
        + (price("dashboard") if stack.alarms == "all" else 0.0),
        # A schedule's own events are free.
        "EventBridge": 0.0,
    }


def crossing_kb(stack: Stack, assumed: Measured) -> float:
    """The size in which a mail crosses queues: core::compression leaves what is below 4 KB as it is."""
    is_worth = stack.compressed and stack.mail_kb > 4
    return stack.mail_kb / (assumed["compression"] if is_worth else 1.0)


def more_chunks(mail_kb: float) -> float:
    """Requests a mail, beside the call's own, of a batch of ten mails: each 64 KB of a call are one."""
    return (units(10 * mail_kb, 64) - 1) / 10


def ledger_window(stack: Stack, assumed: Measured, active: int) -> dict[str, float]:
    """Units of a window in the ledger: those that a report of so many campaigns writes, and those that
    a claim reads; the claim itself writes one. core::parts says how campaigns are spread."""
    parts = min(16, 2 ** math.ceil(math.log2(max(1.0, stack.campaigns / 64))))
    each = stack.campaigns / parts * assumed["ledger_campaign_bytes"]
    first = assumed["ledger_totals_bytes"] + each
    # Of the others, those that one of the campaigns is in.
    touched = (parts - 1) * (1 - (1 - 1 / parts) ** active)
    return {"report": units(first, 1_024) + touched * units(each, 1_024),
            "read": units(first, 4_096) + (parts - 1) * units(each, 4_096)}


def more_calls(stack: Stack, quiet: float, busy: float) -> float:
    """Calls to SQS of back-pressure, recipient domains and deferral, which the measurements do not hold."""
    groups = stack.domain_groups
    # A queue that no limit uses, and that never held mail, is not asked. A group's is asked once a window while there is mail, and like a campaign's while there is none.
    pause = max(stack.idle_windows, 2) if stack.idle_wake == 1 else stack.idle_wake
    calls = groups * (busy + quiet * 60 / pause)
    # The level: each queue's depth once a minute while anything waits.
    calls += (stack.campaigns + 2 + LIMIT_QUEUES) * busy / 60
    # What was put aside is put back, received and deleted once more, ten at a time.
    return calls + 0.3 * stack.mails * (stack.deferred_share or 0.0)


def optional(stack: Stack, assumed: Measured) -> dict[str, float]:
    """Dollars a month of services that only some stacks use."""
    found = {}
    if stack.deferred_share is not None:
        mails = stack.mails * stack.deferred_share
        objects = mails / min(stack.rate, assumed["deferral_mails_an_object"])
        # Written, its progress noted, read, deleted (free); the scheduler lists once a minute.
        writes = 2 * objects + MONTH / 60
        kept = mails * assumed["deferral_mail_bytes"] / GB * assumed["deferral_days"] / 30
        found["S3"] = (writes * price("s3_put") + objects * price("s3_get")
                       + kept * price("s3_gb_month"))
    if stack.bucket_zones:
        hours = MONTH / 3_600
        # SQS and SES by interface endpoints in each zone; DynamoDB and S3 by gateways, which are free.
        network = 2 * stack.bucket_zones * hours * price("endpoint_hour")
        through = stack.mails * assumed["endpoint_mail_bytes"] / GB * price("endpoint_gb")
        server = assumed["bucket_gb"] * hours * price("valkey_gb_hour")
        takes = stack.mails * assumed["bucket_ecpu_a_mail"] * price("valkey_ecpu")
        found["Shared bucket and the way to it"] = network + through + server + takes
    return found


SCENARIOS = {
    "idle": Stack(),
    "1 M mails, 14/s": Stack(mails=1_000_000, rate=14.0),
    "100 M mails, 200/s": Stack(mails=100_000_000, rate=200.0),
}

TEXTS = {
    "idle, texts": Stack(texts=True),
    "1 M texts, 14 parts/s": Stack(texts=True, mails=1_000_000, rate=14.0),
    "1 M texts, 100 parts/s": Stack(texts=True, mails=1_000_000, rate=100.0),
}

KNOBS: dict[str, dict[str, Any]] = {
    "300 campaigns": {"campaigns": 300},
    "1,000 campaigns": {"campaigns": 1_000},
    "`Mode` direct": {"mode": "direct"},
    "mails of 30 KB": {"mail_kb": 30},
    "mails of 30 KB, `Mode` direct": {"mail_kb": 30, "mode": "direct"},
    "mails of 30 KB, none compressed": {"mail_kb": 30, "compressed": False},
    "`PollerMemory` 128": {"poller_mb": 128},
    "`PollerMemory` 512": {"poller_mb": 512},
    "`SchedulerMemory` 256": {"scheduler_mb": 256},
    "`IdleWakeSeconds` 30": {"idle_wake": 30},
    "`IdleWakeSeconds` 10": {"idle_wake": 10},
    "`IdleWakeSeconds` 5": {"idle_wake": 5},
    "`IdleWakeSeconds` 1": {"idle_wake": 1},
    "`IdleWakeSeconds` 1, `IdleWindows` 1": {"idle_wake": 1, "idle_windows": 1},
    "`IdleWakeSeconds` 1, `IdleWindows` 30": {"idle_wake": 1, "idle_windows": 30},
    "`Deduplication` resend": {"deduplication": True},
    "`LogLevel` info,tidegate=debug": {"log_level": "debug"},
    "`LogRetentionDays` 365": {"retention_days": 365},
    "`Alarms` all": {"alarms": "all"},
    "`Architecture` x86_64": {"architecture": "x86_64"},
    "`Limits`, 3 groups": {"domain_groups": 3},
    "`Deferral`, 1 % deferred": {"deferred_share": 0.01},
    "`SharedBucket`, new, 2 zones": {"bucket_zones": 2},
}


def calculate(measured: Measured, ses_price: float = price("ses_mail")) -> dict[str, Any]:
    base = {name: monthly(stack, measured) for name, stack in SCENARIOS.items()}
    knobs = {
        knob: {name: sum(monthly(replace(stack, **change), measured).values())
               - sum(base[name].values()) for name, stack in SCENARIOS.items()}
        for knob, change in KNOBS.items()
    }
    return {
        "stacks": {name: asdict(stack) for name, stack in SCENARIOS.items()},
        "by_service": base,
        "texts": {name: monthly(stack, measured) for name, stack in TEXTS.items()},
        "total": {name: sum(costs.values()) for name, costs in base.items()},
        "ses": {name: stack.mails * ses_price for name, stack in SCENARIOS.items()},
        "knobs": knobs,
    }


def calculated(result: dict[str, Any]) -> dict[str, Any]:
    """The metrics that a stack publishes, and the months that forecasts are compared with."""
    months = {name: {service: round(of, 4) for service, of in costs.items()}
              for name, costs in {**result["by_service"], **result["texts"]}.items()}
    return {"metrics": metrics_of(metrics_source()), "months": months}


def dollars(value: float, sign: bool = False) -> str:
    text = f"{abs(value):,.2f}" if abs(value) < 100 else f"{abs(value):,.0f}"
    lead = ("-" if value < -0.005 else "+" if value > 0.005 else "") if sign else ""
    return f"{lead}${text}" if float(text.replace(",", "")) or not sign else "0"


def lines(result: dict[str, Any]) -> list[list[str]]:
    names = list(SCENARIOS)
    body = [["a month", *names]]
    for service in SERVICES:
        body.append([service, *(dollars(result["by_service"][name][service]) for name in names)])
    body.append(["**Tidegate**", *(f"**{dollars(result['total'][name])}**" for name in names)])
    body.append(["SES beside it", *(dollars(result["ses"][name]) for name in names)])
    return body


def text_lines(result: dict[str, Any]) -> list[list[str]]:
    """Without AWS's price for the texts, which is by country and changes."""
    months = result["texts"]
    body = [["a month", *months]]
    body += [[service, *(dollars(costs[service]) for costs in months.values())] for service in SERVICES]
    total = [f"**{dollars(sum(costs.values()))}**" for costs in months.values()]
    return [*body, ["**Tidegate**", *total]]


def knob_lines(result: dict[str, Any]) -> list[list[str]]:
    names = list(SCENARIOS)
    body = [["changes it by", *names]]
    for knob, changes in result["knobs"].items():
        body.append([knob, *(dollars(changes[name], sign=True) for name in names)])
    return body


def markdown(table: list[list[str]]) -> str:
    head, *body = table
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *body])


def text(table: list[list[str]]) -> str:
    plain = [[cell.replace("*", "").replace("`", "") for cell in line] for line in table]
    widths = [max(len(line[i]) for line in plain) for i in range(len(plain[0]))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0])]
                  + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])])
        for line in plain
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="every figure, for programs")
    shape.add_argument("--markdown", action="store_true", help="the tables of docs/cost.md")
    shape.add_argument("--calculated", action="store_true",
                       help="infra/cost/calculated.json, which `tidegate plan` reads")
    shape.add_argument("--prices", action="store_true", help="the prices, and where they stand")
    parser.add_argument("--measured", type=Path, default=HERE / "measured.json", metavar="FILE",
                        help="what `make bench ONLY=idle` measured (%(default)s)")
    parser.add_argument("--ses-price", type=float, default=1_000 * price("ses_mail"), metavar="DOLLARS",
                        help="SES's price for 1,000 recipients (%(default)g)")
    args = parser.parse_args(arguments)
    if args.prices:
        print("\n".join(f"{of[0]:.10f}".rstrip("0") + f" $ a {of[1]}  ({name}, {of[2]})"
                        for name, of in PRICES.items()))
        return 0
    try:
        measured = json.loads(args.measured.read_text(encoding="utf-8"))
        result = calculate(measured, args.ses_price / 1_000)
    except (OSError, ValueError, KeyError) as error:
        print(f"cost: {args.measured}: {error!r}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(result, indent=1))
        return 0
    if args.calculated:
        print(json.dumps(calculated(result), indent=1))
        return 0
    write = markdown if args.markdown else text
    print("\n\n".join(write(table(result)) for table in (lines, knob_lines, text_lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
