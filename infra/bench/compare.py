#!/usr/bin/env python3
"""Compares the ratios of a benchmark with those of the runs before, and adds them to the history.

A ratio means the same on every machine, and a time does not: compared are figures in parts of the quota, in points,
and without a unit, if they have a target, whose sign says which direction is better. A figure is worse
if it is beyond the median of the last runs by more than its allowance. Prints a table in Markdown.

Exit code: 0 no figure is worse, or there are fewer than three runs before; 1 one is worse; 2 an option is wrong.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# How much worse a figure of this unit may be: a part of the median, or the difference in the unit itself.
RELATIVE = {"": 0.1}
ABSOLUTE = {"of q": 0.01, "points": 0.5}
# Below this many runs a median says nothing; above that many the oldest are dropped.
LEAST, MOST, JUDGED_BY = 3, 400, 14


@dataclass(frozen=True)
class Change:
    """A figure now, and the median of the runs before."""

    name: str
    unit: str
    now: float
    before: float | None
    worse: bool

    def row(self) -> str:
        before = "–" if self.before is None else f"{self.before:.4g}"
        verdict = "**worse**" if self.worse else "" if self.before is None else "as before, or better"
        return f"| {self.name} | {self.now:.4g} {self.unit} | {before} | {verdict} |"


def ratios(figures: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The figures that mean the same on every machine, by part and name."""
    kept = {}
    for figure in figures:
        if figure["value"] is not None and figure["target"] and figure["unit"] in RELATIVE | ABSOLUTE:
            lower = figure["target"].startswith("<")
            kept[f"{figure['part']}: {figure['figure']}"] = {
                "value": figure["value"], "unit": figure["unit"], "lower_is_better": lower,
            }  # fmt: skip
    return kept


def compare(now: dict[str, dict[str, Any]], history: list[dict[str, Any]]) -> list[Change]:
    changes = []
    for name, ratio in now.items():
        earlier = [run["ratios"][name]["value"] for run in history[-JUDGED_BY:] if name in run["ratios"]]
        median = statistics.median(earlier) if len(earlier) >= LEAST else None
        worse = median is not None and is_worse(ratio, median)
        changes.append(Change(name, ratio["unit"], ratio["value"], median, worse))
    return changes


def is_worse(ratio: dict[str, Any], median: float) -> bool:
    allowance = ABSOLUTE.get(ratio["unit"], abs(median) * RELATIVE.get(ratio["unit"], 0.0))
    more = ratio["value"] - median
    return (more if ratio["lower_is_better"] else -more) > allowance


def read_history(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


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
    changes = compare(now, history)
    print(f"Ratios of {args.commit[:12]} against the median of the last {min(len(history), JUDGED_BY)} runs\n")
    print("| figure | now | before | |\n|---|---|---|---|")
    print("\n".join(change.row() for change in changes))
    lines = [json.dumps(run, ensure_ascii=False) for run in [*history, {"commit": args.commit, "ratios": now}][-MOST:]]
    args.history.parent.mkdir(parents=True, exist_ok=True)
    args.history.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if any(change.worse for change in changes) else 0


if __name__ == "__main__":
    sys.exit(main())
