"""Strings of symbols, and the names of their prefixes.

A value is written as text, a fixed number of characters for each symbol: itself for "characters", two hexadecimal
digits for each byte of "utf8", a binary digit for each bit of "bits". A node of the tree is named by the text of a
prefix and one more character: ``*`` if values go on after it, ``$`` if the value ends there. So every value that begins
with ``to`` and is longer belongs to the node ``to*``, and the value ``to`` itself to ``to$``; the last character
decides, whatever characters values hold. The root is ``*``.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count

DomainName = Literal["characters", "utf8", "bits"]
OPEN, ENDED = "*", "$"
ROOT = OPEN
LARGEST_LENGTH = 10_000  # symbols
_SYMBOLS: dict[str, tuple[int, str | None]] = {
    "characters": (1, None),
    "utf8": (2, "0123456789abcdef"),
    "bits": (1, "01"),
}
_LARGEST_WIDTH = 64


@dataclass(frozen=True)
class Domain:
    """Which strings values are.

    >>> Domain("characters").node("tomorrow", 2), Domain("characters").node("to", 2), Domain("bits", 4).node(5, 2)
    ('to*', 'to$', '01*')
    """

    # "characters" (Unicode code points), "utf8" (bytes of UTF-8) or "bits" (of whole numbers, highest first)
    name: DomainName
    width: int | None = None  # for "bits" the number of bits, from 1 to 64; otherwise None

    def __post_init__(self) -> None:
        if self.name not in _SYMBOLS:
            raise InvalidParameter(f"domain must be one of {', '.join(map(repr, _SYMBOLS))}, got {self.name!r}.")
        if (self.name == "bits") != (self.width is not None):
            raise InvalidParameter("width must be given for the domain 'bits', and only for it.")
        if self.width is not None:
            as_count("width", self.width, largest=_LARGEST_WIDTH)

    @property
    def symbol(self) -> int:
        """Characters of text for each symbol."""
        return _SYMBOLS[self.name][0]

    def text(self, value: object) -> str:
        """The symbols of a value as text.

        Raises:
            InvalidParameter: for a value that is not of the domain; the message does not show it.
        """
        if self.name == "bits":
            return self._bits(value)
        if self.name == "utf8" and isinstance(value, bytes):
            return value.hex()
        if isinstance(value, str):
            # Looked for rather than tried: an error of `encode` would hold the text.
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise InvalidParameter("a value holds text that is not valid Unicode.")
            return value.encode().hex() if self.name == "utf8" else value
        raise InvalidParameter(f"a value of the domain {self.name!r} must be text, got {type(value).__name__}.")

    def _bits(self, value: object) -> str:
        number = -1
        if not isinstance(value, bool):
            try:
                number = operator.index(value)  # type: ignore[arg-type]
            except TypeError:
                raise InvalidParameter(
                    f"a value of the domain 'bits' must be a whole number, got {type(value).__name__}."
                ) from None
        if self.width is None or not 0 <= number < 1 << self.width:
            raise InvalidParameter(f"a value is not a whole number from 0 to 2^{self.width} - 1.")
        return format(number, f"0{self.width}b")

    def node(self, value: object, length: int) -> str:
        """The node that a value belongs to where prefixes have `length` symbols."""
        return self.node_of_text(self.text(value), length)

    def node_of_text(self, text: str, length: int) -> str:
        """As `node`, for a value that is text already."""
        cut = length * self.symbol
        return text[:cut] + (OPEN if len(text) > cut else ENDED)

    def above(self, node: str, length: int) -> str:
        """The open node of `length` symbols that a longer node is below."""
        return node[: length * self.symbol] + OPEN

    def is_node(self, node: object, longer_than: int, length: int) -> bool:
        """Whether something names a node of a round: an open prefix of `length` symbols, or a value up to there.

        An ended node has more than `longer_than` symbols: values that ended before have no part in the round. (The
        empty value is the exception of the first round: nothing is before it.)
        """
        if not isinstance(node, str) or node[-1:] not in (OPEN, ENDED):
            return False
        text, alphabet = node[:-1], _SYMBOLS[self.name][1]
        whole, rest = divmod(len(text), self.symbol)
        if rest or whole > length or (alphabet is not None and text.strip(alphabet)):
            return False
        if alphabet is None and any("\ud800" <= letter <= "\udfff" for letter in text):
            return False
        if self.width is not None and (whole > self.width or (whole == self.width) != (node[-1] == ENDED)):
            return False
        if node[-1] == OPEN:
            return whole == length
        return whole > longer_than or whole == longer_than == 0

    def value(self, node: str) -> str | bytes | int:
        """The value of an ended node, or the prefix of an open one (for "bits" as text)."""
        text = node[:-1]
        if self.name == "bits":
            return int(text, 2) if node[-1] == ENDED else text
        if self.name == "utf8":
            data = bytes.fromhex(text)
            try:
                return data.decode()
            except UnicodeDecodeError:
                return data
        return text

    def label(self, node: str) -> str:
        """The value or prefix as text that can be read; bytes that are no text as escapes."""
        value = self.value(node)
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {"name": self.name, "width": self.width}

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Domain:
        """From plain data."""
        return cls(facts["name"], facts["width"])


def as_domain(domain: object, width: object = None) -> Domain:
    """Read a domain: a `Domain`, or its name and width."""
    if isinstance(domain, Domain):
        return domain
    if not isinstance(domain, str):
        raise InvalidParameter(f"domain must be a name such as 'characters', got {type(domain).__name__}.")
    return Domain(domain, None if width is None else as_count("width", width, largest=_LARGEST_WIDTH))  # type: ignore[arg-type]
