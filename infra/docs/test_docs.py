"""The book, the pages at the root, and the built site: links, paths, lengths, and that nothing comes from another host."""

from __future__ import annotations

import os
import re
import subprocess
import unittest
from collections.abc import Iterator
from pathlib import Path

import sources

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
BOOK = ROOT / ".local" / "book"
LONGEST = {"README.md": 180, "ARCHITECTURE.md": 150}
# Folders at the root: a `path` that begins with one of them must exist.
TOP = ("crates", "docs", "events", "infra", "tests", ".github")
COMMANDS = ROOT / "crates" / "operator" / "src" / "commands" / "mod.rs"


def pages() -> list[Path]:
    """All Markdown of the project, as git has it."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def without_code(text: str) -> str:
    return re.sub(r"^[ ]*```.*?^[ ]*```$", "", text, flags=re.M | re.S)


def anchor(heading: str) -> str:
    """A heading's anchor, as code hosts and the book make it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#{1,6} (.+)$", without_code(page.read_text(encoding="utf-8")), re.M)
    return {anchor(heading) for heading in headings}


def broken_links(page: Path, text: str) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, part = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        if not to.exists():
            yield f"{target}: there is no {to}"
        elif part and to.suffix == ".md" and part not in anchors(to):
            yield f"{target}: {to.name} has no heading #{part}"


def missing_paths(text: str) -> Iterator[str]:
    """Paths in `code` that begin at the root and lead to nothing. `*` and `{a,b}` stand for any name."""
    for path in re.findall(rf"`((?:{'|'.join(map(re.escape, TOP))})/[\w./*{{}},-]*)`", without_code(text)):
        pattern = re.sub(r"\{[^}]*\}", "*", path).rstrip("/")
        if not any(ROOT.glob(pattern)):
            yield path


def commands() -> set[str]:
    source = COMMANDS.read_text(encoding="utf-8")
    variants = re.search(r"pub enum Command \{\n(.*?)^\}", source, re.M | re.S)
    assert variants is not None
    return {name.lower() for name in re.findall(r"^    ([A-Z]\w+)\(", variants[1], re.M)}


def foreign(html: str) -> list[str]:
    """What a page loads from another host: links to follow are not loaded."""
    loaded = re.findall(r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=\"?([^\"\s>]+)", html)
    loaded += re.findall(r"<link\b(?![^>]*\brel=\"?(?:canonical|prev|next|edit)\b)[^>]*\bhref=\"?([^\"\s>]+)", html)
    loaded += re.findall(r"url\([\"']?([^\"')]+)", html) + re.findall(r"@import\s+[\"']([^\"']+)", html)
    return [url for url in loaded if re.match(r"(https?:)?//", url)]


class Sources(unittest.TestCase):
    def test_every_link_leads_somewhere(self) -> None:
        for page in pages():
            with self.subTest(page.relative_to(ROOT)):
                self.assertEqual(list(broken_links(page, page.read_text(encoding="utf-8"))), [])

    def test_every_path_that_is_named_exists(self) -> None:
        for page in pages():
            if page.name == "CHANGELOG.md":
                continue  # It also names what is gone.
            with self.subTest(page.relative_to(ROOT)):
                self.assertEqual(list(missing_paths(page.read_text(encoding="utf-8"))), [])

    def test_the_pages_at_the_root_stay_short(self) -> None:
        for name, most in LONGEST.items():
            with self.subTest(name):
                lines = (ROOT / name).read_text(encoding="utf-8").count("\n")
                self.assertLessEqual(lines, most, "move text into docs/")

    def test_the_readme_has_the_commands_to_run_and_to_test(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for command in ("make run", "make test"):
            self.assertRegex(readme, rf"(?m)^{command}\b")

    def test_the_readme_says_how_many_reports_from_aws_there_are(self) -> None:
        reports = len(list((DOCS / "verified").glob("*.md")))
        said = re.findall(r"reports of it so far: (\w+)\.", (ROOT / "README.md").read_text(encoding="utf-8"))
        self.assertEqual(said, [str(reports or "none")])
        self.assertEqual("so far there is none" in (DOCS / "verify.md").read_text(encoding="utf-8"), reports == 0)

    def test_every_command_has_a_page_under_its_name(self) -> None:
        titles = {page.read_text(encoding="utf-8").split("\n", 1)[0] for page in (DOCS / "commands").glob("*.md")}
        self.assertGreater(len(commands()), 15)
        for name in commands():
            self.assertIn(f"# `tidegate {name}`", titles)

    def test_every_decision_is_on_the_list(self) -> None:
        index = (DOCS / "decisions" / "index.md").read_text(encoding="utf-8")
        for decision in (DOCS / "decisions").glob("0*.md"):
            self.assertIn(f"]({decision.name})", index)


class Book(unittest.TestCase):
    def html(self) -> list[Path]:
        found = sorted(BOOK.rglob("*.html"))
        self.assertGreater(len(found), 50, "make docs builds it")
        return found

    def test_no_page_loads_anything_from_another_host(self) -> None:
        for page in [*self.html(), *BOOK.rglob("*.css")]:
            self.assertEqual(foreign(page.read_text(encoding="utf-8")), [], page)

    def test_no_markdown_is_left_in_the_text(self) -> None:
        left = re.compile(r"<(?:p|li|td)>(?:- |\* |\| |#+ )|^```|\]\([\w./#-]+\)", re.M)
        for page in self.html():
            text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text(encoding="utf-8"), flags=re.S)
            body = text[text.index("<article"):] if "<article" in text else ""
            self.assertIsNone(left.search(body), page)


class Checks(unittest.TestCase):
    """Each check finds a fault."""

    def test_links(self) -> None:
        page = DOCS / "index.md"
        faults = list(broken_links(page, "[a](nowhere.md) [b](glossary.md#nothing) [c](glossary.md#sending)"))
        self.assertEqual([fault.split(":")[0] for fault in faults], ["nowhere.md", "glossary.md#nothing"])
        self.assertEqual(list(broken_links(page, "```\n[a](nowhere.md)\n```\n[x](https://example.org)")), [])

    def test_paths(self) -> None:
        self.assertEqual(list(missing_paths("`crates/core/` `crates/nothing.rs` `docs/*.md`")), ["crates/nothing.rs"])

    def test_anchors(self) -> None:
        self.assertEqual(anchor("`tidegate send`, and *more*: it's here"), "tidegate-send-and-more-its-here")

    def test_foreign(self) -> None:
        loads = '<script src="https://cdn.example/x.js"></script><link rel="stylesheet" href="//fonts.example/a.css">'
        self.assertEqual(foreign(loads), ["https://cdn.example/x.js", "//fonts.example/a.css"])
        self.assertEqual(foreign("@import url(https://fonts.example/b.css)"), ["https://fonts.example/b.css"])
        self.assertEqual(foreign('<a href="https://example.org">x</a><img src="images/a.svg">'), [])

    def test_links_to_sources_become_text(self) -> None:
        markdown = "[`a`](../README.md) [b](../gone.rs) [c](glossary.md) ![d](images/flow.svg)"
        changed, missing = sources.without_sources(markdown, DOCS / "index.md", DOCS)
        self.assertEqual(changed, "`a` b [c](glossary.md) ![d](images/flow.svg)")
        self.assertEqual(missing, ["../gone.rs"])


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    unittest.main()
