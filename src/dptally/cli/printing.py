"""How results are printed: JSON, a table on a terminal, CSV into a pipe, and remarks.

A key is never markup and never reaches a terminal raw: what is not printable is written out. CSV and JSON carry keys as
they are, in the escapes of those formats, and keys of bytes in hexadecimal.
"""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from dptally.labels import key_label, printable

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from dptally.releases.base import Release

_ROWS_ON_TERMINAL = 50
_ROWS_AT_ONCE = 1 << 16
_LONGEST_KEY = 60
_GAP = 2  # between columns


def print_json(data: object) -> None:
    """Print one JSON value, in ASCII, so that no key can act on a terminal."""
    json.dump(data, sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def json_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as objects; dates in ISO form, bytes in hexadecimal, whatever JSON lacks as text."""
    return [{name: _json_value(part) for name, part in row.items()} for row in frame.iter_rows(named=True)]


def _json_value(part: object) -> object:
    if isinstance(part, bytes):
        return part.hex()
    if part is None or isinstance(part, bool | int | str) or (isinstance(part, float) and math.isfinite(part)):
        return part
    isoformat = getattr(part, "isoformat", None)
    return isoformat() if callable(isoformat) else str(part)


def describe(release: Release) -> dict[str, Any]:
    """What a release says about itself, for JSON."""
    facts, guarantee = release.describe(), release.guarantee
    floats = {"epsilon_float": float(guarantee.epsilon), "delta_float": float(guarantee.delta)}
    return {**facts, "guarantee": {**facts["guarantee"], **floats}}


def say(text: str = "", *, style: str = "", remark: bool = False) -> None:
    """Print a paragraph; a remark goes to standard error."""
    from rich.text import Text

    console = _console(remark=remark)
    safe = "\n".join(printable(line) for line in text.split("\n"))
    console.print(Text(safe, style=style), soft_wrap=not console.is_terminal)


def say_guarantee(release: Release, *, remark: bool = False, label: str = "Certificate") -> None:
    """Say what a release guarantees and what was verified."""
    say(str(release.guarantee), style="" if release.guarantee.private else "bold red", remark=remark)
    say(f"{label}: {release.certificate}", remark=remark)


def print_rows(release: Release, frame: pl.DataFrame) -> None:
    """Print rows of a release: a table with at most 50 rows on a terminal, all of them as CSV otherwise."""
    if sys.stdout.isatty():
        print_frame(release, frame.head(_ROWS_ON_TERMINAL))
        if len(frame) > _ROWS_ON_TERMINAL:
            say(f"... and {len(frame) - _ROWS_ON_TERMINAL:,} more; write them to a file with -o or >.", remark=True)
        return
    for start in range(0, max(1, len(frame)), _ROWS_AT_ONCE):
        rows = bytes_in_hexadecimal(frame.slice(start, _ROWS_AT_ONCE))
        sys.stdout.write(rows.write_csv(include_header=start == 0))


def bytes_in_hexadecimal(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns of bytes as text: CSV has no bytes."""
    import polars as pl

    return frame.with_columns(pl.col(pl.Binary).bin.encode("hex"))


def print_frame(release: Release, frame: pl.DataFrame) -> None:
    """Print rows of a release as a table for people."""
    print_table(release.for_people(frame), keys=len(release.key))


def print_table(shown: pl.DataFrame, *, keys: int) -> None:
    """Print a table for people, of which the first columns are keys; what is too wide beside them is left out."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    console, cells = _console(), {}
    for place, name in enumerate(shown.columns):
        parts = shown.get_column(name).to_list()
        cells[name] = [key_label(name, longest=_LONGEST_KEY)]
        cells[name] += [key_label(part, longest=_LONGEST_KEY) if place < keys else _amount(part) for part in parts]
    widths = {name: _GAP + max(map(cell_len, column)) for name, column in cells.items()}
    left_out: list[str] = []
    for names in _least_important_first(shown.columns[keys:]):
        if sum(width for name, width in widths.items() if name not in left_out) - _GAP <= console.width:
            break
        left_out += names
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    kept = [name for name in cells if name not in left_out]
    for place, name in enumerate(kept):
        header, key = Text(cells[name][0], style="bold"), place < keys
        table.add_column(header, justify="left" if key else "right", overflow="fold", no_wrap=not key)
    for row in zip(*(cells[name][1:] for name in kept), strict=True):
        table.add_row(*map(Text, row))
    console.print(table)
    if left_out:
        missing = ", ".join(name for name in shown.columns if name in left_out)
        say(f"Left out, as the line is too short for them: {missing}; --json has all columns.", remark=True)


def _amount(part: object) -> str:
    return "-" if part is None else printable(part) if isinstance(part, str) else f"{part:,}"


def _least_important_first(names: list[str]) -> list[list[str]]:
    """In which order columns go: bounds of sums and the like, the last first; drawn values; others but the first."""
    own = [name.removesuffix("_lower") for name in names if name.endswith("_lower")]
    bounds = [[f"{name}_lower", f"{name}_upper"] for name in reversed(own)]
    others = [name for name in names if name != "value" and not name.endswith(("_lower", "_upper"))]
    return [*bounds, ["value"], *([name] for name in reversed(others[1:]))]


def print_table_or_csv(frame: pl.DataFrame, *, keys: int, shown: pl.DataFrame | None = None) -> None:
    """Print a table for people on a terminal, of what is shown of it, and all of it as CSV otherwise."""
    if sys.stdout.isatty():
        print_table(frame if shown is None else shown, keys=keys)
    else:
        sys.stdout.write(frame.write_csv())


def print_numbers(
    title: str, names: tuple[str, ...], rows: list[tuple[str, ...]], *, marked: int, labelled: bool = False
) -> None:
    """Print rows of numbers under a title, one row of them marked; `labelled` rows begin with a name, kept whole."""
    from rich.table import Table

    say(title, style="bold")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, name in enumerate(names):
        label = labelled and not place
        longest = max((len(row[0]) for row in rows), default=0) if label else None
        table.add_column(name, justify="left" if label else "right", no_wrap=label, min_width=longest)
    for place, row in enumerate(rows):
        table.add_row(*row, style="bold green" if place == marked else "")
    _console().print(table)


def _console(*, remark: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=remark, markup=False, highlight=False, emoji=False)
