"""Programs by themselves: their start and size, their processor time and memory, and a crate's own benches."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

from figures import Row, at_least, at_most, told
from processes import CREDENTIALS, Command, printed, running, sandbox
from runtime import lambda_variables

sys.path += [str(Path(__file__).resolve().parents[2] / folder) for folder in ("infra/local", "tests/programs")]
from packages import SMALLEST, zip_bootstrap  # noqa: E402
from postfix import discarding, missing  # noqa: E402

STARTS = 20
START_MS = 10.0
NEXT_WITHIN = 5.0
QUEUE = "https://sqs.us-east-1.amazonaws.com/000000000000/"
# What the template gives a poller, and an endpoint that refuses connections: those that a poller opens before its first
# event take as long as the network does.
POLLER = CREDENTIALS | {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "TIDEGATE_CAMPAIGNS": json.dumps([{"name": "big", "queue_url": QUEUE + "big", "weight": 90},
                                      {"name": "small", "queue_url": QUEUE + "small", "weight": 10}]),
    "TIDEGATE_MERGE_QUEUE_URL": QUEUE + "merge.fifo",
    "TIDEGATE_EXPRESS_QUEUE_URL": QUEUE + "express",
    "TIDEGATE_DEAD_LETTER_QUEUE_URL": QUEUE + "dead-letter",
    "TIDEGATE_LEDGER": "dynamodb:tidegate",
}


def start(_: str, args: Namespace) -> list[Row]:
    """Start-up to the first `/next`, and the sizes of the deployment packages."""
    poller = args.bin_dir / "poller"
    first_start(poller)  # reads the file into memory, as the next ones find it
    median = statistics.median(first_start(poller) for _ in range(STARTS))
    return [at_most("start to first /next, median", median, "ms", START_MS, f"of {STARTS}"),
            *(told(f"zipped bootstrap, {name}", len(zip_bootstrap(args.bin_dir / name, SMALLEST)), "bytes")
              for name in ("poller", "scheduler"))]


def first_start(program: Path) -> float:
    """Milliseconds from the program's start until it asks the runtime API for an event."""
    with socket.create_server(("127.0.0.1", 0)) as server, tempfile.TemporaryFile() as errors:
        server.settimeout(NEXT_WITHIN)
        environment = lambda_variables("poller", 256, "{}:{}".format(*server.getsockname())) | POLLER
        began = time.perf_counter()
        with running([program], env=environment, stdout=subprocess.DEVNULL, stderr=errors):
            try:
                connection, _ = server.accept()
                with connection:
                    connection.settimeout(NEXT_WITHIN)
                    request = connection.recv(4_096)
            except TimeoutError:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip()
                raise ValueError(f"{program} asked for nothing within {NEXT_WITHIN:g} s; {said}") from None
            took = time.perf_counter() - began
    if not request.startswith(b"GET /2018-06-01/runtime/invocation/next "):
        raise ValueError(f"{program} asked first for {request[:80]!r}")
    return took * 1e3


LIST_ROWS = 100_000
HTML_BYTES = 5_000
LIST_SECONDS = 5.0
RATE = 200
MEGABYTES = 400.0


# Campaigns of a forecast, the mails of each, and the processor time that it may take.
FORECASTS = ((2, 100_000, 0.5), (1_000, 1_000, 10.0))


