"""Plants faults into a copy of the source, one at a time, and runs the test that must find each.

    python3 tests/planted/run.py                       five that are drawn
    python3 tests/planted/run.py --all
    python3 tests/planted/run.py slot-used-twice.patch

Each NAME.patch begins with two lines: what the fault is and does, and the test that finds it, as `PACKAGE | TEST` for a unit test or
`PACKAGE:TARGET | TEST` for an integration test. Ends with 1 if a fault is not found, or a patch does not apply or compile.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
# A place that stays, so that the next run compiles only what has changed. The dependencies are those of the other tests.
COPY = TARGET / "planted"
SAMPLE = 5
HEADER = re.compile(r"# FAULT: (?P<fault>.+)\n# found by: (?P<package>[\w-]+)(?::(?P<target>\w+))? \| (?P<test>[\w:]+)\n")


class Fault(NamedTuple):
    patch: Path
    text: str
    package: str
    # The integration test; none for a unit test.
    target: str | None
    test: str


class Outcome(NamedTuple):
    found: bool
    said: str


def read(patch: Path) -> Fault:
    header = HEADER.match(patch.read_text(encoding="utf-8"))
    if header is None:
        sys.exit(f"{patch.name} does not begin with the two lines `# FAULT: …` and `# found by: PACKAGE | TEST`")
    return Fault(patch, header["fault"], header["package"], header["target"], header["test"])


def copy_source() -> None:
    """Files keep the times at which they changed, so that cargo compiles the others once."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    wanted = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for path in COPY.rglob("*"):
        if path.is_file() and str(path.relative_to(COPY)) not in wanted:
            path.unlink()
    for name in wanted:
        source, copy = ROOT / name, COPY / name
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())


def command(fault: Fault) -> list[str]:
    """One package alone compiles soonest; with the package of the tests the dependencies are those that all tests have."""
    alone = fault.package in ("core", "delivery")
    packages = [fault.package] if alone else sorted({fault.package, "tests"})
    selection = [f"--package=tidegate-{package}" for package in packages]
    kind = ["--lib"] if fault.target is None else [f"--test={fault.target}"]
    return ["cargo", "test", "--profile=local", "--locked", *selection, *kind, "--", fault.test]


def patch(fault: Fault, *options: str) -> bool:
    """By `patch`, because git takes a copy below the checkout for a part of it."""
    run = ["patch", "--strip=1", "--silent", "--force", "--no-backup-if-mismatch", f"--input={fault.patch}", *options]
    return subprocess.run(run, cwd=COPY, check=False, capture_output=True).returncode == 0


def plant(fault: Fault) -> Outcome:
    if not patch(fault, "--dry-run") or not patch(fault):
        return Outcome(found=False, said="the patch does not apply any more")
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "CARGO_TERM_COLOR": "never", "RUST_BACKTRACE": "0"}
    try:
        ran = subprocess.run(command(fault), cwd=COPY, check=False, capture_output=True, text=True, env=environment)
    finally:
        patch(fault, "--reverse")
    if re.search(r"^test .*\.\.\. FAILED$", ran.stdout, re.M):
        return Outcome(found=True, said=fault.test)
    why = f"{fault.test} passes" if ran.returncode == 0 else f"it does not compile or run:\n{ran.stderr[-3000:]}"
    # A filter that fits no test would pass for ever.
    return Outcome(found=False, said=why if re.search(r"^running [1-9]", ran.stdout, re.M) or ran.returncode else f"no test is named {fault.test}")


def main() -> int:
    parser = argparse.ArgumentParser("planted", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME.patch", help="these alone")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"), help="of the drawing [the date: %(default)s]")
    options = parser.parse_args()
    every = [read(path) for path in sorted(HERE.glob("*.patch"))]
    faults = [fault for fault in every if not options.names or fault.patch.name in options.names]
    if not options.names and not options.all:
        print(f"planted: {SAMPLE} of {len(faults)} faults, drawn with --seed {options.seed}", flush=True)
        faults = random.Random(options.seed).sample(faults, SAMPLE)  # noqa: S311
    copy_source()
    if stale := [fault.patch.name for fault in every if not patch(fault, "--dry-run")]:
        sys.exit(f"planted: of the code as it is now {', '.join(stale)} cannot be planted")
    missed = 0
    # Those of one package after another compile less.
    for fault in sorted(faults, key=lambda fault: (fault.package, fault.target or "", fault.test)):
        began = time.monotonic()
        outcome = plant(fault)
        missed += not outcome.found
        mark = "found" if outcome.found else "NOT FOUND"
        print(f"planted: {mark:9} {fault.patch.stem} ({time.monotonic() - began:.0f} s): {outcome.said}", flush=True)
    print(f"planted: {len(faults) - missed} of {len(faults)} faults were found")
    return 1 if missed or not faults else 0


if __name__ == "__main__":
    sys.exit(main())
