"""Docstrings are plain text with backticks; this makes reStructuredText read them so.

- A paragraph that is indented after a blank line is a formula: it is shown as it stands.
- Lists need no blank line before and after them.
- A bar or a trailing underscore is a character, not markup.

What is overloaded for type checkers is shown by its one real signature.
"""

from __future__ import annotations

import re
from typing import Any

_BEFORE_NAPOLEON = 400
_OVERLOADED = ("dptally.publishing",)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx when to call."""
    app.connect("autodoc-process-docstring", _rewrite, priority=_BEFORE_NAPOLEON)
    app.connect("builder-inited", _forget_overloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _forget_overloads(app: Any) -> None:
    from sphinx.pycode import ModuleAnalyzer

    for name in _OVERLOADED:
        analyzer = ModuleAnalyzer.for_module(name)  # kept by Sphinx
        analyzer.analyze()
        analyzer.overloads.clear()


def _rewrite(app: Any, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    written: list[str] = []
    last = ""  # the line before that is not blank
    bullet: int | None = None  # indentation of the list that is open
    formula: int | None = None  # indentation of the formula that is open
    for line in lines:
        indent = len(line) - len(line.lstrip())
        after_blank = not written or not written[-1]
        if not line:
            written.append(line)
            continue
        if formula is not None and indent >= formula:
            written.append(line)
            continue
        formula = None
        if line.lstrip().startswith("- "):
            if bullet is None and not after_blank:
                written.append("")
            bullet = indent
        elif bullet is not None and indent <= bullet:
            if not after_blank:
                written.append("")
            bullet = None
        if bullet is None and after_blank and last and indent > _indent(last) and not last.startswith(">>>"):
            formula = indent
            written += [" " * _indent(last) + "::", "", line]
        else:
            written.append(_escaped(line))
        last = line
    lines[:] = written


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _escaped(line: str) -> str:
    pieces = re.split(r"(`+[^`]*`+)", line)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"\||(?<=\w)_(?!\w)", lambda mark: "\\" + mark[0], piece)
        for piece in pieces
    )
