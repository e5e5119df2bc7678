"""Lambda's limits on this machine: a share of a processor, memory that kills, descriptors, freezing.

The kernel's control groups do it, version 1 or 2, whichever has the controllers. Root is needed.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
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
        read = {name: int(value) for name, value in map(str.split, stat.splitlines())}
        seconds = read.get("throttled_time", 0) / 1e9 + read.get("throttled_usec", 0) / 1e6
        return Throttling(read.get("nr_periods", 0), read.get("nr_throttled", 0), seconds)


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
            self.write(mounts.places["cpu"] / "cgroup.subtree_control", "+cpu +memory")
        for place in set(self.places.values()):
            place.mkdir()
        self.limit(memory_mb, slowness)

    def limit(self, memory_mb: int, slowness: float) -> None:
        quota, memory = quota_us(memory_mb, slowness), memory_mb * MIB
        if self.version == 2:
            self.write(self.file("cpu", "cpu.max"), f"{quota} {PERIOD_US}")
            self.write(self.file("memory", "memory.max"), memory)
            no_swap = self.file("memory", "memory.swap.max"), 0
        else:
            self.write(self.file("cpu", "cpu.cfs_period_us"), PERIOD_US)
            self.write(self.file("cpu", "cpu.cfs_quota_us"), quota)
            self.write(self.file("memory", "memory.limit_in_bytes"), memory)
            no_swap = self.file("memory", "memory.memsw.limit_in_bytes"), memory
        if no_swap[0].exists():  # kernels without swap accounting lack it
            self.write(*no_swap)

    def file(self, controller: str, name: str) -> Path:
        return self.places[controller] / name

    @staticmethod
    def write(place: Path, value: object) -> None:
        place.write_text(str(value))

    def command(self, *program: str) -> list[str]:
        """Starts a program inside, with the descriptors it may have."""
        inside = [str(place) for place in sorted(set(self.places.values()))]
        return ["/bin/sh", "-c", LAUNCH, "sh", *inside, "--", *program]

    def freeze(self) -> None:
        self.set_frozen(True)

    def thaw(self) -> None:
        self.set_frozen(False)

    def set_frozen(self, frozen: bool) -> None:
        if self.version == 2:
            self.write(self.file("freezer", "cgroup.freeze"), int(frozen))
        else:
            self.write(self.file("freezer", "freezer.state"), "FROZEN" if frozen else "THAWED")

    def cpu_seconds(self) -> float:
        if self.version == 2:
            return counter(self.file("cpu", "cpu.stat").read_text(), "usage_usec") / 1e6
        return int(self.file("cpuacct", "cpuacct.usage").read_text()) / 1e9

    def throttling(self) -> Throttling:
        return Throttling.of(self.file("cpu", "cpu.stat").read_text())

    def killed(self) -> bool:
        """Whether the kernel killed a process for its memory."""
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        return counter(self.file("memory", name).read_text(), "oom_kill") > 0

    def processes(self) -> list[int]:
        return [int(pid) for pid in self.file("memory", "cgroup.procs").read_text().split()]

    def remove(self) -> None:
        """Ends what is inside, and the group."""
        self.thaw()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # The kernel keeps a group for the moment that its last process takes to end.
        for _ in range(100):
            try:
                for place in set(self.places.values()):
                    if place.exists():
                        place.rmdir()
                return
            except OSError:
                time.sleep(0.02)
