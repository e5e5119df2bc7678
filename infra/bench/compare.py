#!/usr/bin/env python3
"""Compares the ratios of a benchmark with those of the runs before, and adds them to the history.

A ratio means the same on every machine, and a time does not: compared are figures in parts of the quota, in points,
and without a unit, if they have a target, whose sign says which direction is better. A figure is worse
if it is beyond the median of the last runs by more than its allowance. Prints a table in Markdown.

Exit code: 0 no figure is worse, or there are fewer than three runs before; 1 one is worse; 2 an option is wrong.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

# How much worse a figure of this unit may be than the median: a part of it, or a difference in the unit itself.
ALLOWANCES = {"": lambda median: 0.1 * abs(median), "of q": lambda _: 0.01, "points": lambda _: 0.5}
# Below this many runs a median says nothing; above that many the oldest are dropped.
LEAST, MOST, JUDGED_BY = 3, 400, 14

# A figure of bench.json, and a run before: its commit, and its ratios by name.
Figure = dict[str, Any]
Run = dict[str, Any]


def ratios(figures: list[Figure]) -> dict[str, Figure]:
    """The figures that mean the same on every machine, by part and name."""
    kept = [of for of in figures if of["value"] is not None and of["target"] and of["unit"] in ALLOWANCES]
    return {f"{of['part']}: {of['figure']}": of for of in kept}


def row(name: str, now: Figure, history: list[Run]) -> tuple[str, bool]:
    """A figure beside the median of the runs before; whether it is worse."""
    value, unit = now["value"], now["unit"]
    earlier = [run["ratios"][name] for run in history[-JUDGED_BY:] if name in run["ratios"]]
    if len(earlier) < LEAST:
        return f"| {name} | {value:.4g} {unit} | – |  |", False
    median = statistics.median(earlier)
    more = value - median if now["target"].startswith("<") else median - value
    worse = more > ALLOWANCES[unit](median)
    return f"| {name} | {value:.4g} {unit} | {median:.4g} | {'**worse**' if worse else 'as before, or better'} |", worse


def read_history(path: Path) -> list[Run]:
    runs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    # The ratios of earlier nights stood with their units.
    kept = [run for run in runs if not any(isinstance(ratio, dict) for ratio in run["ratios"].values())]
    if len(kept) < len(runs):
        print(f"compare: {len(runs) - len(kept)} runs of an earlier form are left out", file=sys.stderr)
    return kept


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("compare", description=(__doc__ or "").split("\n", 1)[0])
    option = parser.add_argument
    option("--figures", type=Path, required=True, metavar="FILE", help="bench.json of this run")
    option("--history", type=Path, required=True, metavar="FILE", help="the runs before, a line of JSON each")
    option("--commit", required=True, help="what was measured")
    args = parser.parse_args(arguments)
    try:
        now = ratios(json.loads(args.figures.read_text(encoding="utf-8")))
        history = read_history(args.history)
    except (OSError, ValueError, KeyError) as error:
        parser.error(f"cannot read the figures: {error}")
    if not now:
        parser.error(f"{args.figures} has no ratio")
    rows = [row(name, of, history) for name, of in now.items()]
    print(f"Ratios of {args.commit[:12]} against the median of the last {min(len(history), JUDGED_BY)} runs\n")
    print("| figure | now | before | |\n|---|---|---|---|")
    print("\n".join(text for text, _ in rows))
    run = {"commit": args.commit, "ratios": {name: of["value"] for name, of in now.items()}}
    lines = [json.dumps(each, ensure_ascii=False) for each in [*history, run][-MOST:]]
    args.history.parent.mkdir(parents=True, exist_ok=True)
    args.history.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if any(worse for _, worse in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
