"""Writes the templates as CloudFormation would see them into a folder: at their defaults, and with every
option on.

checkov sees no more than the text: not what SAM makes of a function, and not a statement of a role
that stands in a condition.
"""

import json
import sys
from pathlib import Path
from typing import Any

INFRA = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(INFRA / "local"))

import local_aws  # noqa: E402
import sam_template  # noqa: E402
from sam_template import Rendered  # noqa: E402

EVERYTHING = {
    "AlarmEmail": "ops@example.org",
    "Campaigns": "tags",
    "Limits": "*=25%",
    "PointInTimeRecovery": "true",
    "ReservedConcurrency": "20",
    "SecurityGroupIds": "sg-0a1b2c3d",
    "SharedBucket": "rediss://bucket.example.org:6379",
    "Deferral": "on",
    "SubnetIds": "subnet-0a1b2c3d,subnet-1b2c3d4e",
    "Tracing": "on",
}


def at_defaults() -> dict[str, Any]:
    """With the reason for what the defaults leave out on purpose, where checkov reads it."""
    template = plain(sam_template.stack())
    skipped = {"id": "CKV_AWS_28", "comment": "what it holds is of use for minutes; PointInTimeRecovery is a parameter"}
    template["Resources"]["LedgerTable"]["Metadata"] = {"checkov": {"skip": [skipped]}}
    return template


def plain(stack: Rendered) -> dict[str, Any]:
    """The stack's resources as a template that needs nothing evaluated."""
    resources = {
        logical: {"Type": of["Type"], "Properties": {name: value for name, value in of.items() if name != "Type"}}
        for logical, of in stack.resources.items()
    }
    return {"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}


def main(folder: Path) -> None:
    templates = {"template": sam_template.stack(**EVERYTHING), "texts": sam_template.stack(Channel="sms", **EVERYTHING)}
    for path in sorted((INFRA / "sam").glob("*.yaml")):
        if path.stem not in templates:
            given = {"Stack": "mail", "Campaign": "spring"}
            templates[path.stem] = Rendered(local_aws.read_template(path), path.stem, given)
    texts = {name: plain(stack) for name, stack in templates.items()} | {"defaults": at_defaults()}
    for name, template in texts.items():
        (folder / f"{name}.json").write_text(json.dumps(template, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
