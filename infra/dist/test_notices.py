"""SBOM and licences say what cargo links."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

import notices

TREE = """\
0tidegate-lambda v0.1.0 (/src/crates/lambda)|Apache-2.0
1tokio v1.54.1|MIT
2bytes v1.12.1|MIT OR Apache-2.0
1serde v1.0.229|MIT/Apache-2.0
1tokio v1.54.1|MIT (*)
"""
LOCK = '[[package]]\nname = "tokio"\nversion = "1.54.1"\nsource = "registry"\nchecksum = "ab12"\n'


class Notices(unittest.TestCase):
    def test_a_tree_becomes_packages_with_what_each_needs(self) -> None:
        packages = notices.parse(TREE)
        self.assertEqual(len(packages), 4)
        needs = packages["tidegate-lambda", "0.1.0"].needs
        self.assertEqual(needs, {("tokio", "1.54.1"), ("serde", "1.0.229")})
        self.assertEqual(packages["tokio", "1.54.1"].needs, {("bytes", "1.12.1")})
        with self.assertRaisesRegex(SystemExit, "not understood: 1nonsense"):
            notices.parse("1nonsense")

    def test_an_sbom_has_each_package_with_licence_and_checksum_and_is_the_same_each_time(self) -> None:
        packages, checksums = notices.parse(TREE), notices.locked_checksums(LOCK)
        text = notices.sbom("functions", "0.1.0", packages, checksums)
        self.assertEqual(text, notices.sbom("functions", "0.1.0", packages, checksums))
        document = json.loads(text)
        found = {component["name"]: component for component in document["components"]}
        self.assertEqual(set(found), {"tidegate-lambda", "tokio", "bytes", "serde"})
        self.assertEqual(found["tokio"]["purl"], "pkg:cargo/tokio@1.54.1")
        self.assertEqual(found["tokio"]["hashes"], [{"alg": "SHA-256", "content": "ab12"}])
        self.assertEqual(found["serde"]["licenses"], [{"expression": "MIT OR Apache-2.0"}])
        needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
        self.assertEqual(needs["tidegate-functions"], ["tidegate-lambda@0.1.0"])
        self.assertEqual(needs["tokio@1.54.1"], ["bytes@1.12.1"])

    def test_each_licence_text_stands_once_below_the_packages_that_have_it(self) -> None:
        packages = {key: package for key, package in notices.parse(TREE).items() if key[0] != "tidegate-lambda"}
        with tempfile.TemporaryDirectory() as name:
            folders = {key: Path(name, key[0]) for key in packages}
            for folder in folders.values():
                folder.mkdir()
            for package in ("tokio", "bytes"):
                Path(name, package, "LICENSE-MIT").write_text("Permission is granted.\n")
            text = notices.licences(packages, folders)
        self.assertEqual(text.count("Permission is granted."), 1)
        self.assertIn("bytes 1.12.1 (MIT OR Apache-2.0)\ntokio 1.54.1 (MIT)\n---", text)
        self.assertRegex(text, r"serde 1.0.229 \(MIT/Apache-2.0\)\n-+\n\n\(The package contains no text")


if __name__ == "__main__":
    unittest.main()
