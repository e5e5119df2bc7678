"""Makes the packages that deploy Tidegate without a checkout, from the functions' zips: the SAM template's
(tidegate-sam-VERSION.zip), the Terraform module's (tidegate-terraform-VERSION.zip) and the CDK construct's
(tidegate-cdk-VERSION.tgz).

    python3 infra/package/package.py --functions dist/functions --out dist      (it needs PyYAML)
    python3 infra/package/package.py --module target/module     the module alone, without functions: for `tofu test`

The zips are scheduler-arm64.zip and poller-arm64.zip for e-mail, scheduler-arm64-sms.zip and poller-arm64-sms.zip
for text messages, and the same for x86_64, each with one file: bootstrap.
Equal input gives equal packages, byte by byte. Exit code 2: a zip is missing, or is no function's.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import terraform
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "infra" / "local"))

from local_aws import read_template  # noqa: E402
from packages import zipped  # noqa: E402

ARCHITECTURES = ("arm64", "x86_64")
# What the names of the zips have after the processor: those for e-mail nothing.
CHANNELS = {"email": "", "sms": "-sms"}
FUNCTIONS = ("scheduler", "poller")


class Refused(Exception):
    """Why nothing was packaged."""


@dataclass(frozen=True)
class Functions:
    """The functions' zips: a pair for each processor and channel."""

    folder: Path
    architectures: tuple[str, ...]

    def zips(self) -> dict[str, Path]:
        """Each zip by its file name."""
        return {name: self.folder / name for arch in self.architectures for name in names(arch)}


def names(architecture: str) -> list[str]:
    """The names of a processor's zips."""
    return [f"{function}-{architecture}{channel}.zip" for channel in CHANNELS.values() for function in FUNCTIONS]


def version() -> str:
    """The version of every part of the project, from the workspace's manifest."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(encoding="utf-8"), re.M)
    if found is None:
        raise Refused("Cargo.toml has no line: version = \"…\"")
    return found[1]


def read_functions(folder: Path, complete: bool) -> Functions:
    """The processors that the folder has both functions for; with `complete`, it must be all."""
    there = {
        architecture: [name for name in names(architecture) if (folder / name).is_file()]
        for architecture in ARCHITECTURES
    }
    for architecture, found in there.items():
        for name in names(architecture):
            if name not in found and (found or complete):
                raise Refused(f"{folder / name} is missing")
    whole = tuple(architecture for architecture, found in there.items() if found)
    if not whole:
        raise Refused(f"{folder} has no zip of a function, such as poller-arm64.zip")
    functions = Functions(folder, whole)
    for path in functions.zips().values():
        try:
            with zipfile.ZipFile(path) as archive:
                files = archive.namelist()
        except (OSError, zipfile.BadZipFile) as error:
            raise Refused(f"{path} is not a zip: {error}") from error
        if files != ["bootstrap"]:
            raise Refused(f"{path} has {', '.join(files) or 'nothing'} in it; it must have one file, bootstrap")
    return functions


# The SAM template as a package: a folder in a zip, from which `sam deploy` alone deploys. The template is that of
# infra/sam with other code, a zip beside it or one in a bucket that parameters name; with each anchor resolved, so that
# every tool may deploy it; and without what only the other channel has, whose types not every region knows.

OWN = ROOT / "infra" / "package" / "sam"
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


def sam_package(version: str, functions: Functions, source_url: str | None, out: Path) -> Path:
    """Writes tidegate-sam-VERSION.zip."""
    copied = (ROOT / "LICENSE", ROOT / "NOTICE", ROOT / "infra" / "sam" / "campaign.yaml", OWN / "samconfig.toml")
    files = {path.name: path.read_bytes() for path in copied}
    files |= {f"functions/{name}": path.read_bytes() for name, path in functions.zips().items()}
    texts = templates(version, functions.architectures, source_url)
    texts["README.md"] = (OWN / "README.md").read_text(encoding="utf-8").replace("VERSION", version)
    files |= {name: text.encode() for name, text in texts.items()}
    folder = f"tidegate-sam-{version}"
    path = out / f"{folder}.zip"
    path.write_bytes(zipped({f"{folder}/{name}": content for name, content in files.items()}, 0o644))
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
    return {name: plain(of) for name, of in made.items()}


def plain(template: Template) -> str:
    return yaml.dump(template, Dumper=Plain, sort_keys=False, allow_unicode=True)


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


# The Terraform module: a stack of the template whose code is in a bucket. Its variables and outputs are made of the template's.

MODULE = ROOT / "infra" / "terraform"


def terraform_package(version: str, functions: Functions, source_url: str | None, out: Path) -> Path:
    """Writes tidegate-terraform-VERSION.zip, a folder as the registries want it."""
    files = {name: text.encode() for name, text in module(version).items()}
    files |= {f"functions/{name}": path.read_bytes() for name, path in functions.zips().items()}
    folder = f"terraform-aws-tidegate-{version}"
    path = out / f"tidegate-terraform-{version}.zip"
    path.write_bytes(zipped({f"{folder}/{name}": content for name, content in files.items()}, 0o644))
    return path


def module(version: str) -> dict[str, str]:
    """The module without the functions."""
    written = sorted(path for path in MODULE.rglob("*") if path.suffix in (".tf", ".hcl", ".md"))
    files = {str(path.relative_to(MODULE)): path.read_text(encoding="utf-8") for path in written}
    files |= {name: (ROOT / name).read_text(encoding="utf-8") for name in ("LICENSE", "NOTICE")}
    files["README.md"] = files["README.md"].replace("VERSION", version)
    return files | made_of_templates(version)


def made_of_templates(version: str) -> dict[str, str]:
    """The module's files that say what the templates do."""
    source = terraform.without_secrets(read_template(ROOT / "infra" / "sam" / "template.yaml"))
    campaign = read_template(ROOT / "infra" / "sam" / "campaign.yaml")
    made = terraform.files(source, version)
    for channel, suffix in CHANNELS.items():
        sends = with_only(of_channel(source, channel), "Channel", channel)
        made[f"template{suffix}.yaml"] = plain(from_bucket(sends, version, suffix))
    of_campaign = terraform.files(campaign) | {"template.yaml": plain(campaign)}
    return made | {f"modules/campaign/{name}": text for name, text in of_campaign.items()}


