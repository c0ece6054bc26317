"""From a source to quantiles: a released tree of counts, or one quantile by an interactive search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.laws.quantile_search import QuantileRounds
from dptally.laws.registry import USUAL_FOR_RANGES
from dptally.laws.specs.ranges import RangeSpec, SearchSpec
from dptally.ledger.paying import paying
from dptally.opened_rows import OpenedRows
from dptally.progress import Progress
from dptally.publishing import publish_spec
from dptally.randomness import BitSource, read_bits
from dptally.sources.intervals import read_filter_for
from dptally.summaries.binned_values import check_values, is_whole
from dptally.universes.grids import Grid, Outside, make_grid

if TYPE_CHECKING:
    from dptally.laws.quantile_search import QuantileAnswer
    from dptally.ledger.paying import AnyLedger
    from dptally.releases.range_release import RangeRelease

__all__ = ["find_quantile", "publish_quantiles"]


def publish_quantiles(
    source: Any,
    *,
    value: str | None = None,
    low: object,
    high: object,
    unit: str | None = None,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    resolution: int | None = None,
    branching: int = 4,
    mechanism: str = USUAL_FOR_RANGES,
    rate: object = None,
    outside: Outside = "clamp",
    count: str | None = None,
    format: str | None = None,  # noqa: A002 - the word users expect
    memory_limit: str | None = None,
    ledger: AnyLedger | None = None,
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
    table: str | None = None,
    query: str | None = None,
    types: Mapping[str, str] | None = None,
    where: str | None = None,
    since: object = None,
    until: object = None,
    time_column: str | None = None,
) -> RangeRelease:
    """Publish a tree of counts over a public interval, which answers quantiles, ranges and shares.

    Every unit has one value: a unit whose rows fall into several bins counts in one of them, chosen uniformly.
    Missing values, NaN, and text that is no value are left out.

    The declared type of the column decides what the bins hold, not how `low` and `high` are written, and never a value:
    whole numbers in a column of integers (in Parquet, a data frame, an array or a database); numbers with decimals in a
    column of floats or decimals, and wherever no type is declared, as in CSV, JSON lines, lists and mappings.

    Args:
        source: anything `dptally.publish` reads; a mapping gives each value its count, an iterable holds values.
        value: the column of numbers, dates or times. Not needed for a mapping or an iterable.
        low: smallest value: int, float, date or datetime. Public: fixed without looking at the data. Dates ask for
            whole days, of a column of times, too.
        high: largest value, included; public.
        unit: whose privacy: a column, or None when every row is a unit of its own.
        epsilon: positive; a float means its exact binary value, ``"0.1"`` means 1/10.
        delta: as in `dptally.publish`; None or 0 for the mechanism "dense".
        resolution: how many bins, rounded up to a power of `branching`; None for 1024. Whole numbers and dates have no
            more bins than values.
        branching: children of a node. More of them make fewer levels, but more nodes in a range.
        mechanism: "sample_and_threshold"; "weighted_sample", smaller errors where all data is at hand; "dense", pure
            differential privacy, every node has a value.
        rate: of "sample_and_threshold"; None for the one that hides least. A larger one makes sampling errors smaller
            and hides more.
        outside: whether values outside of the interval count in the first and last bin ("clamp") or not ("drop").
        count: a column of counts, for data that is already aggregated; each counted occurrence is a unit.
        format: "csv", "tsv", "jsonl" or "parquet", where the file name does not tell.
        memory_limit: for the counting engine, such as "2GB".
        ledger: as in `dptally.publish`.
        randomness: None for secret bits of the operating system; seeded bits are repeatable and not private.
        progress: True or False; None shows it when attached to a terminal; or a function of stage and fraction.
        table: of a database, as in `dptally.publish`.
        query: of a database, instead of a table.
        types: as in `dptally.publish`.
        where: as in `dptally.publish`.
        since: as in `dptally.publish`.
        until: as in `dptally.publish`.
        time_column: as in `dptally.publish`.

    Returns:
        RangeRelease: what may be shown to anyone.

    Raises:
        InvalidParameter: a request that cannot be met.
        InvalidSource: data that cannot be read as asked.
        PrivacyViolation: a law that does not pass the verifier; nothing has been drawn.

    >>> release = publish_quantiles(range(1000), low=0, high=999, epsilon=1, mechanism="dense")
    >>> found = release.quantile(0.5)
    >>> found.lower < 500 < found.upper
    True
    """
    cut = partial(make_grid, low, high, resolution=resolution, branching=branching, outside=outside)
    columns = {"key": value, "unit": unit, "count": count, "nulls": "drop"}
    rows = read_filter_for(ledger, where, since=since, until=until, time_column=time_column)
    request = {**columns, "format": format, "table": table, "query": query, "types": types, "where": rows}

    def make(grid: Grid) -> RangeSpec:
        return RangeSpec(grid, epsilon, delta, mechanism=mechanism, rate=rate)

    released: RangeRelease = _publish(cut, make, source, request, memory_limit, ledger, randomness, progress)
    return released


def find_quantile(
    source: Any,
    q: object,
    *,
    value: str | None = None,
    low: object,
    high: object,
    unit: str | None = None,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    resolution: int | None = None,
    mechanism: str = USUAL_FOR_RANGES,
    rate: object = None,
    outside: Outside = "clamp",
    rounds: int | None = None,
    confidence: object = 0.95,
    count: str | None = None,
    format: str | None = None,  # noqa: A002
    memory_limit: str | None = None,
    ledger: AnyLedger | None = None,
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
    table: str | None = None,
    query: str | None = None,
    types: Mapping[str, str] | None = None,
    where: str | None = None,
    since: object = None,
    until: object = None,
    time_column: str | None = None,
) -> QuantileAnswer:
    """Find one quantile by halving the interval, each time with one private count of both halves [BC22, Lemma 8].

    There are at most log2(resolution) rounds, and the budget is shared between them. The source is read once; each
    round draws with coins of its own. See `dptally.laws.quantile_search.QuantileRounds` for rounds over devices.

    It takes what `publish_quantiles` takes; `q` is from 0 to 1, `resolution` is rounded up to a power of two, epsilon
    and delta are for all rounds together, which a ledger pays for at once, and `mechanism` and `rate` are those of each
    count. `rounds` is how many there are at most, None for log2(resolution): more of them can narrow bounds, at less
    budget each. `confidence` is that of the bounds.
    """
    cut = partial(make_grid, low, high, resolution=resolution, branching=2, outside=outside)
    columns = {"key": value, "unit": unit, "count": count, "nulls": "drop"}
    rows = read_filter_for(ledger, where, since=since, until=until, time_column=time_column)
    request = {**columns, "format": format, "table": table, "query": query, "types": types, "where": rows}

    def make(grid: Grid) -> SearchSpec:
        search = QuantileRounds(
            grid, q, epsilon=epsilon, delta=delta, mechanism=mechanism, rate=rate, confidence=confidence,
            rounds=rounds,
        )  # fmt: skip
        return SearchSpec(search)

    found: QuantileAnswer = _publish(cut, make, source, request, memory_limit, ledger, randomness, progress)
    return found


def _publish(
    cut: Callable[..., Grid],
    make: Callable[[Grid], RangeSpec | SearchSpec],
    source: Any,
    request: dict[str, Any],
    memory_limit: str | None,
    ledger: AnyLedger | None,
    randomness: BitSource | None,
    progress: bool | Progress | None,
) -> Any:
    """Open, then publish: the declared type of the column decides about the grid, and so about what is spent.

    Where columns are not declared, opening is reading, and a failure is paid for like a release.
    """
    from dptally.sources import open_rows
    from dptally.sources.engine import check_memory_limit
    from dptally.sources.requests import check_request_for

    value, unit, bits = request["key"], request["unit"], read_bits(randomness)
    spec = make(cut())  # whatever the column is: a bad request is refused before anything is opened
    spec.certificate  # noqa: B018 - raises
    if value is not None and not isinstance(value, str):
        raise InvalidParameter(f"value must be a column name, got {type(value).__name__}.")
    check_memory_limit(memory_limit)
    declared = check_request_for(source, **request)
    try:
        rows = open_rows(source, **request)
    except BaseException:
        interval = None if request["where"] is None else request["where"].interval
        with nullcontext() if declared else paying(ledger, spec.spending, bits, unit=unit, interval=interval):
            raise
    grid = cut(whole=is_whole(rows.key_types[0]))
    check_values(rows, grid)
    if grid != spec.grid:
        spec = make(grid)
    opened = OpenedRows(rows, memory_limit=memory_limit)
    where = request["where"]
    return publish_spec(spec, lambda paid: opened, unit=unit, bits=bits, ledger=ledger, progress=progress, where=where)
