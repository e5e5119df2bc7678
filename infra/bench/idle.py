"""What an idle stack costs in calls, milliseconds and log bytes, measured on the local AWS.

A counting proxy stands between the functions and ministack; milliseconds are those of the `REPORT`
lines in the functions' logs, as AWS bills them. The scheduler is invoked here, once a minute.
"""

import asyncio
import json
import re
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from figures import Row, at_most, told
from processes import Client, ministack, printed
from runtime import read_request

Measured = dict[str, Any]

# What the cost calculation goes by.
MEASURED = "infra/cost/measured.json"
MINUTE = 60.0
# A run of the scheduler lasts ten windows longer; a poller reports within seconds.
SETTLED = 15.0
# By wake seconds: minutes before those that are measured (a stack sleeps after 45 windows without a
# mail), and minutes that are measured. Of five in which it sleeps, a poller checks the queues in one.
MINUTES = {1: (1, 1), 60: (2, 5)}
# The event with which EventBridge invokes the scheduler; any other would wake the stack.
EVENT = "events/scheduled_event.json"
REPORT = re.compile(r"REPORT RequestId: \S+\s+Duration: [\d.]+ ms\s+Billed Duration: (\d+) ms")
# The calls that cost something.
COUNTED = {"sqs_calls": r"AmazonSQS\.", "ledger_writes": r"DynamoDB_\d+\.UpdateItem", "ledger_reads": r"DynamoDB_\d+\.GetItem"}
# What CloudWatch adds to the bytes of every event.
EVENT_BYTES = 26
# Between two measurements of the same code, on a machine with other work.
TOLERANCE = 0.25

# Calls to AWS, by when they came: `AmazonSQS.ReceiveMessage` and the like, as the SDK names them.
Calls = list[tuple[float, str]]


def proxy(port: int, calls: Calls) -> int:
    """Passes everything on to ministack at `port`, and notes it, to the program's end; its own port."""

    async def answers(upstream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # who asked has ended, as a run's last long poll does
            while content := await upstream.read(65_536):
                writer.write(content)
                await writer.drain()
        writer.close()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # ministack is gone: the measurement is over
            answering, asking = await asyncio.open_connection("127.0.0.1", port)
            passing = asyncio.create_task(answers(answering, writer))
            while request := await read_request(reader):
                calls.append((time.time(), request.headers.get("x-amz-target", "")))
                asking.write(request.raw)
                await asking.drain()
            asking.close()
            await passing

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(connection, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return int(server.sockets[0].getsockname()[1])


def deploy(args: Any, port: int, **parameters: object) -> dict[str, str]:
    """The stack's outputs."""
    command = [args.python, "-B", args.root / "infra/local/local_aws.py", "deploy", "--stack", "idle",
               "--endpoint", f"http://127.0.0.1:{port}", "--template", args.root / "infra/sam/template.yaml",
               "--scheduler", args.bin_dir / "scheduler", "--poller", args.bin_dir / "poller",
               *(f"--parameter={name}={value}" for name, value in parameters.items())]
    return dict(json.loads(printed(command, 120))["outputs"])


def logged(stack: Client, group: str) -> list[dict[str, Any]]:
    """All events of a function's log."""
    events: list[dict[str, Any]] = []
    page: dict[str, Any] | None = {}
    while page is not None:
        body = {"logGroupName": group, "limit": 10_000, **page}
        answer = stack.target("logs", "Logs_20140328.FilterLogEvents", body)
        events += answer["events"]
        token = answer.get("nextToken") if answer["events"] else None
        page = {"nextToken": token} if token else None
    return events


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
    calls: Calls = []
    with tempfile.TemporaryDirectory() as scratch, ministack(args.python, scratch) as port:
        # The schedule is off, since the minutes are ours.
        outputs = deploy(args, port, EndpointUrl=f"http://127.0.0.1:{proxy(port, calls)}", IdleWakeSeconds=wake, Schedule="DISABLED")
        ours, began = Client(port), time.time()
        path = f"/2015-03-31/functions/{outputs['SchedulerFunction']}/invocations"
        for number in range(warm + minutes):
            time.sleep(max(0.0, began + number * MINUTE - time.time()))
            ours.call("POST", path, event, "lambda", **{"X-Amz-Invocation-Type": "Event"})
        since = began + warm * MINUTE
        until = since + minutes * MINUTE
        time.sleep(until + SETTLED - time.time())
        scheduler, poller = (logged(ours, outputs[f"{name}LogGroup"]) for name in ("Scheduler", "Poller"))
    ran = len(billed_of_begun(scheduler, began, until + SETTLED))
    if ran < warm + minutes:
        raise ValueError(f"{ran} of {warm + minutes} runs of the scheduler ended")
    def a_minute(totals: dict[str, int]) -> dict[str, float | int]:
        return {name: total if minutes == 1 else round(total / minutes, 2) for name, total in totals.items()}

    def of_function(events: list[dict[str, Any]]) -> dict[str, float | int]:
        """Invocations that began within the time, what they are billed, and what was logged in it."""
        billed = billed_of_begun(events, since, until)
        mine = [e["message"] for e in events if since <= e["timestamp"] / 1e3 < until]
        return a_minute({"invocations": len(billed), "billed_ms": sum(billed),
                         "log_bytes": sum(len(message.encode()) + EVENT_BYTES for message in mine)})

    seen = {name: sum(re.match(form, call) is not None for at, call in calls if since <= at < until)
            for name, form in COUNTED.items()}
    return {**a_minute(seen), "poller": of_function(poller), "scheduler": of_function(scheduler)}


def part(_: str, args: Any) -> list[Row]:
    """Idle minutes by their wake seconds, side by side; with --write they become those of the cost calculation."""
    place = args.root / MEASURED
    known = json.loads(place.read_text())
    with ThreadPoolExecutor() as pool:
        minutes = {wake: pool.submit(minute, args, wake) for wake in MINUTES}
        measured = {str(wake): future.result() for wake, future in minutes.items()}
    (args.out / "idle.json").write_text(json.dumps(measured, indent=1) + "\n")
    if args.write:
        place.write_text(json.dumps(known | {"idle_minute": measured}, indent=1) + "\n")
    return rows(measured, None if args.write else known["idle_minute"])


def flat(minute: Measured) -> dict[str, float]:
    return {"SQS calls": minute["sqs_calls"], "ledger writes": minute["ledger_writes"],
            "poller invocations": minute["poller"]["invocations"],
            "poller, billed": minute["poller"]["billed_ms"], "scheduler, billed": minute["scheduler"]["billed_ms"]}


def rows(measured: Measured, known: Measured | None) -> list[Row]:
    """The figures; against those that the cost calculation goes by, where it has some."""
    found: list[Row] = []
    for wake, of in measured.items():
        for name, value in flat(of).items():
            row = told(f"idle minute, wake {wake} s: {name}", value, "ms" if "billed" in name else "")
            if known:
                before = flat(known[wake])[name]
                row = at_most(row.figure, value, row.unit, max(before * (1 + TOLERANCE), before + 3), f"was {before:,}")
            found.append(row)
    return found
