"""The SAM package, unpacked into an empty folder and deployed by `sam deploy` alone into a local AWS: mails flow."""

from __future__ import annotations

import json
import os
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

import package
from functions import version
from installed import run, without_rust, zips

from local_aws import host_architecture
from running import LocalAws, SesSandbox

REGION = "eu-west-1"
SAM = Path(os.environ["TIDEGATE_SAM"])
STACK = "tidegate"
MAILS = 30


class SamDeploy(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-sam-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        here = Path(folder.name)
        package.main(["--functions", str(zips(here / "functions")), "--out", str(here)])
        with zipfile.ZipFile(here / f"tidegate-sam-{version()}.zip") as archive:
            archive.extractall(here)
        self.unpacked = here / f"tidegate-sam-{version()}"
        self.aws = LocalAws(here, REGION)
        self.addCleanup(self.aws.end)
        self.ses = SesSandbox(Path(os.environ["TIDEGATE_BIN_DIR"]) / "ses-sandbox")
        self.addCleanup(self.ses.end)
        # `sam deploy` looks every five seconds else.
        self.environment = without_rust(here) | self.aws.environment() | {"SAM_CLI_POLL_DELAY": "0.5"}

    def sam(self, *arguments: str | Path) -> str:
        return run([SAM, *arguments], self.unpacked, self.environment)

    def deploy(self, template: str, **parameters: str) -> None:
        given = {"EndpointUrl": self.aws.endpoint, "SesEndpointUrl": self.ses.url} | parameters
        overrides = [f"{name}={value}" for name, value in given.items()]
        self.sam("deploy", "--template-file", template, "--region", REGION, "--no-confirm-changeset",
                 "--parameter-overrides", *overrides)  # fmt: skip

    def send(self, first: int) -> None:
        (stack,) = self.aws.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
        outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
        sqs = self.aws.client("sqs")
        for number in range(first, first + MAILS):
            body = {"id": f"m{number}", "to_address": f"r{number}@example.com", "from_address": "news@example.org",
                    "subject": "Hello", "body": "Text."}  # fmt: skip
            sqs.send_message(QueueUrl=outputs["FirstCampaignQueueUrl"], MessageBody=json.dumps(body))
        # The next minute's run may be a minute away; one more is harmless.
        self.aws.client("lambda").invoke(
            FunctionName=outputs["SchedulerFunction"], InvocationType="Event", Payload=b"{}"
        )

    def assert_sent(self, mails: int) -> None:
        deadline = time.monotonic() + 90
        while (stats := self.ses.get("stats"))["accepted"]["mails"] < mails:
            self.assertLess(time.monotonic(), deadline, stats)
            time.sleep(0.5)
        self.assertEqual({mail["to"][0] for mail in self.ses.mails()}, {f"r{n}@example.com" for n in range(mails)})

    def template(self) -> str:
        own = f"template-{host_architecture()}.yaml"
        return own if (self.unpacked / own).exists() else "template.yaml"

    def test_the_template_with_its_zips_deploys_alone_and_its_mails_are_sent(self) -> None:
        self.deploy(self.template())
        self.send(0)
        self.assert_sent(MAILS)

    def test_the_template_with_code_in_a_bucket_deploys_and_its_mails_are_sent(self) -> None:
        s3 = self.aws.client("s3")
        location = {"LocationConstraint": REGION}
        s3.create_bucket(Bucket="code-of-ours", CreateBucketConfiguration=location)
        for path in (self.unpacked / "functions").iterdir():
            s3.upload_file(str(path), "code-of-ours", f"mail/{version()}/{path.name}")
        self.deploy("template-from-bucket.yaml", CodeBucket="code-of-ours", CodePrefix="mail/",
                    Architecture=host_architecture())  # fmt: skip
        self.send(0)
        self.assert_sent(MAILS)

    def test_what_is_published_names_readme_and_licence_where_the_repository_reads_them(self) -> None:
        self.sam("package", "--region", REGION, "--resolve-s3", "--output-template-file", "packaged.yaml")
        text = (self.unpacked / "packaged.yaml").read_text(encoding="utf-8")
        for name in ("LicenseUrl", "ReadmeUrl"):
            self.assertRegex(text, rf"{name}: s3://aws-sam-cli-managed-default-")


if __name__ == "__main__":
    unittest.main()
