"""Values become bins: the same ones in Python and in the counting engine."""

from __future__ import annotations

import datetime
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries.binned_values import count_bins
from dptally.universes.grids import Grid, make_grid

DAY = datetime.date


def counted(values: object, grid: Grid) -> list[int]:
    """Counts of bins by the engine."""
    rows = open_rows(pa.table({"x": values}), key="x", unit=None)
    return count_bins(rows, grid, bits=SeededBits(0), memory_limit=None, progress=None).tolist()


def by_python(ticks: list[float], grid: Grid) -> list[int]:
    """Counts of bins by `Grid.bins_of`."""
    places = grid.bins_of(np.array(ticks, dtype=np.float64))
    return np.bincount(places[places >= 0], minlength=grid.bins).tolist()


@settings(max_examples=25, deadline=None)
@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.integers(2, 300),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20),
    st.sampled_from(["clamp", "drop"]),
)
@example(-1000.0, 2000.0, 16, [-1e-20, 0.0, 1e-20, math.inf, -math.inf, math.nan], "clamp")
def test_engine_and_python_agree(low: float, span: float, resolution: int, values: list[float], outside: str) -> None:
    """Random values, edges, and the floats next to edges are in the same bins in the engine and in Python."""
    grid = make_grid(low, low + span, resolution=resolution, branching=2, outside=outside)  # type: ignore[arg-type]
    edges = [float(grid.edge(place)) for place in range(0, grid.bins + 1, 7)]
    ticks = [*values, *edges, *np.nextafter(edges, -math.inf), *np.nextafter(edges, math.inf)]
    assert counted(pa.array(ticks, pa.float64()), grid) == by_python(ticks, grid)


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9), st.integers(2, 1000))
def test_every_edge_starts_its_bin(low: float, span: float, resolution: int) -> None:
    """A bin's edge is in it, and the float before is in the bin before."""
    try:
        grid = make_grid(low, low + span, resolution=resolution)
    except InvalidParameter:
        return  # too fine for floats there
    edges = np.array([grid.edge(place) for place in range(1, grid.bins)], dtype=np.float64)
    assert grid.bins_of(edges).tolist() == list(range(1, grid.bins))
    assert grid.bins_of(np.nextafter(edges, -math.inf)).tolist() == list(range(grid.bins - 1))


def test_resolution_is_rounded_up_to_a_power_of_branching() -> None:
    """Asking for 100 bins of a continuous interval gives 256 with branching 4, and whole values get whole bins."""
    assert (make_grid(0.0, 1.0, resolution=100).bins, make_grid(0.0, 1.0, resolution=100).levels) == (256, 4)
    grid = make_grid(0, 999, resolution=100)
    assert (grid.width, grid.bins, grid.levels) == (4, 250, 4)
    assert make_grid(1, 12).bins == 12
    assert make_grid(DAY(2013, 1, 1), DAY(2013, 12, 31)).bins == 365


def test_dates_times_and_text_are_read() -> None:
    """Dates, timestamps with and without a zone, decimals, integers and text end in the bins of their values."""
    year = make_grid(DAY(2013, 1, 1), DAY(2013, 1, 4), branching=2)
    days = [DAY(2012, 5, 5), DAY(2013, 1, 1), DAY(2013, 1, 3), DAY(2013, 1, 4), DAY(2014, 1, 1), None]
    assert counted(pa.array(days, pa.date32()), year) == [2, 0, 1, 2]
    texts = ["2013-01-02", "2013-01-02x", "", "2013-01-04"]
    assert counted(pa.array(texts), year) == [0, 1, 0, 1]
    noon = [datetime.datetime(2013, 1, 2, 12), datetime.datetime(2013, 1, 3, 23, 59)]
    for kind in (pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("s"), pa.timestamp("us", tz="UTC")):
        assert counted(pa.array(noon, kind), year) == [0, 1, 1, 0]
        hours = make_grid(datetime.datetime(2013, 1, 2), datetime.datetime(2013, 1, 4), resolution=4, branching=2)
        assert counted(pa.array(noon, kind), hours) == [0, 1, 0, 1]
    numbers = make_grid(0, 3, branching=2)
    assert counted(pa.array([0, 1, 1, 3, 200], pa.int16()), numbers) == [1, 2, 0, 2]
    assert counted(pa.array(["1", "1.5", "nan", "x", " 2", "-7"]), numbers) == [1, 2, 1, 0]
    assert counted(pa.array([0.5, 2.99, math.nan, None]), numbers) == [1, 0, 1, 0]


def test_outside_values_are_clamped_or_left_out() -> None:
    """Values outside count in the end bins with "clamp" and nowhere with "drop"; the ends themselves are inside."""
    values = pa.array([-1.0, 0.0, 1.0, 2.0])
    assert counted(values, make_grid(0.0, 1.0, resolution=2, branching=2)) == [2, 2]
    assert counted(values, make_grid(0.0, 1.0, resolution=2, branching=2, outside="drop")) == [1, 1]


def test_a_grid_survives_as_plain_data() -> None:
    """Facts make an equal grid, and facts that describe none are refused."""
    for grid in (make_grid(0.0, 0.3), make_grid(-5, 99), make_grid(DAY(2013, 1, 1), DAY(2014, 1, 1))):
        assert Grid.read(grid.facts()) == grid
    with pytest.raises(ValueError, match="not a grid"):
        Grid.read({**make_grid(0, 9).facts(), "bins": 10**9})


@pytest.mark.parametrize(
    ("ends", "options", "message"),
    [
        ((5, 5), {}, "low must be below high, got 5 and 5."),
        ((5.0, 1.0), {}, "low must be below high"),
        ((0, DAY(2013, 1, 1)), {}, "low and high must be of one kind, got a whole number and a date."),
        (("a", 3), {}, "low must be a number, a date or a time, got str."),
        ((True, 3), {}, "got bool."),
        ((0.0, math.inf), {}, "high must be finite, got inf."),
        ((0, 1 << 60), {}, "must be within 2\\^52 in size"),
        ((datetime.datetime(1500, 1, 1), datetime.datetime(2000, 1, 1)), {}, "within the years 1828 to 2112"),
        ((1e18, 1.0000000001e18), {"resolution": 1 << 20}, "resolution is too fine"),
        ((0.0, 1.0), {"resolution": 1}, "resolution must be at least 2, got 1."),
        ((0.0, 1.0), {"branching": 1}, "branching must be at least 2, got 1."),
        ((0.0, 1.0), {"outside": "refuse"}, "outside must be 'clamp' or 'drop', got 'refuse'."),
    ],
)
def test_bad_grids_are_refused(ends: tuple[object, object], options: dict[str, Any], message: str) -> None:
    """Each mistake has its sentence."""
    with pytest.raises(InvalidParameter, match=message):
        make_grid(*ends, **options)


def test_columns_of_other_types_are_refused() -> None:
    """A column that cannot hold values of the interval is an error that names its type."""
    with pytest.raises(InvalidSource, match="column 'x' must hold numbers for this interval, not DATE"):
        counted(pa.array([DAY(2013, 1, 1)]), make_grid(0, 9))
    with pytest.raises(InvalidSource, match="column 'x' must hold dates or times for this interval, not BIGINT"):
        counted(pa.array([1]), make_grid(DAY(2013, 1, 1), DAY(2014, 1, 1)))
