"""Installs the wheel where there is no Rust and no checkout, and sends two campaigns through the local AWS.

The folder, the virtual environment and the home are new and empty; only the system's own folders are on the PATH.
Tells how long installing took, and when the first mail arrived after `tidegate local` was started.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

# Where a system has its own programs; neither rustup nor a version manager puts anything there.
PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
MAILS = 200
RUN_SECONDS = 180.0


def fail(said: str) -> None:
    raise SystemExit(f"installed: {said}")


def arrived(mailbox: str) -> int:
    with urllib.request.urlopen(f"{mailbox.rstrip('/')}/_sandbox/stats", timeout=5) as answer:
        return int(json.load(answer)["accepted"]["mails"])


def follow(command: list[str | Path], folder: Path, environment: dict[str, str]) -> float:
    """Runs to the end, which must be a good one; gives the seconds until the first mail."""
    began = time.monotonic()
    log = folder / "local.log"
    first = None
    with log.open("w") as output:
        run = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            while run.poll() is None and time.monotonic() - began < RUN_SECONDS:
                mailbox = re.search(r"^Mailbox: (\S+)", log.read_text(), re.M)
                if first is None and mailbox and arrived(mailbox[1]):
                    first = time.monotonic() - began
                time.sleep(0.1)
        finally:
            run.terminate()
            run.wait()
    if first is None or run.returncode != 0:
        fail(f"tidegate local ended with {run.returncode}; first mail: {first}\n{log.read_text()}")
    return first or 0.0


def main() -> None:
    parser = argparse.ArgumentParser("installed", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", type=Path, required=True, help="which installs it")
    args = parser.parse_args()
    if shutil.which("cargo", path=PATH) or shutil.which("rustc", path=PATH):
        fail(f"Rust is on the PATH {PATH}: this would prove nothing")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # How packages are reached is the machine's: its certificates, its index, its proxy.
        network = {key: value for key, value in os.environ.items() if key.upper().endswith(("_PROXY", "_INDEX", "CERT_FILE"))}
        environment = network | {"PATH": PATH, "HOME": name, "UV_SYSTEM_CERTS": "1"}
        environment |= {"UV_PYTHON": sys.executable, "UV_CACHE_DIR": str(folder / "cache")}
        uv, venv = args.uv.resolve(), folder / "venv"
        began = time.monotonic()
        subprocess.run([uv, "venv", "--quiet", venv], cwd=folder, env=environment, check=True)
        wanted = f"tidegate[local] @ {args.wheel.resolve().as_uri()}"
        install = [uv, "pip", "install", "--quiet", "--python", venv / "bin" / "python", wanted]
        subprocess.run(install, cwd=folder, env=environment, check=True)
        print(f"installed with the local AWS in {time.monotonic() - began:.1f} s (downloads included)")
        tidegate = venv / "bin" / "tidegate"
        first = follow([tidegate, "local", "--messages", str(MAILS)], folder, environment)
        print(f"first mail {first:.1f} s after the start; {MAILS} mails arrived")
        runs = subprocess.run([tidegate, "runs", "--json"], cwd=folder, env=environment, check=True, capture_output=True)
        if len(json.loads(runs.stdout)["runs"]) != 1:
            fail(f"tidegate runs does not list the run: {runs.stdout.decode()}")


if __name__ == "__main__":
    main()
