"""What the programs are made of: SBOMs (CycloneDX), and the licences of all that is linked into them.

Cargo says what is linked (`cargo tree`), Cargo.lock the checksums, and each package's source has its licence files.
`make deny` decides which licences are allowed; this collects their texts.
"""

import argparse
import json
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parents[2]
# Macros run in the compiler: nothing of them is in a program.
TREE = ["cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "{p}|{l}"]
LINE = re.compile(r"(\d+)(\S+) v(\S+)(?: \((.*?)\))*\|(.*?)(?: \(\*\))?")
LICENCE = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.I)
# The selections of `make build` and of the programs in an archive.
SELECTIONS = {
    "functions": ["--package", "tidegate-lambda", "--no-default-features"],
    "programs": [f"--package=tidegate-{name}" for name in ("console", "devstack", "fakes", "lambda")],
}


# A package's name and version.
Key = tuple[str, str]


@dataclass
class Package:
    name: str
    version: str
    licence: str
    needs: set[Key] = field(default_factory=set)


Packages = dict[Key, Package]


def parse(tree: str) -> Packages:
    """The packages of a tree whose lines begin with their depth."""
    found: Packages = {}
    above: list[Package] = []
    for line in filter(None, tree.splitlines()):
        parts = LINE.fullmatch(line)
        if parts is None:
            raise SystemExit(f"notices: this line of cargo tree is not understood: {line}")
        depth, name, version, licence = int(parts[1]), parts[2], parts[3], parts[5]
        package = found.setdefault((name, version), Package(name, version, licence))
        del above[depth:]
        if above:
            above[-1].needs.add((name, version))
        above.append(package)
    return found


def linked(selection: list[str], target: str) -> Packages:
    said = subprocess.run([*TREE, "--target", target, *selection], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return parse(said.stdout)


def locked_checksums(lock: str) -> dict[Key, str]:
    """SHA-256 of each package from a registry."""
    entry = re.compile(r'^name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(\w+)"', re.M)
    return {(name, version): checksum for name, version, checksum in entry.findall(lock)}


def sbom(name: str, version: str, packages: Packages, checksums: dict[Key, str]) -> str:
    """CycloneDX 1.6 as JSON, without a time and a random number: equal dependencies give equal bytes."""
    program = Component(name=f"tidegate-{name}", version=version, type=ComponentType.APPLICATION, bom_ref=f"tidegate-{name}")
    components = {}
    for key, package in sorted(packages.items()):
        components[key] = Component(
            name=package.name,
            version=package.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"{package.name}@{package.version}",
            licenses=[LicenseExpression(package.licence.replace("/", " OR "))] if package.licence else [],
            purl=PackageURL("cargo", name=package.name, version=package.version) if key in checksums else None,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=checksums[key])] if key in checksums else [],
            properties=[] if key in checksums else [Property(name="tidegate:source", value="this repository")],
        )
    bom = Bom(components=components.values())
    bom.metadata.component = program
    needed = {key for package in packages.values() for key in package.needs}
    bom.register_dependency(program, [components[key] for key in sorted(packages) if key not in needed])
    for key, package in sorted(packages.items()):
        bom.register_dependency(components[key], [components[other] for other in sorted(package.needs)])
    document = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["serialNumber"], document["metadata"]["timestamp"]
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def licences(packages: Packages, sources: dict[Key, Path]) -> str:
    """Each text once, below the packages that have it; a package without a text is listed with its licence."""
    having: dict[str, list[str]] = defaultdict(list)
    for key, package in sorted(packages.items()):
        said = f"{package.name} {package.version} ({package.licence})"
        files = [file for file in sorted(sources[key].iterdir()) if LICENCE.match(file.name) and file.is_file()]
        for text in dict.fromkeys(file.read_text(encoding="utf-8", errors="replace").strip() for file in files):
            having[text].append(said)
        if not files:
            having["(The package contains no text of its licence.)"].append(said)
    rule, listed = "-" * 80, sorted(having.items(), key=lambda item: item[1])
    head = "Tidegate's programs contain the packages below. Each list of packages is followed by a licence's text.\n"
    return "\n".join([head, *("\n".join([rule, *names, rule, "", text, ""]) for text, names in listed)])


def main() -> None:
    parser = argparse.ArgumentParser("notices", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--target", action="append", required=True, metavar="TRIPLE", help="repeatable; the SBOMs are of the first")
    parser.add_argument("--sboms", type=Path, metavar="DIR", help="write tidegate-VERSION-{functions,programs}.cdx.json into it")
    parser.add_argument("--licences", type=Path, metavar="FILE", help="write the licences of all targets")
    args = parser.parse_args()
    if args.sboms:
        checksums = locked_checksums((ROOT / "Cargo.lock").read_text(encoding="utf-8"))
        args.sboms.mkdir(parents=True, exist_ok=True)
        for name, selection in SELECTIONS.items():
            file = args.sboms / f"tidegate-{args.version}-{name}.cdx.json"
            file.write_text(sbom(name, args.version, linked(selection, args.target[0]), checksums), encoding="utf-8")
            print(file)
    if args.licences:
        everything = {key: package for target in args.target for key, package in linked(SELECTIONS["programs"], target).items()}
        said = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1"], cwd=ROOT, check=True, stdout=subprocess.PIPE)
        listed = {(p["name"], p["version"]): p for p in json.loads(said.stdout)["packages"]}
        foreign = {key: package for key, package in everything.items() if listed[key]["source"]}
        folders = {key: Path(listed[key]["manifest_path"]).parent for key in foreign}
        args.licences.write_text(licences(foreign, folders), encoding="utf-8")
        print(f"{args.licences}: {len(foreign)} packages")


if __name__ == "__main__":
    main()
