"""A CloudFormation template with its parameters filled in: what a stack of it would be; and the SAM template as one.

Conditions are decided, intrinsic functions evaluated, and what only AWS can tell (a queue's URL, an
ARN) is written as AWS would write it for the resource's name, so that two templates that call one
queue by different logical ids render alike. A resource without a name of its own goes by its type.
"""

import copy
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import local_aws

INFRA = Path(__file__).parent.parent
NAME = "mail"
ACCOUNT = "123456789012"
REGION = "eu-west-1"
PSEUDO = {
    "AWS::AccountId": ACCOUNT,
    "AWS::Partition": "aws",
    "AWS::Region": REGION,
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackId": "stack-id",
}
NO_VALUE = object()

# The property that is a resource's name, and the ARN that AWS gives a resource of that name.
NAMES = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::SES::ConfigurationSet": "Name",
    "AWS::SMSVOICE::ConfigurationSet": "ConfigurationSetName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
}
ARNS = {
    "AWS::CloudWatch::Alarm": "cloudwatch:{place}:alarm:{name}",
    "AWS::Lambda::Function": "lambda:{place}:function:{name}",
    "AWS::Logs::LogGroup": "logs:{place}:log-group:{name}:*",
    "AWS::SNS::Topic": "sns:{place}:{name}",
    "AWS::SQS::Queue": "sqs:{place}:{name}",
}


class Rendered:
    """The resources that a stack named `name` would have, by logical id, without conditions."""

    def __init__(self, template: Mapping[str, Any], name: str, parameters: Mapping[str, str] | None = None) -> None:
        self._template = template
        self._values = PSEUDO | {"AWS::StackName": name} | self._parameters(parameters or {})
        self._there = {
            logical: resource for logical, resource in template["Resources"].items()
            if "Condition" not in resource or self.condition(resource["Condition"])
        }  # fmt: skip
        self.resources: dict[str, dict[str, Any]] = {
            logical: {"Type": resource["Type"], **self.evaluate(resource.get("Properties", {}))}
            for logical, resource in self._there.items()
        }

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """The resources of a type, by name; by logical id where they have none."""
        found = {l: r for l, r in self.resources.items() if r["Type"] == kind}
        return {self.name(logical): resource for logical, resource in found.items()}

    def name(self, logical: str) -> str:
        """What a resource is called in the account."""
        resource = self._there[logical]
        given = resource.get("Properties", {}).get(NAMES.get(resource["Type"], ""))
        if given is not None:
            return str(self.evaluate(given))
        alike = [other for other in self._there.values() if other["Type"] == resource["Type"]]
        return str(resource["Type"]) if len(alike) == 1 else logical

    def condition(self, name: str) -> bool:
        return bool(self.evaluate(self._template["Conditions"][name]))

    def evaluate(self, value: Any) -> Any:
        """A value without intrinsic functions."""
        if isinstance(value, list):
            return [item for item in map(self.evaluate, value) if item is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            ((key, argument),) = value.items()
            if key in CHOSEN:
                return CHOSEN[key](self, argument)
            if key in EVALUATED:
                return EVALUATED[key](*self.evaluate(argument))
        members = ((key, self.evaluate(item)) for key, item in value.items())
        return {key: item for key, item in members if item is not NO_VALUE}

    def _parameters(self, given: Mapping[str, str]) -> dict[str, Any]:
        declared = self._template.get("Parameters", {})
        if unknown := given.keys() - declared.keys():
            raise KeyError(f"no such parameters: {', '.join(sorted(unknown))}")
        values: dict[str, Any] = {}
        for name, parameter in declared.items():
            value = given.get(name, parameter.get("Default", ""))
            is_list = parameter["Type"].endswith("List") or parameter["Type"].startswith("List<")
            values[name] = str(value).split(",") if is_list else str(value)
        return values

    def _ref(self, name: str) -> Any:
        if name == "AWS::NoValue":
            return NO_VALUE
        if name in self._values:
            return self._values[name]
        called = self.name(name)
        kind = self._there[name]["Type"]
        if kind == "AWS::SQS::Queue":
            return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{called}"
        return self._arn(name) if kind == "AWS::SNS::Topic" else called

    def _get_att(self, argument: Any) -> str:
        logical, attribute = argument.split(".", 1) if isinstance(argument, str) else argument
        if attribute == "Arn" or attribute.endswith("Arn"):
            return self._arn(logical)
        if attribute in ("QueueName", "TopicName"):
            return self.name(logical)
        return f"{self.name(logical)}.{attribute}"

    def _arn(self, logical: str) -> str:
        form = ARNS.get(self._there[logical]["Type"], "{name}")
        return f"arn:aws:{form.format(place=f'{REGION}:{ACCOUNT}', name=self.name(logical))}"

    def _sub(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument

        def put(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return _text(self.evaluate(own[name]))
            return _text(self._get_att(name) if "." in name else self._ref(name))

        return re.sub(r"\$\{([^}]+)\}", put, text)

    def _if(self, argument: Any) -> Any:
        condition, yes, no = argument
        return self.evaluate(yes if self.condition(condition) else no)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value)


# The intrinsic functions that evaluate their argument themselves, and those that are given it evaluated.
CHOSEN: dict[str, Callable[[Rendered, Any], Any]] = {
    "Ref": Rendered._ref,
    "Condition": Rendered.condition,
    "Fn::GetAtt": Rendered._get_att,
    "Fn::Sub": Rendered._sub,
    "Fn::If": Rendered._if,
    "Fn::ImportValue": lambda self, argument: f"import({self.evaluate(argument)})",
}
EVALUATED: dict[str, Callable[..., Any]] = {
    "Fn::Split": lambda separator, text: str(text).split(separator),
    "Fn::Join": lambda separator, items: str(separator).join(map(_text, items)),
    "Fn::Equals": lambda left, right: _text(left) == _text(right),
    "Fn::Not": lambda negated: not negated,
    "Fn::And": lambda *items: all(items),
    "Fn::Or": lambda *items: any(items),
}


@functools.cache
def _source() -> dict[str, Any]:
    return local_aws.read_template(INFRA / "sam" / "template.yaml")


def source() -> dict[str, Any]:
    """The template as it is written."""
    return copy.deepcopy(_source())


def stack(**parameters: str) -> Rendered:
    """What a stack named `mail` with these parameters would be."""
    return Rendered(_source(), NAME, parameters)
