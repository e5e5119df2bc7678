"""A release's files: equal programs give equal bytes, and what is installed finds all that it needs."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import zipfile
from email.parser import Parser
from pathlib import Path

import dist

TAG = "manylinux_2_17_x86_64"
PLATFORM = "linux-x86_64"
# Answers what `dist` asks of the operator's command.
PRETENDED = '#!/bin/sh\ncase "$1" in completions) echo "for $2";; man) echo .TH > "$2/tidegate.1";; esac\n'


def pretend(folder: Path) -> Path:
    """Programs as far as `dist` looks."""
    for name in (dist.OPERATOR, *dist.LOCAL):
        (folder / name).mkdir(parents=True)
        program = folder / name / "bootstrap"
        program.write_text(PRETENDED if name == dist.OPERATOR else f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
    return folder


class Release(unittest.TestCase):
    folder: Path
    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = Path(temporary.name)
        cls.out = cls.make("first")

    @classmethod
    def make(cls, name: str) -> Path:
        """All files of a release, in a folder of this name."""
        programs, out = pretend(cls.folder / name / "programs"), cls.folder / name / "dist"
        licence = str(dist.ROOT / "LICENSE")
        for arguments in (
            ["functions", "--binaries", str(programs), "--arch", "x86_64"],
            ["functions", "--binaries", str(programs), "--arch", "x86_64", "--channel", "sms"],
            ["programs", "--programs", str(programs), "--notice", licence, "--platform", PLATFORM, "--tag", TAG],
            ["checksums"],
        ):
            with contextlib.redirect_stdout(io.StringIO()):
                dist.main([*arguments, "--out", str(out)])
        return out

    def wheel(self) -> zipfile.ZipFile:
        wheel = zipfile.ZipFile(self.out / f"tidegate-{dist.version()}-py3-none-{TAG}.whl")
        self.addCleanup(wheel.close)
        return wheel

    def names(self) -> set[str]:
        """Paths that the wheel installs."""
        data = f"tidegate-{dist.version()}.data/"
        found = (entry.filename for entry in self.wheel().infolist())
        return {re.sub("^(scripts|data)/", "", name.removeprefix(data)) for name in found if name.startswith(data)}

    def test_a_second_release_of_the_same_programs_is_the_same_byte_by_byte(self) -> None:
        # Times are in seconds, in a zip in pairs of them.
        later = time.time() + 10
        again = self.make("second")
        for file in (self.folder / "second").rglob("*"):
            os.utime(file, (later, later))
        first = (self.out / dist.SUMS).read_text()
        self.assertEqual(first, (again / dist.SUMS).read_text())
        self.assertEqual(len(first.splitlines()), 6)

    def test_checksums_are_of_every_file_and_tell_a_changed_one(self) -> None:
        check = ["sha256sum", "--check", "--quiet", dist.SUMS]
        self.assertEqual(subprocess.run(check, cwd=self.out, check=False).returncode, 0)
        changed = self.make("third")
        with next(changed.glob("*.whl")).open("ab") as file:
            file.write(b"!")
        ended = subprocess.run(check, cwd=changed, check=False, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"tidegate-{dist.version()}-py3-none-{TAG}.whl: FAILED", ended.stdout)

    def test_a_function_s_zip_has_the_one_file_that_lambda_starts(self) -> None:
        for name in (f"{name}-x86_64{channel}" for name in dist.FUNCTIONS for channel in ("", "-sms")):
            with zipfile.ZipFile(self.out / "functions" / f"{name}.zip") as package:
                (entry,) = package.infolist()
                self.assertEqual((entry.filename, entry.external_attr >> 16), ("bootstrap", 0o100755))

    def test_archive_and_wheel_install_the_same_files(self) -> None:
        name = f"tidegate-{dist.version()}-{PLATFORM}"
        with tarfile.open(self.out / f"{name}.tar.gz") as tar:
            entries = {entry.name.removeprefix(f"{name}/"): entry for entry in tar if entry.isfile()}
        in_archive = {name for name in entries if not name.startswith("share/doc/")}
        self.assertEqual({re.sub("^tidegate$", "bin/tidegate", name) for name in self.names()}, in_archive)
        programs = {"bin/tidegate", *(f"{dist.PROGRAMS}/{name}" for name in dist.LOCAL)}
        self.assertEqual({name for name, entry in entries.items() if entry.mode == 0o755}, programs)
        self.assertIn("share/man/man1/tidegate.1", in_archive)

    def test_the_wheel_s_programs_stay_programs(self) -> None:
        modes = {
            Path(entry.filename).name: entry.external_attr >> 16 & 0o777 for entry in self.wheel().infolist()
        }
        for name in (dist.OPERATOR, *dist.LOCAL):
            self.assertEqual(modes[name], 0o755, name)

    def test_the_extra_local_has_the_versions_that_are_tested(self) -> None:
        info = f"tidegate-{dist.version()}.dist-info/METADATA"
        metadata = Parser().parsestr(self.wheel().read(info).decode())
        extra = [text for text in metadata.get_all("Requires-Dist", []) if "extra == 'local'" in text]
        locked = (dist.ROOT / "infra" / "local" / "requirements.txt").read_text(encoding="utf-8")
        pins = re.findall(r"^([\w.-]+==[\w.]+)", locked, re.M)
        self.assertEqual(sorted(re.split("[; ]", text)[0] for text in extra), sorted(pins))
        self.assertIn("exceptiongroup", {pin.split("==")[0] for pin in pins}, "one with a marker")
        (marked,) = (text for text in extra if text.startswith("exceptiongroup"))
        self.assertIn("python_full_version < '3.11'", marked)

    @unittest.skipUnless(sys.platform == "linux", "macOS has no glibc")
    def test_a_program_that_needs_a_newer_glibc_is_refused(self) -> None:
        python = Path(sys.executable).resolve()
        newest = dist.newest_glibc(python)
        self.assertGreater(newest, (2,))
        dist.check_glibc(".".join(map(str, newest)), [python])
        with self.assertRaisesRegex(SystemExit, "needs glibc 2.*, allowed is 2.1 and older"):
            dist.check_glibc("2.1", [python])

    def test_the_notes_are_the_version_s_part_of_the_changelog_with_links_that_lead_somewhere(self) -> None:
        version = dist.version()
        changelog = (
            f"# Changelog\n\n## [Unreleased]\n\n- Later.\n\n## [{version}] - 2026-12-01\n\n### Added\n\n- A [page](docs/a.md), "
            "an [other](https://example.org/).\n\n## [0.0.1] - 2026-01-01\n\n- Before.\n"
        )
        self.assertEqual(
            dist.notes(changelog, f"v{version}", "https://example.com/blob/v1"),
            "### Added\n\n- A [page](https://example.com/blob/v1/docs/a.md), an [other](https://example.org/).\n",
        )
        for wrong, tag in ((changelog, "v9.9.9"), (changelog.replace("2026-12-01", "planned"), f"v{version}")):
            with self.assertRaisesRegex(SystemExit, "Cargo.toml|no heading"):
                dist.notes(wrong, tag, "")

    def test_every_module_that_the_deployment_imports_is_installed_with_it(self) -> None:
        installed = {Path(file).stem for file in dist.DEPLOYMENT}
        ours = {path.stem for path in (dist.ROOT / "infra" / "local").glob("*.py")}
        for file in (file for file in dist.DEPLOYMENT if file.endswith(".py")):
            for node in ast.walk(ast.parse((dist.ROOT / file).read_text(encoding="utf-8"))):
                named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                self.assertLessEqual(ours & set(named), installed, file)


if __name__ == "__main__":
    unittest.main()
