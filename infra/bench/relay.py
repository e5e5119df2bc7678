"""`tidegate relay` on one core: how many mails it accepts a second, and how soon, over SMTP and SES's API.

The clients, SQS (`sqs-sandbox`) and a stack that sends 14 a second have the other core.
"""

import json
import os
import subprocess
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from figures import Row, at_least, at_most
from processes import Command, printed, running

# Bytes of a mail, clients, seconds, and mails a second that the relay has to accept.
SMALL = (4_000, 50, 10, 1_000)
LARGE = (200_000, 20, 10, 200)
# Of a small mail at half of that rate, with SQS's own answer.
P99_MS = 25.0
STARTED_WITHIN = 60.0


@contextmanager
def relay(args: Namespace, folder: Path, core: int) -> Iterator[tuple[str, str]]:
    """A relay of a local stack, on a core of its own: its addresses for SES's API and for SMTP."""
    folder.mkdir(parents=True, exist_ok=True)
    stack: Command = [
        args.bin_dir / "devstack", "--json", "--keep-running", "--root", args.root, "--bin-dir", args.bin_dir,
        "--out", folder, "--python", args.python, "--sqs", "sandbox", "--big", "18", "--small", "2"]
    command: Command = [args.bin_dir / "tidegate", "relay", "--local", "--local-runs", folder, "--json",
                        "--campaign", "big", "--listen", "127.0.0.1:0", "--smtp", "127.0.0.1:0"]
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running(stack, **silent), (folder / "relay.log").open("wb") as log:
        until = time.monotonic() + STARTED_WITHIN
        while not (folder / "report.json").exists():
            if time.monotonic() > until:
                raise ValueError(f"the stack did not start within {STARTED_WITHIN:g} s")
            time.sleep(0.2)
        alone = partial(os.sched_setaffinity, 0, {core})
        with running(command, stdout=subprocess.PIPE, stderr=log, preexec_fn=alone) as process:
            line = process.stdout.readline() if process.stdout else b""
            if not line:
                raise ValueError(f"the relay did not start: {(folder / 'relay.log').read_text()}")
            told = json.loads(line)
            yield told["http"].removeprefix("http://"), told["smtp"][0]


def part(name: str, args: Namespace) -> list[Row]:
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise ValueError("the relay needs a core of its own, and the clients another")
    os.sched_setaffinity(0, set(cores[1:]))
    try:
        with relay(args, args.out / name, cores[0]) as (ses, smtp):
            return [row for way, address in (("smtp", smtp), ("ses", ses)) for row in rows(args, way, address)]
    finally:
        os.sched_setaffinity(0, set(cores))


def rows(args: Namespace, way: str, address: str) -> list[Row]:
    def clients(mails: tuple[int, int, int, int], *pace: int) -> dict[str, float]:
        numbers = map(str, (*mails[:3], *pace))
        told = printed([args.bin_dir / "mail-clients", way, address, *numbers], 60)
        return dict(json.loads(told))

    small, large, paced = clients(SMALL), clients(LARGE), clients(SMALL, SMALL[3] // 2)
    refused = f"refused {small['refused'] + large['refused'] + paced['refused']:g}"
    return [at_least(f"{way}: mails of 4 KB accepted on one core", small["per_second"], "/s", SMALL[3], refused),
            at_least(f"{way}: mails of 200 KB", large["per_second"], "/s", LARGE[3]),
            at_most(f"{way}: 4 KB at 500/s, p99", paced["p99_ms"], "ms", P99_MS, f"p50 {paced['p50_ms']:g}")]
