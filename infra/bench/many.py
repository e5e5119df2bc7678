"""A thousand campaigns, found by tag: scheduler and poller under Lambda's limits, from the deployment
of both to minutes of sending. The scheduler finds the queues, issues the ticks through a Lambda that
stands here, and the pollers send.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import sdk_calls
from confined import IDLE_CLOSE_SECONDS, LATENCY, POLLER_TIMEOUT, SETTLE_SECONDS, Case, fill, mails
from confinement import Group, Mounts, unavailable
from fakes import HOST, Fakes, fakes
from figures import SHARE_POINTS, Row, at_least, at_most, told
from runtime import Answer, Function, Request, Settings, serve
from startup import environment

PART = "lambda-campaigns"
CASE = Case(200, 512)
SCHEDULER_MB, SCHEDULER_TIMEOUT = 256, 90.0
CAMPAIGNS = 1_000
# In turns.
WEIGHTS = (1, 2, 3, 4)
# Mails after which the turns, ten mails each, have gone round: then shares are exact. In between every campaign is up
# to ten mails off its own, all of one weight alike, so shares are judged over the last round.
TURN = 10
ROUND = TURN * CAMPAIGNS // len(WEIGHTS) * sum(WEIGHTS)
PREFIX = "bench-campaign-"
MINUTES = 3
# Judged: from so long after the first mail to the last minute's end.
START_SECONDS, FIRST_MAIL_SECONDS = 20, 60.0
UTILISATION, CALLS, DESCRIPTORS = 0.97, 1.2, 400


def weight(number: int) -> int:
    return WEIGHTS[number % len(WEIGHTS)]


def name(number: int) -> str:
    return f"c{number:04}"


def mails_at_first(number: int) -> int:
    """Mail for all of the run. Campaigns that are found first have some turns more than the others."""
    share = weight(number) / (CAMPAIGNS // len(WEIGHTS) * sum(WEIGHTS))
    return math.ceil(CASE.rate * 60 * (MINUTES + 0.5) * share) + 4 * TURN


@dataclass
class Outcome:
    first_mail_seconds: float | None
    windows: tuple[int, int]
    by_window: dict[int, int]
    by_campaign: dict[str, int]
    stats: dict[str, Any]
    filled: int
    waiting: int
    calls: int
    poller: dict[str, Any]
    scheduler: dict[str, Any]
    slowness: float

    def utilisation(self) -> float | None:
        windows = range(*self.windows)
        return sum(self.by_window.get(w, 0) for w in windows) / (CASE.rate * len(windows)) if windows else None

    def points_off(self) -> float:
        """The furthest that all campaigns of one weight are off their share together."""
        total, weights = max(1, sum(self.by_campaign.values())), CAMPAIGNS // len(WEIGHTS) * sum(WEIGHTS)
        off = []
        for each in WEIGHTS:
            mine = [n for n in range(CAMPAIGNS) if weight(n) == each]
            share = each * len(mine) / weights
            off.append(abs(sum(self.by_campaign.get(name(n), 0) for n in mine) / total - share))
        return 100 * max(off)

    def ran_out(self) -> int:
        """Campaigns without mail at the end: they had no share of the last round."""
        sent = self.stats["campaigns"]
        return sum(sent.get(name(n), {"mails": 0})["mails"] >= mails_at_first(n) for n in range(CAMPAIGNS))

    def mails_off(self) -> float:
        """The furthest that one campaign is off its share, in mails."""
        total, weights = sum(self.by_campaign.values()), CAMPAIGNS // len(WEIGHTS) * sum(WEIGHTS)
        return max(abs(self.by_campaign.get(name(n), 0) - total * weight(n) / weights)
                   for n in range(CAMPAIGNS))


def make_campaigns(at: Fakes) -> int:
    """Tagged queues with mail; the mails."""
    filled = 0
    for number in range(CAMPAIGNS):
        tags = {"tidegate:weight": str(weight(number)), "tidegate:campaign": name(number)}
        at.sqs.target("sqs", "AmazonSQS.CreateQueue",
                      {"QueueName": PREFIX + name(number), "tags": tags})
        count = mails_at_first(number)
        fill(at, PREFIX + name(number), mails(name(number), CASE, count), 0)
        filled += count
    return filled


def functions(at: Fakes, args: Any, folder: Any, lambda_url: str) -> tuple[Settings, Settings]:
    """Scheduler and poller, as the template with Campaigns=tags deploys them."""
    common = environment("") | at.environment() | {
        "AWS_ENDPOINT_URL_LAMBDA": lambda_url,
        "TIDEGATE_CAMPAIGNS": "ledger",
        "TIDEGATE_MERGE_QUEUE_URL": at.queue("merge.fifo"),
        "TIDEGATE_DEAD_LETTER_QUEUE_URL": at.queue("dead-letter"),
    }
    del common["TIDEGATE_EXPRESS_QUEUE_URL"]
    scheduling = {"TIDEGATE_POLLER_FUNCTION": "poller", "TIDEGATE_CAMPAIGN_QUEUES": PREFIX}
    return (
        Settings("scheduler", args.bin_dir / "scheduler", SCHEDULER_MB, SCHEDULER_TIMEOUT,
                 common | scheduling, folder / "scheduler.log"),
        Settings("poller", args.bin_dir / "poller", CASE.memory_mb, POLLER_TIMEOUT, common,
                 folder / "poller.log"),
    )


async def run(at: Fakes, args: Any, folder: Any, mounts: Mounts, slowness: float) -> Outcome:
    filled = await asyncio.to_thread(make_campaigns, at)
    calls = at.calls()
    deployed: dict[str, Function] = {}

    async def invoke(request: Request) -> Answer:
        """Lambda's Invoke, of an event."""
        _, target, body = request
        called = target.split("/")[3]
        if called not in deployed:
            return 404, {"x-amzn-errortype": "ResourceNotFoundException"}, b"{}"
        deployed[called].invoke(json.loads(body or b"{}"))
        return 202, {}, b""

    server, port = await serve(invoke, at.identity.served)
    settings = functions(at, args, folder, f"https://{HOST}:{port}")
    for each in settings:
        deployed[each.name] = Function(partial(Group, mounts, each.memory_mb, slowness), each)
    # Any other event is somebody's who wakes the stack, and has no ticks issued while another run issues them.
    every_minute = json.loads((args.root / "events" / "scheduled_event.json").read_text())
    began = time.time()
    try:
        for minute in range(MINUTES):
            deployed["scheduler"].invoke(every_minute)
            await asyncio.sleep(began + (minute + 1) * 60 - time.time())
        await asyncio.sleep(SETTLE_SECONDS)
    finally:
        for function in deployed.values():
            await function.stop()
        server.close()
    arrivals = await asyncio.to_thread(at.arrivals, 0)
    first = min((mail["arrived_ns"] / 1e9 for mail in arrivals), default=None)
    until = int(began + MINUTES * 60)
    windows = (int(first) + START_SECONDS if first else until, until)
    return Outcome(
        first and first - began, windows,
        dict(Counter(mail["arrived_ns"] // 1_000_000_000 for mail in arrivals)),
        dict(Counter(mail["tags"]["tidegate_campaign"] for mail in arrivals[-ROUND:])),
        at.stats(), filled, sum(at.waiting().values()), at.calls() - calls,
        asdict(deployed["poller"].figures), asdict(deployed["scheduler"].figures), slowness)


def measure(args: Any) -> Outcome:
    folder = args.out / PART
    folder.mkdir(parents=True, exist_ok=True)
    for log in ("poller.log", "scheduler.log"):
        (folder / log).unlink(missing_ok=True)
    mounts = Mounts.here()
    if mounts is None:
        raise ValueError(unavailable())
    slowness = sdk_calls.slowness(args)
    with fakes(args, folder, CASE.rate, LATENCY, IDLE_CLOSE_SECONDS) as at:
        outcome = asyncio.run(run(at, args, folder, mounts, slowness))
    (folder / "outcome.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")
    return outcome


def rows(outcome: Outcome) -> list[Row]:
    sent = max(1, outcome.stats["accepted"]["mails"])
    lost = outcome.filled - (sent - outcome.stats["duplicates"]) - outcome.waiting
    poller, scheduler = outcome.poller, outcome.scheduler
    return [
        at_most(PART, "deployment to first mail", outcome.first_mail_seconds, "s",
                FIRST_MAIL_SECONDS, f"{CAMPAIGNS:,} campaigns by tag, {CASE.rate}/s, {CASE.memory_mb} MB"),
        at_least(PART, "utilisation", outcome.utilisation(), "of q", UTILISATION,
                 f"{max(0, outcome.windows[1] - outcome.windows[0])} windows"),
        at_most(PART, "shares off, campaigns of one weight together", outcome.points_off(), "points",
                SHARE_POINTS),
        told(PART, "the campaign furthest off its share", outcome.mails_off(), "mails"),
        at_most(PART, "campaigns that ran out of mail", outcome.ran_out(), "", 0),
        at_most(PART, "SQS calls per mail", outcome.calls / sent, "", CALLS),
        at_most(PART, "poller's most descriptors", poller["most_descriptors"], "", DESCRIPTORS),
        at_most(PART, "sent twice", outcome.stats["duplicates"], "mails", 0),
        at_most(PART, "lost", lost, "mails", 0),
        at_most(PART, "killed for memory", poller["killed_for_memory"]
                + scheduler["killed_for_memory"], "times", 0),
        at_most(PART, "failed invocations", len(poller["failed"]) + len(scheduler["failed"])
                + poller["timed_out"] + scheduler["timed_out"], "", 0,
                "; ".join([*scheduler["failed"][:1], *poller["failed"][:1]])),
        told(PART, "processor time of the AWS calls alone, to docs/figures.md", outcome.slowness, ""),
        told(PART, "throttled", poller["throttled_seconds"], "s"),
        told(PART, "processor time a mail, all of the poller's", poller["cpu_seconds"] * 1e3 / sent, "ms"),
        told(PART, "poller's peak memory", poller["peak_rss_bytes"], "bytes"),
        told(PART, "scheduler's processor time a minute", scheduler["cpu_seconds"] / MINUTES, "s"),
    ]
