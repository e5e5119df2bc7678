"""A thousand campaigns, found by tag: scheduler and poller under Lambda's limits, from the deployment
of both to minutes of sending. The scheduler finds the queues, issues the ticks through a Lambda that
stands here, and the pollers send.
"""

import asyncio
import json
import math
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from confined import POLLER_TIMEOUT, SETTLE_SECONDS, Case, Ended, Site, fill, mails, site
from fakes import HOST, Fakes
from figures import SHARE_POINTS, Row, at_least, at_most, told
from runtime import Answer, Request, serve

PART = "lambda-campaigns"
CASE = Case(200, 512)
SCHEDULER_MB, SCHEDULER_TIMEOUT = 256, 90.0
CAMPAIGNS = 1_000
# In turns.
WEIGHTS = (1, 2, 3, 4)
# Mails after which the turns, ten mails each, have gone round: then shares are exact. In between every campaign is up
# to ten mails off its own, all of one weight alike, so shares are judged over the last round.
TURN = 10
TOTAL_WEIGHT = CAMPAIGNS // len(WEIGHTS) * sum(WEIGHTS)
ROUND = TURN * TOTAL_WEIGHT
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
    return math.ceil(CASE.rate * 60 * (MINUTES + 0.5) * weight(number) / TOTAL_WEIGHT) + 4 * TURN


@dataclass
class Outcome(Ended):
    first_mail_seconds: float | None
    windows: tuple[int, int]
    by_campaign: dict[str, int]
    poller: dict[str, Any]
    scheduler: dict[str, Any]

    def points_off(self) -> float:
        """The furthest that all campaigns of one weight are off their share together."""
        total, off = max(1, sum(self.by_campaign.values())), []
        for each in WEIGHTS:
            mine = [n for n in range(CAMPAIGNS) if weight(n) == each]
            sent = sum(self.by_campaign.get(name(n), 0) for n in mine)
            off.append(abs(sent / total - each * len(mine) / TOTAL_WEIGHT))
        return 100 * max(off)

    def ran_out(self) -> int:
        """Campaigns without mail at the end: they had no share of the last round."""
        sent = self.stats["campaigns"]
        return sum(sent.get(name(n), {"mails": 0})["mails"] >= mails_at_first(n) for n in range(CAMPAIGNS))


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


async def run(here: Site) -> Outcome:
    """Scheduler and poller, as the template with Campaigns=tags deploys them."""
    at = here.at
    filled = await asyncio.to_thread(make_campaigns, at)
    calls = at.calls()

    async def invoke(request: Request) -> Answer:
        """Lambda's Invoke, of an event."""
        called = request.path.split("/")[3]
        if called not in deployed:
            return 404, {"x-amzn-errortype": "ResourceNotFoundException"}, b"{}"
        deployed[called].invoke(json.loads(request.body or b"{}"))
        return 202, {}, b""

    server, port = await serve(invoke, at.identity.served)
    common = {"AWS_ENDPOINT_URL_LAMBDA": f"https://{HOST}:{port}", "TIDEGATE_CAMPAIGNS": "ledger"}
    scheduling = {"TIDEGATE_POLLER_FUNCTION": "poller", "TIDEGATE_CAMPAIGN_QUEUES": PREFIX}
    deployed = {
        "scheduler": here.function("scheduler", SCHEDULER_MB, SCHEDULER_TIMEOUT, common | scheduling),
        "poller": here.function("poller", CASE.memory_mb, POLLER_TIMEOUT, common),
    }
    # Any other event is somebody's who wakes the stack, and has no ticks issued while another run issues them.
    every_minute = json.loads((here.args.root / "events" / "scheduled_event.json").read_text())
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
    arrivals = await asyncio.to_thread(at.arrivals)
    first = min((mail["arrived_ns"] / 1e9 for mail in arrivals), default=None)
    until = int(began + MINUTES * 60)
    windows = (int(first) + START_SECONDS if first else until, until)
    return Outcome(
        **here.ended(CASE, filled, calls, arrivals),
        first_mail_seconds=first and first - began, windows=windows,
        by_campaign=dict(Counter(mail["tags"]["tidegate_campaign"] for mail in arrivals[-ROUND:])),
        poller=asdict(deployed["poller"].figures), scheduler=asdict(deployed["scheduler"].figures))


def part(_: str, args: Any) -> list[Row]:
    with site(PART, CASE, args) as here:
        outcome = asyncio.run(run(here))
        here.keep(outcome)
    return rows(outcome)


def rows(outcome: Outcome) -> list[Row]:
    judged = list(range(*outcome.windows))
    return [
        at_most("deployment to first mail", outcome.first_mail_seconds, "s", FIRST_MAIL_SECONDS,
                f"{CAMPAIGNS:,} campaigns by tag, {CASE.rate}/s, {CASE.memory_mb} MB"),
        at_least("utilisation", outcome.utilisation(judged), "of q", UTILISATION, f"{len(judged)} windows"),
        at_most("shares off, campaigns of one weight together", outcome.points_off(), "points", SHARE_POINTS),
        at_most("campaigns that ran out of mail", outcome.ran_out(), "", 0),
        at_most("SQS calls per mail", outcome.calls / max(1, outcome.mails()), "", CALLS),
        at_most("poller's most descriptors", outcome.poller["most_descriptors"], "", DESCRIPTORS),
        *outcome.rows(outcome.poller, outcome.scheduler),
        told("scheduler's processor time a minute", outcome.scheduler["cpu_seconds"] / MINUTES, "s"),
    ]
