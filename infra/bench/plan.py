"""`tidegate plan` forecasts two campaigns, and as many as it accepts: its own processor time and memory."""

from __future__ import annotations

import argparse
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from figures import Row, at_most

PART = "plan"
RATE = 200


@dataclass(frozen=True)
class Case:
    campaigns: int
    mails: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.campaigns:,} campaigns of {self.mails:,} mails"


CASES = (Case(2, 100_000, 0.5), Case(1_000, 1_000, 3.0))
MEGABYTES = 400.0


def rows(part: str, args: argparse.Namespace) -> list[Row]:
    """Three runs of each case, as without options."""
    found: list[Row] = []
    for case in CASES:
        seconds, megabytes = measure(args.bin_dir / "tidegate", case)
        found += [at_most(part, f"{case}, processor time", seconds, "s", case.seconds),
                  at_most(part, f"{case}, peak memory", megabytes, "MB", MEGABYTES)]
    return found


def measure(program: Path, case: Case) -> tuple[float, float]:
    campaigns = [f"--campaign=c{number}={case.mails}" for number in range(case.campaigns)]
    command = [program, "plan", *campaigns, f"--quota={RATE}", "--json"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        # The usage of this process alone, not the most of all that ended before.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command[:2])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1_000
