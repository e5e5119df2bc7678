"""The processor time of a mail under limits, to that of a mail without: the poller under Lambda's limits, with the same
mails, once without a limit and once with 20. No limit is so low that mail waits for it: that would cost further calls.
"""

from __future__ import annotations

from typing import Any

from confined import Case, Outcome, measure_case
from fakes import Fakes
from figures import Row, at_least, at_most

PART = "limits"
LIMITS = 20
# A whole processor, so that none of the runs is throttled.
CASE = Case(200, 1_769, domains=LIMITS)
MOST, UTILISATION = 1.15, 0.97


def variables(at: Fakes) -> dict[str, str]:
    """A limit for each domain, of three times its mail."""
    rate = 3 * CASE.rate // LIMITS
    return {
        "TIDEGATE_LIMITS": ", ".join(f"d{n}.example.com={rate}/s" for n in range(LIMITS)),
        "TIDEGATE_LIMIT_QUEUES": ",".join(at.queue(f"domain-{n}") for n in range(LIMITS)),
    }


def measure(args: Any) -> tuple[Outcome, Outcome]:
    without = measure_case(f"{PART}-none", CASE, args, lambda _: {})
    return without, measure_case(f"{PART}-{LIMITS}", CASE, args, variables)


def rows(outcomes: tuple[Outcome, Outcome]) -> list[Row]:
    without, limited = outcomes
    ratio = limited.warm_milliseconds() / without.warm_milliseconds()
    note = f"{limited.warm_milliseconds():.3f} ms to {without.warm_milliseconds():.3f} ms a mail"
    judged = limited.judged()
    return [
        at_most(PART, f"processor time a mail with {LIMITS} limits, to that with none", ratio, "", MOST, note),
        at_least(PART, "utilisation", limited.utilisation(judged), "of q", UTILISATION),
        at_most(PART, "lost", limited.lost() + without.lost(), "mails", 0),
    ]
