"""`tidegate send` checks a list: every row is rendered and parsed as the poller parses it."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

from figures import Row, at_most, told

PART = "lists"
ROWS = 100_000
HTML_BYTES = 5_000
SECONDS = 5.0


def rows(part: str, args: argparse.Namespace) -> list[Row]:
    """Processor seconds for a large list, and for one of a row, which is what the program takes by itself."""
    spent = measure(args.bin_dir / "tidegate", ROWS)
    figure = f"{ROWS:,} rows of {HTML_BYTES // 1_000} KB HTML checked, processor time"
    return [at_most(part, figure, spent, "s", SECONDS), told(part, "one row", measure(args.bin_dir / "tidegate", 1), "s")]


def measure(program: Path, count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = [f"reader-{number}@example.com,Ada {number},t{number}" for number in range(count)]
        (place / "list.csv").write_text("\n".join(["to,first_name,token", *lines]))
        paragraph = "<p>Dear {{ first_name }}, here is <a href='https://example.org/?t={{ token }}'>more news</a>.</p>\n"
        text = paragraph * (HTML_BYTES // len(paragraph))
        (place / "mail.html").write_text(f"<title>Hello {{{{ first_name }}}}</title>\n{text}")
        command = [program, "send", place / "list.csv", "--template", place / "mail.html",
                   "--from", "news@example.org", "--no-stack", "--json"]
        before = os.times()
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system
