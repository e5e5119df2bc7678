"""The construct's package, installed into an empty folder where there is no Rust: `cdk synth` works, with the oldest and
the newest libraries that it says it works with."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path
from typing import Any

import package
from package import CDK, ROOT, Refused, read_functions, version

sys.path.append(str(ROOT / "infra" / "tests"))

from installed import empty_zips, run, without_rust  # noqa: E402

BIN = CDK / "node_modules" / ".bin"
MANIFEST: dict[str, Any] = json.loads((CDK / "package.json").read_text(encoding="utf-8"))
OLDEST = {name: wanted.removeprefix("^") for name, wanted in MANIFEST["peerDependencies"].items()}
# Those that the construct is developed with; or others, such as latest, to see what they do.
NEWEST = {
    name: os.environ.get("TIDEGATE_NEWEST_PEERS", MANIFEST["devDependencies"][name]) for name in OLDEST
}
EXAMPLE = """
const { App } = require('aws-cdk-lib');
const { MailStack } = require('./example.js');
new MailStack(new App(), 'example');
"""


class Npm(unittest.TestCase):
    folder: Path
    tarball: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="tidegate-npm-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "out").mkdir()
        found = read_functions(empty_zips(cls.folder / "functions"), complete=True)
        cls.tarball = package.npm_package(version(), found, "https://example.org/tidegate", cls.folder / "out")

    def environment(self) -> dict[str, str]:
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        # What was downloaded once is not downloaded again; it is no setting.
        cache = os.environ.get("npm_config_cache", str(Path.home() / ".npm"))
        own = {"npm_config_cache": cache, "npm_config_prefer_offline": "true", "CDK_DISABLE_VERSION_CHECK": "1"}
        return without_rust(home) | own

    def installed(self, name: str, peers: dict[str, str]) -> Path:
        """An empty app with the package and these peers in it."""
        app = self.folder / name
        app.mkdir()
        wanted = [f"{peer}@{release}" for peer, release in peers.items()]
        run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
             self.tarball, *wanted], app, self.environment())  # fmt: skip
        return app

    def synthesized(self, app: Path, text: str, stack: str, **own: str) -> dict[str, Any]:
        (app / "app.js").write_text(text, encoding="utf-8")
        run([BIN / "cdk", "synth", "--quiet", "--app", "node app.js", "--output", f"{stack}.out"], app, self.environment() | own)
        template: dict[str, Any] = json.loads((app / f"{stack}.out" / f"{stack}.template.json").read_text())
        return template

    def test_five_lines_synthesize_without_rust_at_both_ends_of_the_peers_and_to_the_same_stack(self) -> None:
        found = re.search(r"```js\n(.*?)```", (CDK / "README.md").read_text(encoding="utf-8"), re.S)
        assert found is not None
        self.assertLessEqual(len(found[1].splitlines()), 6)
        templates = []
        for name, peers in (("oldest", OLDEST), ("newest", NEWEST)):
            app = self.installed(name, peers)
            self.assertIsNone(shutil.which("cargo", path=self.environment()["PATH"]))
            template = self.synthesized(app, found[1], "tidegate")
            self.assert_code_is_the_packages(app / "tidegate.out", template)
            self.assert_types_fit(app)
            shutil.copy(CDK / "build" / "test" / "example.js", app)
            # CDK's own rules take seconds to start, and ran for the first.
            templates.append((template, self.synthesized(app, EXAMPLE, "example", CDK_VALIDATION="false")))
        oldest, newest = (resources(both) for both in templates)
        self.assertEqual(oldest, newest)

    def assert_code_is_the_packages(self, out: Path, template: dict[str, Any]) -> None:
        """Each function's asset is the zip of the processor that it runs on."""
        functions = [r["Properties"] for r in template["Resources"].values() if r["Type"] == "AWS::Lambda::Function"]
        self.assertEqual([f["Architectures"] for f in functions], [["arm64"], ["arm64"]])
        assets = json.loads((out / "tidegate.assets.json").read_text())["files"]
        paths = [out / file["source"]["path"] for file in assets.values() if file["source"]["path"].endswith(".zip")]
        packaged = {hashlib.sha256((self.folder / "functions" / f"{f}-arm64.zip").read_bytes()).hexdigest()
                    for f in ("poller", "scheduler")}  # fmt: skip
        self.assertEqual({hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}, packaged)

    def assert_types_fit(self, app: Path) -> None:
        """The README's longer example compiles against these libraries."""
        shutil.copy(CDK / "test" / "example.ts", app)
        run([BIN / "tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck",
             "--ignoreConfig", "--types", "node", "--typeRoots", CDK / "node_modules" / "@types", "example.ts"],
            app, self.environment())  # fmt: skip

    def test_the_package_needs_nothing_that_is_for_development(self) -> None:
        with tarfile.open(self.tarball) as archive:
            names = archive.getnames()
            manifest = json.load(archive.extractfile("package/package.json"))  # type: ignore[arg-type]
            code = b"".join(archive.extractfile(n).read() for n in names if n.endswith(".js"))  # type: ignore[union-attr]
        self.assertEqual(set(manifest) & {"dependencies", "devDependencies", "private", "scripts"}, set())
        self.assertNotIn(b"require(\"cdk-nag", code)
        self.assertIn("package/API.md", names)
        self.assertEqual([n for n in names if "/bin/" in n or "/test/" in n], [])
        self.assertEqual(manifest["repository"]["url"], "git+https://example.org/tidegate.git")

    def test_the_reference_describes_every_prop(self) -> None:
        with tarfile.open(self.tarball) as archive:
            reference = archive.extractfile("package/API.md").read().decode()  # type: ignore[union-attr]
        props = (CDK / "lib" / "props.ts").read_text(encoding="utf-8")
        names = re.findall(r"^  readonly (\w+)\??:", props, re.M)
        self.assertGreater(len(names), 40)
        for name in names:
            self.assertRegex(reference, rf"\| .*`{name}\??` \|.*\w+ \w+")

    def test_another_version_than_the_workspaces_is_refused(self) -> None:
        with self.assertRaisesRegex(Refused, "package.json says .*, and Cargo.toml 9.9.9"):
            package.manifest(MANIFEST, "9.9.9", None)


def resources(templates: tuple[dict[str, Any], ...]) -> list[Any]:
    """What the templates make, without what a library says of itself."""
    kept = [{i: r for i, r in t["Resources"].items() if r["Type"] != "AWS::CDK::Metadata"} for t in templates]
    for resource in (r for template in kept for r in template.values()):
        for name in [n for n in resource.get("Metadata", {}) if n.startswith("aws:")]:
            del resource["Metadata"][name]
        if not resource.get("Metadata", True):
            del resource["Metadata"]
    return kept


if __name__ == "__main__":
    unittest.main()