def used(command: Command) -> tuple[float, float]:
    """Processor seconds and peak megabytes of the command alone."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command[:2])
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1_000


def lists(_: str, args: Namespace) -> list[Row]:
    """`tidegate send` checks a list, rendering and parsing every row as the poller does."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = [f"reader-{number}@example.com,Ada {number},t{number}" for number in range(LIST_ROWS)]
        (place / "list.csv").write_text("\n".join(["to,first_name,token", *lines]))
        paragraph = "<p>Dear {{ first_name }}, here is <a href='https://example.org/?t={{ token }}'>more news</a>.</p>\n"
        text = paragraph * (HTML_BYTES // len(paragraph))
        (place / "mail.html").write_text(f"<title>Hello {{{{ first_name }}}}</title>\n{text}")
        seconds, megabytes = used([args.bin_dir / "tidegate", "send", place / "list.csv", "--template", place / "mail.html",
                           "--from", "news@example.org", "--no-stack", "--json"])
    figure = f"{LIST_ROWS:,} rows of {HTML_BYTES // 1_000} KB HTML checked, processor time"
    return [at_most(figure, seconds, "s", LIST_SECONDS), told("peak memory", megabytes, "MB")]


def plan(_: str, args: Namespace) -> list[Row]:
    """`tidegate plan` forecasts two campaigns, and as many as it accepts, without options."""
    found: list[Row] = []
    for count, mails, most in FORECASTS:
        case = f"{count:,} campaigns of {mails:,} mails"
        campaigns = [f"--campaign=c{number}={mails}" for number in range(count)]
        seconds, megabytes = used([args.bin_dir / "tidegate", "plan", *campaigns, f"--quota={RATE}", "--json"])
        found += [at_most(f"{case}, processor time", seconds, "s", most),
                  at_most(f"{case}, peak memory", megabytes, "MB", MEGABYTES)]
    return found


def store(_: str, args: Namespace) -> list[Row]:
    """The scheduler makes and enqueues the messages of uploaded lists, with S3 and SQS in memory."""
    found = cargo_bench(args.root, "tidegate-fakes", "store", 1_500)
    html, many = found["html"], found["many"]
    return [at_least("rows of 30 KB HTML made and compressed, one core", html["rows_a_second"], "a second", 1_000),
            told("processor time to that of gzip alone", html["seconds"] / html["gzip_seconds"], ""),
            at_most(f"{many['rows']:,} rows of 1,000 campaigns, processor time", many["seconds"], "s", 1_000),
            at_most("peak memory", many["peak_mb"], "MB", 128)]


# Mails and mails a second: tiny ones, and large ones.
TINY, LARGE = (3_000, 196), (1_000, 98)
# Milliseconds that a tiny mail takes on the machine whose shares of a processor docs/figures.md gives.
REFERENCE_MS = 0.45


def slowness(args: Any) -> float:
    """How much longer the same work takes on this machine, as it is now, than on that of docs/figures.md."""
    return sdk_calls(args, "merge") / REFERENCE_MS


def sdk_calls(args: Any, mode: str, kilobytes: int = 0) -> float:
    """Milliseconds of processor that a poller's AWS calls take a mail, by themselves, on sandboxes of their own; `mode`
    is `merge` or `direct`. Tiny mails, or some of this size."""
    load = (*LARGE, kilobytes) if kilobytes else TINY
    with (tempfile.TemporaryDirectory() as scratch,
          sandbox(args.bin_dir / "ses-sandbox", Path(scratch), "--quota", "1000", "--latency", "80ms") as ses,
          sandbox(args.bin_dir / "sqs-sandbox", Path(scratch), "--create") as sqs):
        endpoints = {"AWS_ENDPOINT_URL_SQS": sqs, "AWS_ENDPOINT_URL_SESV2": ses}
        said = printed([args.bin_dir / "sdk-calls", mode, *map(str, load)], 120, env=os.environ | CREDENTIALS | endpoints)
    return float(json.loads(said)["cpu_ms_per_mail"])


def cargo_bench(root: Path, package: str, bench: str, seconds: int, *arguments: str | Path) -> dict[str, Any]:
    """The last line that a crate's bench printed, as JSON; it has so many seconds, its building included."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", package, "--bench", bench, "--", *arguments]
    return dict(json.loads(printed(command, seconds, cwd=root).strip().splitlines()[-1]))


# With many under way INCR is bound by the network, the script by the server's processor.
TAKES_RATIO = {"granted": 0.1, "refused": 0.15, "granted_2_domains": 0.05}
# A poller at the highest rate there is takes so often.
PER_SECOND = 10_000.0


def bucket(_: str, args: Namespace) -> list[Row]:
    return bucket_rows(cargo_bench(args.root, "tidegate-adapters", "takes", 600))


def bucket_rows(measured: dict[str, Any]) -> list[Row]:
    """The shared bucket's script, against plain INCR on the same kind of connection in the same run."""
    found: list[Row] = []
    for flights, figures in measured.items():
        found.append(told(f"INCR a second, {flights} at once", figures["incr_per_second"], ""))
        for name, bound in TAKES_RATIO.items():
            figure = f"takes ({name.replace('_', ', ')}) to INCR, {flights} at once"
            note = f"{figures[f'{name}_per_second']:,.0f} a second"
            found.append(at_least(figure, figures[f"{name}_ratio"], "", bound, note))
    most = max(figures["granted_per_second"] for figures in measured.values())
    return [*found, at_least("takes granted a second, one connection", most, "", PER_SECOND)]


# Of a run with a stalled tenth to one without. Nobody is slower for it, but for what the clock and the
# scheduler of a busy machine make of the slowest hundredth.
STREAMS_RATIO = {
    "latency_p50_ms": ("publish to receipt, p50", 1.2),
    "latency_p99_ms": ("publish to receipt, p99", 1.5),
    "cpu_s_per_1000_events": ("processor time an event", 1.25),
}
# hyper holds 64 KiB and the frame that goes beyond them; a full queue is some 10 KiB.
STALLED_BYTES = 128 * 1024


def console(_: str, args: Namespace) -> list[Row]:
    return console_rows(cargo_bench(args.root, "tidegate-console", "streams", 900))


def console_rows(measured: dict[str, Any]) -> list[Row]:
    """Stalled clients of the console: a thousand streams of which a tenth stall, against a thousand that all read."""
    count, stalled = measured["streams"], measured["stalled"]
    found: list[Row] = []
    for kind, figures in ((f"{count:,} read", measured["reading"]),
                          (f"{stalled:,} of {count:,} stall", measured["stalled_tenth"])):
        found += [
            at_most(f"changes lost to those that read, {kind}", figures["changes_lost"], "", 0),
            told(f"publish to receipt, p50, {kind}", figures["latency_p50_ms"], "ms"),
            told(f"publish to receipt, p99, {kind}", figures["latency_p99_ms"], "ms"),
            told(f"server's memory, {kind}", figures["rss_bytes"] / 1e6, "MB",
                 f"{figures['rss_bytes_per_stream'] / 1e3:.1f} kB a stream"),
            told(f"server's processor time, 1,000 events, {kind}", 1e3 * figures["cpu_s_per_1000_events"], "ms",
                 f"{figures['events']:,.0f} events"),
        ]
    found += [at_most(f"{figure}, a tenth stalls to none", measured["ratios"][name], "", bound)
              for name, (figure, bound) in STREAMS_RATIO.items()]
    more = measured["stalled_tenth"]["rss_bytes"] - measured["reading"]["rss_bytes"]
    waiting = f"{measured['stalled_tenth']['changes_waiting_most']} changes wait for each at most"
    return [*found, at_most("memory of a stalled stream, beyond one that reads", more / stalled, "bytes", STALLED_BYTES, waiting)]


def relay(_: str, args: Namespace) -> list[Row]:
    """A relay on a processor of its own, beside SQS's own answer, and Postfix where Debian's is unpacked below .tools."""
    with discarding("taskset", "--cpu-list", "0") as address:
        found = cargo_bench(args.root, "tidegate-operator", "relay", 900, args.bin_dir, args.python, args.out / "relay", *address)
    over = {way: found[f"{way}_paced"]["p99_ms"] - found["sqs_paced"]["p99_ms"] for way in ("smtp", "http")}
    return [*(at_least(f"mails of 4 KB by {way}, one core", found[way]["rate"], "a second", 1_000) for way in over),
            *(at_least(f"mails of 200 KB by {way}", found[f"{way}_large"]["rate"], "a second", 200) for way in over),
            *(at_most(f"p99 over SQS's at 500/s by {way}", more, "ms", 25) for way, more in over.items()),
            told("4 KB by smtp, to Postfix's", found["smtp"]["rate"] / found["postfix"]["rate"] if address else None, "", missing())]
