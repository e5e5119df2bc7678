"""The SAM template with parameters filled in."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import local_aws
from rendered import ACCOUNT, REGION, Rendered

INFRA = Path(__file__).parent.parent

__all__ = ["ACCOUNT", "NAME", "REGION", "Rendered", "actions", "arn", "source", "stack"]

NAME = "mail"


@functools.cache
def _source() -> dict[str, Any]:
    return local_aws.read_template(INFRA / "sam" / "template.yaml")


def source() -> dict[str, Any]:
    """The template as it is written."""
    return copy.deepcopy(_source())


def stack(**parameters: str) -> Rendered:
    """What a stack named `mail` with these parameters would be."""
    return Rendered(_source(), NAME, parameters)


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
