"""What units add to sums, against dictionaries; and how far one unit more can move them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from dptally.laws.spec import Question
from dptally.laws.statistics import FINE, Statistics, read_statistics
from dptally.laws.statistics_law import StatisticsLaw
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries.unit_pairs import UnitPairs
from tests.exact.key_rounds_settings import chooser

KEYS = [f"key {place}" for place in range(7)]
FOUND = KEYS[:4]
KEPT, CAP = 3, 2
_NEIGHBOURS = 1500
Sums = dict[str, dict[Any, int]]


class _Law:
    """As much of a law as statistics need."""

    def __init__(self, statistics: StatisticsLaw) -> None:
        self.statistics = statistics


def law_of(asked: Statistics, kept: int = KEPT, cap: int = CAP) -> StatisticsLaw:
    """Some noise for what is asked."""
    return StatisticsLaw.within(asked, 0.5, kept, cap, Fraction(1), Fraction(1, 10**6))


def sums_of(
    rows: list[tuple[Any, ...]],
    asked: Statistics,
    *,
    unit: str | None = "u",
    kept: int = KEPT,
    engine: str = "auto",
    released: Sequence[str] = FOUND,
) -> Sums:
    """The exact sums of every part, by key; those of the whole under None."""
    schema = {"u": pl.Int64, "k": pl.String, "x": pl.Float64, "y": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    every_row = asked.reads_values
    opened = open_rows(frame, key="k", unit=unit, clipped=asked.columns, every_row=every_row, engine=engine)
    law = law_of(asked, kept)
    found = pa.table({"k": list(released), "value": [1] * len(released)})
    parameters = {"found": found, "every_row": every_row}
    question = Question(_Law(law), None, kept, "found_statistics", parameters)
    read = UnitPairs(opened, bits=SeededBits(1), memory_limit=None, progress=None, every_row=every_row)
    with read as pairs, pairs.summarise(question, SeededBits(2)) as summary:
        keys = summary.keys.column("k").to_pylist()
        sums = {name: numbers.tolist() for name, numbers in summary.sums.items()}
    named = {part.name: dict(zip(keys, sums[part.name], strict=True)) for part in law.of_keys}
    return named | {part.name: {None: sums[part.name][0]} for part in law.of_all}


ASKED: dict[str, dict[str, Any]] = {
    "added": {"sums": {"x": (0, 10)}, "totals": True},
    "averaged": {"means": {"x": (-2, 7)}, "sums": {"y": ("-0.5", "0.25")}, "combine_rows": "average"},
    "added, from a middle": {"means": {"x": (5, 10), "y": (-10, -5)}, "combine_rows": "add", "totals": True},
    "rows": {"count": "rows", "max_rows_per_unit_and_key": 2, "means": {"x": (0, 1)}, "totals": True},
    "added, from zero": {"sums": {"x": (2, 10)}, "shares": {"counts": "0.001"}},
    "rows alone": {"count": "rows", "max_rows_per_unit_and_key": 3},
    "totals alone": {"totals": True},
}
ODD = [0.0, -0.0, 1.0, 2.5, 9.75, -3.0, 1e300, -1e300, math.inf, -math.inf, math.nan, None, 1e-300, 3.0000001]


def random_unit(choose: Any, unit: int, most: int) -> list[tuple[Any, ...]]:
    """Rows of one unit: up to so many keys, a few rows for each, values of any kind."""
    keys = choose.sample(KEYS, choose.randint(1, most))
    return [
        (unit, key, choose.choice(ODD), choose.choice(ODD)) for key in keys for _ in range(choose.choice((1, 1, 2, 5)))
    ]


def reference(rows: list[tuple[Any, ...]], asked: Statistics) -> Sums:
    """The same, from dictionaries, for units with no more keys than are kept."""
    pairs: dict[tuple[Any, str], list[tuple[Any, Any]]] = defaultdict(list)
    for unit, key, x, y in rows:
        pairs[unit, key].append((x, y))
    law = law_of(asked)
    sums: Sums = {part.name: dict.fromkeys(FOUND, 0) for part in law.of_keys}
    for (_, key), values in pairs.items():
        if key not in FOUND:
            continue
        for part in law.of_keys:
            if part.kind in ("count", "units"):
                sums[part.name][key] += 1
            elif part.kind == "rows":
                sums[part.name][key] += min(len(values), part.limit)
            else:
                assert part.column is not None
                column = asked.columns[part.column]
                held = [pair["xy".index(column.column)] for pair in values]
                steps = [fine(value, column) for value in held if value is not None and not math.isnan(value)]
                if part.kind == "nulls":
                    sums[part.name][key] += not steps
                elif steps:
                    total = sum(steps) if column.combine == "add" else int(Fraction(sum(steps), len(steps)))
                    low, high, centre = map(column.fine, (column.low, column.high, column.centre))
                    sums[part.name][key] += max(-FINE, min(FINE, max(low, min(high, total)) - centre))
    others: dict[Any, int] = defaultdict(int)
    for unit, key in pairs:
        others[unit] += key not in FOUND
    whole = {"all_units": len(others), "other": sum(min(CAP, count) for count in others.values())}
    return sums | {part.name: {None: whole[part.kind]} for part in law.of_all}


def fine(value: float, column: Any) -> int:
    """A row in fine steps; halves away from zero, as the engine rounds."""
    scaled = max(-(2.0**60), min(2.0**60, value * float(FINE / column.reach)))
    return math.floor(abs(scaled) + 0.5) * (1 if scaled >= 0 else -1)


@pytest.mark.parametrize("name", ASKED)
def test_sums_are_those_of_dictionaries(name: str) -> None:
    """Every part of every rule, on values of any kind, by DuckDB and by Polars."""
    asked = read_statistics(unit="u", **ASKED[name])
    assert asked is not None
    choose = chooser(f"sums {name}")
    rows = [row for unit in range(60) for row in random_unit(choose, unit, KEPT)]
    choose.shuffle(rows)
    assert sums_of(rows, asked) == reference(rows, asked)
    assert sums_of(rows, asked, engine="polars") == reference(rows, asked)


@pytest.mark.parametrize("name", ASKED)
def test_one_unit_more_moves_no_more_than_its_limits(name: str) -> None:
    """1,500 random neighbours for every rule, 10,500 in all: limits of parts, the same few keys, a value or none.

    Each has keys of its own, so that all of them are read at once; the unit more may have more keys and rows than
    count. What is added up over all keys is compared for all neighbours together.
    """
    asked = read_statistics(unit="u", **ASKED[name])
    assert asked is not None
    law, choose = law_of(asked), chooser(f"neighbours {name}")
    without: list[tuple[Any, ...]] = []
    more: list[tuple[Any, ...]] = []
    for place in range(_NEIGHBOURS):
        for unit in range(choose.randint(1, 4)):
            without += [(10 * place + unit, f"{place}/{key}", *rest) for _, key, *rest in random_unit(choose, 0, KEPT)]
        added = random_unit(choose, 0, len(KEYS))
        more += [(10 * place + 9, f"{place}/{key}", *rest) for _, key, *rest in added]
    both = without + more
    choose.shuffle(both)
    released = sorted({key for _, key, *_ in both if key.partition("/")[2] in FOUND})
    before, after = (sums_of(rows, asked, released=released) for rows in (without, both))
    moved: dict[str, set[str]] = defaultdict(set)
    for part in law.of_keys:
        steps = {key: total - before[part.name].get(key, 0) for key, total in after[part.name].items()}
        assert max(map(abs, steps.values())) == part.limit or part.kind == "values"
        assert max(map(abs, steps.values())) <= part.limit
        for key, step in steps.items():
            if step:
                moved[key.partition("/")[0]].add(key)
    assert max(map(len, moved.values())) == KEPT
    for part in law.of_all:
        assert 0 < after[part.name][None] - before[part.name][None] <= _NEIGHBOURS * part.limit
    for place in range(len(asked.columns)):
        names = [f"noisy_{kind}_{place}" for kind in ("values", "nulls")]
        for key in after.get(names[1], {}):
            changes = [after[part][key] - before[part].get(key, 0) for part in names]
            assert not all(changes)  # a value, or none


def test_every_row_is_a_unit_of_its_own() -> None:
    """Without a unit each row adds to its key, and what was not found is counted row by row."""
    asked = read_statistics(sums={"x": (0, 10)}, totals=True)
    assert asked is not None
    rows = [(None, key, value, None) for key in KEYS for value in (1.0, 20.0, None)]
    found = sums_of(rows, asked, unit=None, kept=1)
    column = asked.columns[0]
    one = column.fine(Fraction(1)) - column.fine(column.centre) + FINE
    assert found["noisy_count"] == dict.fromkeys(FOUND, 3)
    assert found["noisy_values_0"] == dict.fromkeys(FOUND, one)
    assert found["noisy_all_units"] == {None: 21} and found["noisy_other"] == {None: 9}


def test_sums_do_not_overflow() -> None:
    """A million rows of 1e15 of one unit are its range and no more."""
    asked = read_statistics(sums={"x": (0, 10**15)}, unit="u")
    assert asked is not None
    column, law = asked.columns[0], law_of(asked)
    frame = pl.DataFrame({"u": np.zeros(10**6, dtype=np.int64), "k": "key 0", "x": 1e15})
    opened = open_rows(frame, key="k", unit="u", clipped=asked.columns, every_row=True)
    parameters = {"found": pa.table({"k": ["key 0"], "value": [1]}), "every_row": True}
    question = Question(_Law(law), None, KEPT, "found_statistics", parameters)
    read = UnitPairs(opened, bits=SeededBits(1), memory_limit=None, progress=None, every_row=True)
    with read as pairs, pairs.summarise(question, SeededBits(2)) as summary:
        assert summary.sums["noisy_values_0"].tolist() == [column.fine(column.high) - column.fine(column.centre)]
