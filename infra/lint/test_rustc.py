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
    return [command[0].rsplit("/", 1)[-1] for command in rustc.commands(RUSTC, arguments, "scratch")]


class Commands(unittest.TestCase):
    def test_all_get_the_same_dependencies_and_those_that_look_write_elsewhere(self) -> None:
        compiled, clippy = rustc.commands(RUSTC, [*LIBRARY, "--test"], "scratch")
        self.assertEqual(compiled, [RUSTC, *LIBRARY, "--test", "-Dwarnings"])
        looked_at = [*LOOKED_AT[:-4], "--test", *LOOKED_AT[-4:]]
        self.assertEqual(clippy, ["/toolchain/bin/clippy-driver", RUSTC, *looked_at, "--emit=metadata"])
        rustdoc = [*rustc.commands(RUSTC, LIBRARY, "scratch")][-1]
        self.assertEqual(rustdoc, ["/toolchain/bin/rustdoc", *LOOKED_AT])

    def test_clippy_looks_at_a_library_with_its_tests_and_at_a_program_without(self) -> None:
        program = ["bin" if argument == "lib" else argument for argument in LIBRARY]
        self.assertEqual(programs(LIBRARY), ["rustc", "rustdoc"])
        self.assertEqual(programs([*LIBRARY, "--test"]), ["rustc", "clippy-driver"])
        self.assertEqual(programs(program), ["rustc", "clippy-driver", "rustdoc"])
        self.assertIn("--document-private-items", [*rustc.commands(RUSTC, program, "scratch")][-1])

    def test_tests_are_optimised_only_where_they_run_for_long(self) -> None:
        def level(*arguments: str) -> str:
            return next(rustc.commands(RUSTC, [*arguments, "-C", "opt-level=2"], "scratch"))[-2]

        self.assertEqual(level("--crate-name", "tidegate_core", "--test"), "opt-level=0")
        self.assertEqual(level("--crate-name", "simulation", "--test"), "opt-level=2")
        self.assertEqual(level("--crate-name", "tidegate_core"), "opt-level=2")

    def test_where_nothing_is_optimised_clippy_compiles(self) -> None:
        [only] = rustc.commands(RUSTC, [*LIBRARY, "--test", "-C", "opt-level=2"], "scratch")
        self.assertEqual(only[:2], ["/toolchain/bin/clippy-driver", RUSTC])
        self.assertEqual(only[-3:], ["-C", "opt-level=0", "-Dwarnings"])

    def test_a_build_script_has_no_documentation(self) -> None:
        script = ["build_script_build" if argument == "tidegate_core" else "bin" if argument == "lib" else argument
                  for argument in LIBRARY]  # fmt: skip
        self.assertEqual(programs(script), ["rustc", "clippy-driver"])

    def test_a_question_of_cargo_s_is_rustc_s_alone(self) -> None:
        self.assertEqual(programs(["-vV"]), ["rustc"])
        self.assertEqual(programs(["-", "--crate-name", "___", "--print=cfg"]), ["rustc"])


if __name__ == "__main__":
    unittest.main()
