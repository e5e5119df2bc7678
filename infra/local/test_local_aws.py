"""What the deployment does to the template, and to its arguments."""

from __future__ import annotations

import io
import json
import os
import tempfile
import unittest
import unittest.mock
import zipfile
from pathlib import Path

import local_aws
import packages
from packages import Failure


class Deployment(unittest.TestCase):
    def test_a_package_holds_one_executable_bootstrap(self) -> None:
        with tempfile.NamedTemporaryFile() as binary:
            binary.write(b"\x7fELF")
            binary.flush()
            package = packages.zip_bootstrap(Path(binary.name))
            self.assertEqual(package, packages.zip_bootstrap(Path(binary.name)))
        with zipfile.ZipFile(io.BytesIO(package)) as archive:
            (entry,) = archive.infolist()
            self.assertEqual(entry.filename, "bootstrap")
            self.assertEqual(entry.external_attr >> 16, 0o100755)
            self.assertEqual(archive.read(entry), b"\x7fELF")

    def test_a_package_is_made_anew_when_its_binary_was_built_anew_and_only_then(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ".fingerprint").mkdir()
            binary = Path(folder) / "poller"
            binary.write_bytes(b"one")
            with unittest.mock.patch.object(packages, "zip_bootstrap", wraps=packages.zip_bootstrap) as zipped:
                first = packages.kept_package(binary)
                self.assertEqual(packages.kept_package(binary), first)
                zipped.assert_called_once()
                binary.write_bytes(b"two")
                os.utime(binary, ns=(0, binary.stat().st_mtime_ns + 1))
                second = packages.kept_package(binary)
            with zipfile.ZipFile(io.BytesIO(second)) as archive:
                self.assertEqual(archive.read("bootstrap"), b"two")
            self.assertEqual({path.name for path in Path(folder).iterdir()}, {".fingerprint", "poller", "poller.zip"})

    def test_beside_an_installed_binary_nothing_is_written(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            binary = Path(folder) / "poller"
            binary.write_bytes(b"one")
            self.assertEqual(packages.kept_package(binary), packages.zip_bootstrap(binary))
            self.assertEqual(list(Path(folder).iterdir()), [binary])

    def test_a_missing_binary_is_named(self) -> None:
        with self.assertRaisesRegex(Failure, "/nowhere/poller.*build it first"):
            packages.kept_package(Path("/nowhere/poller"))

    def test_a_template_needs_the_binaries_of_its_functions_and_no_others(self) -> None:
        s3 = unittest.mock.Mock()
        self.assertEqual(packages.upload(s3, {"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}, {}), {})
        for name in ("mail-poller", {"Fn::Sub": "${AWS::StackName}-poller"}):
            function = {"Type": "AWS::Lambda::Function", "Properties": {"FunctionName": name}}
            template = {"Resources": {"MadeUpPoller": function}}
            with self.assertRaisesRegex(Failure, "no binary for the template's PollerFunction"):
                packages.upload(s3, template, {"PollerFunction": None})
            sizes = packages.upload(s3, template, {"PollerFunction": Path(__file__)})
            self.assertEqual(set(sizes), {"PollerFunction"})
            self.assertEqual(function["Properties"]["Code"]["S3Bucket"], "tidegate-code")

    def test_a_stack_that_never_stood_is_deleted_and_created_anew_and_one_that_stands_is_updated(self) -> None:
        for status, calls in (
            ("ROLLBACK_COMPLETE", ["delete_stack", "stack_delete_complete", "create_stack", "stack_create_complete"]),
            ("CREATE_FAILED", ["delete_stack", "stack_delete_complete", "create_stack", "stack_create_complete"]),
            ("CREATE_COMPLETE", ["update_stack", "stack_update_complete"]),
        ):
            with self.subTest(status):
                cloudformation = unittest.mock.Mock()
                cloudformation.describe_stacks.return_value = {"Stacks": [{"StackStatus": status}]}
                local_aws.bring_up_to_date(cloudformation, "mail", "http://a/template", [])
                made = [args[0] if name == "get_waiter" else name for name, args, _ in cloudformation.method_calls]
                self.assertEqual([name for name in made if name != "describe_stacks"], calls)

    def test_the_bucket_is_made_where_it_is_not_there(self) -> None:
        for there, made in (([], 1), ([{"Name": packages.BUCKET}], 0)):
            s3 = unittest.mock.Mock(list_buckets=lambda there=there: {"Buckets": there})
            packages.make_bucket(s3)
            self.assertEqual(s3.create_bucket.call_count, made)

    def test_the_template_is_uploaded_and_named_by_where_it_stands(self) -> None:
        s3 = unittest.mock.Mock()
        template = {"Resources": {"A": {"Type": "B"}}}
        url = packages.upload_template(s3, "http://127.0.0.1:4566", template)
        put = s3.put_object.call_args.kwargs
        self.assertEqual(url, f"http://127.0.0.1:4566/{put['Bucket']}/{put['Key']}")
        self.assertEqual(json.loads(put["Body"]), template)

    def test_what_the_template_lets_expire_expires_here_too(self) -> None:
        dynamodb = unittest.mock.Mock()
        expiry = {"AttributeName": "expires_at", "Enabled": True}
        table = {"Type": "AWS::DynamoDB::Table", "Properties": {"TimeToLiveSpecification": expiry}}
        template = {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}, "Ledger": table}}
        local_aws.expire_items(dynamodb, template, {"LedgerTable": "mail-ledger"})
        dynamodb.update_time_to_live.assert_called_once_with(
            TableName="mail-ledger", TimeToLiveSpecification=expiry
        )
        local_aws.expire_items(dynamodb, {"Resources": {"Queue": {"Type": "AWS::SQS::Queue"}}}, {})
        dynamodb.update_time_to_live.assert_called_once()

    def test_a_misspelt_parameter_is_refused_with_what_there_is(self) -> None:
        template = {"Parameters": {"RateMargin": {}}}
        with self.assertRaisesRegex(Failure, "no parameter Gard; it has RateMargin"):
            local_aws.stack_parameters(template, [("Gard", "0.02")], "http://127.0.0.1:4566")

    def test_functions_are_given_the_endpoint_unless_told_another(self) -> None:
        template = {"Parameters": {"EndpointUrl": {}}}
        for given, expected in ([], "http://a"), ([("EndpointUrl", "http://b")], "http://b"):
            (parameter,) = local_aws.stack_parameters(template, given, "http://a")
            self.assertEqual(parameter["ParameterValue"], expected)

    def test_short_forms_are_read_as_the_long_ones(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write("Resources: {A: !GetAtt B.C.D, E: !If [F, !Ref G, !Sub x]}")
            file.flush()
            resources = local_aws.read_template(Path(file.name))["Resources"]
        self.assertEqual(resources["A"], {"Fn::GetAtt": ["B", "C.D"]})
        self.assertEqual(resources["E"], {"Fn::If": ["F", {"Ref": "G"}, {"Fn::Sub": "x"}]})


if __name__ == "__main__":
    unittest.main()
