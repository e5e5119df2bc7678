"""Changes the code of `core` and `delivery` in one place at a time, as cargo-mutants does, and tells which changes no test finds.

    python3 tests/mutants/run.py --sample 400 --seed 49      400 of all, drawn with this seed
    python3 tests/mutants/run.py --part 3/52                 every 52nd, from the third on

A mutant of `core` is tried with the tests of `core`. One that passes them, and each of `delivery`, is tried with the unit tests of
`delivery`, `operator` and `fakes`, the suites `refill`, `send` and `results`, and the simulation. Of what survives, survivors.txt has
the known ones, with the reason.
Exit code 1 if fewer than 95 in 100 of those that compile and were tried are found.
"""

import argparse
import functools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORK = ROOT / "target" / "mutants"
PROGRAM = os.environ.get("CARGO_MUTANTS", "cargo-mutants")
PACKAGES = ("tidegate-core", "tidegate-delivery")
LEAST = 0.95
# Few cases of a property, and few seeds, find nearly all that many find.
ENVIRONMENT = {"PROPTEST_CASES": "64", "TIDEGATE_SEEDS": "20", "CARGO_INCREMENTAL": "1"}
OPTIONS = ["--profile", "local", "--colors", "never", "--caught", "--no-times"] + [
    f"--cargo-arg=--config=profile.{profile}"
    for profile in ["local.incremental=true", "dev.package.tidegate-core.opt-level=1", "dev.package.tidegate-delivery.opt-level=1"]
]
# The seconds after which a mutant that never ends is given up, and is found; the tests.
CORE = ["--test-package", "tidegate-core", "--timeout", "90"]
# cargo-mutants tries the code as it is with the tests of the changed package alone, which has no such suites: `tries_as_is` does.
PACKAGES_OF_OTHERS = ("tidegate-delivery", "tidegate-operator", "tidegate-fakes", "tidegate-tests")
SUITES = ["--lib", *(f"--test={suite}" for suite in ("refill", "send", "results", "simulation"))]
OTHERS = [*(f"--test-package={package}" for package in PACKAGES_OF_OTHERS), "--baseline=skip", "--timeout", "900", "--", *SUITES]


@functools.cache
def tries_as_is() -> None:
    """Ends the run if these tests fail as the code is: they would find every change."""
    command = ["cargo", "test", "--profile", "local", "--locked", "--quiet", *(f"--package={package}" for package in PACKAGES_OF_OTHERS), *SUITES]
    if subprocess.run(command, cwd=ROOT, env=os.environ | ENVIRONMENT).returncode:
        sys.exit("The tests fail as the code is.")


def listed(package: str) -> list[str]:
    """The names of all mutants of a package, such as `crates/core/src/a.rs:22:5: replace f -> bool with true`."""
    command = [PROGRAM, "mutants", "--list", "--json", "-p", package]
    found = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [mutant["name"] for mutant in json.loads(found)]


def placeless(name: str) -> str:
    """A mutant without its place in the file, which changes with each line before it."""
    return re.sub(r":\d+:\d+", "", name, count=1)


def tried(names: list[str], package: str, tests: list[str], jobs: int, until: float) -> dict[str, str]:
    """Each of these mutants that was tried in time, with what became of it."""
    if not names or time.monotonic() >= until:
        return {}
    WORK.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(WORK / "mutants.out", ignore_errors=True)
    config = WORK / "mutants.toml"
    files = sorted({name.partition(":")[0] for name in names})
    wanted = {"examine_globs": files, "examine_re": [f"^{re.escape(name)}$" for name in names]}
    config.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in wanted.items()), encoding="utf-8")
    command = [PROGRAM, "mutants", "-p", package, "--config", config, "-o", WORK, "-j", str(jobs), *OPTIONS, *tests]
    run = subprocess.Popen(command, cwd=ROOT, env=os.environ | ENVIRONMENT)
    try:
        run.wait(timeout=until - time.monotonic())
    except subprocess.TimeoutExpired:
        run.send_signal(signal.SIGINT)
        run.wait()
    outcomes = WORK / "mutants.out" / "outcomes.json"
    if not outcomes.exists():
        sys.exit("No mutant was tried: the time was over, or cargo-mutants failed.")
    told = json.loads(outcomes.read_text(encoding="utf-8"))
    if any(of["scenario"] == "Baseline" and of["summary"] != "Success" for of in told["outcomes"]):
        sys.exit("The tests fail as the code is.")
    mutants = [of for of in told["outcomes"] if of["scenario"] != "Baseline"]
    # cargo-mutants 27.1 tries every deletion of a field in these files, whatever was asked for.
    return {of["scenario"]["Mutant"]["name"]: of["summary"] for of in mutants if of["scenario"]["Mutant"]["name"] in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--sample", type=int, metavar="N", help="so many, drawn")
    which.add_argument("--part", metavar="K/N", help="every Nth, from the Kth on")
    parser.add_argument("--seed", type=int, default=49, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="how many are tried at once (2)")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no more mutants after so long (no limit)")
    arguments = parser.parse_args()
    began = time.monotonic()
    lines = (HERE / "survivors.txt").read_text(encoding="utf-8").splitlines()
    known = dict(line.split(" — ", 1) for line in lines)
    all_of_them = [(package, name) for package in PACKAGES for name in listed(package)]
    if arguments.part:
        part, parts = map(int, arguments.part.split("/"))
        drawn = all_of_them[part - 1 :: parts]
    else:
        drawn = random.Random(arguments.seed).sample(all_of_them, min(arguments.sample, len(all_of_them)))
    print(f"{len(drawn)} of {len(all_of_them)} mutants", flush=True)
    outcomes: dict[str, str] = {}
    for package, share in zip(PACKAGES, (0.6, 1.0), strict=True):
        names = [name for of, name in drawn if of == package]
        until = began + share * 60 * arguments.minutes
        if package == "tidegate-core":
            found = tried(names, package, CORE, arguments.jobs, until)
            outcomes |= {name: summary for name, summary in found.items() if summary != "MissedMutant"}
            names = [name for name, summary in found.items() if summary == "MissedMutant"]
        if names:
            tries_as_is()
        outcomes |= tried(names, package, OTHERS, arguments.jobs, until)
    missed = [name for name, summary in outcomes.items() if summary == "MissedMutant"]
    viable = sum(summary != "Unviable" for summary in outcomes.values())
    for name in missed:
        print(f"not found: {name}", *(["—", known[placeless(name)]] if placeless(name) in known else []))
    print(f"{viable - len(missed)} of {viable} found; {len(outcomes) - viable} do not compile, {len(drawn) - len(outcomes)} were not tried")
    return int(viable - len(missed) < LEAST * viable)


if __name__ == "__main__":
    sys.exit(main())
