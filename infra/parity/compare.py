"""What of a rendered stack must be the same whether SAM or CDK made it, as flat `path: value` pairs.

A path names a thing as the account knows it (function, queue, alarm, role of a function), never by its
logical id, so that two renderings can be compared line by line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from rendered import Rendered

Pairs = dict[str, Any]


def pairs(stack: Rendered) -> Pairs:
    """Everything that is compared."""
    parts = (
        _functions(stack),
        _roles(stack),
        _queues(stack),
        _policies(stack, "AWS::SQS::QueuePolicy", "Queues", "queue policy"),
        _policies(stack, "AWS::SNS::TopicPolicy", "Topics", "topic policy"),
        _rules(stack),
        _named(stack, "AWS::CloudWatch::Alarm", "alarm", {"ActionsEnabled": True}),
        _named(stack, "AWS::Logs::LogGroup", "log group"),
        _named(stack, "AWS::SNS::Topic", "topic"),
        _named(stack, "AWS::DynamoDB::Table", "table", NO_RECOVERY),
        _named(stack, "AWS::S3::Bucket", "bucket"),
        _policies(stack, "AWS::S3::BucketPolicy", "Bucket", "bucket policy"),
        _named(stack, "AWS::SES::ConfigurationSet", "configuration set"),
        _named(stack, "AWS::SMSVOICE::ConfigurationSet", "configuration set of texts"),
        _list(stack, "AWS::SES::ConfigurationSetEventDestination", "event destination"),
        _list(stack, "AWS::SNS::Subscription", "subscription"),
        _dashboards(stack),
        _counts(stack),
    )
    return {path: value for part in parts for path, value in part.items()}


def differences(sam: Pairs, cdk: Pairs) -> list[str]:
    """One line for each path where they differ, with both values."""
    missing = "(not there)"
    return [
        f"{path}: SAM {_short(sam.get(path, missing))}, CDK {_short(cdk.get(path, missing))}"
        for path in sorted(sam.keys() | cdk.keys())
        if _plain(sam.get(path, missing)) != _plain(cdk.get(path, missing))
    ]


def _functions(stack: Rendered) -> Pairs:
    found: Pairs = {}
    for name, function in stack.of_type("AWS::Lambda::Function").items():
        settings = {k: v for k, v in function.items() if k not in OF_THE_PACKAGING}
        environment = settings.pop("Environment")["Variables"]
        settings.setdefault("TracingConfig", {"Mode": "PassThrough"})
        found |= _flat(f"function {name}", settings)
        for variable, value in environment.items():
            found[f"function {name} environment {variable}"] = _structured(value)
    for event in stack.of_type("AWS::Lambda::EventInvokeConfig").values():
        found |= _flat(f"function {event['FunctionName']} events", event)
    return found


# Where the code lies is the packaging's affair; role and name are compared by what they are.
OF_THE_PACKAGING = {"Type", "Code", "Role", "Tags"}


def _roles(stack: Rendered) -> Pairs:
    """Each function's permissions: for every action, its resources and conditions."""
    roles = {logical: r for logical, r in stack.resources.items() if r["Type"] == "AWS::IAM::Role"}
    found: Pairs = {}
    for name, function in stack.of_type("AWS::Lambda::Function").items():
        role = function["Role"]
        (logical,) = [l for l in roles if role in (f"arn:aws:{stack.name(l)}", stack.name(l))]
        found[f"role of {name} managed policies"] = roles[logical].get("ManagedPolicyArns", [])
        found[f"role of {name} trust"] = roles[logical]["AssumeRolePolicyDocument"]["Statement"]
        for statement in _statements(stack, logical, roles[logical]):
            for action in _as_list(statement["Action"]):
                for resource in _as_list(statement["Resource"]):
                    path = f"role of {name} may {action} on {resource}"
                    found[path] = [statement["Effect"], statement.get("Condition", {})]
    return found


def _statements(stack: Rendered, logical: str, role: dict[str, Any]) -> Iterable[dict[str, Any]]:
    for policy in role.get("Policies", []):
        yield from policy["PolicyDocument"]["Statement"]
    for policy in stack.of_type("AWS::IAM::Policy").values():
        if stack.name(logical) in policy["Roles"]:
            yield from policy["PolicyDocument"]["Statement"]


def _queues(stack: Rendered) -> Pairs:
    found: Pairs = {}
    for name, queue in stack.of_type("AWS::SQS::Queue").items():
        attributes = {k: v for k, v in queue.items() if k not in ("Type", "Tags")}
        tags = {tag["Key"]: str(tag["Value"]) for tag in queue.get("Tags", [])}
        found |= _flat(f"queue {name}", attributes | {"Tags": tags})
    return found


