"""What the CDK app makes of the SAM template's parameters: the same names and values serve both."""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from packages import Failure

SWITCHES = {"on": "true", "off": "false"}


def context(parameters: dict[str, str]) -> dict[str, str]:
    """The app's context: the parameters' names in camel case, the campaigns as one list."""
    given = dict(parameters)
    campaigns = [
        f"{name}:{given.pop(f'{nth}CampaignWeight', weight)}"
        for nth, default, weight in (("First", "main", 90), ("Second", "minor", 10))
        if (name := given.pop(f"{nth}CampaignName", default))
    ]
    found = {name[0].lower() + name[1:]: value for name, value in given.items() if value != ""}
    found.pop("campaigns", None)
    where = given.get("Campaigns", "")
    if where.startswith("["):
        raise Failure("Campaigns=[...] is SAM's alone: the CDK app makes each campaign's queue", 2)
    if where:
        found["campaignList"] = where
    for name in {"tracing", "deferral"} & found.keys():
        found[name] = SWITCHES.get(found[name], found[name])
    return found | {"campaigns": ",".join(campaigns)}


def synthesize(app: Path, stack: str, parameters: dict[str, str]) -> dict[str, Any]:
    """The template that the compiled app makes; it needs neither an account nor the binaries."""
    with tempfile.TemporaryDirectory(prefix="tidegate-cdk-") as folder:
        packages = Path(folder) / "packages"
        for function in ("scheduler", "poller"):
            (packages / function).mkdir(parents=True)
            (packages / function / "bootstrap").touch()
        out = Path(folder) / "out"
        own = {"name": stack, "prebuilt": str(packages), "assetsBucket": "tidegate-code"}
        environment = os.environ | {
            "CDK_CONTEXT_JSON": json.dumps(context(parameters) | own),
            "CDK_OUTDIR": str(out),
            # CDK's own rules take seconds to start; the construct's tests run with them.
            "CDK_VALIDATION": "false",
        }
        ran = subprocess.run(["node", app], env=environment, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            said = (ran.stderr or ran.stdout).strip() or f"exit code {ran.returncode}"
            raise Failure(f"the CDK app {app} refuses: {said}", 2)
        return dict(json.loads((out / f"{stack}.template.json").read_text("utf-8")))
