"""The operator's commands by themselves: their processor time and memory."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from figures import Row, at_most, told

LISTS, PLAN = "lists", "plan"
LIST_ROWS = 100_000
HTML_BYTES = 5_000
LIST_SECONDS = 5.0
RATE = 200
MEGABYTES = 400.0


@dataclass(frozen=True)
class Campaigns:
    """Those of a forecast, and the processor time that it may take."""

    campaigns: int
    mails: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.campaigns:,} campaigns of {self.mails:,} mails"


FORECASTS = (Campaigns(2, 100_000, 0.5), Campaigns(1_000, 1_000, 10.0))


def used(command: list[str | Path]) -> tuple[float, float]:
    """Processor seconds and peak megabytes of the command alone."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command[:2])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1_000


def list_rows(part: str, args: argparse.Namespace) -> list[Row]:
    """`tidegate send` checks a list, rendering and parsing every row as the poller does; and one of a row, which is what
    the program takes by itself."""
    figure = f"{LIST_ROWS:,} rows of {HTML_BYTES // 1_000} KB HTML checked, processor time"
    return [at_most(part, figure, checked(args.bin_dir / "tidegate", LIST_ROWS), "s", LIST_SECONDS),
            told(part, "one row", checked(args.bin_dir / "tidegate", 1), "s")]


def checked(program: Path, count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = [f"reader-{number}@example.com,Ada {number},t{number}" for number in range(count)]
        (place / "list.csv").write_text("\n".join(["to,first_name,token", *lines]))
        paragraph = "<p>Dear {{ first_name }}, here is <a href='https://example.org/?t={{ token }}'>more news</a>.</p>\n"
        text = paragraph * (HTML_BYTES // len(paragraph))
        (place / "mail.html").write_text(f"<title>Hello {{{{ first_name }}}}</title>\n{text}")
        seconds, _ = used([program, "send", place / "list.csv", "--template", place / "mail.html",
                           "--from", "news@example.org", "--no-stack", "--json"])
        return seconds


def plan_rows(part: str, args: argparse.Namespace) -> list[Row]:
    """`tidegate plan` forecasts two campaigns, and as many as it accepts, without options."""
    found: list[Row] = []
    for case in FORECASTS:
        campaigns = [f"--campaign=c{number}={case.mails}" for number in range(case.campaigns)]
        seconds, megabytes = used([args.bin_dir / "tidegate", "plan", *campaigns, f"--quota={RATE}", "--json"])
        found += [at_most(part, f"{case}, processor time", seconds, "s", case.seconds),
                  at_most(part, f"{case}, peak memory", megabytes, "MB", MEGABYTES)]
    return found
