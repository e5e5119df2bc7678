"""What an idle stack costs in calls, milliseconds and log bytes, measured on the local AWS.

A counting proxy stands between the functions and ministack; milliseconds are those of the `REPORT`
lines in the functions' logs, as AWS bills them. The scheduler is invoked here, once a minute.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from client import Client, free_port
from figures import Row, at_most, told

Measured = dict[str, Any]

MINUTE = 60.0
# A run of the scheduler lasts ten windows longer; a poller reports within seconds.
SETTLED = 15.0
# By wake seconds: minutes before those that are measured (a stack sleeps after 45 windows without a
# mail), and minutes that are measured. Of five in which it sleeps, a poller checks the queues in one.
MINUTES = {1: (1, 1), 60: (2, 5)}
# The event with which EventBridge invokes the scheduler; any other would wake the stack.
EVENT = "events/scheduled_event.json"
READY_SECONDS = 30.0
STACK = "idle"
REPORT = re.compile(r"REPORT RequestId: \S+\s+Duration: [\d.]+ ms\s+Billed Duration: (\d+) ms")
# What CloudWatch adds to the bytes of every event.
EVENT_BYTES = 26
# Between two measurements of the same code, on a machine with other work.
TOLERANCE = 0.25


@dataclass
class Calls:
    """Calls to AWS, by when they came."""

    seen: list[tuple[float, str]] = field(default_factory=list)

    def within(self, since: float, until: float) -> Counter[str]:
        return Counter(name for at, name in list(self.seen) if since <= at < until)


def operation(method: str, path: str, target: str) -> str:
    """`SQS.ReceiveMessage` and the like, from what the SDK sends."""
    service, _, name = target.partition(".")
    if service == "AmazonSQS":
        return f"SQS.{name}"
    if service.startswith("DynamoDB"):
        return f"DynamoDB.{name}"
    if path.startswith("/v2/email"):
        return f"SES.{method} {path}"
    return "Lambda.Invoke" if path.endswith("/invocations") else f"{method} {path}"


def proxy(port: int, calls: Calls) -> ThreadingHTTPServer:
    """Passes everything on to ministack at `port`, and notes it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            name = operation(self.command, self.path, self.headers.get("X-Amz-Target", ""))
            calls.seen.append((time.time(), name))
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            try:
                headers = {k: v for k, v in self.headers.items() if k.lower() != "connection"}
                upstream.request(self.command, self.path, body, headers)
                answer = upstream.getresponse()
                content = answer.read()
            except (http.client.HTTPException, OSError):
                self.close_connection = True  # ministack is gone: the measurement is over
                return
            finally:
                upstream.close()
            self.send_response_only(answer.status)
            for key, value in answer.getheaders():
                if key.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            try:
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                self.close_connection = True  # who asked has ended, as a run's last long poll does

        do_GET = do_POST = do_PUT = do_DELETE = pass_on

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def ministack(
    python: Path, port: int, scratch: str, more: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    environment = (more or {}) | {
        "PATH": os.environ.get("PATH", ""), "HOME": scratch, "TMPDIR": scratch,
        "BIND_HOST": "127.0.0.1", "MINISTACK_HOST": "127.0.0.1", "GATEWAY_PORT": str(port),
        "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0",
    }
    program = "import sys; from ministack.app import main; sys.argv = ['ministack']; main()"
    return subprocess.Popen(
        [str(python), "-u", "-c", program], cwd=scratch, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def deploy(args: Any, port: int, endpoint: str) -> dict[str, str]:
    """The stack's outputs; its schedule is off, since the minutes are ours."""
    command = [str(args.python), "-B", str(args.root / "infra/local/local_aws.py"), "deploy"]
    command += ["--endpoint", f"http://127.0.0.1:{port}", "--stack", STACK]
    command += ["--template", str(args.root / "infra/sam/template.yaml")]
    command += ["--scheduler", str(args.bin_dir / "scheduler")]
    command += ["--poller", str(args.bin_dir / "poller")]
    for parameter in (f"EndpointUrl={endpoint}", "Schedule=DISABLED"):
        command += ["--parameter", parameter]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise ValueError(done.stderr.strip())
    outputs: dict[str, str] = json.loads(done.stdout)["outputs"]
    return outputs


def set_wake(stack: Client, function: str, wake: int) -> None:
    path = f"/2015-03-31/functions/{function}/configuration"
    variables = stack.call("GET", path, service="lambda")["Environment"]["Variables"]
    variables["TIDEGATE_IDLE_WAKE_SECONDS"] = str(wake)
    stack.call("PUT", path, {"Environment": {"Variables": variables}}, "lambda")


def logged(stack: Client, group: str, since: float, until: float) -> dict[str, int]:
    """Invocations that began within the time, what they are billed, and what was logged in it."""
    events: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    while True:
        body = {"logGroupName": group, "limit": 10_000, **page}
        answer = stack.target("logs", "Logs_20140328.FilterLogEvents", body)
        events += answer["events"]
        if not answer.get("nextToken") or not answer["events"]:
            break
        page = {"nextToken": answer["nextToken"]}
    mine = [e["message"] for e in events if since <= e["timestamp"] / 1e3 < until]
    billed = billed_of_begun(events, since, until)
    return {"invocations": len(billed), "billed_ms": sum(billed),
            "log_bytes": sum(len(message.encode()) + EVENT_BYTES for message in mine)}


def billed_of_begun(events: list[dict[str, Any]], since: float, until: float) -> list[int]:
    """Billed milliseconds of the invocations that began within the time. A `REPORT` line is logged as
    an invocation ends: a scheduler's, 70 s after it began."""
    reports = [(e["timestamp"] / 1e3, int(found[1])) for e in events
               if (found := REPORT.search(e["message"]))]
    return [billed for at, billed in reports if since <= at - billed / 1e3 < until]


def minute(args: Any, wake: int) -> Measured:
    """An idle minute in which the queues are checked every `wake` seconds: the mean of some."""
    event = json.loads((args.root / EVENT).read_text())
    warm, minutes = MINUTES[wake]
    calls, port = Calls(), free_port()
    with tempfile.TemporaryDirectory() as scratch:
        stack = ministack(args.python, port, scratch)
        server = proxy(port, calls)
        try:
            outputs = deploy(args, port, f"http://127.0.0.1:{server.server_address[1]}")
            ours = Client(port)
            set_wake(ours, outputs["SchedulerFunction"], wake)
            began = time.time()
            path = f"/2015-03-31/functions/{outputs['SchedulerFunction']}/invocations"
            for number in range(warm + minutes):
                time.sleep(max(0.0, began + number * MINUTE - time.time()))
                ours.call("POST", path, event, "lambda", **{"X-Amz-Invocation-Type": "Event"})
            since = began + warm * MINUTE
            until = since + minutes * MINUTE
            time.sleep(until + SETTLED - time.time())
            seen = calls.within(since, until)
            scheduler = logged(ours, outputs["SchedulerLogGroup"], since, until)
            ran = logged(ours, outputs["SchedulerLogGroup"], began, until + SETTLED)
            if ran["invocations"] < warm + minutes:
                raise ValueError(f"{ran['invocations']} of {warm + minutes} runs of the scheduler ended")
            sqs = sum(n for name, n in seen.items() if name.startswith("SQS."))
            poller = logged(ours, outputs["PollerLogGroup"], since, until)
            return {
                "sqs_calls": a_minute(sqs, minutes),
                "ledger_writes": a_minute(seen["DynamoDB.UpdateItem"], minutes),
                "ledger_reads": a_minute(seen["DynamoDB.GetItem"], minutes),
                "poller": {name: a_minute(of, minutes) for name, of in poller.items()},
                "scheduler": {name: a_minute(of, minutes) for name, of in scheduler.items()},
                "calls": {name: a_minute(n, minutes) for name, n in sorted(seen.items())},
            }
        finally:
            server.shutdown()
            os.killpg(stack.pid, 9)
            stack.wait()


def a_minute(total: int, minutes: int) -> float | int:
    return total if minutes == 1 else round(total / minutes, 2)


def measure(args: Any) -> Measured:
    """Idle minutes by their wake seconds, side by side."""
    with ThreadPoolExecutor() as pool:
        minutes = {wake: pool.submit(minute, args, wake) for wake in MINUTES}
        return {str(wake): future.result() for wake, future in minutes.items()}


def flat(minute: Measured) -> dict[str, float]:
    return {"SQS calls": minute["sqs_calls"], "ledger writes": minute["ledger_writes"],
            "poller invocations": minute["poller"]["invocations"],
            "poller, billed": minute["poller"]["billed_ms"], "scheduler, billed": minute["scheduler"]["billed_ms"]}


def rows(part: str, measured: Measured, known: Measured | None) -> list[Row]:
    """The figures; against those that the cost calculation goes by, where it has some."""
    found: list[Row] = []
    for wake, of in measured.items():
        before = flat(known[wake]) if known else {}
        for name, value in flat(of).items():
            figure, unit = f"idle minute, wake {wake} s: {name}", "ms" if "billed" in name else ""
            if not before:
                found.append(told(part, figure, value, unit))
                continue
            bound = max(before[name] * (1 + TOLERANCE), before[name] + 3)
            found.append(at_most(part, figure, value, unit, bound, f"was {before[name]:,}"))
    return found
