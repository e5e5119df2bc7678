#!/usr/bin/env python3
"""Measures Tidegate against its targets, on a local AWS, and prints each figure when it is known.

Each part is a run of `devstack` on the release binaries, or a measurement of its own. The
figures are ratios and counts wherever they can be, so that they mean the same on every machine.

Exit code: 0 every target was reached; 1 one was missed, or a run failed; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import commands
import confined
import confinement
import crate_benches
import express
import idle
import limits
import many
import sdk_calls
from figures import RATE_MARGINS, Judge, Report, Row, head, line, rate_margin_rows, sending_rows, total
from startup import package_rows, start_rows

# Both campaigns wait for more than 30 windows from the fifth on; then the small one ends.
BACKLOG = {14: (940, 60), 200: (9_000, 740), 1_000: (44_000, 3_700)}
RATE_MARGIN_BACKLOG = (4_600, 400)
RUN_SECONDS = 600
# From here on the local AWS would be measured instead of the poller: SQS is `sqs-sandbox`.
SANDBOX = ("--sqs", "sandbox")
# What the cost calculation goes by.
MEASURED = Path("infra/cost/measured.json")


@dataclass(frozen=True)
class Part:
    """A measurement, about how long it takes on two cores, and whether the short run has it."""

    seconds: int
    rows: Callable[[str, argparse.Namespace], list[Row]]
    short: bool = False


def sending(quota: int, *options: str, judge: Judge) -> Callable[[str, argparse.Namespace], list[Row]]:
    """A run of `devstack` with two campaigns."""
    big, small = BACKLOG[quota]
    counts = ("--quota", str(quota), "--big", str(big), "--small", str(small))

    def rows(part: str, args: argparse.Namespace) -> list[Row]:
        report = local(part, (*counts, *options), args)
        # After the run, so that both are measured on a machine as busy.
        try:
            reference = sdk_calls.measure(args, judge.sdk_calls) if judge.sdk_calls else 0.0
        except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            return sending_rows(part, report, replace(judge, sdk_calls_fault=str(error)))
        return sending_rows(part, report, replace(judge, sdk_calls_ms=reference))

    return rows


def rate_margin(value: float) -> Callable[[str, argparse.Namespace], list[Row]]:
    big, small = RATE_MARGIN_BACKLOG
    options = ("--quota", "200", "--big", str(big), "--small", str(small), "--rate-margin", str(value))
    return lambda part, args: rate_margin_rows(part, local(part, (*options, *SANDBOX), args), value)


def start(part: str, args: argparse.Namespace) -> list[Row]:
    return start_rows(args.bin_dir) + package_rows(args.bin_dir)


def under_lambdas_limits(part: str, args: argparse.Namespace) -> list[Row]:
    """The poller under Lambda's limits; where they cannot be had that is no failure."""
    if why := confinement.unavailable():
        return [Row(part, "skipped", None, "", note=why)]
    if part == many.PART:
        return many.rows(many.measure(args))
    if part == limits.PART:
        return limits.rows(limits.measure(args))
    outcome = confined.measure(part, args)
    # After the run, so that both are measured on a machine as busy.
    large = outcome.case in confined.LARGE
    calls = sdk_calls.measure(args, "merge", outcome.case.body_kb) if large else None
    return confined.rows(part, outcome, calls, os.cpu_count() or 1)


def idle_minutes(part: str, args: argparse.Namespace) -> list[Row]:
    """Idle minutes; with --write they become those of the cost calculation."""
    place = args.root / MEASURED
    known = json.loads(place.read_text())
    measured = idle.measure(args)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "idle.json").write_text(json.dumps(measured, indent=1) + "\n")
    if args.write:
        place.write_text(json.dumps(known | {"idle_minute": measured}, indent=1) + "\n")
    return idle.rows(part, measured, None if args.write else known["idle_minute"])


