"""What the packages contain, and what is not packaged."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

import package
from package import ROOT, Refused, read_functions, read_template
from sam_template import Rendered

sys.path.append(str(ROOT / "infra" / "tests"))

from installed import empty_zips  # noqa: E402


def stack(template: dict, channel: str, given: dict[str, str]) -> dict:
    """All that the stack would have."""
    made = Rendered(template, "mail", given | {"Channel": channel})
    outputs = {
        name: made.evaluate(output["Value"]) for name, output in template["Outputs"].items()
        if "Condition" not in output or made.condition(output["Condition"])
    }  # fmt: skip
    return {"resources": made.resources, "outputs": outputs}


def referred(node: object) -> set[str]:
    """The names in `Ref`, `Fn::GetAtt`, `Fn::Sub` and `DependsOn`, but for AWS's own."""
    text = json.dumps(node)
    found = re.findall(r'"(?:Ref|DependsOn)": "(\w+)"', text) + re.findall(r'"Fn::GetAtt": \[?"(\w+)', text)
    return set(found) | set(re.findall(r"\$\{([A-Z]\w+Queue|LedgerTable|StoreBucket)[.}]", text))


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-package-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class Zips(InAFolder):
    def test_a_processor_without_one_of_its_functions_is_refused_by_the_files_name(self) -> None:
        for missing in ("scheduler-arm64.zip", "poller-arm64-sms.zip"):
            with self.subTest(missing):
                empty_zips(self.folder)
                (self.folder / missing).unlink()
                with self.assertRaisesRegex(Refused, f"{missing} is missing"):
                    read_functions(self.folder, complete=False)

    def test_one_processor_is_enough_but_not_for_a_release(self) -> None:
        empty_zips(self.folder, *package.names("x86_64"))
        self.assertEqual(read_functions(self.folder, complete=False).architectures, ("x86_64",))
        with self.assertRaisesRegex(Refused, "scheduler-arm64.zip is missing"):
            read_functions(self.folder, complete=True)

    def test_what_is_no_functions_zip_is_refused(self) -> None:
        with self.assertRaisesRegex(Refused, "has no zip of a function"):
            read_functions(self.folder, complete=False)
        empty_zips(self.folder)
        with zipfile.ZipFile(self.folder / "poller-arm64.zip", "a") as archive:
            archive.writestr("more", b"")
        with self.assertRaisesRegex(Refused, "poller-arm64.zip has bootstrap, more in it"):
            read_functions(self.folder, complete=False)
        (self.folder / "poller-arm64.zip").write_bytes(b"text")
        with self.assertRaisesRegex(Refused, "poller-arm64.zip is not a zip"):
            read_functions(self.folder, complete=False)

    def test_a_missing_zip_ends_the_command_with_2(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            package.main(["--functions", str(self.folder), "--out", str(self.folder / "out")])
        self.assertEqual(ended.exception.code, 2)
        self.assertIn("package: ", said.getvalue())


class SamPackage(InAFolder):
    def made(self, out: str = "out") -> Path:
        found = read_functions(empty_zips(self.folder / "functions"), complete=True)
        (self.folder / out).mkdir()
        return package.sam_package("1.2.3", found, "https://example.org/tidegate", self.folder / out)

    def read(self, template: str) -> tuple[str, dict]:
        with zipfile.ZipFile(self.made(template)) as archive:
            archive.extractall(self.folder)
        path = self.folder / "tidegate-sam-1.2.3" / template
        return path.read_text(encoding="utf-8"), read_template(path)

    def test_equal_functions_give_an_equal_package(self) -> None:
        digests = {hashlib.sha256(self.made(out).read_bytes()).hexdigest() for out in ("a", "b")}
        self.assertEqual(len(digests), 1)

    def test_the_code_of_each_template_is_beside_it_and_of_its_one_processor_and_channel(self) -> None:
        for name, architecture, channel, zips in (
            ("template.yaml", "arm64", "email", "arm64.zip"),
            ("template-x86_64.yaml", "x86_64", "email", "x86_64.zip"),
            ("template-sms.yaml", "arm64", "sms", "arm64-sms.zip"),
            ("template-x86_64-sms.yaml", "x86_64", "sms", "x86_64-sms.zip"),
        ):
            text, read = self.read(name)
            for parameter, only in (("Architecture", architecture), ("Channel", channel)):
                said = read["Parameters"][parameter]
                self.assertEqual((said["Default"], said["AllowedValues"]), (only, [only]))
            code = re.findall(r" Code: (.+)", text)
            self.assertEqual(code, [f"functions/{f}-{zips}" for f in package.FUNCTIONS])
            for path in code:
                self.assertTrue((self.folder / "tidegate-sam-1.2.3" / path).is_file(), path)

    def test_the_code_from_a_bucket_is_of_the_templates_version_and_channel_and_of_either_processor(self) -> None:
        for channel, suffix in package.CHANNELS.items():
            _, read = self.read(f"template-from-bucket{suffix}.yaml")
            self.assertEqual(read["Resources"]["PollerFunction"]["Properties"]["Code"], {
                "S3Bucket": {"Ref": "CodeBucket"},
                "S3Key": {"Fn::Sub": f"${{CodePrefix}}1.2.3/poller-${{Architecture}}{suffix}.zip"},
            })  # fmt: skip
            self.assertEqual(read["Parameters"]["Channel"]["AllowedValues"], [channel])
            self.assertEqual(read["Parameters"]["Architecture"]["AllowedValues"], ["arm64", "x86_64"])
            self.assertNotIn("Default", read["Parameters"]["CodeBucket"])

    def test_a_template_has_only_types_of_its_channel_since_others_are_not_in_every_region(self) -> None:
        for suffix, own, others in (("", "AWS::SES::", "AWS::SMSVOICE::"), ("-sms", "AWS::SMSVOICE::", "AWS::SES::")):
            for name in (f"template{suffix}.yaml", f"template-x86_64{suffix}.yaml", f"template-from-bucket{suffix}.yaml"):
                with self.subTest(name):
                    text, read = self.read(name)
                    types = {resource["Type"] for resource in read["Resources"].values()}
                    self.assertTrue(any(kind.startswith(own) for kind in types))
                    self.assertNotIn(others, text)
                    # CloudFormation refuses a template that refers to what it does not have, in a branch not taken, too.
                    self.assertEqual(referred(read) - set(read["Resources"]) - set(read["Parameters"]), set())

    def test_beside_code_and_its_parameters_the_templates_make_the_stacks_of_the_repository(self) -> None:
        source = read_template(ROOT / "infra" / "sam" / "template.yaml")
        more = {"Feedback": "off", "AllowedSenders": "a@example.org", "Alarms": "all", "Campaigns": "tags"}
        for name, channel in (
            ("template.yaml", "email"), ("template-x86_64.yaml", "email"), ("template-sms.yaml", "sms"),
            ("template-from-bucket.yaml", "email"), ("template-from-bucket-sms.yaml", "sms"),
        ):  # fmt: skip
            with self.subTest(name):
                _, read = self.read(name)
                read["Parameters"] |= {n: source["Parameters"][n] for n in ("Architecture", "Channel")}
                for parameter in ("CodeBucket", "CodePrefix"):
                    read["Parameters"].pop(parameter, None)
                self.assertEqual(read["Parameters"], source["Parameters"])
                for template in (read, source):
                    for function in ("SchedulerFunction", "PollerFunction"):
                        template["Resources"][function]["Properties"].pop("Code", None)
                for given in ({}, more):
                    self.assertEqual(stack(read, channel, given), stack(source, channel, given))

    def test_the_application_repositorys_metadata_keep_its_rules(self) -> None:
        """https://docs.aws.amazon.com/serverlessrepo/latest/devguide/serverlessrepo-publishing-applications.html"""
        _, read = self.read("template.yaml")
        said = read["Metadata"]["AWS::ServerlessRepo::Application"]
        self.assertRegex(said["Name"], r"^[A-Za-z0-9-]{1,140}$")
        self.assertRegex(said["Author"], r"^[a-z0-9](([a-z0-9]|-(?!-))*[a-z0-9])?$")
        self.assertLessEqual(len(said["Description"]), 256)
        self.assertLessEqual(len(said["Labels"]), 10)
        for label in said["Labels"]:
            self.assertRegex(label, r"^[a-zA-Z0-9+\-_:\/@]{1,127}$")
        self.assertEqual(said["SemanticVersion"], "1.2.3")
        self.assertEqual(said["SpdxLicenseId"], "Apache-2.0")
        for file in (said["LicenseUrl"], said["ReadmeUrl"]):
            self.assertTrue((self.folder / "tidegate-sam-1.2.3" / file).is_file(), file)

    def test_the_version_is_the_workspaces(self) -> None:
        self.assertRegex(package.version(), r"^\d+\.\d+\.\d+")


if __name__ == "__main__":
    unittest.main()