# The CDK construct as an npm package: its JavaScript and types, the functions' zips, and a reference of its API.
# TypeScript and TypeDoc are those of infra/cdk and of reference/ (`make cdk reference`); npm packs.

CDK = ROOT / "infra" / "cdk"
REFERENCE = ROOT / "infra" / "package" / "reference"
# What the manifest has for work on the construct.
OWN_TO_THE_CHECKOUT = ("private", "scripts", "devDependencies", "main", "types", "exports", "files")


def npm_package(version: str, functions: Functions, source_url: str | None, out: Path) -> Path:
    """Writes tidegate-cdk-VERSION.tgz."""
    with tempfile.TemporaryDirectory(prefix="tidegate-npm-") as folder:
        staged = Path(folder) / "package"
        run([CDK / "node_modules" / ".bin" / "tsc", "--outDir", Path(folder) / "build"], CDK)
        shutil.copytree(Path(folder) / "build" / "lib", staged / "lib")
        run(["node", CDK / "build" / "bin" / "template.js", staged / "lib" / "template.json"], CDK)
        # A part of the API without its description, or not exported, is an error.
        run([REFERENCE / "node_modules" / ".bin" / "typedoc", "--out", Path(folder) / "reference"], REFERENCE)
        shutil.copy(Path(folder) / "reference" / "API.md", staged)
        (staged / "functions").mkdir()
        for name, path in functions.zips().items():
            shutil.copyfile(path, staged / "functions" / name)
        for path in (ROOT / "LICENSE", ROOT / "NOTICE"):
            shutil.copy(path, staged)
        readme = (CDK / "README.md").read_text(encoding="utf-8")
        (staged / "README.md").write_text(readme.replace("VERSION", version), encoding="utf-8")
        written = json.loads((CDK / "package.json").read_text(encoding="utf-8"))
        made = json.dumps(manifest(written, version, source_url), indent=2)
        (staged / "package.json").write_text(f"{made}\n", encoding="utf-8")
        # npm gives each file the same date, and orders them: equal input gives an equal tarball.
        run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", folder], staged)
        name = f"{written['name']}-{version}.tgz"
        shutil.copyfile(Path(folder) / name, out / name)
        return out / name


def manifest(written: dict[str, Any], version: str, source_url: str | None) -> dict[str, Any]:
    """The package's manifest, from that of the checkout."""
    if written["version"] != version:
        raise Refused(f"infra/cdk/package.json says {written['version']}, and Cargo.toml {version}")
    entry = {"types": "./lib/index.d.ts", "default": "./lib/index.js"}
    source = {} if source_url is None else {"repository": {"type": "git", "url": f"git+{source_url}.git"}}
    kept = {name: value for name, value in written.items() if name not in OWN_TO_THE_CHECKOUT}
    return kept | source | {
        "keywords": ["aws", "cdk", "email", "ses", "sqs"],
        "main": entry["default"],
        "types": entry["types"],
        "exports": {".": entry, "./package.json": "./package.json"},
        "files": ["lib", "functions", "API.md", "LICENSE", "NOTICE"],
    }  # fmt: skip


def run(command: list[str | Path], folder: Path) -> None:
    try:
        ran = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError as error:
        raise Refused(f"{command[0]} is missing: make cdk reference") from error
    if ran.returncode != 0:
        raise Refused(f"{Path(command[0]).name} fails:\n{ran.stdout}")


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("package", description=__doc__, formatter_class=formatter)
    option = parser.add_argument
    option("--functions", type=Path, default="dist/functions", metavar="DIR", help="where the functions' zips are (default dist/functions)")
    option("--out", type=Path, default="dist", metavar="DIR", help="where the packages are written (default dist)")
    option("--module", type=Path, metavar="DIR", help="write the Terraform module into this folder, without functions, and nothing else")
    option("--complete", action="store_true", help="for a release: fail unless every processor is there")
    option("--source-url", metavar="URL", help="the repository, such as https://github.com/OWNER/tidegate")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    args = parse(arguments)
    if args.module:
        for name, text in module(version()).items():
            (args.module / name).parent.mkdir(parents=True, exist_ok=True)
            (args.module / name).write_text(text, encoding="utf-8")
        return
    try:
        functions = read_functions(args.functions, args.complete)
        args.out.mkdir(parents=True, exist_ok=True)
        given = (version(), functions, args.source_url, args.out)
        made = [sam_package(*given), terraform_package(*given), npm_package(*given)]
    except Refused as refused:
        print(f"package: {refused}", file=sys.stderr)
        sys.exit(2)
    for architecture in set(ARCHITECTURES) - set(functions.architectures):
        print(f"package: {args.functions} has no zips for {architecture}: the packages lack it", file=sys.stderr)
    for path in made:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
