"""Four programs at once send a campaign: through the relay, and the same straight at an SES of the same quota.

    python together.py [--json] [--mails 20000] [--quota 200]

Prints a table, and ends with 1 if a promise of the relay's way was not held: nothing is refused for the rate, at least
97.5 % of the quota are used while mail waits, shares are exact to a point while both campaigns wait, and every mail
arrives once.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from letters import TO
from programs import HERE, PYTHON, addresses, node, run
from stack import KEY, Stack

# Of 100 mails. Both campaigns have more mail than their part of the quota while the programs hand over; express mail is rare.
MIX = {"big": 88, "small": 11, "express": 1}
WEIGHTS = {"big": 90, "small": 10}
QUEUES = {"big": "tidegate-campaign-first", "small": "tidegate-campaign-second"}
# Calls that each program makes at the same time. At 80 ms a call, each of the four could send the whole quota.
AT_ONCE = 16
USED, SHARE = 0.975, 0.01
SAMPLE_SECONDS = 0.5
# A poller runs on AWS, and not beside the programs: here it goes before them where the processor is scarce.
BEHIND = ("nice", "-n", "10")
# Nothing arrives any more: longer than the visibility timeout of the queues, after which mail is sent again.
SILENCE_SECONDS = 45.0
# A program straight at SES, which refuses most of its calls, takes longer than its mails would at the quota.
PROGRAM_SECONDS = 1_800.0
NANOSECONDS = 1e9
# These are not judged: the merge queue fills while the first mails wait, and has mail from before both campaigns waited.
AHEAD_NANOSECONDS = int(5 * NANOSECONDS)

COMMANDS: dict[str, tuple[str, ...]] = {
    "boto3": (*PYTHON, str(HERE / "many/boto3_sesv2.py")),
    "AWS SDK for JavaScript": (node("sdk_v3.mjs")[0], str(HERE / "many/sdk_v3.mjs")),
    "nodemailer": (node("sdk_v3.mjs")[0], str(HERE / "many/nodemailer_ses.mjs")),
    "django-ses": (*PYTHON, str(HERE / "many/django_send.py")),
}


@dataclass
class Row:
    """A program's mails by one way; its lost and doubled ones as the mailbox tells."""

    program: str
    way: str
    mails: int
    # As the program was told.
    accepted: int
    refused: int
    lost: int
    doubled: int
    seconds: float


@dataclass
class Way:
    name: str
    rows: list[Row]
    # Calls that SES refused for the rate; a program sees those that are left after its retries.
    refused_by_ses: int
    # Of the quota, from the first arrival to the last.
    used: float
    # Of the quota while mail waited; of the relay's way only.
    used_while_waiting: float | None = None
    shares: dict[str, float] = field(default_factory=dict)
    seconds_of_shares: float = 0.0


def prefix(program: str) -> str:
    return program.lower().replace(" ", "-")


def mails(program: str, number: int, seed: int) -> list[dict[str, str]]:
    campaigns = [name for name, part in MIX.items() for _ in range(part)]
    chosen = [campaigns[index % len(campaigns)] for index in range(number)]
    random.Random(seed).shuffle(chosen)
    return [
        {"from": "news@example.org", "to": f"{prefix(program)}-{index:05}@{TO}", "subject": f"News {index}",
         "text": f"This is mail {index}.\n", "campaign": campaign} for index, campaign in enumerate(chosen, 1)
    ]  # fmt: skip


