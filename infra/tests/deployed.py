"""A stack that `sam deploy` makes in a local AWS, and whose mails go to ses-sandbox."""

from __future__ import annotations

import json
import os
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from installed import run, without_rust

from running import LocalAws, SesSandbox

REGION = "eu-west-1"
STACK = "tidegate"
SAM = Path(os.environ["TIDEGATE_SAM"])
BIN = Path(os.environ["TIDEGATE_BIN_DIR"])


class Deployed(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-sam-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.aws = LocalAws(self.folder, REGION)
        self.addCleanup(self.aws.end)
        self.ses = SesSandbox(BIN / "ses-sandbox", "--strict")
        self.addCleanup(self.ses.end)
        # `sam deploy` looks every five seconds else.
        self.environment = without_rust(self.folder) | self.aws.environment() | {"SAM_CLI_POLL_DELAY": "0.5"}

    def sam(self, folder: Path, *arguments: str | Path) -> str:
        return run([SAM, *arguments], folder, self.environment)

    def deploy(self, folder: Path, template: str, **parameters: str) -> None:
        given = {"EndpointUrl": self.aws.endpoint, "SesEndpointUrl": self.ses.url} | parameters
        overrides = [f"{name}={value}" for name, value in given.items()]
        self.sam(folder, "deploy", "--template-file", template, "--stack-name", STACK, "--region", REGION,
                 "--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset",
                 "--parameter-overrides", *overrides)  # fmt: skip

    def outputs(self) -> dict[str, str]:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def put(self, queue: str, names: list[str]) -> None:
        """Puts a mail for each name onto the queue of this output."""
        self.put_on(self.outputs()[queue], names)

    def put_on(self, url: str, names: list[str]) -> None:
        sqs = self.aws.client("sqs")
        for start in range(0, len(names), 10):
            entries = [
                {"Id": str(place), "MessageBody": json.dumps({
                    "id": name, "to_address": f"{name}@example.com", "from_address": "news@example.org",
                    "subject": "Hello", "body": "Text.",
                })}
                for place, name in enumerate(names[start : start + 10])
            ]  # fmt: skip
            answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
            self.assertEqual(len(answer["Successful"]), len(entries), answer)

    def wake(self) -> None:
        """The next minute's run may be a minute away; one more is harmless."""
        self.aws.client("lambda").invoke(
            FunctionName=self.outputs()["SchedulerFunction"], InvocationType="Event", Payload=b"{}"
        )

    def wait_until_sent(self, mails: int, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while (stats := self.ses.get("stats"))["accepted"]["mails"] < mails:
            self.assertLess(time.monotonic(), deadline, stats)
            time.sleep(0.5)

    def sent(self) -> list[str]:
        """The names of the mails that were sent, in order."""
        return [mail["to"][0].removesuffix("@example.com") for mail in self.ses.mails()]

    def tidegate(self, *arguments: str) -> str:
        """What the operator's command says of the stack."""
        asked: list[str | Path] = [BIN / "tidegate", *arguments, "--stack", STACK, "--region", REGION]
        return run(asked, self.folder, self.environment)

    def status(self) -> Any:
        return json.loads(self.tidegate("status", "--json"))
