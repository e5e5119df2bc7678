"""Lambda's limits on this machine: a share of a processor, memory that kills, descriptors, freezing.

The kernel's control groups do it, version 1 or 2, whichever has the controllers. Root is needed.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Memory that buys one processor, and how often Lambda's kernel hands out a share of it.
MB_PER_PROCESSOR = 1_769
PERIOD_US = 20_000
# The kernel refuses less.
LEAST_QUOTA_US = 1_000
DESCRIPTORS = 1_024
MIB = 1_048_576
CONTROLLERS = ("cpu", "cpuacct", "memory", "freezer")
# Joins the groups given before `--`, then becomes the program given after it.
LAUNCH = ('while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs"; shift; done; shift; '
          f'ulimit -n {DESCRIPTORS}; exec "$@"')


def quota_us(memory_mb: int, slowness: float) -> int:
    """Microseconds of processor in each period; where the same work takes longer (`slowness` above 1), as much more."""
    return max(LEAST_QUOTA_US, int(PERIOD_US * memory_mb / MB_PER_PROCESSOR * slowness))


@dataclass(frozen=True)
class Mounts:
    """Where the controllers are: in version 2 all in one place."""

    version: int
    places: dict[str, Path]

    @staticmethod
    def of(mounts: str, unified: str) -> Mounts | None:
        """By /proc/mounts, and the controllers that version 2 has; none where one is missing."""
        first: dict[str, Path] = {}
        second = None
        for line in mounts.splitlines():
            _, place, kind, options, *_ = line.split()
            if kind == "cgroup2":
                second = Path(place)
            elif kind == "cgroup":
                first |= {name: Path(place) for name in options.split(",") if name in CONTROLLERS}
        if all(name in first for name in CONTROLLERS):
            return Mounts(1, first)
        if second and {"cpu", "memory"} <= set(unified.split()):
            return Mounts(2, dict.fromkeys(CONTROLLERS, second))
        return None

    @staticmethod
    def here() -> Mounts | None:
        mounts = Path("/proc/mounts").read_text()
        second = [line.split()[1] for line in mounts.splitlines() if line.split()[2] == "cgroup2"]
        controllers = Path(second[0], "cgroup.controllers") if second else None
        unified = controllers.read_text() if controllers and controllers.exists() else ""
        return Mounts.of(mounts, unified)


def unavailable() -> str:
    """Why nothing can be confined here; empty where it can."""
    if not sys.platform.startswith("linux"):
        return "control groups are Linux's"
    if os.geteuid() != 0:
        return "control groups need root: run it with sudo"
    mounts = Mounts.here()
    if mounts is None:
        return "no control groups with cpu, memory and freezer are mounted"
    try:
        Group(mounts, 128).remove()
    except OSError as error:
        return f"no control group can be made: {error}"
    return ""


@dataclass(frozen=True)
class Throttling:
    """Periods of the processor's share, and time that the group waited for the next."""

    periods: int = 0
    throttled: int = 0
    seconds: float = 0.0

    @staticmethod
    def of(stat: str) -> Throttling:
        """By cpu.stat: nanoseconds in version 1, microseconds in version 2."""
        seconds = counter(stat, "throttled_time") / 1e9 + counter(stat, "throttled_usec") / 1e6
        return Throttling(counter(stat, "nr_periods"), counter(stat, "nr_throttled"), seconds)


def counter(text: str, name: str) -> int:
    """The number after a name, in files of lines such as `oom_kill 1`; 0 where it is not there."""
    read = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    return int(read.get(name, 0))


class Group:
    """A group of processes with Lambda's limits for so much memory."""

    numbers = itertools.count()

    def __init__(self, mounts: Mounts, memory_mb: int, slowness: float = 1.0) -> None:
        self.version = mounts.version
        name = f"tidegate-bench-{os.getpid()}-{next(self.numbers)}"
        self.places = {controller: place / name for controller, place in mounts.places.items()}
        if self.version == 2:
            (mounts.places["cpu"] / "cgroup.subtree_control").write_text("+cpu +memory")
        for place in set(self.places.values()):
            place.mkdir()
        self.limit(memory_mb, slowness)

    def limit(self, memory_mb: int, slowness: float) -> None:
        quota, memory = quota_us(memory_mb, slowness), memory_mb * MIB
        if self.version == 2:
            limits = {"cpu.max": f"{quota} {PERIOD_US}", "memory.max": memory, "memory.swap.max": 0}
        else:
            limits = {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota, "memory.limit_in_bytes": memory,
                      "memory.memsw.limit_in_bytes": memory}
        for name, value in limits.items():
            # Kernels without swap accounting lack its file.
            if "sw" not in name or self.file(name).exists():
                self.file(name).write_text(str(value))

    def file(self, name: str) -> Path:
        """Of a controller, which its name begins with; what begins with `cgroup` all have."""
        return self.places.get(name.split(".")[0], self.places["memory"]) / name

    def command(self, *program: str) -> list[str]:
        """Starts a program inside, with the descriptors it may have."""
        inside = [str(place) for place in sorted(set(self.places.values()))]
        return ["/bin/sh", "-c", LAUNCH, "sh", *inside, "--", *program]

    def set_frozen(self, frozen: bool) -> None:
        if self.version == 2:
            self.file("cgroup.freeze").write_text(str(int(frozen)))
        else:
            self.file("freezer.state").write_text("FROZEN" if frozen else "THAWED")

    def cpu_seconds(self) -> float:
        if self.version == 2:
            return counter(self.file("cpu.stat").read_text(), "usage_usec") / 1e6
        return int(self.file("cpuacct.usage").read_text()) / 1e9

    def throttling(self) -> Throttling:
        return Throttling.of(self.file("cpu.stat").read_text())

    def killed(self) -> bool:
        """Whether the kernel killed a process for its memory."""
        events = self.file("memory.events" if self.version == 2 else "memory.oom_control")
        return counter(events.read_text(), "oom_kill") > 0

    def remove(self) -> None:
        """Ends what is inside, and the group."""
        self.set_frozen(False)
        for pid in self.file("cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        # The kernel keeps a group for the moment that its last process takes to end.
        for _ in range(100):
            try:
                for place in filter(Path.exists, set(self.places.values())):
                    place.rmdir()
                return
            except OSError:
                time.sleep(0.02)
