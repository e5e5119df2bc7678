"""Benches of a crate that print their figures as JSON: the shared bucket's, and the console's streams."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from figures import Row, at_least, at_most, told

# With many under way INCR is bound by the network, the script by the server's processor.
TAKES_RATIO = {"granted": 0.1, "refused": 0.15, "granted_2_domains": 0.05}
# A poller at the highest rate there is takes so often.
PER_SECOND = 10_000.0
TAKES_SECONDS = 600


def bucket_rows(part: str, measured: dict[str, Any]) -> list[Row]:
    """The shared bucket's script, against plain INCR on the same kind of connection in the same run."""
    found: list[Row] = []
    for flights, figures in measured.items():
        at_once = f"{flights} at once"
        found.append(told(part, f"INCR a second, {at_once}", figures["incr_per_second"], ""))
        for name, bound in TAKES_RATIO.items():
            figure = f"takes ({name.replace('_', ', ')}) to INCR, {at_once}"
            note = f"{figures[f'{name}_per_second']:,.0f} a second"
            found.append(at_least(part, figure, figures[f"{name}_ratio"], "", bound, note))
    most = max(figures["granted_per_second"] for figures in measured.values())
    found.append(at_least(part, "takes granted a second, one connection", most, "", PER_SECOND))
    return found


STREAMS_SECONDS = 900
# Of a run with a stalled tenth to one without. Nobody is slower for it, but for what the clock and the
# scheduler of a busy machine make of the slowest hundredth.
STREAMS_RATIO = {"latency_p50_ms": 1.2, "latency_p99_ms": 1.5, "cpu_s_per_1000_events": 1.25}
NAMED = {
    "latency_p50_ms": "publish to receipt, p50",
    "latency_p99_ms": "publish to receipt, p99",
    "cpu_s_per_1000_events": "processor time an event",
}
# hyper holds 64 KiB and the frame that goes beyond them; a full queue is some 10 KiB.
STALLED_BYTES = 128 * 1024


def console_rows(part: str, measured: dict[str, Any]) -> list[Row]:
    """Stalled clients of the console: a thousand streams of which a tenth stall, against a thousand that all read."""
    count, stalled = measured["streams"], measured["stalled"]
    kinds = {f"{count:,} read": measured["reading"],
             f"{stalled:,} of {count:,} stall": measured["stalled_tenth"]}
    found: list[Row] = []
    for kind, figures in kinds.items():
        found += [
            at_most(part, f"changes lost to those that read, {kind}", figures["changes_lost"], "", 0),
            told(part, f"publish to receipt, p50, {kind}", figures["latency_p50_ms"], "ms"),
            told(part, f"publish to receipt, p99, {kind}", figures["latency_p99_ms"], "ms"),
            told(part, f"server's memory, {kind}", figures["rss_bytes"] / 1e6, "MB",
                 f"{figures['rss_bytes_per_stream'] / 1e3:.1f} kB a stream"),
            told(part, f"server's processor time, 1,000 events, {kind}",
                 1e3 * figures["cpu_s_per_1000_events"], "ms", f"{figures['events']:,.0f} events"),
        ]
    for name, bound in STREAMS_RATIO.items():
        figure = f"{NAMED[name]}, a tenth stalls to none"
        found.append(at_most(part, figure, measured["ratios"][name], "", bound))
    more = measured["stalled_tenth"]["rss_bytes"] - measured["reading"]["rss_bytes"]
    waiting = f"{measured['stalled_tenth']['changes_waiting_most']} changes wait for each at most"
    found.append(at_most(part, "memory of a stalled stream, beyond one that reads", more / stalled,
                         "bytes", STALLED_BYTES, waiting))
    return found


def cargo_bench(root: Path, package: str, bench: str, seconds: int) -> dict[str, Any]:
    """The last line that the bench printed; it has so many seconds, its building included."""
    command = ["cargo", "bench", "--locked", "--quiet", "-p", package, "--bench", bench]
    ended = subprocess.run(
        command, cwd=root, capture_output=True, text=True, timeout=seconds, check=False
    )
    if ended.returncode != 0 or not ended.stdout.strip():
        raise ValueError(ended.stderr.strip() or f"it ended with {ended.returncode} and said nothing")
    return json.loads(ended.stdout.strip().splitlines()[-1])
