"""What is installed stays until its versions change, and what is missing is told with its remedy."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import install


class Install(unittest.TestCase):
    def test_the_same_versions_are_installed_once_and_after_a_failure_again(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        done: list[str] = []
        for versions in ("a==1", "a==1", "a==2"):
            install.once(Path(folder.name), versions, lambda of=versions: done.append(of))
        self.assertEqual(done, ["a==1", "a==2"])
        with self.assertRaises(ZeroDivisionError):
            install.once(Path(folder.name), "a==3", lambda: 1 // 0)
        install.once(Path(folder.name), "a==2", lambda: done.append("again"))
        self.assertEqual(done[-1], "again")

    def test_every_list_of_versions_that_is_named_is_there(self) -> None:
        for requirements, *_ in install.VENVS.values():
            self.assertIn("--hash=sha256:", install.text(requirements))
        for folder in install.MODULES.values():
            self.assertTrue((install.ROOT / folder / "package-lock.json").exists(), folder)

    def test_a_program_that_is_named_or_on_the_path_is_not_installed(self) -> None:
        with mock.patch.object(install, "install") as installed:
            with mock.patch.dict(os.environ, {"REDIS_SERVER": "/bin/sh"}):
                install.provide("redis")
            installed.assert_not_called()
            with mock.patch.dict(os.environ, {"REDIS_SERVER": "/no/such/server"}):
                install.provide("redis")
            installed.assert_called_once_with("redis")

    def test_what_is_missing_is_told_with_its_remedy(self) -> None:
        with mock.patch.dict(os.environ, {"PATH": "/nowhere", "CXX": "no-compiler"}):
            for tool, words in (("rust", "Install rustup"), ("node", "Node.js 20"), ("cxx", "apt-get install g\\+\\+")):
                with self.assertRaisesRegex(SystemExit, f"^make: .*{words}"):
                    install.provide(tool)
        failing = {"redis": mock.Mock(side_effect=OSError)}
        with mock.patch.dict(install.INSTALLS, failing), self.assertRaisesRegex(SystemExit, "(?s)no redis-server.*REDIS_SERVER="):
            install.install("redis")
        with self.assertRaisesRegex(SystemExit, "ARCH=arm is not allowed"):
            install.check_target("arm")


if __name__ == "__main__":
    unittest.main()
