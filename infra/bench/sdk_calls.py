"""The processor time of a poller's AWS calls alone, a mail: `sdk-calls` on sandboxes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from fakes import program

MAILS, PER_SECOND = 3_000, 196
LARGE_MAILS, LARGE_PER_SECOND = 1_000, 98
RUN_SECONDS = 120
# Milliseconds that a tiny mail takes on the machine whose shares of a processor docs/figures.md gives.
REFERENCE_MS = 0.45


def slowness(args: Any) -> float:
    """How much longer the same work takes on this machine, as it is now, than on that of docs/figures.md."""
    return measure(args, "merge") / REFERENCE_MS


def measure(args: Any, mode: str, kilobytes: int = 0) -> float:
    """Milliseconds a mail; `mode` is `merge` or `direct`. Tiny mails, or some of this size."""
    load = [MAILS, PER_SECOND] if kilobytes == 0 else [LARGE_MAILS, LARGE_PER_SECOND, kilobytes]
    ses = [str(args.bin_dir / "ses-sandbox"), "--quota", "1000", "--latency", "80ms"]
    sqs = [str(args.bin_dir / "sqs-sandbox"), "--create"]
    with (tempfile.TemporaryDirectory() as scratch,
          program("ses-sandbox", ses, Path(scratch)) as ses_url,
          program("sqs-sandbox", sqs, Path(scratch)) as sqs_url):
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_SQS": sqs_url.rstrip("/"), "AWS_ENDPOINT_URL_SESV2": ses_url.rstrip("/")}
        command = [str(args.bin_dir / "sdk-calls"), mode, *map(str, load)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True,
                               timeout=RUN_SECONDS, check=False)
    if ended.returncode:
        raise ValueError(f"sdk-calls ended with {ended.returncode}: {ended.stderr.strip()}")
    return float(json.loads(ended.stdout)["cpu_ms_per_mail"])
