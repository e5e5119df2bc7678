"""The SAM template as its tests see it: rendered by SAM, then filled in with parameters."""

from __future__ import annotations

import copy
import functools
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from samtranslator.translator.transform import transform

import local_aws

INFRA = Path(__file__).parent.parent
sys.path.append(str(INFRA / "parity"))
from rendered import ACCOUNT, REGION, Rendered  # noqa: E402

__all__ = ["ACCOUNT", "NAME", "REGION", "Rendered", "actions", "arn", "rendered", "source", "stack"]

NAME = "mail"
# SAM asks for a region, whatever it renders.
os.environ.setdefault("AWS_DEFAULT_REGION", REGION)
NO_MANAGED_POLICIES = SimpleNamespace(load=dict)


@functools.cache
def _source() -> dict[str, Any]:
    return local_aws.read_template(INFRA / "sam" / "template.yaml")


def source() -> dict[str, Any]:
    """The template as it is written."""
    return copy.deepcopy(_source())


@functools.cache
def rendered() -> dict[str, Any]:
    """What SAM makes of it, conditions and functions included; not to be changed."""
    template = source()
    for function in ("SchedulerFunction", "PollerFunction"):
        template["Resources"][function]["Properties"]["CodeUri"] = "s3://bucket/key"
    made: dict[str, Any] = transform(template, {}, NO_MANAGED_POLICIES)
    return made


def stack(**parameters: str) -> Rendered:
    """What a stack named `mail` with these parameters would be."""
    return Rendered(rendered(), NAME, parameters)


def arn(service: str, resource: str) -> str:
    """Of a resource of the stack's account and region."""
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def actions(of: Rendered, role: str) -> dict[str, dict[str, Any]]:
    """A role's actions, each with its resources and the conditions on them."""
    found: dict[str, dict[str, Any]] = {}
    (policy,) = of.resources[role]["Policies"]
    for statement in policy["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow", statement
        for action in _as_list(statement["Action"]):
            for resource in _as_list(statement["Resource"]):
                found.setdefault(action, {})[resource] = statement.get("Condition", {})
    return found


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
