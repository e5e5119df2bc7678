"""The poller under Lambda's limits: how much of the quota it sends with a function's share of a
processor, its memory and its descriptors, over TLS, through cold starts and frozen connections.

The release binary runs in control groups (`confinement`) on a runtime API of its own (`runtime`),
against fakes that serve TLS (`fakes`) outside of the groups. A run of a case:

    start  windows that are not judged: the first environments start cold, the merge queue fills
    steady windows that are judged; half-way all idle environments are taken away: cold starts again
    pause  no ticks, and longer than the fakes keep an idle connection open
    after  windows that are judged, too: environments thaw with connections that are dead

A part by itself measures what limits cost: the same mails, sent without a limit and with 20. No limit is so low
that mail waits for it: that would cost further calls.
"""

import asyncio
import base64
import gzip
import itertools
import json
import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from confinement import Group, Mounts, unavailable
from fakes import HOST, Fakes, fakes
from figures import SHARE_POINTS, UTILISATION, Row, at_least, at_most, number, told
from programs import sdk_calls, slowness
from runtime import Answer, Function, Request, Settings, serve

LEAD_SECONDS = 0.4
POLLER_TIMEOUT = 15.0
START_WINDOWS, STEADY_WINDOWS, AFTER_WINDOWS = 10, 24, 12
# How long SES and SQS keep an idle connection, and the pause without ticks.
IDLE_CLOSE_SECONDS = 8
PAUSE_SECONDS = 12
# Windows at a function's last tick that still send, and what both campaigns have left at the end.
SETTLE_SECONDS = 8.0
SPARE_WINDOWS = 14
SHARES = {"big": 0.9, "small": 0.1}
LATENCY = "80ms"
# Kilobytes in a batch: SQS takes 1,024, with attributes.
BATCH_KB = 900
WORDS = ("offer", "garden", "letter", "autumn", "reader", "ticket", "harbour", "price", "Grüße",
         "“new”", "concert", "<b>today</b>", "weather", "market")


@dataclass(frozen=True)
class Case:
    """A rate, a function's memory, the size of a mail's HTML (0 is a tiny mail), whether its producer
    compresses it, the number of domains to which tiny mails go in turn, how many processors the
    machine must have, so that the poller and what it calls do not wait for each other, and how many
    of the mails of a second have 10 MB, in the store.
    """

    rate: int
    memory_mb: int
    body_kb: int = 0
    compressed: bool = False
    domains: int = 1
    processors: int = 2
    large: int = 0


CASES = {
    "lambda-14": Case(14, 128),
    "lambda-200": Case(200, 346),
    "lambda-1000": Case(1_000, 1_769, processors=3),
    "lambda-50kb": Case(100, 512, 50),
    "lambda-200kb": Case(100, 256, 200),
    "lambda-200kb-cpu": Case(100, 1_769, 200),
    "lambda-200kb-gzip": Case(100, 1_769, 200, compressed=True),
    "lambda-large": Case(105, 256, large=5),
    "lambda-large-cpu": Case(105, 1_769, large=5),
}
LIMITS_PART = "limits"
LIMITS = 20
# A whole processor, so that none of the runs is throttled.
LIMITS_CASE = Case(200, 1_769, domains=LIMITS)
LIMITS_MOST, LIMITS_UTILISATION = 1.15, 0.97
# The cases whose processor time is judged: the most that a mail may take, to the AWS calls alone of a plain mail of this size.
LARGE = {CASES["lambda-200kb-cpu"]: 1.25, CASES["lambda-200kb-gzip"]: 1.0}


def needed_mb(case: Case) -> float:
    """The memory that a poller needs for as much processor as the case takes (docs/figures.md, Memory)."""
    return 1_769 * case.rate * (0.7e-3 + 0.016e-3 * case.body_kb) / 0.75


def html(kilobytes: int) -> str:
    """A newsletter's HTML of this size: words, tags, quotes, letters beyond ASCII."""
    chance, parts, size = random.Random(11), [], 0
    while size < kilobytes * 1_000:
        words = " ".join(chance.choice(WORDS) for _ in range(12))
        parts.append(f'<tr><td class="row" style="padding:4px">{words}</td></tr>\n')
        size += len(parts[-1].encode())
    return "<table>" + "".join(parts) + "</table>"


