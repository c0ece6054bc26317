"""A public interval of numbers, dates or times, cut into bins: how values become the leaves of a tree.

Everything here is part of the question, not of the data: it must be fixed without looking at the data.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count

Kind = Literal["integer", "number", "date", "timestamp"]
Outside = Literal["clamp", "drop"]
Value = int | float | datetime.date | datetime.datetime

LARGEST_RESOLUTION = 1 << 20
_DEFAULT_RESOLUTION = 1024
_LARGEST_TICK = 1 << 52  # whole numbers up to here, and their differences, are exact as floats
_NAMES: dict[Kind, str] = {"integer": "a whole number", "number": "a number", "date": "a date", "timestamp": "a time"}
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()


@dataclass(frozen=True)
class Grid:
    """Bins 0 .. bins-1; bin i holds the ticks from edge(i) to below edge(i + 1), where edge(i) = start + i width.

    A tick is a number for "number", a whole number for "integer", a day since 1970-01-01 for "date" and a microsecond
    since then for "timestamp" (without a zone, or UTC). Edges are evaluated as floats, one multiplication and one
    addition, here and in the counting engine alike; so a value is in exactly one bin, and in the same one everywhere.

    Values below the first edge or above `end` are counted in the first or last bin ("clamp"), or left out ("drop"). To
    refuse them would tell that there is one.
    """

    kind: Kind  # of the values
    start: int | float  # tick of the smallest value
    end: int | float  # tick of the largest value
    width: int | float  # ticks in a bin
    bins: int  # how many bins there are
    branching: int  # children of a node of the tree
    levels: int  # of the tree, without its root; branching^levels >= bins, and what is beyond `bins` does not exist
    outside: Outside = "clamp"  # "clamp" or "drop"

    @property
    def whole(self) -> bool:
        """Whether values are whole ticks, so that intervals include both ends: integers and dates."""
        return self.kind in ("integer", "date")

    def nodes(self, level: int) -> int:
        """How many nodes a level has, from 1 (children of the root) to `levels` (the bins)."""
        size: int = self.branching ** (self.levels - level)
        return -(-self.bins // size)

    def edge(self, place: int) -> int | float:
        """The tick at which a bin starts; for `bins` where the last one ends."""
        if place >= self.bins:
            return self.end + 1 if self.whole else self.end
        return self.start + place * self.width

    def bins_of(self, ticks: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each tick; -1 for what is left out (NaN, and outside values if they are dropped)."""
        given = np.asarray(ticks, dtype=np.float64)
        start, width = float(self.start), float(self.width)
        out = np.isnan(given)
        if self.outside == "drop":
            out |= (given < start) | (given > self.end)
        inside = np.clip(np.where(out, start, given), start, float(self.end))
        rough = np.floor((inside - start) / width)
        # Division rounds; the comparison with the edges decides.
        rough = np.where(
            inside < start + rough * width, rough - 1, np.where(inside >= start + (rough + 1) * width, rough + 1, rough)
        )
        return np.where(out, -1, np.clip(rough, 0, self.bins - 1).astype(np.int64))

    def bin_of(self, value: object) -> int | None:
        """The bin of one value, or None where it is left out."""
        if value is None:
            return None
        place = int(self.bins_of(np.array([self.tick("value", value)], dtype=np.float64))[0])
        return None if place < 0 else place

    def tick(self, name: str, value: object) -> int | float:
        """The tick of a value of this kind."""
        kind, tick = _tick(name, value)
        if {kind, self.kind} <= {"integer", "number"}:
            return tick
        if kind != self.kind:
            raise InvalidParameter(
                f"{name} must be {_NAMES[self.kind]} like the ends of the interval, got {_NAMES[kind]}."
            )
        return tick

    def place(self, tick: int | float) -> float:
        """Where a tick is, in bins from 0 to `bins`; a whole number exactly at an edge."""
        if tick <= self.start:
            return 0.0
        if tick >= (self.end + 1 if self.whole else self.end):
            return float(self.bins)
        place = int(self.bins_of(np.array([min(float(tick), float(self.end))]))[0])
        first, after = self.edge(place), self.edge(place + 1)
        part = (tick - first) / (after - first)
        return place + min(max(float(part), 0.0), 1.0)

    def value(self, tick: int | float) -> Value:
        """The value of a tick: a number, a date, or a time without a zone."""
        if self.kind == "number":
            return float(tick)
        if self.kind == "integer":
            return int(tick)
        if self.kind == "date":
            return datetime.date.fromordinal(int(tick) + _EPOCH_DAY)
        return _EPOCH + datetime.timedelta(microseconds=int(tick))

    def interval(self, place: int) -> tuple[Value, Value]:
        """The smallest and largest value of a bin; for continuous kinds the next bin's start."""
        first, after = self.edge(place), self.edge(place + 1)
        return self.value(first), self.value(after - 1 if self.whole else after)

    def facts(self) -> dict[str, Any]:
        """Plain data from which `Grid.read` makes the grid again."""
        return asdict(self)

    @classmethod
    def read(cls, facts: dict[str, Any]) -> Grid:
        """The grid that `facts` describe; ValueError or KeyError if they describe none."""
        kind, outside = facts["kind"], facts["outside"]
        if kind not in ("integer", "number", "date", "timestamp") or outside not in ("clamp", "drop"):
            raise ValueError("not a grid")
        number = float if kind == "number" else int
        start, end, width = (number(facts[name]) for name in ("start", "end", "width"))
        bins, branching, levels = (int(facts[name]) for name in ("bins", "branching", "levels"))
        sound = 1 <= bins <= 4 * LARGEST_RESOLUTION and branching >= 2 and 1 <= levels <= 64
        if not (sound and branching ** (levels - 1) < max(bins, 2) <= branching**levels and width > 0 and start <= end):
            raise ValueError("not a grid")
        if not (math.isfinite(start) and math.isfinite(end) and math.isfinite(width)):
            raise ValueError("not a grid")
        if kind != "number" and max(abs(start), abs(end), width) > _LARGEST_TICK:
            raise ValueError("not a grid")
        found = cls(kind, start, end, width, bins, branching, levels, outside)
        if not start <= found.edge(bins - 1) <= end:
            raise ValueError("not a grid")
        found.value(found.edge(0)), found.value(found.edge(bins))  # no date outside the calendar
        return found


