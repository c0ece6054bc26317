"""Public outputs as plain data: what is compared with the files of this folder, and how."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

import dptally

TOLERANCE = 1e-9
_LONG = 80  # a fraction of more digits is kept as its float and a hash
_WORDS = {"judge", "verifier", "format_version", "dptally_version", "seconds", "path", "note", "text", "bounds"}
_GUARANTEE = ("epsilon", "delta", "unit", "max_keys_per_unit", "mechanism", "private")
_FRACTION = re.compile(r"-?\d+(/\d+)?")
_NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?([eE][-+]?\d+)?( ?%)?")


def plain(value: Any) -> Any:
    """A value as JSON holds it: fractions as texts, tables as columns, times in ISO format."""
    if isinstance(value, pa.Table):
        value = pl.DataFrame(pl.from_arrow(value))
    if isinstance(value, pl.DataFrame):
        return {name: plain(value[name].to_list()) for name in value.columns}
    if isinstance(value, Fraction):
        return shortened(str(value))
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"no plain form of {type(value)}")


def shortened(text: str) -> str:
    """A fraction of hundreds of digits as its float and a hash of all its digits."""
    if len(text) <= _LONG or not _FRACTION.fullmatch(text):
        return text
    return f"{float(Fraction(text))!r} sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def rounded(value: Any) -> Any:
    """The same without hashes of fractions, for sums over curves whose last digits differ from run to run."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(value.split()[0]) if isinstance(value, str) and " sha256 " in value else value


def data_of(value: Any) -> Any:
    """JSON of a command without its words and paths: sentences, and names of other things, may change."""
    if isinstance(value, dict):
        kept = {name: data_of(part) for name, part in value.items() if name not in _WORDS}
        if isinstance(kept.get("guarantee"), dict):
            kept["guarantee"] = {name: part for name, part in kept["guarantee"].items() if name in _GUARANTEE}
        return {name: part for name, part in kept.items() if part is not Ellipsis}
    if isinstance(value, list):
        return [part for part in map(data_of, value) if part is not Ellipsis]
    if isinstance(value, str):
        return ... if " " in value or value.startswith("/") else shortened(value)
    return plain(value)


def guarantee(found: Any) -> dict[str, Any]:
    """The numbers of a guarantee."""
    return {name: plain(getattr(found, name)) for name in _GUARANTEE}


def certificate(found: Any) -> dict[str, Any]:
    """The numbers and the hash of a certificate."""
    return {name: plain(part) for name, part in vars(found).items() if name not in _WORDS}


def numbers_of(found: Any) -> dict[str, Any]:
    """The fields of a result that are no sentences."""
    return {
        name: plain(part)
        for name, part in vars(found).items()
        if name not in ("guarantee", "certificate") and not (isinstance(part, str) and " " in part)
    }


def attempt(ask: Callable[[], Any]) -> Any:
    """What a question gives; the type of our error where it is refused."""
    try:
        return ask()
    except dptally.DptallyError as error:
        return {"refused": type(error).__name__}


def signed(release: Any) -> dict[str, Any]:
    """What any release says of its guarantee, and what verifying it finds."""
    return {
        "length": len(release) if hasattr(release, "__len__") else None,
        "guarantee": guarantee(release.guarantee),
        "certificate": certificate(release.certificate),
        "verify": certificate(release.verify()) == certificate(release.certificate),
    }


def of_table(release: Any) -> dict[str, Any]:
    """All that a table of keys answers."""
    name = release.key[0]
    first = release.table()[release.key[0]].to_list() if len(release.key) == 1 else []
    return {
        **signed(release),
        "table": plain(release.table()),
        "table_at_half": plain(release.table(confidence="0.5").drop(*release.key, "value", "estimate")),
        "top": plain(release.top(5)),
        "sum": attempt(lambda: numbers_of(release.sum())),
        "sum_of_some": attempt(lambda: numbers_of(release.sum(pl.col(name) > release.table()[name].min()))),
        "sum_where": attempt(lambda: numbers_of(release.sum("value > 30"))),
        "sum_of_keys": attempt(lambda: numbers_of(release.sum(of="keys", confidence="0.8"))),
        "sum_of_powers": attempt(lambda: numbers_of(release.sum(of="power:0.5", kind="mle"))),
        "sum_capped": attempt(lambda: numbers_of(release.sum(of="capped:50", kind="lower"))),
        "sum_of_products": attempt(lambda: numbers_of(release.sum(times="2"))),
        "ranks": [release.rank(key) for key in first[:5]],
        "quantiles": [attempt(lambda share=share: plain(release.quantile(share))) for share in (0, "0.25", "0.5", 1)],
        "accuracy": attempt(lambda: plain(release.accuracy([1, 10, 30, 100]))),
        "sketch_error": attempt(lambda: numbers_of(release.sketch_error())),
    }


