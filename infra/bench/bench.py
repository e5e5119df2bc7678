#!/usr/bin/env python3
"""Measures Tidegate against its targets, on a local AWS, and prints each figure when it is known.

Each part is a run of `devstack` on the release binaries, or a measurement of its own. The
figures are ratios and counts wherever they can be, so that they mean the same on every machine.

Exit code: 0 every target was reached; 1 one was missed, or a run failed; 2 an option is wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import confined
import confinement
import express
import idle
import many
import programs
from figures import RATE_MARGINS, Judge, Report, Row, head, line, rate_margin_rows, sending_rows, told, total
from processes import devstack

ROOT = Path(__file__).resolve().parents[2]
# Both campaigns wait for more than 30 windows from the fifth on; then the small one ends.
BACKLOG = {14: (940, 60), 200: (9_000, 740), 1_000: (44_000, 3_700)}
RATE_MARGIN_BACKLOG = (4_600, 400)
RUN_SECONDS = 600
# From here on the local AWS would be measured instead of the poller: SQS is `sqs-sandbox`.
SANDBOX = ("--sqs", "sandbox")
# What a run that failed raises.
FAULTS = (OSError, ValueError, KeyError, subprocess.SubprocessError)

Rows = Callable[[str, argparse.Namespace], list[Row]]


@dataclass(frozen=True)
class Part:
    """A measurement, about how long it takes on two cores, and whether the short run has it."""

    seconds: int
    rows: Rows
    short: bool = False


def sent(part: str, args: argparse.Namespace, quota: int, backlog: tuple[int, int], *options: object) -> Report:
    """The report of a run with two campaigns."""
    big, small = backlog
    return devstack(args, args.out / part, RUN_SECONDS, "--quota", quota, "--big", big, "--small", small, *options)


def sending(quota: int, *options: str, judge: Judge) -> Rows:
    """A run of `devstack` with two campaigns, and what it is aimed at."""

    def rows(part: str, args: argparse.Namespace) -> list[Row]:
        report, aims = sent(part, args, quota, BACKLOG[quota], *options), judge
        # After the run, so that both are measured on a machine as busy.
        try:
            aims = replace(judge, sdk_calls_ms=programs.sdk_calls(args, judge.sdk_calls) if judge.sdk_calls else 0.0)
        except FAULTS as error:
            aims = replace(judge, sdk_calls_fault=str(error))
        return sending_rows(report, aims)

    return rows


def rate_margin(value: float) -> Rows:
    options = ("--rate-margin", value, *SANDBOX)
    return lambda part, args: rate_margin_rows(sent(part, args, 200, RATE_MARGIN_BACKLOG, *options), value)


PARTS: dict[str, Part] = {
    "start": Part(5, programs.start, short=True),
    "bucket": Part(300, programs.bucket),
    "14-strict": Part(90, sending(14, "--strict", judge=Judge(worst_second=14)), short=True),
    "14": Part(90, sending(14, judge=Judge())),
    "200": Part(90, sending(
        200, *SANDBOX, judge=Judge(calls=0.56, sdk_calls="merge", rss=25e6)), short=True),
    "200-direct": Part(90, sending(
        200, "--mode", "direct", *SANDBOX, judge=Judge(calls=0.25, sdk_calls="direct", rss=25e6)), short=True),
    **{f"rate-margin-{value}": Part(45, rate_margin(value)) for value in RATE_MARGINS},
    "1000": Part(75, sending(1_000, *SANDBOX, judge=Judge(worst_second=1_005))),
    "express": Part(440, express.part),
    "idle": Part(450, idle.part),
    "lists": Part(10, programs.lists),
    "plan": Part(10, programs.plan),
    "store": Part(500, programs.store),
    "console": Part(400, programs.console),
    "relay": Part(150, programs.relay),
    **{part: Part(160 if case in confined.LARGE else 100, confined.part) for part, case in confined.CASES.items()},
    many.PART: Part(260, many.part),
    confined.LIMITS_PART: Part(350, confined.limits_part),
}
CONFINED = [*confined.CASES, many.PART, confined.LIMITS_PART]
# Several parts by one name.
GROUPS = {"short": [name for name, part in PARTS.items() if part.short], "lambda": CONFINED,
          "full": list(PARTS)}


def measure(part: str, args: argparse.Namespace) -> list[Row]:
    """The rows of one part; a run that failed is a row that is not reached."""
    try:
        # Where Lambda's limits cannot be had, that is no failure.
        why = confinement.unavailable() if part in CONFINED else ""
        rows = [told("skipped", None, "", why)] if why else PARTS[part].rows(part, args)
    except FAULTS as error:
        rows = [Row(part, "measured", None, "", "one run", reached=False, note=str(error))]
    return [replace(row, part=part) for row in rows]


def parts(text: str) -> list[str]:
    asked = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in asked if part not in PARTS and part not in GROUPS]
    if unknown or not asked:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {','.join([*PARTS, *GROUPS])}")
    named = {name for part in asked for name in GROUPS.get(part, [part])}
    return [part for part in PARTS if part in named]


def place(text: str) -> Path:
    """Not resolved: a virtual environment's Python is a link."""
    return Path(text).absolute()


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", type=parts, default=GROUPS["short"], metavar="PART,…",
                        help=f"parts to run, of {','.join([*PARTS, *GROUPS])} [short]")
    for option, default, what in (("--bin-dir", "target/release", "the release binaries"),
                                  ("--python", ".tools/local/bin/python", "Python with ministack"),
                                  ("--out", ".local/bench", "folder for reports and bench.json")):
        parser.add_argument(option, type=place, default=ROOT / default, help=f"{what} [{default}]")
    parser.add_argument("--write", action="store_true",
                        help=f"write the idle minutes into {idle.MEASURED}, and do not judge them")
    parser.set_defaults(root=ROOT)
    args = parser.parse_args()
    for name in ("devstack", "poller", "scheduler", "sdk-calls", "ses-sandbox", "sqs-sandbox", "tidegate"):
        if not os.access(args.bin_dir / name, os.X_OK):
            parser.error(f"{args.bin_dir / name} is missing: run `make binaries`, or name --bin-dir")
    return args


def main() -> int:
    args = options()
    args.out.mkdir(parents=True, exist_ok=True)
    about = sum(PARTS[part].seconds for part in args.only)
    print(f"{len(args.only)} parts, about {about / 60:.0f} minutes", file=sys.stderr)
    print(head(), flush=True)
    rows: list[Row] = []
    for part in args.only:
        began = time.monotonic()
        print(f"{part}: about {PARTS[part].seconds} s", file=sys.stderr, flush=True)
        found = measure(part, args)
        print("\n".join(map(line, found)), flush=True)
        print(f"{part}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        rows += found
        figures = [asdict(row) for row in rows]
        (args.out / "bench.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    print(total(rows))
    return 0 if all(row.reached is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
