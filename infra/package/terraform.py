"""The Terraform module's variables, outputs and parameters, from a CloudFormation template.

Each parameter is a variable of the type that a person would give it: a text that is on or off is a bool, a comma list a list, a text of
digits a number, and null where the text may be empty. Its description, default and what is allowed are the template's.
"""

import json
import re
from typing import Any

Parameter = dict[str, Any]
LISTS = re.compile(r"comma list")
NUMBERS = re.compile(r"(empty, or )?a (whole )?number|0, or \d+ to \d+")
# What a pattern may begin with: names that are not allowed. Terraform's expressions know no such thing.
EXCEPT = re.compile(r"\(\?!\((.*?)\)\$\)")


def snake(name: str) -> str:
    """The variable of a parameter: MaxInFlight is max_in_flight."""
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def hcl(value: Any) -> str:
    """A value as an expression."""
    if isinstance(value, list):
        return f"[{', '.join(map(hcl, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def matches(pattern: str, value: str) -> str:
    """The expression that a pattern fits the whole of a value."""
    return f"can(regex({hcl(f'^(?:{pattern})$')}, {value}))"


class Variable:
    """A parameter as a variable."""

    def __init__(self, name: str, parameter: Parameter) -> None:
        self.name, self.of = name, parameter
        self.variable = f"var.{snake(name)}"
        self.allowed = [str(value) for value in parameter.get("AllowedValues", [])]
        constraint = parameter.get("ConstraintDescription", "")
        if set(self.allowed) in ({"true", "false"}, {"on", "off"}):
            self.type = "bool"
        elif parameter["Type"] == "Number" or NUMBERS.match(constraint):
            self.type = "number"
        elif parameter["Type"] == "CommaDelimitedList" or LISTS.search(constraint):
            self.type = "list(string)"
        else:
            self.type = "string"

    def default(self) -> Any:
        """The variable's default; none if it must be given."""
        default = self.of.get("Default")
        if default is None:
            return None
        if self.type == "bool":
            return str(default) in ("true", "on")
        if self.type == "number":
            return None if default == "" else json.loads(str(default))
        if self.type == "list(string)":
            return str(default).split(",") if default else []
        return str(default)

    def text(self) -> str:
        """The expression of the parameter's value."""
        if "on" in self.allowed:
            return f'{self.variable} ? "on" : "off"'
        if self.is_nullable():
            return f"{self.variable} == null ? null : tostring({self.variable})"
        return {
            "bool": f"tostring({self.variable})",
            "number": f"tostring({self.variable})",
            "list(string)": f'join(",", {self.variable})',
            "string": self.variable,
        }[self.type]

    def rules(self) -> list[tuple[str, str]]:
        """What holds for the value, and the words for it if not."""
        rules = []
        name = snake(self.name)
        either = f"{self.variable} == null || " if self.is_nullable() else ""
        if self.type == "number" and "MinValue" in self.of:
            least, most = self.of["MinValue"], self.of["MaxValue"]
            rules.append((f"{self.variable} >= {least} && {self.variable} <= {most}", f"{name} is a number from {least} to {most}."))
        elif self.type == "number" and self.allowed:
            rules.append((f"contains([{', '.join(self.allowed)}], {self.variable})", f"{name} is one of {', '.join(self.allowed)}."))
        elif self.allowed and self.type == "string":
            rules.append((f"contains({hcl(self.allowed)}, {self.variable})", f"{name} is one of {', '.join(map(repr, self.allowed))}."))
        if pattern := self.of.get("AllowedPattern"):
            words = f"{name} is {self.of['ConstraintDescription']}."
            for names in EXCEPT.findall(pattern):
                rules.append((f"!{matches(names, self.variable)}", words))
            pattern = EXCEPT.sub("", pattern)
            if self.of["Type"] == "CommaDelimitedList":
                each = matches(pattern, "value")
                rules.append((f"length({self.variable}) > 0 && alltrue([for value in {self.variable} : {each}])", words))
            else:
                value = {"list(string)": f'join(",", {self.variable})', "number": f"tostring({self.variable})"}.get(self.type, self.variable)
                rules.append((f"{either}{matches(pattern, value)}", words))
        if most := self.of.get("MaxLength"):
            rules.append((f"length({self.variable}) <= {most}", f"{name} has at most {most} characters."))
        return rules

    def is_nullable(self) -> bool:
        """Whether the variable may be null: a number that CloudFormation takes as an empty text."""
        return self.type == "number" and self.of.get("Default") == ""

    def block(self) -> str:
        lines = [f"type        = {self.type}", f"description = {hcl(' '.join(self.of['Description'].split()))}"]
        if "Default" in self.of:
            lines.append(f"default     = {hcl(self.default())}")
        if not self.is_nullable():
            lines.append("nullable    = false")
        for condition, words in self.rules():
            lines += ["", "validation {", f"  condition     = {condition}", f"  error_message = {hcl(words)}", "}"]
        body = "\n".join(f"  {line}" if line else "" for line in lines)
        return f'variable "{snake(self.name)}" {{\n{body}\n}}\n'


def without_secrets(template: dict[str, Any]) -> dict[str, Any]:
    """With no parameter that CloudFormation hides: each plan would differ by it. So it takes no password either."""
    parameters = {name: dict(of) for name, of in template["Parameters"].items()}
    for name, of in parameters.items():
        if of.pop("NoEcho", None):
            of["AllowedPattern"] = of["AllowedPattern"].replace("rediss?://[^\\s]+", "rediss?://[^\\s@]+")
            of["ConstraintDescription"] += "; a user or password only in the secret"
    return template | {"Parameters": parameters}


def files(template: dict[str, Any], version: str | None = None) -> dict[str, str]:
    """The files of all parameters and outputs."""
    variables = [Variable(name, of) for name, of in template["Parameters"].items()]
    width = max(len(of.name) for of in variables)
    parameters = "\n".join(f"    {of.name:<{width}} = {of.text()}" for of in variables)
    of_version = "" if version is None else f"  tidegate_version = {hcl(version)}\n\n"
    outputs = [
        f'output "{snake(name)}" {{\n  description = {hcl(of["Description"])}\n'
        f'  value       = lookup(aws_cloudformation_stack.this.outputs, "{name}", null)\n}}\n'
        for name, of in template["Outputs"].items()
    ]
    name = 'output "name" {\n  description = "The stack\'s name."\n  value       = aws_cloudformation_stack.this.name\n}\n'
    return {
        "variables.tf": "\n".join(of.block() for of in variables),
        "parameters.tf": f"locals {{\n{of_version}  parameters = {{\n{parameters}\n  }}\n}}\n",
        "outputs.tf": "\n".join([name, *outputs]),
    }
