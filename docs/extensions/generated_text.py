"""Text that is made from the code when the site is built.

A page asks for it by a comment of its own line:

- ``<!-- generated: names publish plan ... -->`` entries of these public names, from their docstrings;
- ``<!-- generated: other names -->`` entries of all public names that the page has not listed, so that none is missing;
- ``<!-- generated: module dptally.universes -->`` the entries of a public module;
- ``<!-- generated: pages ledger report ... -->`` in a table of contents, those of these pages that are there;
- ``<!-- generated: other pages -->`` there too, pages beside this one that it does not mention, so that none is lost;
- ``<!-- generated: commands -->`` the command line, from its parser;
- ``<!-- generated: references -->`` the bibliography, from references.bib;
- ``<!-- generated: fragments -->`` what changed since the last release, from changelog.d.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import command_line
from bibliography import entries

import dptally

_MARK = re.compile(r"^<!-- generated: (.+?) -->$", re.M)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx when to call."""
    app.connect("source-read", _fill)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _fill(app: Any, page: str, source: list[str]) -> None:
    text = source[0]
    source[0] = _MARK.sub(lambda mark: _generated(mark[1], text, Path(app.srcdir)), text)


def _outdated(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Pages with generated text are read anew each time: the code may have changed."""
    return [page for page in env.found_docs if _MARK.search(Path(env.doc2path(page)).read_text(encoding="utf-8"))]


def _generated(wanted: str, page: str, folder: Path) -> str:
    kind, _, rest = wanted.partition(" ")
    if wanted == "commands":
        return command_line.markdown()
    if wanted == "references":
        return entries((folder / "references.bib").read_text(encoding="utf-8"))
    if wanted == "fragments":
        return _fragments(folder.parent / "changelog.d")
    if wanted == "other names":
        listed = {name for mark in _MARK.findall(page) if mark.startswith("names ") for name in mark.split()[1:]}
        return _entries([name for name in dptally.__all__ if name not in listed])
    if kind == "names":
        return _entries(rest.split())
    if wanted == "other pages":
        beside = sorted(file.stem for file in folder.glob("*.md"))
        return "\n".join(name for name in beside if name != "index" and not re.search(rf"\b{name}\b", page))
    if kind == "pages":
        return "\n".join(name for name in rest.split() if (folder / f"{name}.md").exists())
    if kind == "module":
        options = f"   :members:\n   :imported-members:\n   :exclude-members: {', '.join(dptally.__all__)}\n"
        return f"```{{eval-rst}}\n.. automodule:: {rest}\n{options}```"
    raise ValueError(f"nothing is generated for {wanted!r}")


def _entries(names: list[str]) -> str:
    return "\n\n".join(f"```{{eval-rst}}\n.. auto{_kind(name)}:: dptally.{name}\n{_members(name)}```" for name in names)


def _fragments(folder: Path) -> str:
    parts = []
    for kind in ("privacy", "added", "changed", "fixed", "removed"):
        found = [file.read_text(encoding="utf-8").strip() for file in sorted(folder.glob(f"*.{kind}.md"))]
        if found:
            parts.append(f"### {kind.capitalize()}")
            parts.append("\n".join(text if text.startswith("- ") else f"- {text}" for text in found))
    return "\n\n".join(parts)


def _kind(name: str) -> str:
    found = getattr(dptally, name)
    if inspect.isclass(found):
        return "exception" if issubclass(found, BaseException) else "class"
    return "function" if callable(found) else "data"


def _members(name: str) -> str:
    return "   :members:\n   :inherited-members: Exception, dict, tuple\n" if _kind(name) == "class" else ""
