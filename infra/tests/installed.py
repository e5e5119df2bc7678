"""What the packages' tests share: zips of functions to package, and a user's shell in an empty folder."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from package import ARCHITECTURES, FUNCTIONS, names
from packages import kept_package

ALL_ZIPS = [name for architecture in ARCHITECTURES for name in names(architecture)]


def zips(folder: Path) -> Path:
    """The functions' zips: those of `make dist` (TIDEGATE_FUNCTIONS), else of this build's binaries.

    A build is for one processor, and has both channels. Its binaries stand in for all: no test runs the other's.
    """
    made = os.environ.get("TIDEGATE_FUNCTIONS")
    if made is not None:
        return Path(made).resolve()
    folder.mkdir()
    for function in FUNCTIONS:
        package = kept_package(Path(os.environ["TIDEGATE_BIN_DIR"]) / function)
        for name in ALL_ZIPS:
            if name.startswith(function):
                (folder / name).write_bytes(package)
    return folder


def empty_zips(folder: Path, *names: str) -> Path:
    """Zips whose `bootstrap` is no program but a text of its own, for what does not run them."""
    folder.mkdir(exist_ok=True)
    for name in names or ALL_ZIPS:
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr(zipfile.ZipInfo("bootstrap"), name)
    return folder


def without_rust(home: Path) -> dict[str, str]:
    """The environment of a user who has neither Rust nor credentials nor settings."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "CARGO", "RUST", "npm_", "MAKE"))}
    path = [p for p in own["PATH"].split(":") if not any((Path(p) / rust).exists() for rust in ("cargo", "rustc"))]
    return own | {"PATH": ":".join(path), "HOME": str(home), "SAM_CLI_TELEMETRY": "0"}


def run(command: list[str | Path], folder: Path, environment: dict[str, str]) -> str:
    """The command's output; if it fails, an error with all that it said."""
    ran = subprocess.run(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if ran.returncode != 0:
        raise AssertionError(f"exit code {ran.returncode}: {' '.join(map(str, command))}\n{ran.stdout}")
    return ran.stdout
