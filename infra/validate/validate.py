"""Checks the templates and the workflows with the tools that the trade has for it, all at once.

Offline: no account, no credentials, no telemetry; a proxy that does not exist refuses every call out.
A tool's words are shown when it finds anything, and then the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

INFRA = Path(__file__).resolve().parent.parent
GITHUB = INFRA.parent / ".github"
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {
    "SAM_CLI_TELEMETRY": "0",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "HTTP_PROXY": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
    "NO_COLOR": "1",
}


@dataclass(frozen=True)
class Check:
    """A tool's run, in the folder `infra`: there its settings are."""

    name: str
    command: list[str | Path]


def checks(linters: Path, checkov: Path, rendered: Path) -> list[Check]:
    """What is run at once, the slowest first."""
    return [
        Check("checkov", [checkov / "checkov", "--directory", rendered]),
        # cfn-lint as the SAM CLI drives it, on the template that is SAM's.
        Check(
            "sam validate --lint",
            [linters / "sam", "validate", "--lint", "--template-file", "sam/template.yaml"],
        ),
        Check("cfn-lint", [linters / "cfn-lint"]),
        # A workflow that does not fit GitHub's schema fails too, instead of being passed over.
        Check(
            "zizmor",
            [
                linters / "zizmor", "--offline", "--no-progress", "--strict-collection",
                GITHUB / "workflows", GITHUB / "dependabot.yml",
            ],  # fmt: skip
        ),
    ]


def environment(home: str) -> dict[str, str]:
    """Ours without credentials, and without settings of the user's."""
    own = {k: v for k, v in os.environ.items() if not k.upper().startswith("AWS_")}
    lower = {name.lower(): value for name, value in OFFLINE.items() if "PROXY" in name}
    return own | OFFLINE | lower | {"HOME": home, "NO_PROXY": "", "no_proxy": ""}


def run(check: Check, home: str) -> bool:
    """Whether the tool found nothing."""
    began = time.monotonic()
    try:
        ended = subprocess.run(
            check.command,
            cwd=INFRA,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as error:
        print(f"{check.name}: cannot start: {error}", file=sys.stderr)
        return False
    took = f"{time.monotonic() - began:.1f} s"
    if ended.returncode == 0:
        print(f"{check.name}: passed ({took})")
        return True
    print(f"{check.name}: exit code {ended.returncode} ({took})\n{ended.stdout}", file=sys.stderr)
    return False


def main() -> None:
    parser = argparse.ArgumentParser("validate", description=__doc__)
    option = parser.add_argument
    option("--linters", type=Path, required=True, metavar="DIR", help="of sam, cfn-lint, zizmor")
    option("--checkov", type=Path, required=True, metavar="DIR", help="of checkov")
    args = parser.parse_args()
    linters, checkov = args.linters.resolve(), args.checkov.resolve()
    with TemporaryDirectory() as home, ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        rendered = Path(home) / "rendered"
        rendered.mkdir()
        render = Check("rendering", [linters / "python", "-B", "validate/render.py", rendered])
        if not run(render, home):
            sys.exit(1)
        found = checks(linters, checkov, rendered)
        clean = list(pool.map(lambda check: run(check, home), found))
    sys.exit(not all(clean))


if __name__ == "__main__":
    main()