def _policies(stack: Rendered, kind: str, of: str, word: str) -> Pairs:
    """What each queue's or topic's policies say, whichever resource says it, without names and order."""
    said: dict[str, set[str]] = {}
    for policy in stack.of_type(kind).values():
        for target in _as_list(policy[of]):
            for statement in policy["PolicyDocument"]["Statement"]:
                plain = {k: v for k, v in statement.items() if k not in ("Sid", "Resource")}
                plain["Principal"] = _principal(plain.get("Principal"))
                plain["Condition"] = _condition(plain.get("Condition", {}))
                said.setdefault(str(target), set()).add(_plain(plain))
    return {f"{word} {target}": sorted(statements) for target, statements in said.items()}


def _principal(principal: Any) -> Any:
    # {"AWS": "*"} and "*" are the same principal.
    return "*" if principal == {"AWS": "*"} else principal


def _condition(condition: dict[str, Any]) -> dict[str, Any]:
    """Conditions without the rules' own names, which CloudFormation makes up."""
    return {
        operator: {
            key: len(_as_list(value)) if key == "aws:SourceArn" else value
            for key, value in tests.items()
        }
        for operator, tests in condition.items()
    }


def _rules(stack: Rendered) -> Pairs:
    found: Pairs = {}
    for rule in stack.of_type("AWS::Events::Rule").values():
        pattern = rule.get("EventPattern", {})
        # Several rules take events of one type.
        trigger = rule.get("ScheduleExpression") or f"{pattern['detail-type'][0]}: {rule['Description']}"
        targets = [{k: v for k, v in t.items() if k != "Id"} for t in rule["Targets"]]
        plain = {k: v for k, v in rule.items() if k not in ("Type", "Name")} | {"Targets": targets}
        plain.setdefault("State", "ENABLED")
        found |= _flat(f"rule on {trigger}", _structured_members(plain))
    for permission in stack.of_type("AWS::Lambda::Permission").values():
        plain = {k: v for k, v in permission.items() if k not in ("Type", "SourceArn")}
        plain["FunctionName"] = plain["FunctionName"].rsplit(":", 1)[-1]
        found |= _flat(f"permission to invoke {plain['FunctionName']}", plain)
    return found


# CloudFormation's defaults, which one of the two writes out.
NO_RECOVERY = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False}}


def _named(
    stack: Rendered, kind: str, word: str, defaults: dict[str, Any] | None = None
) -> Pairs:
    found: Pairs = {}
    for name, resource in stack.of_type(kind).items():
        # A parameter is `QuotaPerSecond` to SAM's reader, and `quotaPerSecond` to CDK's.
        if "AlarmDescription" in resource:
            resource["AlarmDescription"] = resource["AlarmDescription"].lower()
        plain = (defaults or {}) | {k: v for k, v in resource.items() if k not in ("Type", "Tags")}
        found |= _flat(f"{word} {name}", plain)
    return found


def _list(stack: Rendered, kind: str, word: str) -> Pairs:
    plain = [
        {k: v for k, v in resource.items() if k != "Type"}
        for resource in stack.of_type(kind).values()
    ]
    return {word: sorted(plain, key=_plain)}


def _dashboards(stack: Rendered) -> Pairs:
    found: Pairs = {}
    for name, dashboard in stack.of_type("AWS::CloudWatch::Dashboard").items():
        for widget in json.loads(dashboard["DashboardBody"])["widgets"]:
            properties = widget["properties"]
            title = properties.get("title") or properties.get("markdown", "")[:40]
            found |= _flat(f"dashboard {name} {title!r}", properties)
    return found


# What one of the two tools adds of itself.
OWN_KINDS = {"AWS::CDK::Metadata", "AWS::IAM::Policy", "AWS::SQS::QueuePolicy"}


def _counts(stack: Rendered) -> Pairs:
    kinds = [resource["Type"] for resource in stack.resources.values()]
    return {f"number of {k}": kinds.count(k) for k in sorted(set(kinds) - OWN_KINDS)}


def _flat(path: str, value: Any) -> Pairs:
    """A value's leaves, each under its path."""
    if isinstance(value, dict):
        members = ((f"{path} {key}", item) for key, item in value.items() if key != "Type")
        return {p: v for member, item in members for p, v in _flat(member, item).items()}
    return {path: value}


def _structured(value: Any) -> Any:
    """JSON inside a string, read, so that its spaces do not count."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _structured_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _structured_members(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_structured_members(item) for item in value]
    return _structured(value)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _plain(value: Any) -> str:
    """One text for one value: a parameter's "256" is CDK's 256, "true" is true."""
    return json.dumps(_scalars(value), sort_keys=True)


def _scalars(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _scalars(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scalars(item) for item in value]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return value


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 300 else f"{text[:297]}..."
