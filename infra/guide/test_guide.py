"""The guide, docs/deployment.md, and docs/outcomes.md followed to the letter: every command, as printed, against a local AWS."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "infra" / "tests"))

from running import LocalAws  # noqa: E402

GUIDE = ROOT / "docs" / "deployment.md"
OUTCOMES = ROOT / "docs" / "outcomes.md"
REGION = "eu-west-1"
# Commands that only AWS, or another checkout, can run: each block by its first line, with the reason.
AWS_ONLY = {
    "rustup target add aarch64-unknown-linux-gnu": "CI's job `build` runs both, for both processors",
    "unzip tidegate-sam-0.1.0.zip": "infra/package/test_sam_deploy.py deploys the package",
    "echo 'AllowedSenders:": "another deployment, which changes one list",
    "aws elasticache create-user": "the local AWS has no ElastiCache in a VPC",
    "aws secretsmanager create-secret": "its value is the address that ElastiCache gave",
    "cat >> tidegate.yaml <<'END'": "the local AWS has no VPC, and resolves no secret",
    "git fetch --tags && git checkout v0.2.0": "it leaves the checkout that is tested",
}
# All of a checkout that the commands read; Cargo is told where the rest is.
CHECKOUT = ("Makefile", "infra", ".tools")
# Longer than any block takes on a busy machine.
BLOCK_SECONDS = 300
DONE = "### done"


def blocks(text: str) -> Iterator[tuple[bool, str]]:
    """The page's commands, block by block, and whether a block is for AWS only."""
    found = re.compile(r"^(?:[ ]*<!-- (AWS only) -->\n)?(?P<in>[ ]*)```sh\n(.*?)^(?P=in)```$", re.M | re.S)
    for block in found.finditer(text):
        yield block[1] is not None, textwrap.dedent(block[3])


class Page(unittest.TestCase):
    def test_every_block_is_run_or_marked_and_the_marked_have_a_reason(self) -> None:
        text = GUIDE.read_text(encoding="utf-8")
        marked = [block for only, block in blocks(text) if only]
        self.assertEqual(len(list(blocks(text))), text.count("```sh"))
        self.assertEqual(text.count("<!-- AWS only -->"), len(marked))
        for block in marked:
            known = [first for first in AWS_ONLY if block.startswith(first)]
            self.assertEqual(len(known), 1, f"marked, and no reason is listed here:\n{block}")
        self.assertEqual(len(marked), len(AWS_ONLY))