def make_grid(
    low: object,
    high: object,
    *,
    resolution: int | None = None,
    branching: int = 4,
    outside: Outside = "clamp",
    whole: bool | None = None,
) -> Grid:
    """Cut an interval into bins of equal width; its parameters are those of `dptally.publish_quantiles`.

    The number of bins asked for is rounded up to a power of `branching`, from 2 to 1024. Whole numbers and dates get
    bins of a whole number of values, and no more bins than there are values. `whole` says whether values that are
    numbers are whole ones: a value of another kind is told by the bin it falls into, so that 2.08 is 2 in bins of whole
    numbers. None if both ends being whole is to decide.

    Raises:
        InvalidParameter: if the ends are of different kinds, or not in order, or bins would be too narrow.
    """
    kind, ends = _kind_of_ends(low, high, whole)
    start, end = ends
    if start >= end:
        between = ", with whole numbers from one to the other" if whole else ""
        raise InvalidParameter(f"low must be below high{between}, got {low} and {high}.")
    if outside not in ("clamp", "drop"):
        raise InvalidParameter(f"outside must be 'clamp' or 'drop', got {str(outside)[:40]!r}.")
    fan = as_count("branching", branching, largest=1024, smallest=2)
    span = end - start + 1 if kind in ("integer", "date") else end - start
    wanted = (
        _DEFAULT_RESOLUTION
        if resolution is None
        else as_count("resolution", resolution, largest=LARGEST_RESOLUTION, smallest=2)
    )
    if kind != "number":
        wanted = min(wanted, int(span))
    levels = 1
    while fan**levels < wanted:
        levels += 1
    most = fan**levels
    if kind == "number":
        width = span / most
        if not (math.isfinite(width) and width >= 4 * math.ulp(max(abs(start), abs(end)))):
            raise InvalidParameter("resolution is too fine, or the interval too wide: bins must differ as floats.")
        return Grid(kind, start, end, width, most, fan, levels, outside)
    ticks = -(-int(span) // most)
    return Grid(kind, start, end, ticks, -(-int(span) // ticks), fan, levels, outside)


def _kind_of_ends(low: object, high: object, whole: bool | None) -> tuple[Kind, tuple[int | float, int | float]]:
    (first, start), (second, end) = _tick("low", low), _tick("high", high)
    if {first, second} <= {"integer", "number"}:
        if whole is None:
            whole = first == second == "integer"
        first = second = "integer" if whole else "number"
        start, end = (math.ceil(start), math.floor(end)) if whole else (start, end)
    if first != second:
        raise InvalidParameter(f"low and high must be of one kind, got {_NAMES[first]} and {_NAMES[second]}.")
    if first == "number":
        return first, (float(start), float(end))
    if max(abs(start), abs(end)) > _LARGEST_TICK:
        limit = "the years 1828 to 2112" if first == "timestamp" else "2^52 in size"
        raise InvalidParameter(f"low and high must be within {limit}; use floats for wider intervals.")
    return first, (start, end)


def _tick(name: str, value: object) -> tuple[Kind, int | float]:
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]" if value.dtype != "datetime64[D]" else value.dtype).item()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        raise InvalidParameter(f"{name} must be a number, a date or a time, got bool.")
    if isinstance(value, int):
        return "integer", value
    if isinstance(value, float):
        if name in ("low", "high") and not math.isfinite(value):
            raise InvalidParameter(f"{name} must be finite, got {value}.")
        return "number", value
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        return "timestamp", (value - _EPOCH) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return "date", value.toordinal() - _EPOCH_DAY
    raise InvalidParameter(f"{name} must be a number, a date or a time, got {type(value).__name__}.")
