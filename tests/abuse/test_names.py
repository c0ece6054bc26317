"""Names of columns that turn the direction of writing, or act on a terminal: written out wherever they are shown."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dptally
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.randomness import SeededBits
from tests.cli.conftest import Run, run

__all__ = ["run"]  # the fixture

NAMES = {
    "right to left": "user\u202egnp.exe",
    "isolated": "a\u2066b\u2069",
    "invisible": "a\u200bb\u00ad",
    "escape": "a\x1b[31mb",
    "line": "a\nb",
    "separator": "a\u2028b",
}


def shows_raw(text: str) -> set[str]:
    """Letters of a text that act on what is around them; line breaks are what a text is made of."""
    return {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp") and letter != "\n"}


@pytest.mark.parametrize("odd", NAMES)
def test_names_are_written_out(odd: str, tmp_path: Path, run: Run) -> None:
    """In the report, in every command for people, in the guarantee and in `repr`; keys, too."""
    name = NAMES[odd]
    unit = name + "2"
    rows = 900
    table = pa.table({name: ["x" + name] * rows, unit: list(range(rows)), "v": list(range(rows))})
    common: dict[str, Any] = {"epsilon": 1, "randomness": SeededBits(1)}
    made = {
        "table": dptally.publish(table, key=name, unit=unit, delta="1e-6", **common),
        "ranges": dptally.publish_quantiles(
            table.rename_columns([name + "3", unit, name]), value=name, unit=unit, low=0, high=999, mechanism="dense",
            **common,
        ),
        "tree": publish_heavy_hitters(table, key=name, unit=unit, delta="1e-6", levels=3, **common),
    }  # fmt: skip
    for kind, release in made.items():
        path, page = tmp_path / f"{kind}.parquet", tmp_path / f"{kind}.html"
        release.save(path)
        release.report(page)
        assert not shows_raw(page.read_text()), kind
        assert not shows_raw(repr(release) + str(release.guarantee)), kind
        for command in (("show", path), ("verify", path), ("show", path, "--json")):
            done = run(*command)
            assert done.status == 0 and not shows_raw(done.out + done.err), command
    title = tmp_path / "title.html"
    made["table"].report(title, title=name)
    assert not shows_raw(title.read_text())
