"""Pages that are programs: their Python blocks run one after the other, and what they print is shown after them.

To write anew what pages show, after a change of what is printed: ``python tests/docs/page_programs.py PAGE...``
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```\n)?", re.S | re.M)
_WIDTH = 84
_BOX = set("─│┆═╞╪╡┌┬┐└┴┘ ")


def run(page: Path) -> Iterator[tuple[str, str | None, str]]:
    """Run the blocks of a page in the current directory: for each its code, what the page shows, what it printed."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], str(page), "exec"), names)  # noqa: S102 - our own documentation
        yield block["code"], block["shown"], printed.getvalue()


def gist(text: str) -> list[str]:
    """The words of an output; whatever holds a digit counts as a number, and frames of tables do not count."""
    words = ("".join(" " if letter in _BOX else letter for letter in text)).split()
    return ["#" if re.search(r"\d", word) else word for word in words if set(word) != {"-"}]


def refresh(page: Path) -> None:
    """Replace what the page shows by what its blocks print; blocks after which nothing is shown stay so."""
    outputs = iter(list(_printed(page)))

    def renewed(block: re.Match[str]) -> str:
        printed = next(outputs)
        code = f"```python\n{block['code']}```\n"
        return code if block["shown"] is None else f"{code}\n```text\n{_wrapped(printed)}\n```\n"

    page.write_text(_BLOCK.sub(renewed, page.read_text(encoding="utf-8")), encoding="utf-8")


def _printed(page: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for _, _, printed in run(page):
            yield printed


def _wrapped(text: str) -> str:
    lines = text.rstrip().split("\n")
    return "\n".join(line if _BOX & set(line) - {" "} else "\n".join(textwrap.wrap(line, _WIDTH)) for line in lines)


if __name__ == "__main__":
    os.environ["DPTALLY_DATA"] = os.devnull
    for name in sys.argv[1:]:
        refresh(Path(name).resolve())
