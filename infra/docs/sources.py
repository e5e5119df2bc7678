"""MkDocs' hook: links from the book to files beside it.

Pages link to sources as `../crates/core/src/pace/grid.rs`, which a code host's view of docs/ follows. The built book
holds no sources: there such a link becomes its text. A source that does not exist is a warning, which --strict
makes an error.
"""

import logging
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(((?:\.\./)+[^)\s]+)\)")
log = logging.getLogger("mkdocs.hooks.sources")


def without_sources(markdown: str, page: Path, docs: Path) -> tuple[str, list[str]]:
    """The page without its links to files outside of `docs`, and the targets that do not exist."""
    missing: list[str] = []

    def text(link: re.Match[str]) -> str:
        target = (page.parent / link[2].split("#")[0]).resolve()
        if target.is_relative_to(docs.resolve()):
            return link[0]
        if not target.exists():
            missing.append(link[2])
        return link[1]

    return LINK.sub(text, markdown), missing


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    changed, missing = without_sources(markdown, Path(page.file.abs_src_path), Path(config.docs_dir))
    for target in missing:
        log.warning("%s links to %s, which does not exist", page.file.src_path, target)
    return changed
