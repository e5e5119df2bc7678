"""CloudFormation's stacks, as AWS and the local one tell of them."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError


def describe(cloudformation: Any, stack: str) -> dict[str, Any] | None:
    """The stack, or none when there is no such stack."""
    try:
        found: dict[str, Any] = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return None if found["StackStatus"] == "DELETE_COMPLETE" else found
