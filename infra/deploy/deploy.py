"""Deploys the SAM template by `sam deploy`, with parameters from a file; and deletes the stack again.

`sam deploy` by itself keeps the value of every parameter that is not given, so that a new default never
reaches a stack that is there. Here every parameter is given: what the file says, else the template's
default. A value that the stack has and the file does not say is refused, so that none is lost unseen.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import BotoCoreError, ClientError

INFRA = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(INFRA / "local"))

import sam_template  # noqa: E402
from local_aws import describe  # noqa: E402

TEMPLATE = INFRA / "sam" / "template.yaml"
FUNCTIONS = ("scheduler", "poller")
# As the doctor wants; and what Lambda leaves to functions without a reservation.
# https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html
LEAST_CONCURRENCY, UNRESERVED = 20, 100
# As the template names the folder of the binaries, from its own.
BINARIES = "../../target/lambda"
# What the functions are built for, and how make is told.
ARCHITECTURE, CHANNEL = "Architecture", "Channel"
OF_THE_BUILD = {ARCHITECTURE: "ARCH, such as ARCH=x86_64", CHANNEL: "CHANNEL, such as CHANNEL=sms"}


class Refused(Exception):
    """Why nothing was deployed or deleted."""


def read_parameters(path: Path, known: Mapping[str, Any]) -> dict[str, str]:
    """Every value as it is written: `on` is no truth value, 0.10 no number."""
    try:
        given = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader) or {}
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise Refused(f"{path} is not YAML: {error}") from error
    if not isinstance(given, dict):
        raise Refused(f"{path} holds no parameters: a line is NAME: VALUE")
    for name, value in given.items():
        if name not in known:
            raise Refused(f"{path}: the template has no parameter {name}; it has {', '.join(known)}")
        if name in OF_THE_BUILD:
            raise Refused(f"{path}: {name} is given by make's {OF_THE_BUILD[name]}")
        if not isinstance(value, str):
            raise Refused(f"{path}: {name} is not one text; write a list or JSON in quotes")
    return given


def values(template: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """A value for each of the template's parameters."""
    defaults = {name: str(p["Default"]) for name, p in template["Parameters"].items()}
    return defaults | dict(given)


def for_sam(value: str) -> str:
    """In the form in which `sam deploy` hands it on as it is: it takes one pair of quotes off, and the
    backslash away from before a space or a quote."""
    for followed in (" ", '"', "'"):
        value = value.replace(f"\\{followed}", f"\\\\{followed}")
    return f'"{value}"'


def environments(parameters: Mapping[str, str], stack: str, region: str | None) -> dict[str, dict[str, str]]:
    """What the functions will be told, with made-up names, as long as AWS's may be, for what only AWS can tell."""
    made = sam_template.Rendered(sam_template.source(), stack, parameters)
    names = {
        "AWS::DynamoDB::Table": f"{stack}-LedgerTable-ABCDEFGHIJKLM",
        "AWS::S3::Bucket": "b" * 63,
        sam_template.REGION: region or sam_template.REGION,
    }
    secret = "rediss://".ljust(256, "s")

    def named(value: str) -> str:
        for made_up, name in names.items():
            value = value.replace(made_up, name)
        return secret if "{{resolve:" in value else value

    variables = {f: made.resources[f"{f.capitalize()}Function"]["Environment"]["Variables"] for f in FUNCTIONS}
    return {function: {n: named(str(v)) for n, v in of.items()} for function, of in variables.items()}


def check_settings(tidegate: Path, found: Mapping[str, Mapping[str, str]]) -> None:
    """Asks the functions' own parser, before anything is deployed."""
    ran = subprocess.run([tidegate, "doctor", "--environments", "/dev/stdin"], input=json.dumps(found), text=True, check=False)
    if ran.returncode != 0:
        raise Refused("nothing was deployed: the functions would not start with these parameters")


