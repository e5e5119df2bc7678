"""Each check finds what it is for."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

import lint

FIELDS = "\n".join(f"    pub field_{number}: u64," for number in range(13))


class Lint(unittest.TestCase):
    def modules(self, **files: str) -> list[lint.Module]:
        """The modules of a crate `c` with these files, `/` written as `__`."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for name, text in files.items():
            path = root / "crates/c/src" / (name.replace("__", "/") + ".rs")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)
        subprocess.run(["git", "add", "."], cwd=root, check=True)
        return lint.modules(root)

    def test_a_type_name_that_stands_for_two_things_is_found_and_a_test_s_own_is_not(self) -> None:
        found = [*lint.reused_names(self.modules(a="pub struct Run;\n", b="enum Run {}\n"))]
        self.assertIn("  Run: crates/c/src/a.rs, crates/c/src/b.rs", found)
        own = "#[cfg(test)]\nmod tests {\nstruct Run;\n}\n"
        self.assertEqual([*lint.reused_names(self.modules(a="pub struct Run;\n", b=own))], [])

    def test_a_large_type_needs_a_reason(self) -> None:
        large = f"pub struct Large {{\n{FIELDS}\n}}\n"
        self.assertEqual(len([*lint.large_types(self.modules(a=large))]), 1)
        reason = f"/// Large.\n// More than 12 fields: one for each option.\n{large}"
        self.assertEqual([*lint.large_types(self.modules(a=reason))], [])
        reason_of_another = f"// More than 12 fields: one for each option.\nstruct Other;\n\n{large}"
        self.assertEqual(len([*lint.large_types(self.modules(a=reason_of_another))]), 1)

    def test_files_that_need_each_other_are_found_through_what_is_passed_on(self) -> None:
        files = {
            "lib": "mod a;\nmod b;\npub use b::Second;\n",
            "a": "pub struct First(crate::Second);\n",
            "b": "use super::a::{First as Other, self};\npub struct Second(Option<Box<Other>>);\n",
        }
        self.assertEqual([*lint.cycles(self.modules(**files))],
                         ["c: these files need each other: crates/c/src/a.rs, crates/c/src/b.rs"])
        files["b"] = "pub struct Second;\n"
        self.assertEqual([*lint.cycles(self.modules(**files))], [])

    def test_a_module_that_may_use_an_item_is_not_used_by_it(self) -> None:
        files = {"a__mod": "mod child;\nuse child::Child;\npub struct Parent(Child);\n",
                 "a__child": "pub(in crate::a) struct Child;\n"}
        self.assertEqual([*lint.cycles(self.modules(**files))], [])

    def test_a_parent_that_only_passes_names_on_needs_nothing(self) -> None:
        files = {"a__mod": "mod child;\npub use child::Child;\npub struct Parent;\n",
                 "a__child": "use super::Parent;\npub struct Child(Parent);\n"}
        self.assertEqual([*lint.cycles(self.modules(**files))], [])

    def test_a_comment_that_begins_with_an_empty_word_is_found(self) -> None:
        found = [*lint.empty_openings(self.modules(a="/// What it does.\nfn a() {}\n/// Its name.\nfn b() {}\n"))]
        self.assertEqual(len(found), 2)
        self.assertEqual([*lint.empty_openings(self.modules(a="/// Whatever.\nfn a() {}\n"))], [])


if __name__ == "__main__":
    unittest.main()