class Pages:
    """The sandbox's own pages, over one connection."""

    def __init__(self, url: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def get(self, path: str) -> Any:
        self.connection.request("GET", f"/_sandbox/{path}")
        return json.loads(self.connection.getresponse().read())

    def arrivals(self) -> Iterator[dict[str, Any]]:
        """All mails of these programs that were accepted, in order."""
        after = 0
        while page := self.get(f"mails?after={after}&limit=10000"):
            after = page[-1]["seq"]
            yield from (mail for mail in page if KEY.search(mail["to"][0]))

    def settle(self, expected: int) -> None:
        """Waits until so many mails were accepted, and nothing arrives any more; or nothing has for long."""
        before, since = -1, time.monotonic()
        while True:
            stats = self.get("stats")
            if stats["accepted"]["mails"] != before:
                before, since = stats["accepted"]["mails"], time.monotonic()
            silent = time.monotonic() - since
            if silent > SILENCE_SECONDS or (before >= expected and silent > SILENCE_SECONDS / 9):
                return
            time.sleep(SAMPLE_SECONDS)


@dataclass
class Sample:
    """The mails on the campaigns' queues at a time, in nanoseconds since the Unix epoch."""

    at: int
    waiting: dict[str, int]


def send_all(files: dict[str, Path], variables: dict[str, str]) -> dict[str, tuple[Counter[str], float]]:
    """What each program was told, and the time that it took; all run at once."""

    def send(program: str) -> tuple[Counter[str], float]:
        began = time.monotonic()
        said = run([*BEHIND, *COMMANDS[program], str(files[program]), str(AT_ONCE)], variables, PROGRAM_SECONDS)
        return Counter(json.loads(said.strip().split("\n")[-1])), time.monotonic() - began

    with ThreadPoolExecutor(len(files)) as pool:
        return dict(zip(files, pool.map(send, files), strict=True))


def rows(way: str, sent: dict[str, tuple[Counter[str], float]], arrived: Counter[str], number: int) -> list[Row]:
    found = []
    for program, (counts, seconds) in sent.items():
        own = [arrived[f"{prefix(program)}-{index:05}"] for index in range(1, number + 1)]
        accepted = counts["accepted"]
        found.append(Row(program, way, number, accepted, counts.total() - accepted, own.count(0),
                         sum(times - 1 for times in own if times), round(seconds, 1)))  # fmt: skip
    return found


def used(arrivals: list[dict[str, Any]], quota: int) -> float:
    span = float(arrivals[-1]["arrived_ns"] - arrivals[0]["arrived_ns"]) / NANOSECONDS
    return len(arrivals) / (quota * max(span, 1.0))


def through_the_relay(files: dict[str, Path], stack: Stack, quota: int, number: int) -> Way:
    pages, sqs, samples, ended = Pages(stack.sandbox), Pages(stack.sqs()), list[Sample](), threading.Event()

    def sample() -> None:
        while not ended.wait(SAMPLE_SECONDS):
            depths = sqs.get("stats")["queues"]
            waiting = {name: sum(depth["visible"] for url, depth in depths.items() if url.endswith(queue))
                       for name, queue in QUEUES.items()}  # fmt: skip
            samples.append(Sample(time.time_ns(), waiting))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        own = addresses(stack.relay.http, stack.relay.smtp[0]) | {"NO_THROTTLE": "yes"}
        sent = send_all(files, own)
        # Two mails of the stack's own were there before.
        pages.settle(number * len(files) + 2)
    finally:
        ended.set()
        thread.join()
    arrivals = sorted(pages.arrivals(), key=lambda mail: int(mail["arrived_ns"]))
    counts = Counter(KEY.search(mail["to"][0])[1] for mail in arrivals)  # type: ignore[index]
    way = Way("through Tidegate", rows("through Tidegate", sent, counts, number), refused(pages), used(arrivals, quota))
    judge(way, arrivals, samples, quota)
    return way


def longest(samples: list[Sample], holds: Callable[[Sample], bool]) -> tuple[int, int]:
    """Begin and end of the longest time in which something holds in all samples."""
    best, begin = (0, 0), None
    for sample in samples:
        begin = (sample.at if begin is None else begin) if holds(sample) else None
        if begin is not None and sample.at - begin > best[1] - best[0]:
            best = (begin, sample.at)
    return best


def judge(way: Way, arrivals: list[dict[str, Any]], samples: list[Sample], quota: int) -> None:
    """The quota's use while mail waited, and the shares while both campaigns did: each a second's worth of it or more."""
    weights = sum(WEIGHTS.values())

    def between(begin: float, end: float) -> list[dict[str, Any]]:
        return [mail for mail in arrivals if begin <= mail["arrived_ns"] < end]

    begin, end = longest(samples, lambda sample: sum(sample.waiting.values()) >= quota)
    begin += AHEAD_NANOSECONDS
    if end > begin:
        way.used_while_waiting = len(between(begin, end)) / (quota * (end - begin) / NANOSECONDS)
    begin, end = longest(samples, lambda sample: all(
        sample.waiting[name] >= quota * weight / weights for name, weight in WEIGHTS.items()))  # fmt: skip
    begin += AHEAD_NANOSECONDS
    campaigns = Counter(mail["tags"]["tidegate_campaign"] for mail in between(begin, end))
    if both := sum(campaigns[name] for name in WEIGHTS):
        way.shares = {name: campaigns[name] / both for name in WEIGHTS}
        way.seconds_of_shares = (end - begin) / NANOSECONDS


def refused(pages: Pages) -> int:
    return int(pages.get("stats")["refused"].get("TooManyRequestsException", 0))


def straight(files: dict[str, Path], stack: Stack, quota: int, number: int) -> Way:
    url = stack.ses_sandbox("straight", "--quota", str(quota), "--latency", "80ms")
    sent = send_all(files, addresses(url, "127.0.0.1:9"))
    pages = Pages(url)
    arrivals = list(pages.arrivals())
    counts = Counter(KEY.search(mail["to"][0])[1] for mail in arrivals)  # type: ignore[index]
    return Way("straight at SES", rows("straight at SES", sent, counts, number), refused(pages), used(arrivals, quota))


def broken(way: Way) -> Iterator[str]:
    """The promises that the relay's way did not hold."""
    if way.refused_by_ses:
        yield f"SES refused {way.refused_by_ses} calls for the rate"
    for row in way.rows:
        if (row.accepted, row.refused, row.lost, row.doubled) != (row.mails, 0, 0, 0):
            yield f"{row.program}: of {row.mails} mails {row.accepted} accepted, {row.lost} lost, {row.doubled} doubled"
    if way.used_while_waiting is None or way.used_while_waiting < USED:
        yield f"{way.used_while_waiting} of the quota were used while mail waited, and should be {USED}"
    weights = sum(WEIGHTS.values())
    for name, weight in WEIGHTS.items():
        if abs(way.shares.get(name, 0.0) - weight / weights) > SHARE:
            yield f"{name} had {way.shares.get(name)} while both waited, and should have {weight / weights}"


def table(ways: list[Way]) -> str:
    head = ("program", "way", "mails", "accepted", "refused", "lost", "doubled", "seconds")
    lines = [[str(getattr(row, name)) for name in head] for way in ways for row in way.rows]
    widths = [max(len(cell) for cell in column) for column in zip(head, *lines, strict=True)]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in [head, *lines]]
    for way in ways:
        shown.append(f"{way.name}: {way.used:.1%} of the quota used; SES refused {way.refused_by_ses} calls for the rate")
        if way.used_while_waiting is not None:
            shares = ", ".join(f"{name} {share:.1%}" for name, share in way.shares.items())
            shown.append(f"  while mail waited {way.used_while_waiting:.1%}; while both campaigns waited "
                         f"({way.seconds_of_shares:.0f} s) {shares}")  # fmt: skip
    return "\n".join(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--mails", type=int, default=20_000, help="of all programs together [%(default)s]")
    parser.add_argument("--quota", type=int, default=200, help="recipients a second [%(default)s]")
    args = parser.parse_args()
    number = args.mails // len(COMMANDS)
    stack = Stack(args.quota)
    try:
        files = {}
        for seed, program in enumerate(COMMANDS):
            files[program] = stack.folder / f"{prefix(program)}.json"
            files[program].write_text(json.dumps(mails(program, number, seed)))
        ways = [through_the_relay(files, stack, args.quota, number), straight(files, stack, args.quota, number)]
    finally:
        stack.end()
    faults = list(broken(ways[0]))
    if args.json:
        print(json.dumps({"quota": args.quota, "ways": [asdict(way) for way in ways], "broken": faults}, indent=2))
    else:
        print(table(ways))
    for fault in faults:
        print(f"together: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
