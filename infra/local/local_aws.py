"""Deploys Tidegate into a local AWS (ministack), by SAM or by CDK.

Only standard output is meant for programs: one line of JSON. What goes wrong is told on standard
error, in one line, with one of these exit codes:

  0  done
  1  the stack did not deploy; the reason of the first failed resource is told
  2  a wrong argument, a missing file, or a template that cannot be read
  3  nothing answers at the endpoint
"""

import argparse
import functools
import json
import platform
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, WaiterError

import cdk_app
import packages
from packages import Failure

SCRIPT = "local_aws"
# What the endpoint may take until it answers, and the stack until it stands.
READY_SECONDS, STACK_SECONDS = 30.0, 60.0
POLL_SECONDS = 0.1


class Aws:
    """Clients of the local endpoint, with credentials that are worth nothing anywhere else."""

    def __init__(self, endpoint: str, region: str) -> None:
        self.endpoint = endpoint.rstrip("/")
        own = {"region_name": region, "aws_access_key_id": "test", "aws_secret_access_key": "test"}
        once = Config(retries={"total_max_attempts": 1}, proxies={}, connect_timeout=5, s3={"addressing_style": "path"})
        self.client = functools.partial(boto3.client, endpoint_url=self.endpoint, config=once, **own)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        # The endpoint is this machine: a proxy in the environment is not asked.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                with opener.open(f"{self.endpoint}/_ministack/ready", timeout=5):
                    return
            except OSError as error:
                if time.monotonic() >= deadline:
                    raise Failure(f"nothing answers at {self.endpoint} ({error}): start ministack there", 3) from error
            time.sleep(POLL_SECONDS)


class TemplateLoader(yaml.SafeLoader):
    """YAML with CloudFormation's short forms: `!Ref x` is read as {"Ref": "x"}."""


def _short_form(loader: TemplateLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    read = {"scalar": loader.construct_scalar, "sequence": loader.construct_sequence, "mapping": loader.construct_mapping}[node.id]
    value: Any = read(node) if node.id == "scalar" else read(node, deep=True)
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    return {f"Fn::{suffix}": value.split(".", 1) if suffix == "GetAtt" and isinstance(value, str) else value}


TemplateLoader.add_multi_constructor("!", _short_form)


def read_template(path: Path) -> dict[str, Any]:
    try:
        template = yaml.load(path.read_text(encoding="utf-8"), Loader=TemplateLoader)
    except OSError as error:
        raise Failure(f"cannot read the template {path}: {error.strerror}", 2) from error
    except yaml.YAMLError as error:
        raise Failure(f"the template {path} is not YAML: {error}", 2) from error
    if not isinstance(template, dict) or "Resources" not in template:
        raise Failure(f"the template {path} has no Resources", 2)
    return template


def host_architecture() -> str:
    machine = platform.machine().lower()
    return "arm64" if machine in ("arm64", "aarch64") else "x86_64"


def stack_parameters(template: dict[str, Any], given: list[tuple[str, str]], endpoint: str) -> list[dict[str, str]]:
    known = template.get("Parameters", {})
    for name, _ in given:
        if name not in known:
            raise Failure(f"the template has no parameter {name}; it has {', '.join(known)}", 2)
    values = {"Architecture": host_architecture(), "EndpointUrl": endpoint} | dict(given)
    return [{"ParameterKey": name, "ParameterValue": value} for name, value in values.items() if name in known]


def first_failure(cloudformation: Any, stack: str) -> str:
    """The oldest failed resource's reason: the later ones follow from it."""
    events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
    failed = [event for event in events if event["ResourceStatus"].endswith("_FAILED")]
    if not failed:
        return "no resource tells a reason"
    event = failed[-1]
    return f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', 'no reason told')}"


def describe(cloudformation: Any, stack: str) -> dict[str, Any] | None:
    """The stack, as AWS and the local one tell of it; none when there is no such stack."""
    try:
        found = dict(cloudformation.describe_stacks(StackName=stack)["Stacks"][0])
    except ClientError as error:
        if "does not exist" in str(error):
            return None
        raise
    return None if found["StackStatus"] == "DELETE_COMPLETE" else found


def bring_up_to_date(cloudformation: Any, stack: str, template_url: str, parameters: list[dict[str, str]]) -> dict[str, Any]:
    """The stack as it stands, created or updated."""
    request = {"StackName": stack, "TemplateURL": template_url, "Parameters": parameters, "Capabilities": ["CAPABILITY_IAM"]}
    existing = describe(cloudformation, stack)
    looks = {"Delay": POLL_SECONDS, "MaxAttempts": int(STACK_SECONDS / POLL_SECONDS)}
    if existing is not None and existing["StackStatus"] in ("ROLLBACK_COMPLETE", "CREATE_FAILED"):
        # Such a stack can only be deleted.
        cloudformation.delete_stack(StackName=stack)
        cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack, WaiterConfig=looks)
        existing = None
    try:
        (cloudformation.create_stack if existing is None else cloudformation.update_stack)(**request)
    except ClientError as error:
        if existing is None or "No updates are to be performed" not in str(error):
            raise
        return existing
    waiter = cloudformation.get_waiter("stack_create_complete" if existing is None else "stack_update_complete")
    began = time.monotonic()
    try:
        waiter.wait(StackName=stack, WaiterConfig=looks)
    except WaiterError as error:
        status = error.last_response["Stacks"][0]["StackStatus"] if "Stacks" in error.last_response else "gone"
        took = f"after {time.monotonic() - began:.0f} s"
        raise Failure(f"stack {stack} is {status} {took}: {first_failure(cloudformation, stack)}", 1) from error
    return dict(cloudformation.describe_stacks(StackName=stack)["Stacks"][0])


