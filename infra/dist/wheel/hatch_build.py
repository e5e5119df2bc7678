"""What the wheel's project file cannot say: platform, files, and the versions of the local AWS."""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# `name==version ; marker \`, followed by hashes, which a wheel's metadata cannot hold.
PIN = re.compile(r"^([\w.-]+==[^\s;]+)(?: ; (.+?))? \\$", re.M)


class Programs(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """All below `prefix` is installed below that of the Python."""
        build_data["pure_python"] = False
        build_data["tag"] = os.environ["TIDEGATE_WHEEL_TAG"]
        prefix = Path(self.root, "prefix")
        for file in sorted(path for path in prefix.rglob("*") if path.is_file()):
            place = file.relative_to(prefix)
            kind, target = ("scripts", place.name) if place.parts[0] == "bin" else ("data", str(place))
            build_data[f"shared_{kind}"][str(file)] = target


class LocalAws(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        """The extra `local`: the local AWS with all that it needs, in the versions that are tested."""
        pins = PIN.findall(Path(self.root, "requirements.txt").read_text(encoding="utf-8"))
        metadata["optional-dependencies"] = {
            "local": [f"{pin}; {marker}" if marker else pin for pin, marker in pins]
        }
