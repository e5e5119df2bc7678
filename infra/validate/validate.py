"""Checks the templates and the workflows with the tools that the trade has for it, all at once.

Offline: no account, no credentials, no telemetry; a proxy that does not exist refuses every call out.
A tool's words are shown when it finds anything, and then the exit code is 1.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

INFRA = Path(__file__).resolve().parent.parent
GITHUB = INFRA.parent / ".github"
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {
    "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true", "NO_COLOR": "1",
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE), "NO_PROXY": "", "no_proxy": "",
}  # fmt: skip


Command = list[str | Path]


def checks(linters: Path, checkov: Path, rendered: Path) -> dict[str, Command]:
    """What is run at once, the slowest first, in the folder `infra`: there the tools' settings are."""
    return {
        "checkov": [checkov / "checkov", "--directory", rendered],
        # cfn-lint as the SAM CLI drives it, on the template that is SAM's.
        "sam validate --lint": [linters / "sam", "validate", "--lint", "--template-file", "sam/template.yaml"],
        "cfn-lint": [linters / "cfn-lint"],
        # A workflow that does not fit GitHub's schema fails too, instead of being passed over.
        "zizmor": [linters / "zizmor", "--offline", "--no-progress", "--strict-collection", GITHUB / "workflows",
                   GITHUB / "dependabot.yml"],
    }  # fmt: skip


def environment(home: str) -> dict[str, str]:
    """Ours without credentials, and without settings of the user's."""
    own = {k: v for k, v in os.environ.items() if not k.upper().startswith("AWS_")}
    return own | OFFLINE | {"HOME": home}


def run(name: str, command: Command, home: str) -> bool:
    """Whether the tool found nothing."""
    began = time.monotonic()
    try:
        ended = subprocess.run(command, cwd=INFRA, env=environment(home), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    except OSError as error:
        print(f"{name}: cannot start: {error}", file=sys.stderr)
        return False
    took = f"{time.monotonic() - began:.1f} s"
    if ended.returncode == 0:
        print(f"{name}: passed ({took})")
    else:
        print(f"{name}: exit code {ended.returncode} ({took})\n{ended.stdout}", file=sys.stderr)
    return ended.returncode == 0


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
        if not run("rendering", [linters / "python", "-B", "validate/render.py", rendered], home):
            sys.exit(1)
        found = checks(linters, checkov, rendered)
        clean = list(pool.map(lambda name: run(name, found[name], home), found))
    sys.exit(not all(clean))


if __name__ == "__main__":
    main()
