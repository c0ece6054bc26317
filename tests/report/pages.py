"""A page taken apart with the standard library's parser, for tests without a browser."""

from __future__ import annotations

from html.parser import HTMLParser

__all__ = ["VOID", "Page"]

VOID = {"br", "hr", "input", "link", "meta", "wbr"}


class Page(HTMLParser):
    """Elements, their attributes and texts; `problems` says where the markup is not well formed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: dict[str, list[str]] = {}
        self.problems: list[str] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        self.problems += [f"<{name}> is not closed" for name, _ in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> has an attribute twice")
        self.elements.append((tag, {name: given or "" for name, given in attrs}))
        if tag not in VOID:
            self._open.append((tag, []))

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        if not self._open or self._open[-1][0] != tag:
            self.problems.append(f"</{tag}> closes something else")
            return
        _, parts = self._open.pop()
        text = "".join(parts)
        self.texts.setdefault(tag, []).append(text)
        if self._open:
            self._open[-1][1].append(text)

    def handle_data(self, data: str) -> None:
        """Text."""
        if self._open:
            self._open[-1][1].append(data)

    def all(self, name: str) -> list[dict[str, str]]:
        """The attributes of all elements of a name."""
        return [attributes for found, attributes in self.elements if found == name]
