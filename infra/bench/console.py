"""What stalled clients cost the console's other streams: a thousand of which a tenth stall, against a
thousand that all read, in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cargo import cargo_bench
from figures import Row, at_most, told

RUN_SECONDS = 900
# Of a run with a stalled tenth to one without. Nobody is slower for it, but for what the clock and the
# scheduler of a busy machine make of the slowest hundredth.
RATIO = {"latency_p50_ms": 1.2, "latency_p99_ms": 1.5, "cpu_s_per_1000_events": 1.25}
NAMED = {
    "latency_p50_ms": "publish to receipt, p50",
    "latency_p99_ms": "publish to receipt, p99",
    "cpu_s_per_1000_events": "processor time an event",
}
# hyper holds 64 KiB and the frame that goes beyond them; a full queue is some 10 KiB.
STALLED_BYTES = 128 * 1024


def measure(root: Path) -> dict[str, Any]:
    return cargo_bench(root, "tidegate-console", "streams", RUN_SECONDS)


def rows(part: str, measured: dict[str, Any]) -> list[Row]:
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
    for name, bound in RATIO.items():
        figure = f"{NAMED[name]}, a tenth stalls to none"
        found.append(at_most(part, figure, measured["ratios"][name], "", bound))
    more = measured["stalled_tenth"]["rss_bytes"] - measured["reading"]["rss_bytes"]
    waiting = f"{measured['stalled_tenth']['changes_waiting_most']} changes wait for each at most"
    found.append(at_most(part, "memory of a stalled stream, beyond one that reads", more / stalled,
                         "bytes", STALLED_BYTES, waiting))
    return found
