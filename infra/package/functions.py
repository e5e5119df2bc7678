"""What is packaged: the functions' zips, and the version of the project."""

from __future__ import annotations

import re
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "infra" / "local"))
ARCHITECTURES = ("arm64", "x86_64")
# What the names of the zips have after the processor: those for e-mail nothing.
CHANNELS = {"email": "", "sms": "-sms"}
FUNCTIONS = ("scheduler", "poller")


class Refused(Exception):
    """Why nothing was packaged."""


@dataclass(frozen=True)
class Functions:
    """The functions' zips: a pair for each processor and channel."""

    folder: Path
    architectures: tuple[str, ...]

    def zips(self) -> dict[str, Path]:
        """Each zip by its file name."""
        return {name: self.folder / name for arch in self.architectures for name in names(arch)}


def names(architecture: str) -> list[str]:
    """The names of a processor's zips."""
    return [f"{function}-{architecture}{channel}.zip" for channel in CHANNELS.values() for function in FUNCTIONS]


def version() -> str:
    """The version of every part of the project, from the workspace's manifest."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise Refused("Cargo.toml has no line: version = \"…\"")
    return found[1]


def read_functions(folder: Path, complete: bool) -> Functions:
    """The processors that the folder has both functions for; with `complete`, it must be all."""
    there = {
        architecture: [name for name in names(architecture) if (folder / name).is_file()]
        for architecture in ARCHITECTURES
    }
    for architecture, found in there.items():
        for name in names(architecture):
            if name not in found and (found or complete):
                raise Refused(f"{folder / name} is missing")
    whole = tuple(architecture for architecture, found in there.items() if found)
    if not whole:
        raise Refused(f"{folder} has no zip of a function, such as poller-arm64.zip")
    functions = Functions(folder, whole)
    for path in functions.zips().values():
        try:
            with zipfile.ZipFile(path) as archive:
                files = archive.namelist()
        except (OSError, zipfile.BadZipFile) as error:
            raise Refused(f"{path} is not a zip: {error}") from error
        if files != ["bootstrap"]:
            raise Refused(f"{path} has {', '.join(files) or 'nothing'} in it; it must have one file, bootstrap")
    return functions
