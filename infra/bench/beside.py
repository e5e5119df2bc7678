"""Two workers send two campaigns straight at an SES of a quota, each way that is usual, and Tidegate does beside them.

    python beside.py [--quota 14] [--seconds 60] [--only WORD]

Both campaigns wait from the start, the big one with ten times the mail of the small one. Where workers share one queue, the
big campaign was put onto it first. A refused mail goes to the end of its queue. Prints a table of docs/beside.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from collections import Counter, deque
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from bench import ROOT, place
from figures import refused
from processes import devstack, free_port, running, sandbox
from workers import LATENCY, Call, Task, Way, worker

WORKERS = 2
# Left out of the quota's use: SES's bucket is full at the start, so that more than the quota passes.
WARM_SECONDS = 5.0
# Time for both processes to start; a call of the last second ends after the measurement.
READY_SECONDS = 2.0


@dataclass(frozen=True)
class Figures:
    # Of the quota, while both campaigns have mail and after the first of them ended; of the calls while both have.
    used: float
    used_after: float | None
    refused: float
    # Calls in the worst second, to the quota.
    worst_second: float
    # Of what was accepted in the first half of the time, while both campaigns had mail.
    small: float


def ways(quota: int) -> list[Way]:
    # Even, so that both workers have half of it; Lambda allows no fewer than two.
    concurrency = WORKERS * max(1, round(quota * LATENCY / WORKERS))
    enough, consumer = math.ceil(quota * LATENCY) + 2, f"SQS and Lambda, maximum concurrency {concurrency}"
    free = Way(consumer, "", threads=concurrency // WORKERS)
    return [
        Way("each program sleeps 1/q after each answer", "sleep", 1 / quota, own=True),
        Way("each program starts q a second", "paced", 1 / quota, enough, own=True),
        Way("each program starts q/2 a second", "paced", WORKERS / quota, enough, own=True),
        *(replace(free, name=f"{consumer}, {1e3 * latency:.0f} ms", latency=latency) for latency in (LATENCY, 0.04, 0.16)),
        *(Way(f"a token bucket in Redis that keeps {kept}", "bucket", kept, enough) for kept in (quota, 1)),
        Way(f"listmonk's loop, concurrency {quota}, message rate 1", "pause", 1, quota // WORKERS, own=True),
    ]


def queues(quota: int, seconds: float, own: bool) -> list[list[str]]:
    """The campaigns of the mails of each worker: enough for all of the time, with a second's more that SES's bucket has."""
    total = math.ceil(quota * (seconds + 2))
    big, small = ["big"] * (total - total // 11), ["small"] * (total // 11)
    return [big, small] if own else [[*big, *small][worker::WORKERS] for worker in range(WORKERS)]


def worst_second(times: list[float]) -> int:
    """The most of them in any half-open second."""
    most, within = 0, deque[float]()
    for at in sorted(times):
        within.append(at)
        while within[0] <= at - 1:
            within.popleft()
        most = max(most, len(within))
    return most


def first_end(calls: list[Call], mails: Counter[str], end: float) -> float:
    """When the first campaign had no mail left."""
    sent = Counter[str]()
    for call in sorted(calls, key=lambda call: call.at):
        sent[call.campaign] += call.accepted
        if sent[call.campaign] == mails[call.campaign]:
            return call.at
    return end


def judged(calls: list[Call], mails: Counter[str], quota: int, begin: float, end: float) -> Figures:
    warm, over = begin + WARM_SECONDS, first_end(calls, mails, end)

    def used(since: float, until: float) -> float:
        return sum(call.accepted and since <= call.at < until for call in calls) / (quota * (until - since))

    both = [call for call in calls if call.at < over]
    # Mails that were refused wait at the end of their queue, behind the small campaign, and so are no part of its order.
    half = Counter(call.campaign for call in both if call.accepted and call.at < (begin + end) / 2)
    return Figures(
        used(warm, over), used(over, end) if end - over > WARM_SECONDS else None,
        sum(not call.accepted for call in both) / len(both),
        worst_second([call.at for call in calls]) / quota, half["small"] / half.total())


def measured(way: Way, args: argparse.Namespace, folder: Path) -> Figures:
    with ExitStack() as stack:
        url = stack.enter_context(sandbox(args.bin_dir / "ses-sandbox", folder, "--quota", str(args.quota),
                                          "--latency", f"{1e3 * way.latency:.0f}ms"))
        redis = free_port()
        stack.enter_context(running([args.redis, "--port", str(redis), "--save", "", "--bind", "127.0.0.1"],
                                    stdout=stack.enter_context((folder / "redis.log").open("wb")), cwd=folder))
        begin = time.time() + READY_SECONDS
        mails = queues(args.quota, args.seconds, way.own)
        pool = stack.enter_context(ProcessPoolExecutor(WORKERS))
        task = Task(way, args.quota, urlsplit(url).port or 0, redis, begin, begin + args.seconds, [])
        calls = [call for own in pool.map(worker, [replace(task, mails=mine) for mine in mails]) for call in own]
    return judged(calls, Counter(itertools.chain(*mails)), args.quota, task.begin, task.end)


def tidegate(args: argparse.Namespace, folder: Path) -> Figures:
    """From the fifth window on. Nine tenths of the quota for the time, and less than a tenth, so that the small one ends."""
    mails = args.quota * args.seconds
    report = devstack(args, folder, 600, "--quota", args.quota, "--big", round(0.92 * mails), "--small",
                      round(0.08 * mails), "--sqs", "sandbox")
    figures, refusals = report["figures"], refused(report)
    both, after = figures["phases"]["all_waiting"], figures["phases"]["after_first_end"]
    return Figures(both["utilisation"], after["utilisation"], refusals / (refusals + mails),
                   figures["worst_second"] / args.quota, both["shares"]["small"]["share"])


def line(name: str, figures: Figures) -> str:
    after = "" if figures.used_after is None else f" {figures.used_after:.1%}"
    return (f"| {name} | {figures.used:.1%} |{after} | {figures.refused:.1%} | {figures.worst_second:.0%} | "
            f"{figures.small:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quota", type=int, default=14, help="recipients a second [%(default)s]")
    parser.add_argument("--seconds", type=int, default=60, help="of each way [%(default)s]")
    parser.add_argument("--only", default="", help="a word of the names of the ways")
    parser.add_argument("--bin-dir", type=place, default=ROOT / "target/release", help="the binaries [target/release]")
    parser.add_argument("--python", type=place, default=ROOT / ".tools/local/bin/python", help="Python with ministack")
    parser.add_argument("--redis", type=place, default=ROOT / ".tools/redis/bin/redis-server", help="redis-server")
    parser.set_defaults(root=ROOT)
    args = parser.parse_args()
    print("| way | quota used | after the small campaign | refused | worst second | small campaign's share |\n"
          "|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for way in ways(args.quota):
            if args.only in way.name:
                print(line(way.name, measured(way, args, Path(scratch))), flush=True)
        if args.only in "Tidegate":
            print(line("Tidegate", tidegate(args, Path(scratch))), flush=True)


if __name__ == "__main__":
    main()
