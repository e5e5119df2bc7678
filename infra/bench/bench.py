#!/usr/bin/env python3
"""Measures Tidegate against its targets, on a local AWS, and prints one table.

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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import bucket
import confined
import confinement
import console
import express
import idle
import many
from figures import RATE_MARGINS, Judge, Report, Row, rate_margin_rows, sending_rows, table
from startup import package_rows, start_rows

# Both campaigns wait for more than 30 windows from the fifth on; then the small one ends.
BACKLOG = {14: (940, 60), 200: (9_000, 740), 1_000: (44_000, 3_700)}
RATE_MARGIN_BACKLOG = (4_600, 400)
RUN_SECONDS = 600


@dataclass(frozen=True)
class Run:
    """A run of `devstack`, and how its report is judged."""

    options: tuple[str, ...]
    rows: Callable[[str, Report], list[Row]]


def sending(quota: int, *options: str, **targets: float) -> Run:
    big, small = BACKLOG[quota]
    counts = ("--quota", str(quota), "--big", str(big), "--small", str(small))
    judge = Judge(quota=quota, **targets)
    return Run((*counts, *options), lambda part, report: sending_rows(part, report, judge))


def rate_margin(value: float) -> Run:
    big, small = RATE_MARGIN_BACKLOG
    options = ("--quota", "200", "--big", str(big), "--small", str(small), "--rate-margin", str(value))
    return Run(options, lambda part, report: rate_margin_rows(part, report, value))


RUNS: dict[str, Run] = {
    "14-strict": sending(14, "--strict", worst_second=14),
    "14": sending(14),
    "200": sending(200, calls=0.56, cpu_ms=0.5, rss=25e6),
    "200-direct": sending(200, "--mode", "direct", calls=0.25, cpu_ms=0.5, rss=25e6),
    **{f"rate-margin-{value}": rate_margin(value) for value in RATE_MARGINS},
    "1000": sending(1_000, "--sqs", "sandbox", worst_second=1_005),
}
# Under Lambda's limits.
CONFINED = [*confined.CASES, many.PART]
PARTS = ["start", "bucket", *RUNS, "express", "idle", "console", *CONFINED]
# Several parts by one name.
GROUPS = {"lambda": CONFINED}
# What the cost calculation goes by.
MEASURED = Path("infra/cost/measured.json")


def measure(part: str, args: argparse.Namespace) -> list[Row]:
    """The rows of one part; a run that failed is a row that is not reached."""
    if part == "start":
        return start_rows(args.bin_dir) + package_rows(args.bin_dir)
    if part == "idle":
        return idle_rows(args)
    if part == "express":
        return express_rows(args)
    if part == "bucket":
        return bucket_rows(args)
    if part == "console":
        return console_rows(args)
    if part in CONFINED:
        return confined_rows(part, args)
    run = RUNS[part]
    try:
        report = local(part, run.options, args)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return [Row(part, "a run with a report", None, "", "one", reached=False, note=str(error))]
    return run.rows(part, report)


def express_rows(args: argparse.Namespace) -> list[Row]:
    """Express mail beside a full backlog."""
    try:
        return express.rows("express", express.measure(args))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row("express", "runs", None, "", "four", reached=False, note=str(error))]


def bucket_rows(args: argparse.Namespace) -> list[Row]:
    try:
        measured = bucket.measure(args.root)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row("bucket", "takes", None, "", "measured", reached=False, note=str(error))]
    return bucket.rows("bucket", measured)


def console_rows(args: argparse.Namespace) -> list[Row]:
    try:
        measured = console.measure(args.root)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row("console", "streams", None, "", "measured", reached=False, note=str(error))]
    return console.rows("console", measured)


def confined_rows(part: str, args: argparse.Namespace) -> list[Row]:
    """The poller under Lambda's limits; where they cannot be had that is no failure."""
    if why := confinement.unavailable():
        return [Row(part, "skipped", None, "", note=why)]
    try:
        if part == many.PART:
            return many.rows(many.measure(args))
        return confined.rows(part, confined.measure(part, args))
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row(part, "a run under Lambda's limits", None, "", "one", reached=False, note=str(error))]


def idle_rows(args: argparse.Namespace) -> list[Row]:
    """Idle minutes; with --write they become those of the cost calculation."""
    place = args.root / MEASURED
    known = json.loads(place.read_text()) if place.exists() else {}
    try:
        measured = idle.measure(args)
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        return [Row("idle", "idle minutes", None, "", "two", reached=False, note=str(error))]
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "idle.json").write_text(json.dumps(measured, indent=1) + "\n")
    if args.write:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(known | {"idle_minute": measured}, indent=1) + "\n")
        known = {}
    return idle.rows("idle", measured, known.get("idle_minute"))


def local(part: str, options: tuple[str, ...], args: argparse.Namespace) -> Report:
    """Runs `devstack`, and gives its report."""
    folder: Path = args.out / part
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(args.bin_dir / "devstack"), "--json", "--invoke-now"]
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
    parser.add_argument("--only", type=parts, default=PARTS, metavar="PART,…",
                        help=f"parts to run, of {','.join([*PARTS, *GROUPS])}")
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
    needed = {"poller", "scheduler", "ses-sandbox", "sqs-sandbox"}
    if any(part not in CONFINED for part in args.only):
        needed.add("devstack")
    for name in sorted(needed):
        if not os.access(args.bin_dir / name, os.X_OK):
            parser.error(f"{args.bin_dir / name} is missing: run `make binaries`, or name --bin-dir")
    return args


def main() -> int:
    args = options()
    rows: list[Row] = []
    for part in args.only:
        print(f"{part} …", file=sys.stderr, flush=True)
        rows += measure(part, args)
    args.out.mkdir(parents=True, exist_ok=True)
    figures = [asdict(row) for row in rows]
    (args.out / "bench.json").write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    print(table(rows))
    return 0 if all(row.reached is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
