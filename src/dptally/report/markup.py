"""HTML and SVG put together so that text can never become markup: whatever is not `Markup` is escaped.

What is not printable, as changes of the writing direction, is written out: no text acts on what is around it.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from string import Template

from dptally.labels import printable

_SPACES = "\n\u00a0\u202f"
_VOID = frozenset({"br", "hr", "input", "link", "meta", "wbr"})


class Markup(str):
    """Text that is markup already. Made by `tag` and `join`; anything else is escaped."""

    __slots__ = ()


Child = str | Iterable["Child"] | None


def join(*children: Child) -> Markup:
    """Children one after the other: markup as it is, text escaped, None left out.

    >>> join("a < b", tag("b", "&"))
    'a &lt; b<b>&amp;</b>'
    """
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(_text(child))
        else:
            parts.append(join(*child))
    return Markup("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """An element; its name and the names of attributes are ours, never somebody's text.

    Of attributes a trailing underscore is dropped (`class_`), others become hyphens; True stands for an attribute
    without a value; None and False leave it out.

    >>> tag("a", "x", class_="k", aria_label='say "x"')
    '<a class="k" aria-label="say &quot;x&quot;">x</a>'
    """
    written = ""
    for given, setting in attributes.items():
        if setting is None or setting is False:
            continue
        attribute = given.rstrip("_").replace("_", "-")
        written += f" {attribute}" if setting is True else f' {attribute}="{_text(str(setting))}"'
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def listed(*children: Child) -> Markup:
    """A list."""
    return tag("ul", [tag("li", child) for child in children if child is not None])


def fill(template: str, **parts: Child) -> Markup:
    """A file of ours with parts put in where it says ``$name``: markup as it is, text escaped. Its lines are joined.

    >>> fill("<p>$word</p>", word="a < b")
    '<p>a &lt; b</p>'
    """
    lines = "".join(line.strip() for line in template.splitlines())
    return Markup(Template(lines).substitute({name: join(part) for name, part in parts.items()}))


def _text(text: str) -> str:
    return html.escape(printable(text, keep=_SPACES), quote=True)
