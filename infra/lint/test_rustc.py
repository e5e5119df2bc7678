"""The wrapper has Clippy and rustdoc look at what cargo compiles, and at nothing else."""

from __future__ import annotations

import unittest

import rustc

RUSTC = "/toolchain/bin/rustc"
LIBRARY = ["--crate-name", "tidegate_core", "--edition=2024", "src/lib.rs", "--json=diagnostic-rendered-ansi,artifacts",
           "--crate-type", "lib", "--emit=dep-info,metadata,link", "--out-dir", "target/local/deps", "--extern", "url=u.rlib"]  # fmt: skip
LOOKED_AT = ["--crate-name", "tidegate_core", "--edition=2024", "src/lib.rs", "--crate-type", "lib", "--extern",
             "url=u.rlib", "--out-dir", "scratch", "--json=diagnostic-rendered-ansi", "-Dwarnings"]  # fmt: skip


def programs(arguments: list[str]) -> list[str]:
    return [command[0].rsplit("/", 1)[-1] for command in rustc.views(RUSTC, arguments, "scratch")]


class Views(unittest.TestCase):
    def test_both_get_the_same_dependencies_and_write_elsewhere(self) -> None:
        clippy, rustdoc = rustc.views(RUSTC, LIBRARY, "scratch")
        self.assertEqual(clippy, ["/toolchain/bin/clippy-driver", RUSTC, *LOOKED_AT, "--emit=metadata"])
        self.assertEqual(rustdoc, ["/toolchain/bin/rustdoc", *LOOKED_AT])

    def test_a_programs_private_items_are_documented(self) -> None:
        program = ["bin" if argument == "lib" else argument for argument in LIBRARY]
        self.assertIn("--document-private-items", [*rustc.views(RUSTC, program, "scratch")][1])

    def test_tests_and_build_scripts_have_no_documentation(self) -> None:
        script = ["build_script_build" if argument == "tidegate_core" else argument for argument in LIBRARY]
        self.assertEqual(programs([*LIBRARY, "--test"]), ["clippy-driver"])
        self.assertEqual(programs(script), ["clippy-driver"])

    def test_a_question_of_cargo_s_is_rustc_s_alone(self) -> None:
        self.assertEqual(programs(["-vV"]), [])
        self.assertEqual(programs(["-", "--crate-name", "___", "--print=cfg"]), [])


if __name__ == "__main__":
    unittest.main()
