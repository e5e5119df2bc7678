"""Benches of a crate that print their figures as JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any


def cargo_bench(root: Path, package: str, bench: str, seconds: int) -> dict[str, Any]:
    """The last line that the bench printed; it has so many seconds, its building included."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", package, "--bench", bench]
    ended = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=seconds, check=False
    )
    if ended.returncode != 0 or not ended.stdout.strip():
        raise ValueError(ended.stderr.strip() or f"it ended with {ended.returncode} and said nothing")
    return json.loads(ended.stdout.strip().splitlines()[-1])
