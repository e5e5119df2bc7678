"""What the template's tests share."""

from __future__ import annotations

from typing import Any

from sam_template import ACCOUNT, REGION, Rendered


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
