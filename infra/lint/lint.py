"""What rustc and clippy do not check: one name for one thing, modules without cycles, small types.

    python3 infra/lint/lint.py [--root CHECKOUT]

Prints a line for each finding and ends with 1 if there is one. Only production code counts; tests do not.
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import takewhile
from pathlib import Path

# A name that stands for two things makes a reader look twice; a small part is tolerated.
REUSED_PERCENT = 3.0
# A type with more fields is several ideas. `// More than 12 fields: REASON` above it says why not.
FIELDS = 12
REASON = re.compile(r"// More than 12 fields: \w+")

TESTS = re.compile(r"(^|/)(tests|benches|examples|fuzz)/|(^|/)(\w+_)?tests?\.rs$|(^|/)testing\.rs$")
UNIT_TESTS = "#[cfg(test)]\nmod tests {"
EMPTY_OPENING = re.compile(r"^\s*//[/!] (What|Its)\b")
VISIBILITY = r"(?:pub(?:\([^)]*\))? )?"
TYPE = re.compile(rf"^{VISIBILITY}(?:struct|enum|trait|type) ([A-Z]\w+)", re.M)
STRUCT = re.compile(rf"^{VISIBILITY}struct (\w+)[^;{{\n]*\{{\n(.*?)^\}}", re.M | re.S)
FIELD = re.compile(rf"^    {VISIBILITY}\w+:", re.M)
DEFINED = re.compile(rf"^{VISIBILITY}(?:const |async )?(?:struct|enum|trait|type|fn|const|static) (\w+)", re.M)
USE = re.compile(rf"^({VISIBILITY})use ([^;]+);", re.M)
PATH = re.compile(r"\b((?:crate|super)(?:::\w+)+)")
COMMENT = re.compile(r"//.*")
# Of a use tree: a path, and whether it branches, is followed by another or is the last of its branches.
BRANCH = re.compile(r"([^{},]*)([{},]|$)")
# Who may use an item is no use of the module that is named.
VISIBLE_IN = re.compile(r"pub\(in [^)]*\)")


# A path, as in `crate::pace::grid`.
Names = tuple[str, ...]


@dataclass
class Module:
    """A file of production code; its path in its crate, and what it defines."""

    file: str
    crate: str
    path: Names
    text: str
    defines: set[str] = field(default_factory=set)
    # Names that it passes on from elsewhere: `pub use`.
    passes: dict[str, Names] = field(default_factory=dict)


def modules(root: Path) -> list[Module]:
    """All production files below `crates/`, unit tests cut off."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "crates/*.rs"], capture_output=True,
                            text=True, check=True).stdout.split()
    found = []
    for file in listed:
        if TESTS.search(file) or not (root / file).exists():
            continue
        crate, _, inside = file.removeprefix("crates/").partition("/src/")
        if not inside:
            continue
        parts = inside.removesuffix(".rs").split("/")
        if parts[-1] in ("lib", "main", "mod"):
            parts.pop()
        text = (root / file).read_text().split(UNIT_TESTS)[0]
        found.append(Module(file, crate, tuple(parts), text, set(DEFINED.findall(text))))
    return found


def reused_names(all_modules: list[Module]) -> Iterator[str]:
    places = defaultdict(list)
    for module in all_modules:
        for name in TYPE.findall(module.text):
            places[name].append(module.file)
    reused = {name: files for name, files in places.items() if len(files) > 1}
    percent = 100 * len(reused) / max(1, len(places))
    if percent > REUSED_PERCENT:
        yield f"{percent:.1f} % of {len(places)} type names stand for more than one thing; allowed are {REUSED_PERCENT} %:"
        for name, files in sorted(reused.items()):
            yield f"  {name}: {', '.join(files)}"


def empty_openings(all_modules: list[Module]) -> Iterator[str]:
    """Doc comments that begin with a word that says nothing yet."""
    for module in all_modules:
        for number, line in enumerate(module.text.split("\n"), 1):
            if EMPTY_OPENING.match(line):
                yield f"{module.file}:{number}: a comment says what a thing is, not \"What …\" or \"Its …\""


def large_types(all_modules: list[Module]) -> Iterator[str]:
    for module in all_modules:
        for found in STRUCT.finditer(module.text):
            count = len(FIELD.findall(found[2]))
            above = module.text[:found.start()].rsplit("\n\n", 1)[-1]
            if count > FIELDS and not REASON.search(above):
                line = module.text.count("\n", 0, found.start()) + 1
                yield (f"{module.file}:{line}: {found[1]} has {count} fields; allowed are {FIELDS}, or the "
                       "reason in a line above: // More than 12 fields: …")


def spread(tree: str) -> Iterator[Names]:
    """The paths of a use tree: `a::{b, c::d}` is `a::b` and `a::c::d`."""
    above: list[Names] = [()]
    for words, mark in BRANCH.findall(tree):
        path = above[-1] + tuple(word.split(" as ")[0].strip() for word in words.split("::") if word.strip())
        if mark == "{":
            above.append(path)
        elif words.strip():
            yield path
        if mark == "}":
            above.pop()


def absolute(module: Module, path: Names) -> Names | None:
    """A path from the crate's root; none for another crate's."""
    if path[0] not in ("crate", "self", "super"):
        return None
    at = () if path[0] == "crate" else module.path
    above = len(list(takewhile(lambda part: part == "super", path)))
    return at[:len(at) - above] + path[above or 1:]


# A crate's modules by path.
Crate = dict[Names, Module]


def owner(crate: Crate, path: Names, seen: frozenset[Names] = frozenset()) -> Module | None:
    """The module that defines what a path names, through what others pass on."""
    above = (path[:length] for length in range(len(path), -1, -1))
    place = next((place for place in above if place in crate), None)
    if place is None:
        return None
    module, rest = crate[place], path[len(place):]
    if not rest or rest[0] in module.defines or rest[0] not in module.passes:
        return module
    target = module.passes[rest[0]] + rest[1:]
    return module if target in seen else owner(crate, target, seen | {target})


def crates(all_modules: list[Module]) -> dict[str, Crate]:
    found: dict[str, Crate] = defaultdict(dict)
    for module in all_modules:
        found[module.crate].setdefault(module.path, module)
    for module in all_modules:
        for visibility, tree in USE.findall(module.text):
            for path in spread(tree):
                target = absolute(module, path) or module.path + path
                if visibility and path[-1] != "*":
                    module.passes[path[-1]] = target
    return found


def needs(module: Module, crate: Crate) -> set[str]:
    """The files of the same crate that a module uses names of."""
    paths = [path for visibility, tree in USE.findall(module.text) if not visibility for path in spread(tree)]
    bare = VISIBLE_IN.sub("", COMMENT.sub("", USE.sub("", module.text)))
    paths += [tuple(path.split("::")) for path in PATH.findall(bare)]
    found = set()
    for path in paths:
        target = absolute(module, path)
        if target is None and module.path + path[:1] in crate:
            target = module.path + path
        defining = owner(crate, target) if target is not None else None
        if defining is not None and defining is not module:
            found.add(defining.file)
    return found


def cycles(all_modules: list[Module]) -> Iterator[str]:
    for name, crate in sorted(crates(all_modules).items()):
        graph = {module.file: needs(module, crate) for module in crate.values()}
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as found:
            yield f"{name}: these files need each other: {', '.join(sorted(set(found.args[1])))}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="the checkout [this one]")
    all_modules = modules(parser.parse_args().root)
    findings = [*reused_names(all_modules), *empty_openings(all_modules), *large_types(all_modules),
                *cycles(all_modules)]
    for finding in findings:
        print(finding, file=sys.stderr)
    if not findings:
        print(f"lint: {len(all_modules)} files: names, comments, sizes and cycles are as they should be")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