def deploy(aws: Aws, args: argparse.Namespace) -> dict[str, Any]:
    if args.cdk is None:
        template = read_template(args.template)
        parameters = stack_parameters(template, args.parameter, aws.endpoint)
    else:
        given = {"Architecture": host_architecture(), "EndpointUrl": aws.endpoint} | dict(args.parameter)
        template, parameters = cdk_app.synthesize(args.cdk, args.stack, given), []
    s3 = aws.client("s3")
    packages.make_bucket(s3)
    sizes = packages.upload(s3, template, {"SchedulerFunction": args.scheduler, "PollerFunction": args.poller})
    template_url = packages.upload_template(s3, aws.endpoint, template)
    cloudformation = aws.client("cloudformation")
    found = bring_up_to_date(cloudformation, args.stack, template_url, parameters)
    outputs = {output["OutputKey"]: output["OutputValue"] for output in found.get("Outputs", [])}
    expire_items(aws.client("dynamodb"), template, outputs)
    return {"stack": args.stack, "status": found["StackStatus"], "outputs": outputs, "package_bytes": sizes}


def expire_items(dynamodb: Any, template: dict[str, Any], outputs: dict[str, str]) -> None:
    """ministack makes the ledger's table without the template's time to live."""
    for resource in template["Resources"].values():
        expiry = resource.get("Properties", {}).get("TimeToLiveSpecification")
        if expiry:
            table = outputs["LedgerTable"]
            dynamodb.update_time_to_live(TableName=table, TimeToLiveSpecification=expiry)


def name_and_value(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def endpoint_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is not a URL such as http://127.0.0.1:4566")
    return text.rstrip("/")


DEPLOY_HELP = """\
Zips the two binaries, uploads them to the local S3, creates or updates the stack from the template, waits, and prints
{"stack", "status", "outputs": {name: value}, "package_bytes": {function: bytes}}. Architecture is this machine's and
EndpointUrl is --endpoint, unless --parameter gives another."""


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(SCRIPT, description=__doc__, formatter_class=formatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    summary = "create the stack, or bring it up to date"
    command = commands.add_parser("deploy", help=summary, description=DEPLOY_HELP, formatter_class=formatter)
    option = command.add_argument
    option("--endpoint", type=endpoint_url, required=True, metavar="URL", help="where ministack is")
    option("--stack", default="tidegate", help="the stack's name (%(default)s)")
    option("--region", default="us-east-1", help="the stack's region (%(default)s)")
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--template", type=Path, metavar="FILE", help="the SAM template")
    which.add_argument("--cdk", type=Path, metavar="FILE", help="the CDK app, compiled")
    option("--scheduler", type=Path, metavar="FILE", help="the scheduler's binary, if it has one")
    option("--poller", type=Path, metavar="FILE", help="the poller's binary, if it has one")
    option("--parameter", type=name_and_value, action="append", default=[], metavar="NAME=VALUE",
           help="a parameter of the SAM template, also for the CDK app; repeatable")  # fmt: skip
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    args = parse_arguments(arguments)
    aws = Aws(args.endpoint, args.region)
    try:
        aws.wait_until_ready()
        print(json.dumps(deploy(aws, args)))
    except (Failure, ClientError, BotoCoreError) as error:
        print(f"{SCRIPT}: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(getattr(error, "code", 1))


if __name__ == "__main__":
    main()