def mails(campaign: str, case: Case, count: int) -> Iterator[str]:
    """Message bodies, each with an id."""
    if not case.body_kb:
        text = '{{"id": "{0}-{1}", "to_address": "{0}-{1}@d{2}.example.com", ' \
               '"from_address": "news@example.org", "subject": "Hello", "body": "Text."}}'
        for n in range(count):
            is_large = case.large and n % (case.rate // case.large) == 0
            yield pointer(f"{campaign}{n}") if is_large else text.format(campaign, n, n % case.domains)
        return
    rest = json.dumps({"from": "News <news@example.org>", "subject": "The letter of the week",
                       "html": html(case.body_kb), "text": "In a browser it looks better."})[1:]
    texts = (f'{{"id": "{campaign}-{n}", "to": "{campaign}-{n}@example.com", {rest}'
             for n in range(count))
    yield from (map(compress, texts) if case.compressed else texts)


@cache
def content() -> bytes:
    """A large mail's object: a MIME message of 10 MB."""
    head = "From: news@example.org\r\nSubject: The plan\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    mime = head.encode() + base64.encodebytes(random.Random(11).randbytes(7_300_000)).replace(b"\n", b"\r\n")
    return json.dumps({"raw": base64.b64encode(mime).decode()}).encode()


def pointer(name: str) -> str:
    """A large mail on its queue (docs/large.md)."""
    return json.dumps({"id": name, "to": f"{name}@example.com", "from": "news@example.org",
                       "stored": {"name": name, "bytes": len(content())}})


async def store(request: Request) -> Answer:
    """S3, in which each object is the same, and which forgets deletes."""
    if request.method == "GET":
        size = len(content())
        return 206, {"ETag": '"0"', "Content-Range": f"bytes 0-{size - 1}/{size}"}, content()
    return 204, {}, b""


def compress(body: str) -> str:
    """The compressed form of docs/messages.md."""
    packed = gzip.compress(body.encode(), compresslevel=3)
    return json.dumps({"gzip": base64.b64encode(packed).decode()})


def fill(at: Fakes, queue: str, bodies: Iterator[str], kilobytes: int) -> None:
    """Puts mails of about this size, as many in a batch as SQS takes."""
    size = max(1, min(10, BATCH_KB // max(1, kilobytes)))
    while batch := list(itertools.islice(bodies, size)):
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(batch)]
        answer = at.sqs.target("sqs", "AmazonSQS.SendMessageBatch",
                               {"QueueUrl": at.queue(queue), "Entries": entries})
        if answer.get("Failed"):
            raise ValueError(f"{queue} refused mails: {answer['Failed'][:1]}")


@dataclass
class Ended:
    """A run, as it ended."""

    case: Case
    filled: int
    by_window: dict[int, int]
    stats: dict[str, Any]
    waiting: int
    calls: int
    slowness: float
    large: int

    def utilisation(self, windows: list[int]) -> float | None:
        sent = sum(self.by_window.get(window, 0) for window in windows)
        # Of the slots that large mail leaves to the others.
        return sent / ((self.case.rate - self.case.large) * len(windows)) if windows else None

    def mails(self) -> int:
        return int(self.stats["accepted"]["mails"])

    def lost(self) -> int:
        return self.filled - (self.mails() - self.stats["duplicates"]) - self.waiting

    def rows(self, poller: dict[str, Any], *others: dict[str, Any]) -> list[Row]:
        """What is asked and told of every run, by the figures of its functions."""
        functions = [*others, poller]
        failed = [why for each in functions for why in each["failed"]]
        throttled = poller["throttled_periods"] / max(1, poller["periods"])
        return [
            at_most("sent twice", self.stats["duplicates"], "mails", 0),
            at_most("lost", self.lost(), "mails", 0),
            at_most("killed for memory", sum(each["killed_for_memory"] for each in functions), "times", 0),
            at_most("failed invocations", len(failed), "", 0, "; ".join(failed[:1])),
            told("processor time of the AWS calls alone, to docs/figures.md", self.slowness, ""),
            told("throttled", poller["throttled_seconds"], "s", f"in {throttled:.0%} of periods"),
            told("processor time a mail, all of the poller's", poller["cpu_seconds"] * 1e3 / max(1, self.mails()), "ms"),
            told("poller's peak memory", poller["peak_rss_bytes"], "bytes"),
        ]


@dataclass(frozen=True)
class Site:
    """Where functions run under limits, and the fakes that they call."""

    args: Any
    folder: Path
    mounts: Mounts
    slowness: float
    at: Fakes

    def function(self, name: str, memory_mb: int, timeout: float, variables: dict[str, str]) -> Function:
        """A function as the template deploys it, without an express queue."""
        settings = Settings(name, self.args.bin_dir / name, memory_mb, timeout, self.at.environment() | variables,
                            self.folder / f"{name}.log")
        return Function(partial(Group, self.mounts, memory_mb, self.slowness), settings)

    def ended(self, case: Case, filled: int, calls_before: int, arrivals: list[dict[str, Any]]) -> dict[str, Any]:
        """What every run ends with: the members of `Ended`."""
        small = (mail for mail in arrivals if mail["kind"] != "raw")
        by_window = dict(Counter(mail["arrived_ns"] // 1_000_000_000 for mail in small))
        return {"case": case, "filled": filled, "by_window": by_window, "stats": self.at.stats(),
                "waiting": self.at.waiting(), "calls": self.at.calls() - calls_before,
                "slowness": self.slowness, "large": sum(mail["kind"] == "raw" for mail in arrivals)}

    def keep(self, outcome: Ended) -> None:
        (self.folder / "outcome.json").write_text(json.dumps(asdict(outcome), indent=1) + "\n")


@contextmanager
def site(part: str, case: Case, args: Any) -> Iterator[Site]:
    folder = args.out / part
    folder.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        log.unlink()
    mounts = Mounts.here()
    if mounts is None:
        raise ValueError(unavailable())
    slow = slowness(args)
    with fakes(args, folder, case.rate, LATENCY, IDLE_CLOSE_SECONDS) as at:
        yield Site(args, folder, mounts, slow, at)


@dataclass
class Outcome(Ended):
    steady: tuple[int, int]
    after: tuple[int, int]
    # The judged windows whose poller started cold.
    cold: list[int]
    # Processor seconds in the first half of the steady windows, in which no environment starts.
    warm_cpu: float
    figures: dict[str, Any]

    def warm_milliseconds(self) -> float:
        """Processor time of a mail where all environments are warm."""
        half = self.steady[0] + STEADY_WINDOWS // 2
        sent = sum(self.by_window.get(window, 0) for window in range(self.steady[0], half))
        return self.warm_cpu * 1e3 / max(1, sent)

    def judged(self) -> list[int]:
        return [*range(*self.steady), *range(*self.after)]

    def share_points(self) -> float:
        sent = {name: self.stats["campaigns"].get(name, {"mails": 0})["mails"] for name in SHARES}
        total = max(1, sum(sent.values()))
        return max(abs(sent[name] / total - share) * 100 for name, share in SHARES.items())


async def ticks(poller: Function, first: int, count: int, rate: float) -> list[int]:
    """Ticks of so many windows, each its lead ahead; the windows whose poller started cold."""
    given = {}
    for window in range(first, first + count):
        await asyncio.sleep(max(0.0, window - LEAD_SECONDS - time.time()))
        opens = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(window))
        given[window] = poller.invoke({"window": opens, "rate_per_second": float(rate)})
    await asyncio.sleep(1.0)
    return [window for window, invocation in given.items() if invocation.cold]


async def run(case: Case, here: Site, variables: dict[str, str]) -> Outcome:
    at = here.at
    windows = START_WINDOWS + STEADY_WINDOWS + AFTER_WINDOWS + SPARE_WINDOWS
    filled = {name: math.ceil(share * case.rate * windows) + 5 for name, share in SHARES.items()}
    for name, count in filled.items():
        await asyncio.to_thread(fill, at, name, mails(name, case, count), case.body_kb)
    campaigns = [{"name": name, "queue_url": at.queue(name), "weight": round(share * 100)}
                 for name, share in SHARES.items()]
    calls = at.calls()
    if case.large:
        _, port = await serve(store, at.identity.served)
        variables |= {"TIDEGATE_STORE": "s3://mail/store", "AWS_ENDPOINT_URL_S3": f"https://{HOST}:{port}",
                      "MALLOC_MMAP_THRESHOLD_": "1048576"}
    poller = here.function("poller", case.memory_mb, POLLER_TIMEOUT,
                           {"TIDEGATE_CAMPAIGNS": json.dumps(campaigns)} | variables)
    try:
        first = int(time.time()) + 2
        steady = (first + START_WINDOWS, first + START_WINDOWS + STEADY_WINDOWS)
        half = START_WINDOWS + STEADY_WINDOWS // 2
        await ticks(poller, first, START_WINDOWS, case.rate)
        before = poller.cpu_seconds()
        await ticks(poller, steady[0], half - START_WINDOWS, case.rate)
        warm_cpu = poller.cpu_seconds() - before
        await poller.retire_idle()
        cold = await ticks(poller, first + half, steady[1] - first - half, case.rate)
        await asyncio.sleep(PAUSE_SECONDS)
        again = int(time.time()) + 2
        after = (again, again + AFTER_WINDOWS)
        cold += await ticks(poller, again, AFTER_WINDOWS, case.rate)
        await asyncio.sleep(SETTLE_SECONDS)
    finally:
        await poller.stop()
    arrivals = await asyncio.to_thread(at.arrivals)
    ended = here.ended(case, sum(filled.values()), calls, arrivals)
    return Outcome(**ended, steady=steady, after=after, cold=cold, warm_cpu=warm_cpu, figures=asdict(poller.figures))


def measure(name: str, case: Case, args: Any, limits: int = 0) -> Outcome:
    """A run of the case; with a limit for each of so many domains, of three times its mail."""
    with site(name, case, args) as here:
        rates = ", ".join(f"d{n}.example.com={3 * case.rate // limits}/s" for n in range(limits))
        queues = ",".join(here.at.queue(f"domain-{n}") for n in range(limits))
        variables = {"TIDEGATE_LIMITS": rates, "TIDEGATE_LIMIT_QUEUES": queues} if limits else {}
        outcome = asyncio.run(run(case, here, variables))
        here.keep(outcome)
    return outcome


def part(name: str, args: Any) -> list[Row]:
    outcome = measure(name, CASES[name], args)
    # After the run, so that both are measured on a machine as busy. One such run in three is a tenth off the others.
    calls = median(sdk_calls(args, "merge", outcome.case.body_kb) for _ in range(5)) if outcome.case in LARGE else None
    return rows(outcome, calls, os.cpu_count() or 1)


def rows(outcome: Outcome, sdk_calls_ms: float | None, processors: int) -> list[Row]:
    case, figures, warm = outcome.case, outcome.figures, outcome.warm_milliseconds()
    found = [
        *used_rows(outcome, processors),
        told("utilisation of windows that started cold", outcome.utilisation(outcome.cold), "of q",
             f"{figures['cold_starts']} cold starts"),
        told("utilisation of the 3 windows after the pause", outcome.utilisation([*range(*outcome.after)][:3]), "of q"),
        at_most("refused", sum(outcome.stats["refused"].values()), "mails", 0),
        *([told("large mails, of all", outcome.large / max(1, outcome.mails()), "")] if case.large else []),
        told("processor time a mail, warm", warm, "ms"),
        *outcome.rows(figures),
        told("most descriptors", figures["most_descriptors"], ""),
        told("SQS calls per mail", outcome.calls / max(1, outcome.mails()), ""),
    ]
    if case in LARGE:
        ratio = warm / sdk_calls_ms if sdk_calls_ms else None
        note = f"{number(warm)} ms to {number(sdk_calls_ms)} ms a mail"
        found.append(at_most("poller's processor time to the SDK calls alone, plain", ratio, "", LARGE[case], note))
    return found


def used_rows(outcome: Outcome, processors: int) -> list[Row]:
    """What a poller makes of its quota; judged where it has the processor time that it needs."""
    case, used, off = outcome.case, outcome.utilisation(outcome.judged()), outcome.share_points()
    size = f"{case.body_kb} KB" if case.body_kb else "tiny"
    note = f"{size}{', compressed' if case.compressed else ''}, {case.rate:,}/s, {case.memory_mb:,} MB"
    what, shares = "utilisation, cold starts and dead connections in it", "shares off 90/10"
    second, worst = "worst second at arrival", outcome.stats["worst_sliding_second_offered"]
    bound = math.floor(case.rate * (1.005 if case.rate >= 1_000 else 1.0))
    fair = at_most(shares, off, "points", SHARE_POINTS)
    in_time = at_most(second, worst, "recipients", bound)
    if processors < case.processors:
        note += f"; {case.processors} processors are needed"
        return [told(what, used, "of q", note), fair, told(second, worst, "recipients")]
    if case.memory_mb < (needed := needed_mb(case)):
        note += f"; {needed:,.0f} MB are needed"
        return [told(what, used, "of q", note), told(shares, off, "points"), in_time]
    return [at_least(what, used, "of q", UTILISATION, note), fair, in_time]


def limits_part(name: str, args: Any) -> list[Row]:
    """Processor time of a mail with limits, to that without; both are measured twice, for the machine may be faster later."""
    runs = [measure(f"{name}-{turn}", LIMITS_CASE, args, limits) for turn, limits in enumerate((0, LIMITS, LIMITS, 0))]
    none, limited = (mean(run.warm_milliseconds() for run in pair) for pair in (runs[::3], runs[1:3]))
    what, note = f"processor time a mail with {LIMITS} limits, to that with none", f"{limited:.3f} ms to {none:.3f} ms a mail"
    return [
        at_most(what, limited / none, "", LIMITS_MOST, note),
        at_least("utilisation", min(run.utilisation(run.judged()) for run in runs[1:3]), "of q", LIMITS_UTILISATION),
        at_most("lost", sum(run.lost() for run in runs), "mails", 0),
    ]
