"""The SAM package, unpacked into an empty folder and deployed by `sam deploy` alone into a local AWS: mails flow."""

from __future__ import annotations

import sys
import unittest
import zipfile

from package import ROOT, read_functions, sam_package, version
from local_aws import host_architecture

sys.path.append(str(ROOT / "infra" / "tests"))

from deployed import REGION, Deployed  # noqa: E402
from installed import zips  # noqa: E402

MAILS = [f"m{number}" for number in range(30)]


class SamDeploy(Deployed):
    def setUp(self) -> None:
        super().setUp()
        functions = read_functions(zips(self.folder / "functions"), complete=False)
        with zipfile.ZipFile(sam_package(version(), functions, None, self.folder)) as archive:
            archive.extractall(self.folder)
        self.unpacked = self.folder / f"tidegate-sam-{version()}"

    def assert_mails_are_sent(self) -> None:
        self.put("FirstCampaignQueueUrl", MAILS)
        self.wake()
        self.wait_until_sent(len(MAILS))
        self.assertEqual(sorted(self.sent()), sorted(MAILS))

    def test_the_template_with_its_zips_deploys_by_its_own_settings_alone(self) -> None:
        own = f"template-{host_architecture()}.yaml"
        # Stack, bucket and capabilities are in the package's samconfig.toml.
        self.sam(self.unpacked, "deploy", "--template-file", own if (self.unpacked / own).exists() else "template.yaml",
                 "--region", REGION, "--no-confirm-changeset", "--parameter-overrides",
                 f"EndpointUrl={self.aws.endpoint}", f"SesEndpointUrl={self.ses.url}")  # fmt: skip
        self.assert_mails_are_sent()

    def test_the_template_with_code_in_a_bucket_deploys_and_its_mails_are_sent(self) -> None:
        s3 = self.aws.client("s3")
        location = {"LocationConstraint": REGION}
        s3.create_bucket(Bucket="code-of-ours", CreateBucketConfiguration=location)
        for path in (self.unpacked / "functions").iterdir():
            s3.upload_file(str(path), "code-of-ours", f"mail/{version()}/{path.name}")
        self.deploy(self.unpacked, "template-from-bucket.yaml", CodeBucket="code-of-ours", CodePrefix="mail/",
                    Architecture=host_architecture())  # fmt: skip
        self.assert_mails_are_sent()

    def test_what_is_published_names_readme_and_licence_where_the_repository_reads_them(self) -> None:
        self.sam(self.unpacked, "package", "--region", REGION, "--resolve-s3", "--output-template-file", "packaged.yaml")
        text = (self.unpacked / "packaged.yaml").read_text(encoding="utf-8")
        for name in ("LicenseUrl", "ReadmeUrl"):
            self.assertRegex(text, rf"{name}: s3://aws-sam-cli-managed-default-")


if __name__ == "__main__":
    unittest.main()
