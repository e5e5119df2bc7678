#!/usr/bin/env python3
"""The Cargo that `cargo lambda watch` runs under `devstack --watch`, so that functions and compilers end with the local run.

cargo-lambda starts each Cargo in a session of its own, which no signal to the run's process group reaches, but with its own
standard input: a pipe whose other end is devstack's alone. It closes when devstack ends, however that ends.
"""

import os
import signal
import subprocess
import sys
import threading

COMMAND = ["cargo", *sys.argv[1:]]


def end() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


# Other commands, such as `metadata`, run in cargo-lambda's own group.
if COMMAND[1:2] != ["run"]:
    os.execvp("cargo", COMMAND)
threading.Thread(target=end, daemon=True).start()
sys.exit(subprocess.call(COMMAND, stdin=subprocess.DEVNULL))
