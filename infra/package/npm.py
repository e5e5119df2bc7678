"""The CDK construct as an npm package: its JavaScript and types, the functions' zips, and a reference of its API.

TypeScript and TypeDoc are those of infra/cdk and of reference/ (`make cdk reference`); npm packs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from functions import ROOT, Functions, Refused

CDK = ROOT / "infra" / "cdk"
REFERENCE = Path(__file__).resolve().parent / "reference"
# What the manifest has for work on the construct.
OWN_TO_THE_CHECKOUT = ("private", "scripts", "devDependencies", "main", "types", "exports", "files")


def package(version: str, functions: Functions, source_url: str | None, out: Path) -> Path:
    """Writes tidegate-cdk-VERSION.tgz."""
    with tempfile.TemporaryDirectory(prefix="tidegate-npm-") as folder:
        staged = Path(folder) / "package"
        compile_library(staged / "lib", Path(folder) / "build")
        write_reference(staged)
        (staged / "functions").mkdir()
        for name, path in functions.zips().items():
            shutil.copyfile(path, staged / "functions" / name)
        for path in (ROOT / "LICENSE", ROOT / "NOTICE"):
            shutil.copy(path, staged)
        readme = (CDK / "README.md").read_text(encoding="utf-8")
        (staged / "README.md").write_text(readme.replace("VERSION", version), encoding="utf-8")
        written = json.loads((CDK / "package.json").read_text(encoding="utf-8"))
        made = json.dumps(manifest(written, version, source_url), indent=2)
        (staged / "package.json").write_text(f"{made}\n", encoding="utf-8")
        # npm gives each file the same date, and orders them: equal input gives an equal tarball.
        run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder], staged)
        name = f"{written['name']}-{version}.tgz"
        shutil.copyfile(Path(folder) / name, out / name)
        return out / name


def manifest(written: dict[str, Any], version: str, source_url: str | None) -> dict[str, Any]:
    """The package's manifest, from that of the checkout."""
    if written["version"] != version:
        raise Refused(f"infra/cdk/package.json says {written['version']}, and Cargo.toml {version}")
    entry = {"types": "./lib/index.d.ts", "default": "./lib/index.js"}
    source = {} if source_url is None else {"repository": {"type": "git", "url": f"git+{source_url}.git"}}
    kept = {name: value for name, value in written.items() if name not in OWN_TO_THE_CHECKOUT}
    return kept | source | {
        "keywords": ["aws", "cdk", "email", "ses", "sqs"],
        "main": entry["default"],
        "types": entry["types"],
        "exports": {".": entry, "./package.json": "./package.json"},
        "files": ["lib", "functions", "API.md", "LICENSE", "NOTICE"],
    }  # fmt: skip


def compile_library(library: Path, build: Path) -> None:
    run([CDK / "node_modules" / ".bin" / "tsc", "--outDir", build], CDK)
    shutil.copytree(build / "lib", library)
    run(["node", CDK / "build" / "bin" / "template.js", library / "template.json"], CDK)


def write_reference(folder: Path) -> None:
    """Writes API.md; a part of the API without its description, or not exported, is an error."""
    run([REFERENCE / "node_modules" / ".bin" / "typedoc", "--out", folder / "reference"], REFERENCE)
    (folder / "reference" / "API.md").rename(folder / "API.md")
    (folder / "reference").rmdir()


def run(command: list[str | Path], folder: Path) -> None:
    try:
        ran = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    except FileNotFoundError as error:
        raise Refused(f"{command[0]} is missing: make cdk reference") from error
    if ran.returncode != 0:
        raise Refused(f"{Path(command[0]).name} fails:\n{ran.stdout}")
