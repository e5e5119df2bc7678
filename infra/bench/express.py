"""Express mail beside a full bulk backlog, on the release binaries: how long it takes, and what it
costs the bulk. Beside it the floor: a put's round trip to the queue, and the time between two slots.

Each run is one of `devstack` on both sandboxes; the express mails are put here, at random, onto
the queue that the deployed poller names, and their arrival is read off the SES sandbox's mailbox. Both
clocks are this machine's.
"""

import json
import random
import statistics
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from figures import Row, at_least, at_most, told
from processes import Client, devstack, free_port

# Of each quota the shares of express mail, with the longest time in milliseconds that 99 of 100 mails
# may take from their queue to SES.
P99_MS = {14: {0.1: 250.0}, 200: {0.05: 150.0, 0.1: 150.0, 0.5: 400.0}, 1_000: {0.1: 120.0}}
# What is measured of a run, after the start of its sends; and how much longer it lasts.
SETTLING, SECONDS, MORE_SECONDS = 6.0, 30.0, 6.0
# Both campaigns wait to the end: so many seconds of the quota.
BACKLOG_SECONDS = 45
# Of the slots used without express mail: what two runs on a machine with other work differ by.
KEPT = 0.98
RUN_SECONDS = 180.0
PAGE = 10_000


@dataclass
class Seen:
    """What one run put and what arrived, in nanoseconds of the wall clock."""

    put: dict[str, int] = field(default_factory=dict)
    # Milliseconds from each put to the queue's answer.
    trips: list[float] = field(default_factory=list)
    express: dict[str, int] = field(default_factory=dict)
    bulk: list[int] = field(default_factory=list)

    def note(self, mails: list[dict[str, Any]]) -> None:
        for mail in mails:
            to = mail["to"][0]
            if to.startswith("express-"):
                self.express[to] = mail["arrived_ns"]
            else:
                self.bulk.append(mail["arrived_ns"])

    def slots(self) -> tuple[int, int]:
        """Bulk and express mails that arrived in the measured time."""
        since = min(self.bulk) + int(SETTLING * 1e9)
        until = since + int(SECONDS * 1e9)
        within = [sum(since <= at < until for at in all_)
                  for all_ in (self.bulk, self.express.values())]
        return within[0], within[1]

    def waits(self) -> list[float]:
        """Milliseconds from the put of an express mail to its arrival, of those that arrived."""
        return sorted((at - self.put[to]) / 1e6 for to, at in self.express.items())


def express_queue(port: int) -> tuple[str, str]:
    """The express queue of the deployed poller, and the endpoint it stands at."""
    listed = Client(port).call("GET", "/2015-03-31/functions/", service="lambda")
    for function in listed["Functions"]:
        variables = function.get("Environment", {}).get("Variables", {})
        if queue := variables.get("TIDEGATE_EXPRESS_QUEUE_URL"):
            return queue, variables.get("AWS_ENDPOINT_URL_SQS") or f"http://127.0.0.1:{port}"
    raise ValueError("no poller is deployed")


def put(port: int, seen: Seen, rate: float) -> None:
    """Puts express mail, from now to the end of the measured time."""
    queue, endpoint = express_queue(port)
    express = Client(urlsplit(endpoint).port or 80)
    # The arrivals of a Poisson process: the same in every measurement.
    chance, due = random.Random(7), time.time()
    until = due + SETTLING + SECONDS
    while (due := due + chance.expovariate(rate)) < until:
        time.sleep(max(0.0, due - time.time()))
        to = f"express-{len(seen.put)}@example.com"
        body = {"to_address": to, "from_address": "news@example.org", "subject": "Code",
                "body": "123456"}
        message = {"QueueUrl": queue, "MessageBody": json.dumps(body)}
        seen.put[to] = time.time_ns()
        express.target("sqs", "AmazonSQS.SendMessage", message)
        seen.trips.append((time.time_ns() - seen.put[to]) / 1e6)


def watch(port: int, seen: Seen, run: Future[Any]) -> None:
    """Reads the mailbox until the run is over."""
    mailbox, after = Client(port), 0
    while not run.done():
        try:
            page = mailbox.call("GET", f"/_sandbox/mails?after={after}&limit={PAGE}")
        except (OSError, HTTPException):
            page = []
        if page:
            after = page[-1]["seq"]
            seen.note(page)
        time.sleep(0.2)


def run(args: Any, quota: int, share: float) -> Seen:
    """One run at this quota and share of express mail."""
    port, mailbox, backlog, seen = free_port(), free_port(), quota * BACKLOG_SECONDS, Seen()
    with ThreadPoolExecutor() as pool:
        local = pool.submit(
            devstack, args, args.out / f"express-{quota}-{share}", RUN_SECONDS, "--sqs", "sandbox", "--quota", quota,
            "--big", backlog * 9 // 10, "--small", backlog // 10, "--port", port, "--sandbox-port", mailbox,
            "--seconds", int(SETTLING + SECONDS + MORE_SECONDS))
        reading = pool.submit(watch, mailbox, seen, local)
        while not seen.bulk and not local.done():
            time.sleep(0.1)
        if share and not local.done():
            put(port, seen, share * quota)
        reading.result()
        local.result()
    if not seen.bulk:
        raise ValueError("no mail arrived")
    return seen


def part(_: str, args: Any) -> list[Row]:
    """The runs by quota and share of express mail, the one without first."""
    return rows({quota: {share: run(args, quota, share) for share in (0.0, *shares)}
                 for quota, shares in P99_MS.items()})


def rows(measured: dict[int, dict[float, Seen]]) -> list[Row]:
    found: list[Row] = []
    for quota, runs in measured.items():
        alone, _ = runs[0.0].slots()
        found.append(told(f"{quota}/s: bulk alone", alone / SECONDS / quota, "of q", f"{1e3 / quota:g} ms between two slots"))
        for share, seen in runs.items():
            if share:
                found += beside(quota, share, seen, alone)
    return found


def beside(quota: int, share: float, seen: Seen, alone: int) -> list[Row]:
    """One run's rows, where the bulk sends `alone` without express mail."""
    name = f"{quota}/s, express {share:.0%}"
    bulk, express = seen.slots()
    waits = seen.waits()
    p99 = statistics.quantiles(waits, n=100, method="inclusive")[98]
    return [
        told(f"{name}: a put's round trip, p50", statistics.median(seen.trips or [0.0]), "ms"),
        told(f"{name}: enqueue to send, p50", statistics.median(waits), "ms"),
        at_most(f"{name}: enqueue to send, p99", p99, "ms", P99_MS[quota][share],
                f"of {len(waits)} of {len(seen.put)}; longest {waits[-1]:.0f} ms"),
        at_least(f"{name}: bulk and express, of bulk alone", (bulk + express) / alone, "", KEPT,
                 f"bulk {bulk:,}, express {express:,}, alone {alone:,}"),
    ]
