"""`make verify-aws` as a whole, on a local AWS: the run with its report, and a run that is interrupted."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "infra" / "tests"))

from running import LocalAws  # noqa: E402

REGION = "eu-west-1"
PARTS = ["Figures", "While mail flowed", "Bill", "Audit", "Doctor", "Left"]
# Mail for so many seconds at the cap; the pause after it is long enough for the stack to fall asleep.
SECONDS = 80


class Rehearsal(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-verify-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.aws = LocalAws(self.folder, REGION)
        self.addCleanup(self.aws.end)
        self.aws.client("sesv2").create_email_identity(EmailIdentity="example.org")
        for function in ("scheduler", "poller"):
            (self.folder / "prebuilt" / function).mkdir(parents=True)
            shutil.copy(Path(os.environ["TIDEGATE_BIN_DIR"]) / function, self.folder / "prebuilt" / function / "bootstrap")

    def start(self) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "MAKE", "MFLAGS"))}
        # `sam deploy` looks every five seconds else.
        own = {"CARGO_TARGET_DIR": str(Path(os.environ["TIDEGATE_BIN_DIR"]).parent), "SAM_CLI_POLL_DELAY": "0.5"}
        self.log = self.folder / "verify.log"
        with self.log.open("w") as log:
            started = subprocess.Popen(
                # The binaries are those of this build.
                ["make", "-o", "binaries", "verify-aws", f"REGION={REGION}", "FROM=news@example.org", f"PREBUILT={self.folder / 'prebuilt'}",
                 f"ARGS=--seconds={SECONDS} --out={self.folder / 'out'}"],
                cwd=ROOT, env=environment | own | self.aws.environment(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, text=True, start_new_session=True,
            )  # fmt: skip
        self.addCleanup(self.end, started)
        return started

    def end(self, started: subprocess.Popen[str]) -> None:
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        for stack in set(re.findall(r"tidegate-verify-[0-9a-f]+", self.log.read_text())):
            shutil.rmtree(ROOT / ".local" / stack, ignore_errors=True)

    def nothing_is_left(self) -> None:
        stacks = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        self.assertEqual([s["StackName"] for s in stacks if s["StackStatus"] != "DELETE_COMPLETE"], [])
        self.assertEqual(self.aws.client("s3").list_buckets()["Buckets"], [])
        self.assertEqual(self.aws.client("sqs").list_queues().get("QueueUrls", []), [])
        self.assertEqual(self.aws.client("dynamodb").list_tables()["TableNames"], [])
        self.assertEqual(self.aws.client("lambda").list_functions()["Functions"], [])

    def test_a_run_is_as_promised_and_its_report_has_every_part_and_nothing_is_left(self) -> None:
        code = self.start().wait(600)
        self.assertEqual(code, 0, self.log.read_text()[-8000:])
        (path,) = (self.folder / "out").iterdir()
        self.assertRegex(path.name, rf"^\d{{4}}-\d\d-\d\d-{REGION}\.md$")
        text = path.read_text()
        self.assertEqual(re.findall(r"^## (.+)$", text, re.M), PARTS)
        self.assertTrue(text.startswith(f"# Rehearsal on a local AWS: {REGION}"), text)
        mails = 10 * SECONDS + 1
        self.assertIn(f"| mails that SES accepted | {mails} of {mails}, 0 dead letters | yes |", text)
        for name in ("Init Duration", "billed", "refused for the rate", "bounces and complaints that SES told of", "all"):
            self.assertIn(f"| {name} | not shown by the rehearsal |", text)
        self.assertTrue(text.endswith("## Left\n\nNothing.\n"), text)
        self.assertNotRegex(text, r"000000000000|news@")
        steps = text.partition("## While mail flowed")[2].partition("## ")[0]
        self.assertEqual(steps.count("| yes |"), 5, steps)
        self.nothing_is_left()

    def test_an_interruption_while_mail_flows_removes_the_stack(self) -> None:
        started = self.start()
        deadline = time.monotonic() + 300
        while "verify: rate capped" not in self.log.read_text():
            self.assertIsNone(started.poll(), self.log.read_text()[-8000:])
            self.assertLess(time.monotonic(), deadline, "the mail does not flow")
            time.sleep(0.2)
        os.killpg(started.pid, signal.SIGINT)
        try:
            self.assertNotEqual(started.wait(300), 0)
        except subprocess.TimeoutExpired:
            self.fail(f"the stack is not removed: {self.log.read_text()[-8000:]}")
        self.assertIn("verify: nothing is left", self.log.read_text())
        self.assertFalse((self.folder / "out").exists(), "what was not finished is not reported")
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main()
