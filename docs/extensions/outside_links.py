"""Links to files beside the documentation, which a site does not hold.

Pages link to files as they lie in the repository, so that links also work where the repository is browsed. What has a
page of its own on the site is linked to that page; other files are named.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/README.md": "benchmarks.md",
    "docs/references.bib": "references.md",
}
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```)", re.S | re.M)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx when to call."""
    app.connect("source-read", _inside)
    app.connect("include-read", lambda app, path, page, source: _inside(app, page, source, Path(path).parent))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inside(app: Any, page: str, source: list[str], beside: Path | None = None) -> None:
    docs = Path(app.srcdir).resolve()
    folder = (docs / page).parent
    start = folder if beside is None else (docs / beside).resolve()

    def link(found: re.Match[str]) -> str:
        target = (start / found[2]).resolve()
        name = os.path.relpath(target, docs.parent)
        if name in _PAGES:
            return f"[{found[1]}]({os.path.relpath(docs / _PAGES[name], folder)})"
        if target.is_relative_to(docs):
            return f"[{found[1]}]({os.path.relpath(target, folder)}{found[3] or ''})"
        return found[1]

    parts = _FENCE.split(source[0])
    source[0] = "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in parts)
