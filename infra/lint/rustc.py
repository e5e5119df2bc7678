#!/usr/bin/env python3
"""Compiles a crate as rustc does, and has Clippy look at it with the same dependencies, and rustdoc at the libraries.

`make test` gives it to cargo as RUSTC_WORKSPACE_WRAPPER, so cargo calls it for each crate of the workspace: `rustc.py
RUSTC ARGUMENT…`. `cargo clippy` and `cargo doc` would first check all dependencies once more, because cargo cannot use
for them what it builds for the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Cargo reads rustc's messages. A second announcement of an artifact would name a file that is not there.
MESSAGES = "--json=diagnostic-rendered-ansi"
# The simulator's tests compute for a minute; and what judges in real time shall not be late itself. `simulation` is not
# among them: most of the code that it runs is in libraries, which are optimised. It takes 54 s of processor to build with
# optimisation and about 13 s without.
LONG_TESTS = ("simulator", "end_to_end")
# Programs that `make bench` alone runs, of a build for release.
BENCHMARKS = ("sdk_calls",)


def without_output(arguments: list[str]) -> Iterator[str]:
    """The arguments without those that say what is written, and where to."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--out-dir":
            next(rest)
        elif not argument.startswith(("--emit=", "--json=", "--out-dir=")):
            yield argument


def after(name: str, arguments: list[str]) -> str | None:
    """The value of an option."""
    return arguments[arguments.index(name) + 1] if name in arguments else None


def optimised(arguments: list[str]) -> list[str]:
    """The arguments, without optimisation for benchmarks, which are built here to be looked at, and for tests that are
    built longer than they run (of tidegate-core: 83 s and 8 s with it, 19 s and 33 s without)."""
    name = after("--crate-name", arguments)
    # Cargo gives a kind to libraries and programs, and none to tests and benchmarks.
    if name in LONG_TESTS or ("--crate-type" in arguments and name not in BENCHMARKS):
        return arguments
    return ["opt-level=0" if argument.startswith("opt-level=") else argument for argument in arguments]


def commands(rustc: str, arguments: list[str], scratch: str) -> Iterator[list[str]]:
    """The commands that compile a crate and look at it. Each refuses a warning."""
    name, kind = after("--crate-name", arguments), after("--crate-type", arguments)
    if name in (None, "___"):
        # Cargo asks for rustc's version and for what it knows of the target.
        yield [rustc, *arguments]
        return
    clippy = [str(Path(rustc).with_name("clippy-driver")), rustc]
    compiled = [*optimised(arguments), "-Dwarnings"]
    looked_at = [*without_output(arguments), "--out-dir", scratch, MESSAGES, "-Dwarnings"]
    levels = {argument for argument in compiled if argument.startswith("opt-level=")}
    if kind == "lib":
        # Cargo compiles a library once more with its unit tests: Clippy sees all of it there.
        yield [rustc, *compiled]
    elif levels <= {"opt-level=0"}:
        # Clippy's driver is a compiler that optimises less: one pass is enough where nothing is optimised.
        yield [*clippy, *compiled]
    else:
        yield [rustc, *compiled]
        yield [*clippy, *looked_at, "--emit=metadata"]
    if kind == "lib":
        yield [str(Path(rustc).with_name("rustdoc")), *looked_at]


def main() -> int:
    rustc, *arguments = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        for command in commands(rustc, arguments, scratch):
            # Open files are passed on: through them cargo limits the threads of all.
            code = subprocess.run(command, close_fds=False, check=False).returncode
            if code != 0:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
