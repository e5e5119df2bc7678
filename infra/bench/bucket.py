"""The shared bucket's script, against plain INCR on the same kind of connection in the same run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cargo import cargo_bench
from figures import Row, at_least, told

# With many under way INCR is bound by the network, the script by the server's processor.
RATIO = {"granted": 0.1, "refused": 0.15, "granted_2_domains": 0.05}
# A poller at the highest rate there is takes so often.
PER_SECOND = 10_000.0
RUN_SECONDS = 600


def measure(root: Path) -> dict[str, Any]:
    return cargo_bench(root, "tidegate-adapters", "takes", RUN_SECONDS)


def rows(part: str, measured: dict[str, Any]) -> list[Row]:
    found: list[Row] = []
    for flights, figures in measured.items():
        at_once = f"{flights} at once"
        found.append(told(part, f"INCR a second, {at_once}", figures["incr_per_second"], ""))
        for name, bound in RATIO.items():
            figure = f"takes ({name.replace('_', ', ')}) to INCR, {at_once}"
            note = f"{figures[f'{name}_per_second']:,.0f} a second"
            found.append(at_least(part, figure, figures[f"{name}_ratio"], "", bound, note))
    most = max(figures["granted_per_second"] for figures in measured.values())
    found.append(at_least(part, "takes granted a second, one connection", most, "", PER_SECOND))
    return found
