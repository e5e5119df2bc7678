"""Start-up to the first `/next`, and the size of a deployment package."""

from __future__ import annotations

import io
import json
import socket
import statistics
import subprocess
import time
import zipfile
from pathlib import Path

from figures import Row, at_most, told

STARTS = 20
START_MS = 10.0
NEXT_WITHIN = 5.0
# Refuses connections: those that a poller opens before its first event take as long as the network does.
NOBODY = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/"


def environment(runtime_api: str) -> dict[str, str]:
    """What Lambda and the template give a poller."""
    campaigns = [
        {"name": "big", "queue_url": QUEUE + "big", "weight": 90},
        {"name": "small", "queue_url": QUEUE + "small", "weight": 10},
    ]
    return {
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_LAMBDA_FUNCTION_NAME": "poller",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_GROUP_NAME": "poller",
        "AWS_LAMBDA_LOG_STREAM_NAME": "poller",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "TIDEGATE_CAMPAIGNS": json.dumps(campaigns),
        "TIDEGATE_MERGE_QUEUE_URL": QUEUE + "merge.fifo",
        "TIDEGATE_EXPRESS_QUEUE_URL": QUEUE + "express",
        "TIDEGATE_DEAD_LETTER_QUEUE_URL": QUEUE + "dead-letter",
        "TIDEGATE_LEDGER": "dynamodb:tidegate",
    }


def start_rows(bin_dir: Path) -> list[Row]:
    try:
        first_start(bin_dir / "poller")  # reads the file into memory, as the next ones find it
        times = [first_start(bin_dir / "poller") for _ in range(STARTS)]
    except (OSError, ValueError) as error:
        return [at_most("start", "start to first /next, median", None, "ms", START_MS, str(error))]
    median = statistics.median(times)
    return [
        at_most("start", "start to first /next, median", median, "ms", START_MS, f"of {STARTS}"),
        told("start", "start to first /next, best", min(times), "ms"),
    ]


def first_start(program: Path) -> float:
    """Milliseconds from the program's start until it asks the runtime API for an event."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(NEXT_WITHIN)
        host, port = server.getsockname()
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(program)], env=environment(f"{host}:{port}") | NOBODY, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )
        try:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(NEXT_WITHIN)
                request = connection.recv(4_096)
            took = time.perf_counter() - began
        except TimeoutError:
            process.kill()
            said = (process.communicate()[1] or b"").decode(errors="replace").strip()
            silent = f"{program} asked for nothing within {NEXT_WITHIN:g} s; {said}"
            raise ValueError(silent) from None
        finally:
            process.kill()
            process.communicate()
    if not request.startswith(b"GET /2018-06-01/runtime/invocation/next "):
        raise ValueError(f"{program} asked first for {request[:80]!r}")
    return took * 1e3


def package_rows(bin_dir: Path) -> list[Row]:
    sizes = {name: len(package(bin_dir / name)) for name in ("poller", "scheduler")}
    return [
        told("start", f"zipped bootstrap, {name}", size, "bytes")
        for name, size in sizes.items()
    ]


def package(program: Path) -> bytes:
    """A deployment package: the program as `bootstrap`, zipped."""
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        archive.write(program, "bootstrap")
    return zipped.getvalue()