class Shell:
    """One bash for all blocks, as one person's terminal in a checkout that nobody worked in.

    The checkout's files are links to ours, and what the commands write stays beside them. The binaries are
    those of this build (CARGO_TARGET_DIR): to build them elsewhere, or for Lambda's processor, takes minutes.
    """

    def __init__(self, folder: Path, aws: LocalAws, log: IO[str]) -> None:
        checkout, binaries = folder / "checkout", Path(os.environ["TIDEGATE_BIN_DIR"])
        checkout.mkdir()
        for name in CHECKOUT:
            (checkout / name).symlink_to(ROOT / name)
        for function in ("scheduler", "poller"):
            to = folder / "prebuilt" / function
            to.mkdir(parents=True)
            shutil.copy(binaries / function, to / "bootstrap")
        programs = folder / "programs"
        programs.mkdir()
        home = Path(os.environ["HOME"])
        own = {
            "HOME": str(folder),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(home / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
            "CARGO_TARGET_DIR": str(binaries.parent),
            "PREBUILT": str(folder / "prebuilt"),
            # `sam deploy` looks every five seconds else.
            "SAM_CLI_POLL_DELAY": "0.5",
            # CDK's own rules take seconds to start; the construct's tests run with them.
            "CDK_VALIDATION": "false",
        }
        # Version 1 of the AWS CLI asks SQS elsewhere, whatever AWS_ENDPOINT_URL says.
        command = os.environ.get("TIDEGATE_AWS_CLI") or shutil.which("aws")
        self.program(programs / "aws", f'exec {command} --endpoint-url "$AWS_ENDPOINT_URL" "$@"')
        self.program(programs / "cargo", f'cd {ROOT} && exec {shutil.which("cargo")} "$@"')
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MAKE", "MFLAGS"))}
        self.log = log
        self.bash = subprocess.Popen(
            ["bash", "-euo", "pipefail"], cwd=checkout, env=environment | own | aws.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip

    @staticmethod
    def program(path: Path, line: str) -> None:
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def run(self, block: str) -> None:
        assert self.bash.stdin is not None and self.bash.stdout is not None
        self.log.write(f"$ {block}")
        self.bash.stdin.write(f"{{\n{block}\n}} < /dev/null\necho '{DONE}'\n")
        self.bash.stdin.flush()
        too_long = threading.Timer(BLOCK_SECONDS, self.kill)
        too_long.start()
        said = []
        for line in self.bash.stdout:
            if line == f"{DONE}\n":
                too_long.cancel()
                return
            said.append(line)
            self.log.write(line)
        too_long.cancel()
        raise AssertionError(f"exit code {self.bash.wait()}:\n{block}\n{''.join(said[-60:])}")

    def kill(self) -> None:
        # With what it runs: else that would hold the output open.
        os.killpg(self.bash.pid, 9)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.kill()
        self.bash.communicate()


class OnLocalAws(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-guide-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.aws = LocalAws(self.folder, REGION)
        self.addCleanup(self.aws.end)
        log = Path(os.environ.get("TIDEGATE_GUIDE_LOG", self.folder / "guide.log")).open("w", buffering=1)
        self.addCleanup(log.close)
        self.shell = Shell(self.folder, self.aws, log)
        self.addCleanup(self.shell.end)


class Guide(OnLocalAws):
    def test_every_command_works_as_it_is_printed_and_the_first_campaigns_mail_is_sent(self) -> None:
        for aws_only, block in blocks(GUIDE.read_text(encoding="utf-8")):
            if aws_only:
                continue
            self.shell.run(block)
            if "sqs send-message" in block:
                self.wait_until_sent(3)
        stacks = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        left = [s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"]
        self.assertEqual(sorted(left), ["CDKToolkit", "aws-sam-cli-managed-default"])

    def wait_until_sent(self, mails: int) -> None:
        # The next minute's run may be a minute away; one more is harmless.
        self.aws.client("lambda").invoke(
            FunctionName="tidegate-scheduler", InvocationType="Event", Payload=b"{}"
        )
        deadline = time.monotonic() + 60
        while True:
            (self.folder / "status.json").unlink(missing_ok=True)
            self.shell.run(f'tidegate status --region {REGION} --json > "$HOME/status.json"')
            campaigns = json.loads((self.folder / "status.json").read_text())["campaigns"]
            sent = {campaign["name"]: campaign["sent"] for campaign in campaigns}
            if sent["news"] >= mails:
                return
            self.assertLess(time.monotonic(), deadline, f"only {sent} were sent")
            time.sleep(1)


class Outcomes(OnLocalAws):
    def test_the_pages_queue_gets_what_became_of_a_mail_that_ses_was_not_given(self) -> None:
        for _, block in blocks(OUTCOMES.read_text(encoding="utf-8")):
            self.shell.run(block)
        sqs = self.aws.client("sqs")
        campaign = sqs.get_queue_url(QueueName="tidegate-campaign-first")["QueueUrl"]
        sqs.send_message(QueueUrl=campaign, MessageBody='{"id": "order-7", "to": "ada@example.com"}')
        outcomes = sqs.get_queue_url(QueueName="outcomes")["QueueUrl"]
        deadline, told = time.monotonic() + 90, None
        while told is None:
            self.assertLess(time.monotonic(), deadline, "nothing was told")
            self.aws.client("lambda").invoke(FunctionName="tidegate-poller", Payload=b"{}")
            for message in sqs.receive_message(QueueUrl=outcomes, WaitTimeSeconds=1).get("Messages", []):
                event = json.loads(message["Body"])
                told = event if event["source"] == "tidegate" else told
        mails = [{"tidegate_id": "order-7", "code": "MissingMember"}]
        self.assertEqual(told["detail-type"], "Mail Dead-Lettered")
        self.assertEqual(told["detail"], {"stack": "tidegate", "campaign": "main", "mails": mails})


if __name__ == "__main__":
    unittest.main()
