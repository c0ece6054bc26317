"""A figure's numbers as a small table of text."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from dptally.files import complete_or_absent

__all__ = ["Row", "Table"]

Row = dict[str, str | int | float]


@dataclass(frozen=True)
class Table:
    """The numbers of one figure.

    Attributes:
        name: of the file, without an ending.
        rows: with the same columns each.
    """

    name: str
    rows: list[Row]

    def text(self) -> str:
        """The table as CSV; floats with six significant digits, so that it does not depend on the machine."""
        lines = [",".join(self.rows[0])]
        lines += [",".join(_written(value) for value in row.values()) for row in self.rows]
        return "\n".join(lines) + "\n"

    def save(self, folder: Path) -> Path:
        """Write it; an existing one is replaced in one step."""
        place = folder / f"{self.name}.csv"
        with complete_or_absent(place, overwrite=True) as file:
            file.write(self.text().encode())
        return place

    @classmethod
    def read(cls, path: Path) -> Table:
        """Read a table back; numbers become floats."""
        with path.open(newline="") as file:
            rows: list[Row] = [{name: _read(value) for name, value in row.items()} for row in csv.DictReader(file)]
        return cls(path.stem, rows)


def _written(value: str | float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _read(value: str) -> str | float:
    try:
        return float(value)
    except ValueError:
        return value
