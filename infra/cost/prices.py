"""AWS's published prices in us-east-1, US dollars; free tiers are not subtracted. They stand in prices.json,
which `tidegate plan` reads too. Compare them with their sources before you budget: AWS changes them."""

from __future__ import annotations

import json
from pathlib import Path

_READ = json.loads((Path(__file__).resolve().parent / "prices.json").read_text(encoding="utf-8"))

# What it is: price, unit, source.
PRICES: dict[str, tuple[float, str, str]] = {
    name: (float(of["dollars"]), of["unit"], of["source"]) for name, of in _READ.items()
}


def price(name: str) -> float:
    return PRICES[name][0]
