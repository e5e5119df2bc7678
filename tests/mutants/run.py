"""Changes the code of `core` and `delivery` in one place at a time, as cargo-mutants does, and tells which changes no test finds.

    python3 tests/mutants/run.py --sample 400 --seed 49      400 of all, drawn with this seed
    python3 tests/mutants/run.py --part 3/24                 every 24th, from the third on

A mutant of `core` is tried with the tests of `core`. One that passes them, and each of `delivery`, is tried with the unit tests of
`delivery` and `operator` and the simulation. Those of survivors.txt are known, each with the reason why no test finds it.
Exit code 1 if fewer than 95 in 100 of those that compile are found.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "mutants"
LEAST = 0.95
# Few cases of a property, and few seeds, find nearly all that many find.
ENVIRONMENT = {"PROPTEST_CASES": "64", "TIDEGATE_SEEDS": "20", "CARGO_INCREMENTAL": "1"}
OPTIONS = ["--profile", "local", "--test-tool", "nextest", "--no-shuffle", "--colors", "never", "--caught", "--no-times"] + [
    f"--cargo-arg=--config=profile.{profile}"
    for profile in ["local.incremental=true", "dev.package.tidegate-core.opt-level=1", "dev.package.tidegate-delivery.opt-level=1"]
]
# The seconds after which a mutant that never ends is given up, and is found; the tests.
CORE = ["--test-package", "tidegate-core", "--timeout", "90"]
OTHERS = [f"--test-package=tidegate-{package}" for package in ("delivery", "operator", "tests")] + [
    "--timeout", "600", "--", "--lib", "--test", "simulation"]  # fmt: skip


def listed(package: str) -> list[str]:
    """The names of all mutants of a package, such as `crates/core/src/a.rs:22:5: replace f -> bool with true`."""
    command = ["cargo", "mutants", "--list", "--json", "-p", package]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [mutant["name"] for mutant in json.loads(found)]


def placeless(name: str) -> str:
    """A mutant without its place in the file, which changes with each line before it."""
    return re.sub(r":\d+:\d+", "", name, count=1)


def tried(names: list[str], package: str, tests: list[str], jobs: int) -> dict[str, str]:
    """Each of these mutants with what became of it."""
    if not names:
        return {}
    WORK.mkdir(parents=True, exist_ok=True)
    config = WORK / "mutants.toml"
    config.write_text("examine_re = " + json.dumps([f"^{re.escape(name)}$" for name in names]), encoding="utf-8")
    command = ["cargo", "mutants", "-p", package, "--config", config, "-o", WORK, "-j", str(jobs), *OPTIONS, *tests]
    subprocess.run(command, cwd=ROOT, env=os.environ | ENVIRONMENT, check=False)
    told = json.loads((WORK / "mutants.out" / "outcomes.json").read_text(encoding="utf-8"))
    mutants = [of for of in told["outcomes"] if of["scenario"] != "Baseline"]
    summaries = {of["scenario"]["Mutant"]["name"]: of["summary"] for of in mutants}
    # cargo-mutants 27.1 tries every deletion of a field, whatever was asked for.
    return {name: summaries[name] for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--sample", type=int, metavar="N", help="so many, drawn")
    which.add_argument("--part", metavar="K/N", help="every Nth, from the Kth on")
    parser.add_argument("--seed", type=int, default=49, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at once (2)")
    arguments = parser.parse_args()
    lines = (HERE / "survivors.txt").read_text(encoding="utf-8").splitlines()
    known = {line.split(" # ")[0] for line in lines}
    drawn = [(package, name) for package in ("tidegate-core", "tidegate-delivery") for name in listed(package)]
    if arguments.part:
        part, parts = map(int, arguments.part.split("/"))
        drawn = drawn[part - 1 :: parts]
    else:
        drawn = random.Random(arguments.seed).sample(drawn, min(arguments.sample, len(drawn)))
    outcomes: dict[str, str] = {}
    for package in ("tidegate-core", "tidegate-delivery"):
        names = [name for of, name in drawn if of == package and placeless(name) not in known]
        print(f"{len(names)} mutants of {package}", flush=True)
        if package == "tidegate-core":
            outcomes |= tried(names, package, CORE, arguments.jobs)
            names = [name for name in names if outcomes[name] == "MissedMutant"]
        outcomes |= tried(names, package, OTHERS, arguments.jobs)
    missed = [name for name, summary in outcomes.items() if summary == "MissedMutant"]
    viable = sum(summary != "Unviable" for summary in outcomes.values())
    for name in missed:
        print(f"not found: {name}")
    print(f"{viable - len(missed)} of {viable} found; {len(outcomes) - viable} do not compile, {len(drawn) - len(outcomes)} are known")
    return int(viable - len(missed) < LEAST * viable)


if __name__ == "__main__":
    sys.exit(main())
