"""A small real data set to try things on: the words of Shakespeare's Hamlet, line by line.

The text is in the public domain; where the copy comes from is in ``example_files/README.md``.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TypedDict

__all__ = ["REQUEST", "words", "write_words"]

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


class _Request(TypedDict):
    key: str
    unit: str
    max_keys_per_unit: int
    epsilon: str
    delta: str


REQUEST: _Request = {"key": "word", "unit": "line", "max_keys_per_unit": 3, "epsilon": "1", "delta": "1e-6"}
"""How the example is published."""


def words() -> Iterator[tuple[int, str]]:
    """Every word of the play in lower case, with the number of its line.

    >>> list(words())[:3]
    [(1, 'hamlet'), (2, 'dramatis'), (2, 'personae')]
    """
    packed = files("dptally").joinpath("cli/example_files/hamlet.txt.gz").read_bytes()
    for number, line in enumerate(gzip.decompress(packed).decode("utf-8").splitlines(), start=1):
        for word in _WORD.findall(line.lower()):
            yield number, word


def write_words(path: Path) -> int:
    """Write the words as CSV with the columns `line` and `word`, and return the number of rows."""
    rows = list(words())
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("line", "word"))
        writer.writerows(rows)
    return len(rows)
