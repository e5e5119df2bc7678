"""The wrapper has Clippy and rustdoc look at what cargo compiles, and at nothing else."""

from __future__ import annotations

import unittest

import rustc

RUSTC = "/toolchain/bin/rustc"
CRATE = ["--crate-name", "tidegate_core", "--edition=2024", "src/lib.rs", "--json=diagnostic-rendered-ansi,artifacts",
         "--emit=dep-info,metadata,link", "--out-dir", "target/local/deps", "--extern", "url=u.rlib"]  # fmt: skip
LIBRARY = [*CRATE, "--crate-type", "lib"]
PROGRAM = [*CRATE, "--crate-type", "bin"]
LOOKED_AT = ["--crate-name", "tidegate_core", "--edition=2024", "src/lib.rs", "--extern", "url=u.rlib"]
TO_SCRATCH = ["--out-dir", "scratch", "--json=diagnostic-rendered-ansi", "-Dwarnings"]


def programs(*arguments: str) -> list[str]:
    return [command[0].rsplit("/", 1)[-1] for command in rustc.commands(RUSTC, [*arguments], "scratch")]


class Commands(unittest.TestCase):
    def test_all_get_the_same_dependencies_and_those_that_look_write_elsewhere(self) -> None:
        level = ["-C", "opt-level=1"]
        compiled, clippy = rustc.commands(RUSTC, [*PROGRAM, *level], "scratch")
        looked_at = [*LOOKED_AT, "--crate-type", "bin", *level, *TO_SCRATCH]
        self.assertEqual(compiled, [RUSTC, *PROGRAM, *level, "-Dwarnings"])
        self.assertEqual(clippy, ["/toolchain/bin/clippy-driver", RUSTC, *looked_at, "--emit=metadata"])
        _, rustdoc = rustc.commands(RUSTC, LIBRARY, "scratch")
        self.assertEqual(rustdoc, ["/toolchain/bin/rustdoc", *LOOKED_AT, "--crate-type", "lib", *TO_SCRATCH])

    def test_clippy_looks_at_a_library_with_its_tests_alone(self) -> None:
        self.assertEqual(programs(*LIBRARY), ["rustc", "rustdoc"])
        self.assertEqual(programs(*CRATE, "--test"), ["clippy-driver"])

    def test_tests_are_optimised_only_where_they_run_for_long_and_benchmarks_never(self) -> None:
        def level(*arguments: str) -> str:
            return next(rustc.commands(RUSTC, [*arguments, "-C", "opt-level=2"], "scratch"))[-2]

        self.assertEqual(level("--crate-name", "tidegate_core", "--test"), "opt-level=0")
        self.assertEqual(level("--crate-name", "decisions"), "opt-level=0")
        self.assertEqual(level("--crate-name", "sdk_calls", "--crate-type", "bin"), "opt-level=0")
        self.assertEqual(level("--crate-name", "simulator", "--test"), "opt-level=2")
        self.assertEqual(level("--crate-name", "tidegate_core", "--crate-type", "lib"), "opt-level=2")

    def test_where_nothing_is_optimised_clippy_compiles(self) -> None:
        [only] = rustc.commands(RUSTC, [*CRATE, "--test", "-C", "opt-level=2"], "scratch")
        self.assertEqual(only[:2], ["/toolchain/bin/clippy-driver", RUSTC])
        self.assertEqual(only[-3:], ["-C", "opt-level=0", "-Dwarnings"])
        # Cargo names no level where there is none.
        self.assertEqual(programs(*PROGRAM), ["clippy-driver"])
        self.assertEqual(programs(*PROGRAM, "-C", "opt-level=1"), ["rustc", "clippy-driver"])

    def test_a_question_of_cargo_s_is_rustc_s_alone(self) -> None:
        self.assertEqual(programs("-vV"), ["rustc"])
        self.assertEqual(programs("-", "--crate-name", "___", "--print=cfg"), ["rustc"])


if __name__ == "__main__":
    unittest.main()
