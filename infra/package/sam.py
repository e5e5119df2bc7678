"""The SAM template as a package: a folder in a zip, from which `sam deploy` alone deploys.

The template is that of infra/sam with other code: a zip beside it, or one in a bucket that parameters name.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from channel import of_channel
from functions import CHANNELS, ROOT, Functions

OWN = Path(__file__).resolve().parent / "sam"
CODE = re.compile(r"^( +)Code: \.\./\.\./target/lambda/(scheduler|poller)$", re.M)
ARCHITECTURE = "    Default: arm64\n    Description: Processor that both binaries were built for.\n    AllowedValues: [arm64, x86_64]\n"
CHANNEL = "  Channel:\n    Type: String\n    Default: email\n    AllowedValues: [email, sms]\n"
BUCKET_GROUP = """\
      - Label: { default: Where the functions' code is }
        Parameters: [CodeBucket, CodePrefix]
"""
BUCKET_PARAMETERS = """\
  CodeBucket:
    Type: String
    Description: Bucket, in the stack's region, that the functions' zips were copied to.
    AllowedPattern: "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
    ConstraintDescription: a bucket's name
  CodePrefix:
    Type: String
    Default: tidegate/
    Description: >-
      What the zips' keys begin with; VERSION/scheduler-arm64.zip and so on follow, so that a template of
      another version takes that version's code.
    AllowedPattern: "([A-Za-z0-9._-]+/)*"
    ConstraintDescription: empty, or words with a / after each, such as tidegate/
"""
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


def templates(version: str, architectures: tuple[str, ...], source_url: str | None) -> dict[str, str]:
    """The templates by their file names; template.yaml is that of the first processor, for e-mail."""
    source = (ROOT / "infra" / "sam" / "template.yaml").read_text(encoding="utf-8")
    named = _replaced(source, "\nMetadata:\n", f"\nMetadata:\n{application(version, source_url)}")
    made = {}
    for channel, suffix in CHANNELS.items():
        # Another channel than the stack's is refused, since it keeps the parameter's value.
        only = CHANNEL.replace("email, sms", channel).replace("Default: email", f"Default: {channel}")
        sends = of_channel(_replaced(named, CHANNEL, only), channel)
        made[f"template-from-bucket{suffix}.yaml"] = from_bucket(sends, version, suffix)
        for place, architecture in enumerate(architectures):
            processor = "" if place == 0 else f"-{architecture}"
            made[f"template{processor}{suffix}.yaml"] = with_zips(sends, architecture, suffix)
    return made


def application(version: str, source_url: str | None) -> str:
    """The member of Metadata that makes a template one that can be published."""
    said = APPLICATION | {"SemanticVersion": version}
    if source_url is not None:
        said |= {"HomePageUrl": source_url, "SourceCodeUrl": source_url}
    lines = "".join(f"    {name}: {json.dumps(value)}\n" for name, value in said.items())
    return f"  AWS::ServerlessRepo::Application:\n{lines}"


def with_zips(template: str, architecture: str, suffix: str) -> str:
    """Code of one processor and channel, beside the template."""
    only = ARCHITECTURE.replace("arm64, x86_64", architecture).replace("Default: arm64", f"Default: {architecture}")
    template = _replaced(template, ARCHITECTURE, only)
    return _with_code(template, rf"\1Code: functions/\2-{architecture}{suffix}.zip")


def from_bucket(template: str, version: str, suffix: str) -> str:
    """Code of either processor and one channel, from a bucket of the deployer's."""
    template = _replaced(template, "\nParameters:\n", f"\nParameters:\n{BUCKET_PARAMETERS}")
    template = _replaced(template, "    ParameterGroups:\n", f"    ParameterGroups:\n{BUCKET_GROUP}")
    key = rf'!Sub "${{CodePrefix}}{version}/\2-${{Architecture}}{suffix}.zip"'
    return _with_code(template, rf"\1Code:\n\1  S3Bucket: !Ref CodeBucket\n\1  S3Key: {key}")


def _with_code(template: str, code: str) -> str:
    made, times = CODE.subn(code, template)
    if times != 2:
        raise ValueError(f"the template names code of its own {times} times, not twice")
    return made


def _replaced(template: str, old: str, new: str) -> str:
    if template.count(old) != 1:
        raise ValueError(f"the template has {template.count(old)} times, not once: {old!r}")
    return template.replace(old, new)