PARTS: dict[str, Part] = {
    "start": Part(5, start, short=True),
    "bucket": Part(300, lambda part, args: crate_benches.bucket_rows(
        part, crate_benches.cargo_bench(args.root, "tidegate-adapters", "takes", crate_benches.TAKES_SECONDS))),
    "14-strict": Part(90, sending(14, "--strict", judge=Judge(worst_second=14)), short=True),
    "14": Part(90, sending(14, judge=Judge())),
    "200": Part(90, sending(
        200, *SANDBOX, judge=Judge(calls=0.56, sdk_calls="merge", rss=25e6)), short=True),
    "200-direct": Part(90, sending(
        200, "--mode", "direct", *SANDBOX, judge=Judge(calls=0.25, sdk_calls="direct", rss=25e6)), short=True),
    **{f"rate-margin-{value}": Part(45, rate_margin(value)) for value in RATE_MARGINS},
    "1000": Part(75, sending(1_000, *SANDBOX, judge=Judge(worst_second=1_005))),
    "express": Part(440, lambda part, args: express.rows(part, express.measure(args))),
    "idle": Part(450, idle_minutes),
    commands.LISTS: Part(10, commands.list_rows),
    commands.PLAN: Part(10, commands.plan_rows),
    "console": Part(400, lambda part, args: crate_benches.console_rows(
        part, crate_benches.cargo_bench(args.root, "tidegate-console", "streams", crate_benches.STREAMS_SECONDS))),
    **{part: Part(100, under_lambdas_limits) for part in confined.CASES},
    many.PART: Part(260, under_lambdas_limits),
    limits.PART: Part(180, under_lambdas_limits),
}
CONFINED = [*confined.CASES, many.PART, limits.PART]
# Several parts by one name.
GROUPS = {"short": [name for name, part in PARTS.items() if part.short], "lambda": CONFINED,
          "full": list(PARTS)}


def measure(part: str, args: argparse.Namespace) -> list[Row]:
    """The rows of one part; a run that failed is a row that is not reached."""
    try:
        return PARTS[part].rows(part, args)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row(part, "measured", None, "", "one run", reached=False, note=str(error))]


def local(part: str, options: tuple[str, ...], args: argparse.Namespace) -> Report:
    """Runs `devstack`, and gives its report."""
    folder: Path = args.out / part
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(args.bin_dir / "devstack"), "--json"]
    command += ["--root", str(args.root), "--bin-dir", str(args.bin_dir), "--out", str(folder)]
    command += ["--python", str(args.python), *options, *args.extra]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    # 1 with a report is a broken promise: that is judged here.
    if ended.returncode not in (0, 1) or not ended.stdout.strip():
        said = ended.stderr.strip() or f"it ended with {ended.returncode} and said nothing"
        raise ValueError(said)
    return json.loads(ended.stdout)


def parts(text: str) -> list[str]:
    asked = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [part for part in asked if part not in PARTS and part not in GROUPS]
    if unknown or not asked:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {','.join([*PARTS, *GROUPS])}")
    named = {name for part in asked for name in GROUPS.get(part, [part])}
    return [part for part in PARTS if part in named]


def options() -> argparse.Namespace:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", type=parts, default=GROUPS["short"], metavar="PART,…",
                        help=f"parts to run, of {','.join([*PARTS, *GROUPS])} [short]")
    parser.add_argument("--root", type=Path, default=root, help="Tidegate's checkout")
    parser.add_argument("--bin-dir", type=Path, help="the release binaries [target/release]")
    parser.add_argument("--python", type=Path,
                        help="Python with ministack [.tools/local/bin/python]")
    parser.add_argument("--out", type=Path, help="folder for reports and bench.json [.local/bench]")
    parser.add_argument("--write", action="store_true",
                        help=f"write the idle minutes into {MEASURED}, and do not judge them")
    parser.add_argument("extra", nargs="*", metavar="-- OPTION",
                        help="more options for `devstack`")
    args = parser.parse_args()
    args.bin_dir = (args.bin_dir or root / "target" / "release").absolute()
    # Not resolved: a virtual environment's Python is a link.
    args.python = (args.python or root / ".tools" / "local" / "bin" / "python").absolute()
    args.out = (args.out or root / ".local" / "bench").absolute()
    # What runs under Lambda's limits starts its own fakes, and no local run.
    needed = {"poller", "scheduler", "ses-sandbox", "sqs-sandbox", "sdk-calls"}
    if any(part not in CONFINED for part in args.only):
        needed.add("devstack")
    if {commands.LISTS, commands.PLAN} & set(args.only):
        needed.add("tidegate")
    for name in sorted(needed):
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
