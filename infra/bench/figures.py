"""What a report says, against what was aimed at."""

from dataclasses import dataclass
from typing import Any

Report = dict[str, Any]

RATE_MARGINS = (0.01, 0.02, 0.05)
# 1 / 1.02 of the quota is the most that the default rate margin leaves.
UTILISATION = 0.975
AFTER_END = 0.97
SHARE_POINTS = 1.0
# Of the poller's processor time to that of its AWS calls alone: 1.5 to 1.7 as measured.
CPU_RATIO = 2.0
HEAD = ("part", "figure", "value", "target", "reached", "")
WIDTHS = (17, 53, 18, 12, 7)


@dataclass(frozen=True)
class Row:
    """One figure of a part, which names itself last. `reached` is None where nothing was aimed at."""

    part: str
    figure: str
    value: float | None
    unit: str
    target: str = ""
    reached: bool | None = None
    note: str = ""


@dataclass(frozen=True)
class Judge:
    """What a run is aimed at, beyond what every run is; 0 where nothing is."""

    worst_second: float = 0
    calls: float = 0
    rss: float = 0
    # `merge` or `direct`: whose SDK calls alone the processor time is compared with; their time, or why
    # it could not be measured.
    sdk_calls: str = ""
    sdk_calls_ms: float = 0
    sdk_calls_fault: str = ""


def at_most(figure: str, value: float | None, unit: str, bound: float, note: str = "") -> Row:
    return Row("", figure, value, unit, f"<= {number(bound)}", value is not None and value <= bound, note)


def at_least(figure: str, value: float | None, unit: str, bound: float, note: str = "") -> Row:
    return Row("", figure, value, unit, f">= {number(bound)}", value is not None and value >= bound, note)


def told(figure: str, value: float | None, unit: str, note: str = "") -> Row:
    return Row("", figure, value, unit, note=note)


def aimed(figure: str, value: float | None, unit: str, bound: float) -> Row:
    """A figure with an upper bound, if there is one."""
    return at_most(figure, value, unit, bound) if bound else told(figure, value, unit)


def sending_rows(report: Report, judge: Judge) -> list[Row]:
    phases = report["figures"]["phases"]
    both, after = phases["all_waiting"], phases["after_first_end"]
    points = [share["worst_30_windows_points"] for share in both["shares"].values()]
    off = max(points) if points and None not in points else None
    poller = report["poller"] or {}
    broken = [f"{p['promise']}: {p['seen']}" for p in report["promises"] if not p["kept"]]
    return [
        at_least("utilisation, worst 30 s, both wait", both["worst_30_windows"], "of q", UTILISATION,
                 f"{both['windows']} windows"),
        at_least("utilisation after the small one's end", after["utilisation"], "of q", AFTER_END,
                 f"{after['windows']} windows"),
        at_most("shares off 90/10, worst 30 s", off, "points", SHARE_POINTS),
        aimed("worst second at arrival", report["figures"]["worst_second"], "recipients", judge.worst_second),
        at_most("refused", refused(report), "mails", 0),
        aimed("SQS calls per mail", report["sqs"]["calls_per_mail"], "", judge.calls),
        cpu_row(poller.get("cpu_ms_per_mail"), judge),
        aimed("poller's peak memory", poller.get("peak_rss_bytes"), "bytes", judge.rss),
        at_most("promises broken", len(broken), "", 0, "; ".join(broken)),
    ]


def cpu_row(milliseconds: float | None, judge: Judge) -> Row:
    """Processor time of a mail; as a ratio where the SDK calls alone were measured, too."""
    if not judge.sdk_calls:
        return told("poller's processor time per mail", milliseconds, "ms")
    ratio = milliseconds / judge.sdk_calls_ms if milliseconds and judge.sdk_calls_ms else None
    note = judge.sdk_calls_fault or f"{number(milliseconds)} ms to {number(judge.sdk_calls_ms)} ms a mail"
    return at_most("poller's processor time to its SDK calls alone", ratio, "", CPU_RATIO, note)


def rate_margin_rows(report: Report, rate_margin: float) -> list[Row]:
    """Figures of a rate margin; nothing is aimed at but the promises of every run."""
    backlogged = report["figures"]["phases"]["backlogged"]
    most = f"at most {1 / (1 + rate_margin):.4f}, {backlogged['windows']} windows"
    return [
        told("utilisation", backlogged["utilisation"], "of q", most),
        told("worst second at arrival", report["figures"]["worst_second"], "recipients"),
        told("refused", refused(report), "mails"),
    ]


def refused(report: Report) -> int:
    return sum(report["sandbox"]["refused"].values())


def head() -> str:
    return columns(HEAD)


def line(row: Row) -> str:
    reached = {None: "-", True: "yes", False: "NO"}[row.reached]
    value = f"{number(row.value)} {row.unit}".strip()
    return columns((row.part, row.figure, value, row.target, reached, row.note))


def columns(cells: tuple[str, ...]) -> str:
    """Of fixed width, because a line is printed before the next ones are known."""
    return "  ".join([*(c.ljust(width) for c, width in zip(cells, WIDTHS)), cells[-1]]).rstrip()


def total(rows: list[Row]) -> str:
    missed = sum(row.reached is False for row in rows)
    aims = sum(row.reached is not None for row in rows)
    return f"\n{aims - missed} of {aims} targets reached"


def number(value: float | None) -> str:
    if value is None:
        return "none"
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 100 else f"{value:,.1f}"