def of_ranges(release: Any) -> dict[str, Any]:
    """All that a tree of counts answers."""
    low, high = release.grid.interval(1)[0], release.grid.interval(release.grid.bins // 2)[1]
    return {
        **signed(release),
        "table": plain(release.table()),
        "nodes": plain(release.nodes()),
        "quantiles": [numbers_of(release.quantile(share)) for share in (0, "0.1", "0.5", "0.99", 1)],
        "quantile_at_half": numbers_of(release.quantile("0.25", confidence="0.5")),
        "total": numbers_of(release.total()),
        "range": numbers_of(release.range(low, high)),
        "share": numbers_of(release.cdf(high)),
    }


def of_prefixes(tree: Any) -> dict[str, Any]:
    """All that a tree of prefixes answers."""
    return {
        **signed(tree),
        "table": plain(tree.table()),
        "leaves": plain(tree.leaves()),
        "top": plain(tree.top(5)),
        "counts": [[plain(name), count] for name, count in sorted(tree.frequencies().items(), key=str)],
    }


def of_compact(release: Any) -> dict[str, Any]:
    """All that a compact release answers, for the first keys of its universe."""
    keys = [release.universe.key(number) for number in range(8)]
    return {
        **signed(release),
        "capacity": release.capacity,
        "beyond_capacity": release.beyond_capacity,
        "coefficients": hashlib.sha256(str(release.coefficients).encode()).hexdigest(),
        "counts": plain(release.counts(keys)),
        "count": plain(tuple(release.count(keys[3], "0.8"))),
        "errors": [release.error(beta) for beta in ("0.5", "0.05", "1e-6")],
    }


def of_any(release: Any) -> dict[str, Any]:
    """All that a release answers, whatever kind it is."""
    if isinstance(release, dptally.CompactRelease):
        return of_compact(release)
    if isinstance(release, dptally.RangeRelease):
        return of_ranges(release)
    return of_prefixes(release) if hasattr(release, "leaves") else of_table(release)


def of_sketch(sketch: Any) -> dict[str, Any]:
    """What a sketch holds."""
    return {"length": len(sketch), "shortfall": sketch.shortfall, "items": plain(sketch.items())}


class _Cells(HTMLParser):
    """Texts of the cells of all tables."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        """Begin a cell."""
        if tag in ("td", "th"):
            self._inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a cell."""
        if tag in ("td", "th"):
            self._inside = False

    def handle_data(self, data: str) -> None:
        """Collect the text of a cell."""
        if self._inside:
            self.cells[-1] += data


def of_report(release: Any) -> dict[str, int]:
    """The cells of the tables of a report that are numbers, and how often each is there."""
    with TemporaryDirectory() as place:
        path = Path(place) / "report.html"
        dptally.report.write(release, path)
        page = _Cells()
        page.feed(path.read_text())
    cells = Counter(cell.strip() for cell in page.cells)
    return {cell: count for cell, count in sorted(cells.items()) if _NUMBER.fullmatch(cell)}


def differences(expected: Any, found: Any, place: str = "") -> list[str]:
    """Where two outputs differ; fields that are new are none."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [
            line
            for name, part in expected.items()
            for line in (
                differences(part, found[name], f"{place}.{name}") if name in found else [f"{place}.{name} is missing"]
            )
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            line
            for at, (one, other) in enumerate(zip(expected, found, strict=True))
            for line in differences(one, other, f"{place}[{at}]")
        ]
    if isinstance(expected, bool) or isinstance(found, bool) or not _both_numbers(expected, found):
        same = type(expected) is type(found) and expected == found
    else:
        same = expected == found or math.isclose(expected, found, rel_tol=TOLERANCE, abs_tol=1e-12)
    return [] if same else [f"{place}: {json.dumps(expected)[:200]} became {json.dumps(found)[:200]}"]


def _both_numbers(one: object, other: object) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return False  # whole numbers are compared exactly
    return isinstance(one, (int, float)) and isinstance(other, (int, float))
