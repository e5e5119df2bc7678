"""The SAM template as a package: a folder in a zip, from which `sam deploy` alone deploys.

The template is that of infra/sam with other code, a zip beside it or one in a bucket that parameters name; with each
anchor resolved, so that every tool may deploy it; and without what only the other channel has, whose types not every
region knows.
"""

from __future__ import annotations

import zipfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml
from functions import CHANNELS, FUNCTIONS, ROOT, Functions
from local_aws import read_template

OWN = Path(__file__).resolve().parent / "sam"
Template = dict[str, Any]
# The condition that holds for a channel, and no other.
CONDITIONS = {"email": "IsEmail", "sms": "IsSms"}
BUCKET_GROUP = {"Label": {"default": "Where the functions' code is"}, "Parameters": ["CodeBucket", "CodePrefix"]}
BUCKET_PARAMETERS = {
    "CodeBucket": {
        "Type": "String",
        "Description": "Bucket, in the stack's region, that the functions' zips were copied to.",
        "AllowedPattern": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]",
        "ConstraintDescription": "a bucket's name",
    },
    "CodePrefix": {
        "Type": "String",
        "Default": "tidegate/",
        "Description": "What the zips' keys begin with; VERSION/scheduler-arm64.zip and so on follow, so that a template "
        "of another version takes that version's code.",
        "AllowedPattern": "([A-Za-z0-9._-]+/)*",
        "ConstraintDescription": "empty, or words with a / after each, such as tidegate/",
    },
}
# What the Serverless Application Repository shows of an application, and publishes it under.
APPLICATION = {
    "Name": "tidegate",
    "Description": "Sends e-mail campaigns through Amazon SES at exactly the account's quota: never above it, never far below it, "
    "with every campaign getting its share and nothing lost.",
    "Author": "tidegate",
    "SpdxLicenseId": "Apache-2.0",
    "LicenseUrl": "LICENSE",
    "ReadmeUrl": "README.md",
    "Labels": ["email", "ses", "sqs", "campaigns", "rate-limit"],
}
# Equal input gives an equal zip.
EPOCH = (1980, 1, 1, 0, 0, 0)


def package(version: str, functions: Functions, source_url: str | None, out: Path) -> Path:
    """Writes tidegate-sam-VERSION.zip."""
    files = {"LICENSE": (ROOT / "LICENSE").read_bytes(), "NOTICE": (ROOT / "NOTICE").read_bytes()}
    files |= {f"functions/{name}": path.read_bytes() for name, path in functions.zips().items()}
    files["campaign.yaml"] = (ROOT / "infra" / "sam" / "campaign.yaml").read_bytes()
    files["samconfig.toml"] = (OWN / "samconfig.toml").read_bytes()
    readme = (OWN / "README.md").read_text(encoding="utf-8")
    files["README.md"] = readme.replace("VERSION", version).encode()
    for name, text in templates(version, functions.architectures, source_url).items():
        files[name] = text.encode()
    folder = f"tidegate-sam-{version}"
    path = out / f"{folder}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in sorted(files.items()):
            entry = zipfile.ZipInfo(f"{folder}/{name}", date_time=EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".zip") else zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return path


class Plain(yaml.SafeDumper):
    """Without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def templates(version: str, architectures: tuple[str, ...], source_url: str | None) -> dict[str, str]:
    """The templates by their file names; template.yaml is that of the first processor, for e-mail."""
    source = read_template(ROOT / "infra" / "sam" / "template.yaml")
    # What makes a template one that can be published.
    urls = {} if source_url is None else {"HomePageUrl": source_url, "SourceCodeUrl": source_url}
    source["Metadata"]["AWS::ServerlessRepo::Application"] = APPLICATION | {"SemanticVersion": version} | urls
    made = {}
    for channel, suffix in CHANNELS.items():
        # Another channel than the stack's is refused, since it keeps the parameter's value.
        sends = with_only(of_channel(source, channel), "Channel", channel)
        made[f"template-from-bucket{suffix}.yaml"] = from_bucket(sends, version, suffix)
        for place, architecture in enumerate(architectures):
            processor = "" if place == 0 else f"-{architecture}"
            code = {name: f"functions/{name}-{architecture}{suffix}.zip" for name in FUNCTIONS}
            made[f"template{processor}{suffix}.yaml"] = with_code(with_only(sends, "Architecture", architecture), code)
    return {name: yaml.dump(of, Dumper=Plain, sort_keys=False, allow_unicode=True) for name, of in made.items()}


def of_channel(template: Template, channel: str) -> Template:
    """Without resources and outputs that are never there, and with each choice that is always the same made."""
    known = {condition: of == channel for of, condition in CONDITIONS.items()}
    for name, condition in template["Conditions"].items():
        if any(known.get(part.get("Condition")) is False for part in condition.get("Fn::And", [])):
            known[name] = False

    def decided(node: Any) -> Any:
        if isinstance(node, list):
            return [decided(item) for item in node]
        if not isinstance(node, dict):
            return node
        condition, *branches = node.get("Fn::If", [None])
        if condition in known:
            return decided(branches[0 if known[condition] else 1])
        return {name: decided(value) for name, value in node.items()}

    def there(part: Template) -> Template:
        return {name: decided(of) for name, of in part.items() if known.get(of.get("Condition"), True)}

    return template | {part: there(template[part]) for part in ("Resources", "Outputs")}


def from_bucket(template: Template, version: str, suffix: str) -> Template:
    """Code of either processor and one channel, from a bucket of the deployer's."""
    key = f"${{CodePrefix}}{version}/%s-${{Architecture}}{suffix}.zip"
    code = {name: {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Fn::Sub": key % name}} for name in FUNCTIONS}
    made = with_code(template, code)
    made["Parameters"] = BUCKET_PARAMETERS | made["Parameters"]
    made["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"].insert(0, BUCKET_GROUP)
    return made


def with_only(template: Template, parameter: str, value: str) -> Template:
    """With a parameter that can have one value alone."""
    made = deepcopy(template)
    made["Parameters"][parameter] |= {"Default": value, "AllowedValues": [value]}
    return made


def with_code(template: Template, code: dict[str, Any]) -> Template:
    made = deepcopy(template)
    for name, of in code.items():
        made["Resources"][f"{name.capitalize()}Function"]["Properties"]["Code"] = of
    return made