def check_for_cdk(args: argparse.Namespace) -> None:
    """Of the account, before the CDK app is deployed; its settings file says no other channel than make does."""
    try:
        said = {} if args.settings is None else dict(json.loads(args.settings.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise Refused(f"{args.settings} holds no settings: {error}") from error
    channel = said.get("channel", args.channel)
    if channel != args.channel:
        raise Refused(
            f"{args.settings}: channel is {channel}, and make is told {args.channel}. Nothing was deployed. Give "
            f"CHANNEL={channel}, for which the functions are built, too"
        )
    there = Deployed(args)
    there.check_channel(args.channel)
    there.check_concurrency(int(said.get("reservedConcurrency", 0)))


class Deployed:
    """What stands in the account, however it was deployed; it must let the stack be deployed and run."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.stack = args.stack
        self.cloudformation = boto3.client("cloudformation", region_name=args.region)
        self.functions = boto3.client("lambda", region_name=args.region)
        self.found = describe(self.cloudformation, args.stack) or {}
        outputs = {output["OutputKey"]: output["OutputValue"] for output in self.found.get("Outputs", [])}
        self.poller = outputs.get("PollerFunction")
        read = self.functions.get_function_configuration
        configuration = read(FunctionName=self.poller) if self.poller else {}
        self.environment: dict[str, str] = configuration.get("Environment", {}).get("Variables", {})

    def check_channel(self, wanted: str) -> None:
        """A stack keeps its channel: what waits on its queues is of that channel."""
        channel = self.environment.get("TIDEGATE_CHANNEL", "email")
        if self.poller and channel != wanted:
            raise Refused(
                f"the stack {self.stack} sends {channel}, and this would make it send {wanted}. Nothing was "
                "deployed: what waits on its queues would be dead-lettered. "
                f"Give its channel (CHANNEL={channel}), or another stack (STACK=NAME)"
            )

    def check_concurrency(self, reserved: int) -> None:
        """New accounts have 10 concurrent executions: pollers would be refused, and each reservation is."""
        limit = self.functions.get_account_settings()["AccountLimit"]
        most, left = limit["ConcurrentExecutions"], limit["UnreservedConcurrentExecutions"] - reserved
        if self.poller:
            kept = self.functions.get_function_concurrency(FunctionName=self.poller)
            left += kept.get("ReservedConcurrentExecutions", 0)
        if most >= LEAST_CONCURRENCY and (reserved == 0 or left >= UNRESERVED):
            return
        region = self.functions.meta.region_name
        why = f"the account may run {most} functions at the same time in {region}, and Tidegate needs {LEAST_CONCURRENCY}"
        if most >= LEAST_CONCURRENCY:
            why = f"ReservedConcurrency {reserved} leaves {left} to other functions, and Lambda wants {UNRESERVED} left"
        raise Refused(
            f"{why}. Nothing was deployed. Ask AWS for 1000 (Service Quotas, AWS Lambda, Concurrent executions), and deploy "
            "again once it is granted:\n  aws service-quotas request-service-quota-increase --service-code lambda "
            f"--quota-code L-B99A9384 --desired-value 1000 --region {region}"
        )

    def check_nothing_is_lost(self, wanted: Mapping[str, str], given: set[str], file: str) -> None:
        """Refuses to lose a value of the stack's: neither its default then nor in the file.

        The defaults are those of the template that was deployed: what was left at one follows to the new one.
        """
        deployed = {p["ParameterKey"]: p.get("ParameterValue", "") for p in self.found.get("Parameters", [])}
        if not deployed or self.found["StackStatus"] == "REVIEW_IN_PROGRESS":
            return
        summary = self.cloudformation.get_template_summary(StackName=self.stack)["Parameters"]
        defaults = {p["ParameterKey"]: p.get("DefaultValue", "") for p in summary}
        told = given | {ARCHITECTURE, "SharedBucket"}
        lines = [
            f"{name}: {json.dumps(value)}"
            for name, value in deployed.items()
            if name in wanted and name not in told and value not in (defaults.get(name), wanted[name])
        ]
        # Its value is not shown; the poller has it.
        if "TIDEGATE_SHARED_BUCKET" in self.environment and "SharedBucket" not in given:
            lines.append("SharedBucket: (its value is not shown)")
        if lines:
            raise Refused(
                f"the stack {self.stack} has values that {file} does not say. Nothing was deployed. To keep them, "
                "write into it (a value can be cleared or changed there, too):\n  " + "\n  ".join(lines)
            )


def deploy(args: argparse.Namespace) -> None:
    template = sam_template.source()
    given = {} if args.settings is None else read_parameters(args.settings, template["Parameters"])
    wanted = values(template, given | {ARCHITECTURE: args.architecture, CHANNEL: args.channel})
    file = "no file (SETTINGS=FILE)" if args.settings is None else str(args.settings)
    there = Deployed(args)
    cloudformation = there.cloudformation
    there.check_channel(args.channel)
    there.check_concurrency(int(wanted["ReservedConcurrency"]))
    there.check_nothing_is_lost(wanted, set(given), file)
    check_settings(args.tidegate, environments(wanted, args.stack, cloudformation.meta.region_name))
    for function in FUNCTIONS:
        if not (args.binaries / function / "bootstrap").is_file():
            raise Refused(f"{args.binaries / function / 'bootstrap'} is missing: make build")
    with tempfile.TemporaryDirectory(prefix="tidegate-deploy-") as folder:
        copy, file_of_all = Path(folder) / "template.yaml", Path(folder) / "parameters.yaml"
        text = TEMPLATE.read_text(encoding="utf-8")
        copy.write_text(text.replace(BINARIES, str(args.binaries)), encoding="utf-8")
        quoted = {name: for_sam(value) for name, value in wanted.items()}
        file_of_all.write_text(json.dumps(quoted), encoding="utf-8")
        sam(args, "deploy", "--template-file", str(copy), "--capabilities", "CAPABILITY_IAM",
            *(["--s3-bucket", args.bucket] if args.bucket else ["--resolve-s3"]), "--no-fail-on-empty-changeset",
            "--confirm-changeset" if args.confirm else "--no-confirm-changeset",
            "--parameter-overrides", f"file://{file_of_all}")  # fmt: skip
    if describe(cloudformation, args.stack) is None:
        raise Refused(f"the change was not confirmed: there is no stack {args.stack}")
    protect(cloudformation, args.stack, args.protect)


def protect(cloudformation: Any, stack: str, on: bool) -> None:
    """`sam deploy` has no option for it."""
    cloudformation.update_termination_protection(StackName=stack, EnableTerminationProtection=on)
    print(f"make: {stack} is {'protected' if on else 'not protected'} from deletion")


def delete(args: argparse.Namespace) -> None:
    cloudformation = boto3.client("cloudformation", region_name=args.region)
    found = describe(cloudformation, args.stack)
    if found is None:
        raise Refused(f"there is no stack {args.stack} in {cloudformation.meta.region_name}")
    if found.get("EnableTerminationProtection") and args.protect:
        raise Refused(
            f"the stack {args.stack} is protected from deletion: with it go its queues and the mail in "
            "them. To delete it all the same, add PROTECT=no to this command"
        )
    if not args.protect:
        protect(cloudformation, args.stack, False)
    sam(args, "delete", *([] if args.confirm else ["--no-prompts"]))
    if args.confirm and describe(cloudformation, args.stack) is not None:
        protect(cloudformation, args.stack, True)


def sam(args: argparse.Namespace, command: str, *more: str) -> None:
    region = ["--region", args.region] if args.region else []
    own = Path(sys.executable).parent / "sam"
    ran = subprocess.run(
        [own, command, "--stack-name", args.stack, *region, *more],
        env=os.environ | {"SAM_CLI_TELEMETRY": "0"},
        check=False,
    )
    if ran.returncode != 0:
        sys.exit(ran.returncode)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("deploy", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("deploy", deploy), ("delete", delete), ("check", check_for_cdk)):
        option = commands.add_parser(name)
        option.set_defaults(run=run)
        option.add_argument("--stack", required=True)
        option.add_argument("--region", default=None)
        option.add_argument("--no-confirm", dest="confirm", action="store_false")
        option.add_argument("--no-protect", dest="protect", action="store_false")
        if name != "delete":
            option.add_argument("--channel", default="email")
            option.add_argument("--settings", type=Path, metavar="FILE")
        if name == "deploy":
            option.add_argument("--architecture", required=True)
            option.add_argument("--bucket", help="of the code; SAM's own unless it is given")
            option.add_argument("--binaries", type=Path, required=True, metavar="DIR")
            option.add_argument("--tidegate", type=Path, required=True, metavar="FILE")
    return parser.parse_args(arguments)


def main() -> None:
    args = parse()
    try:
        args.run(args)
    except (Refused, BotoCoreError, ClientError) as error:
        print(f"make: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
