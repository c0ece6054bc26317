"""The one flow: request, certificate, payment, summary, draw, release. Every kind of release takes it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Unpack, overload

from dptally.errors import InvalidParameter
from dptally.laws.choosing import AUTO, advice, choose_mechanism
from dptally.laws.registry import USUAL, read_mechanism
from dptally.laws.sampling_schemes import Scheme, read_scheme
from dptally.laws.specs.weighted_sample import SANITIZED
from dptally.ledger.paying import Paid, paying
from dptally.opened_rows import open_for, refuse_reserved
from dptally.paid_sources import opening
from dptally.progress import Progress, progress_reporter
from dptally.randomness import BitSource, read_bits
from dptally.releases.making import make_release
from dptally.request import check_engine, read_request, with_listed_keys
from dptally.sources.intervals import read_filter_for

if TYPE_CHECKING:
    from dptally.laws.registry import CompactMechanism, TableMechanism
    from dptally.laws.spec import Mechanism, Question, Spec
    from dptally.laws.specs.compact import Compact
    from dptally.laws.specs.dense import Dense
    from dptally.laws.specs.gaussian import Gaussian
    from dptally.laws.specs.misra_gries import MisraGries
    from dptally.laws.specs.rounds import Rounds
    from dptally.laws.specs.sample_and_threshold import SampleAndThreshold
    from dptally.laws.specs.sparse import Sparse
    from dptally.laws.specs.stability import Stability
    from dptally.laws.specs.weighted_sample import WeightedSample
    from dptally.ledger.paying import AnyLedger
    from dptally.publish_options import PublishOptions
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.table_release import TableRelease
    from dptally.sources.filters import Filter
    from dptally.spark.publishing import OpenedFrame
    from dptally.spark.released import SparkRelease

    TypedTable: TypeAlias = (
        WeightedSample | Stability | Gaussian | Rounds | SampleAndThreshold | MisraGries | Dense | Sparse
    )

__all__ = ["Opened", "publish", "publish_spec", "sanitize"]


class Opened(Protocol):
    """Private data that answers questions: rows of one machine, of a cluster, or a sketch."""

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns."""

    def answer(self, spec: Spec, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Summarise for a question, and draw."""

    def close(self) -> None:
        """Remove what was kept between questions."""


def publish_spec(
    spec: Spec,
    open_source: Callable[[Paid], Opened],
    *,
    unit: str | None,
    bits: BitSource,
    ledger: AnyLedger | None = None,
    progress: bool | Progress | None = None,
    make: Callable[..., Any] = make_release,
    private: bool = True,
    where: Filter | None = None,
) -> Any:
    """Release what a spec describes: the flow that every mechanism, engine and kind of release takes.

    1. The law is verified for everything that a unit can touch, before anything is spent.
    2. The ledger has the spending on disk, before the source is opened.
    3. The source is opened: what fails by what is declared about it is given back.
    4. Stage by stage, as long as the spec has a question: private data is summarised for it, and one output is drawn.
       The spec sees outputs and nothing else.
    5. The outputs become a release, whose guarantee names the entry of the ledger that paid.

    Args:
        spec: certified or not yet.
        open_source: opens what answers; called once, after the ledger has the spending.
        unit: the column that identifies the privacy unit, or None.
        bits: the source of randomness.
        ledger: pays, or None.
        progress: as in `publish`.
        make: makes the release of spec, last question, outputs, guarantee and names of key columns.
        private: False where which keys of a unit count was chosen before by bits that are not secret.
        where: which rows the source reads, or None for all.
    """
    spec.certificate  # noqa: B018 - raises before anything is spent
    interval = None if where is None else where.interval
    with paying(ledger, spec.spending, bits, unit=unit, interval=interval) as paid:
        opened = open_source(paid)
        outputs: list[Any] = []
        with contextlib.closing(opened), progress_reporter(progress) as report:
            while (question := spec.next(outputs)) is not None:
                asked = question
                outputs.append(opened.answer(spec, question, bits, paid, report))
        guarantee = spec.guarantee(unit, private=private and bits.private)
        guarantee = replace(guarantee, record=paid.record, where=None if where is None else where.text)
        return make(spec, asked, outputs, guarantee, opened.key)


@overload
def publish(
    source: Any,
    *,
    mechanism: CompactMechanism | Compact,
    collect: Literal[True] = ...,
    **options: Unpack[PublishOptions],
) -> CompactRelease: ...


@overload
def publish(
    source: Any,
    *,
    mechanism: TableMechanism | TypedTable = ...,
    collect: Literal[True] = ...,
    **options: Unpack[PublishOptions],
) -> TableRelease: ...


@overload
def publish(
    source: Any, *, mechanism: str | Mechanism, collect: Literal[True] = ..., **options: Unpack[PublishOptions]
) -> TableRelease | CompactRelease: ...


@overload
def publish(
    source: Any, *, mechanism: str | Mechanism = ..., collect: bool, **options: Unpack[PublishOptions]
) -> TableRelease | CompactRelease | SparkRelease: ...


def publish(
    source: Any,
    *,
    key: str | Sequence[str] | None = None,
    unit: str | None = None,
    max_keys_per_unit: int | None = None,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    mechanism: str | Mechanism = AUTO,
    universe: Any = None,
    capacity: int | None = None,
    bound: int | None = None,
    strict_time: bool = False,
    beyond_capacity: Literal["subsample", "refuse"] | None = None,
    sampling: Scheme | None = None,
    values: bool = True,
    ledger: AnyLedger | None = None,
    count: str | None = None,
    nulls: Literal["drop", "keep"] = "drop",
    format: str | None = None,  # noqa: A002 - the word users expect
    memory_limit: str | None = None,
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
    table: str | None = None,
    query: str | None = None,
    engine: str = "auto",
    types: Mapping[str, str] | None = None,
    where: str | None = None,
    since: object = None,
    until: object = None,
    time_column: str | None = None,
    collect: bool = True,
    sums: Mapping[str, Any] | None = None,
    means: Mapping[str, Any] | None = None,
    totals: bool = False,
    max_rows_per_unit_and_key: int | None = None,
    combine_rows: Literal["add", "average"] | None = None,
    shares: Mapping[str, float | str | Fraction] | None = None,
) -> TableRelease | CompactRelease | SparkRelease:
    """Publish a table of private keys and counts.

    Everything that can be refused is refused before data is read: parameters first, then the table's certificate, then
    the source's columns. The data is counted by DuckDB in bounded memory, and one value is drawn for each distinct key.

    Args:
        source: path, glob or list of paths (CSV, TSV, JSON lines, Parquet, .gz, .zst), "-" for standard input, a
            Polars, pandas or PyArrow table, a DuckDB relation, a Spark DataFrame, a mapping key -> count, or an
            iterable of keys; or the URL of a database, ``postgresql://...``, ``duckdb:///file`` or ``sqlite:///file``,
            with `table` or `query`.
        key: column name, or several. Not needed for a mapping or an iterable.
        unit: whose privacy: a column, or None when every row is a unit of its own.
        max_keys_per_unit: a unit with more distinct keys keeps a uniform random choice of this many. None: how many
            keys units have is measured privately, within the budget (mechanism "rounds"); 1 for other mechanisms.
        epsilon: positive; a float means its exact binary value, ``"0.1"`` means 1/10.
        delta: the probability with which the guarantee may fail; well below one over the number of units. Left out for
            mechanisms that keep delta = 0.
        mechanism: "auto", chosen by public parameters alone; a name, or an object with its options such as
            ``dptally.Sparse(universe="ipv4")``. Of the data: "weighted_sample", "stability", "gaussian", "rounds" (for
            units with many keys) or "sample_and_threshold"; "misra_gries", in bounded memory,
            however many keys there are; or, with delta = 0 and a universe, "dense" (a value for each of a list of
            keys), "sparse" (the largest counts of a universe too large to list) or "compact" (a `CompactRelease` that
            answers any key of such a universe).
        universe: all keys there may be, fixed without looking at the data. For "sparse" and "compact" a name such as
            "ipv4" or an object of `dptally.universes`; for "dense" also the keys themselves, as a list, a table or a
            file. Rows with other keys are left out in silence.
        capacity: public: how many counters a sketch has ("misra_gries"), how many keys a sparse release holds at most,
            or how many occurrences (units times keys) a compact release is made from at most; see `beyond_capacity`.
            10,000 if left out (100 in strict time).
        bound: public: the largest count of these mechanisms, to which larger ones are cut.
        strict_time: for "sparse", draw from a number of random bits that does not depend on the data; at most 300 keys,
            and slow. "dense" always does.
        beyond_capacity: for "compact". "subsample", the default: of more occurrences than the capacity as many are
            kept as it says, chosen at random, and the guarantee holds for all data sets. "refuse": the capacity is a
            public bound on the number of *distinct keys*; data with more is refused, its budget stays spent, and the
            guarantee compares data sets within the bound. That takes half the noise.
        sampling: a sampling scheme such as `dptally.Ppswor(rate)`, its rate fixed without looking at the data;
            `dptally.Ppswor(size=1000)` to have the rate set from a private estimate of the total, for which a
            twentieth of epsilon is spent; or None.
        values: False to release keys only.
        ledger: a `dptally.Ledger`, an account of one (`Ledger.account`), or the path of one. What the release spends is
            reserved there before data is read, and refused if the budget does not allow it.
        count: without a unit, a column of counts, for data that is already aggregated; each counted occurrence is a
            unit. With one, "units" (the default), or "rows" to count rows, of which one unit adds at most
            `max_rows_per_unit_and_key` to a key.
        nulls: "drop" leaves out rows with a null in a key column, "keep" makes null a key like any other. Rows without
            a unit are always left out.
        format: "csv", "tsv", "jsonl" or "parquet", where the file name does not tell.
        memory_limit: for the counting engine, such as "2GB".
        randomness: None for secret bits of the operating system. `dptally.randomness.SeededBits` makes the release
            repeatable and therefore not private, and the release says so.
        progress: True or False; None shows it when attached to a terminal; or a function of stage and fraction.
        table: of a database: the name of a table, or "schema.table".
        query: of a database: one SELECT statement instead of a table.
        engine: "auto", "duckdb", "polars" or "spark": what reads and counts. The law of the release is the same.
        types: types of key, unit and filter columns without a declared type, such as ``{"age": "int64"}``: text, int64,
            float64, bool, date, time, timestamp, timestamptz, bytes or decimal(precision,scale). Columns of CSV, JSON
            and Python objects are text if left out. A value that is not written as one of its type is null.
        where: only rows that meet this SQL condition are read, as ``"day = DATE '2026-11-15'"``; not those on which
            it is null, or fails. Public, and recorded in the release.
        since: only rows whose `time_column` is not before this date or time (UTC) are read,
        until: and before this one, which is not included.
        time_column: the column of dates, timestamps or ISO 8601 text that `since` and `until` are about.
        collect: False leaves the released rows of a Spark DataFrame on the cluster.
        sums: columns with their ranges, such as ``{"amount": (0, 100)}``: the sum of a column for every released key,
            over units, of what each unit has, clipped into the range. The range is public; it must not come from the
            data (`publish_quantiles` finds one privately).
        means: the same for means over units.
        totals: True to release how many units there are, and how many pairs of a unit and a key have a key that was
            not released; see `TableRelease.totals`.
        max_rows_per_unit_and_key: a public bound, for count="rows".
        combine_rows: what becomes of several rows of one unit and key before they are clipped: "add" or "average".
            None adds for sums and averages for means.
        shares: shares of the budget, by part: "selection", "counts", "totals", and "sum_amount" or "mean_rating" for
            columns of those names. Parts that are left out share the rest by the usual rule.

    Returns:
        TableRelease: what may be shown to anyone; a `CompactRelease` for the mechanism "compact"; with collect=False a
        `dptally.spark.SparkRelease`, which is a Spark DataFrame.

    Raises:
        InvalidParameter: a request that cannot be met.
        BudgetExceeded: a request that the ledger's budget does not allow.
        InvalidSource: data that cannot be read as asked.
        PrivacyViolation: a table that does not pass the verifier; nothing has been drawn.

    >>> release = publish({"common": 1000, "rare": 1}, epsilon=1, delta="1e-6")
    >>> release.table().get_column("key").to_list()
    ['common']
    """
    bits = read_bits(randomness)
    automatic = mechanism == AUTO
    chosen = read_mechanism(
        USUAL if automatic else mechanism,
        universe=universe,
        capacity=capacity,
        bound=bound,
        strict_time=strict_time,
        beyond_capacity=beyond_capacity,
    )
    request = read_request(
        epsilon=epsilon, delta=delta, max_keys_per_unit=max_keys_per_unit, key=key, unit=unit, values=values,
        sampling=sampling, nulls=nulls, sums=sums, means=means, totals=totals, count=count, shares=shares,
        max_rows_per_unit_and_key=max_rows_per_unit_and_key, combine_rows=combine_rows,
    )  # fmt: skip
    if automatic:
        chosen = choose_mechanism(request).mechanism
    elif (said := advice(chosen, request)) is not None:
        warnings.warn(said, stacklevel=2)
    rows = read_filter_for(ledger, where, since=since, until=until, time_column=time_column)
    special: dict[str, Any] = {"filtered": rows is not None, "statistics": request.statistics}
    on_spark = check_engine(source, chosen, engine, memory_limit, format, collect, **special)
    request = replace(request, merged=on_spark)
    spec = with_listed_keys(chosen, request).spec(request)
    counted = None if unit is not None and count in ("units", "rows") else count
    columns: dict[str, Any] = {"key": key, "unit": unit, "count": counted, "nulls": nulls, "format": format}
    make: Callable[..., Any] = make_release
    if on_spark:
        from dptally.spark.publishing import make_spark_release

        make = make_release if collect else make_spark_release

    def open_source(paid: Paid) -> Opened:
        if on_spark:
            return _open_frame(paid, source, columns, types, collect=collect)
        place: dict[str, Any] = {"table": table, "query": query, "engine": engine, "types": types, "where": rows}
        if request.statistics is not None:
            place |= {"clipped": request.statistics.columns, "every_row": request.statistics.reads_values}
        return open_for(spec, paid, source, memory_limit=memory_limit, **columns, **place)

    released: TableRelease | CompactRelease | SparkRelease = publish_spec(
        spec, open_source, unit=unit, bits=bits, ledger=ledger, progress=progress, make=make, where=rows
    )
    return released


def sanitize(
    sample: Any,
    scheme: Scheme | str,
    *,
    key: str | Sequence[str] | None = None,
    count: str | None = None,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction,
    values: bool = True,
    ledger: AnyLedger | None = None,
    nulls: Literal["drop", "keep"] = "drop",
    format: str | None = None,  # noqa: A002
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
) -> TableRelease:
    """Make a sample private that somebody has drawn already; the sampling counts as part of the mechanism.

    The guarantee is for the data the sample was drawn from, for adding or removing one occurrence of a key. It rests on
    three facts about the sample that nobody can check afterwards: each key was taken independently, with the
    probability that `scheme` gives for its frequency, by coins that stay secret; the scheme was fixed without looking
    at the data; and each sampled key comes with its exact frequency. A bottom-k sample, whose size is fixed, and a
    sample by a public hash do not qualify.

    Args:
        sample: sampled keys with their counts: anything `publish` reads, with a count column, or a mapping of keys to
            counts.
        scheme: how it was drawn, such as `dptally.Ppswor("0.01")` or ``"ppswor:0.01"``.
        key: column name, or several; not needed for a mapping.
        count: the column of frequencies; not needed for a mapping.
        epsilon: as in `publish`.
        delta: as in `publish`.
        values: False to release keys only.
        ledger: as in `publish`.
        nulls: as in `publish`.
        format: as in `publish`.
        randomness: as in `publish`.
        progress: as in `publish`.

    Returns:
        TableRelease: what may be shown to anyone.

    Raises:
        InvalidParameter: a request that cannot be met.
        InvalidSource: a sample with repeated keys, counts below 1, or frequencies that the scheme never takes.

    >>> release = sanitize({"common": 900, "rare": 1}, "ppswor:0.01", epsilon=1, delta="1e-6")
    >>> release.table().get_column("key").to_list()
    ['common']
    """
    drawn_by = read_scheme(scheme) if isinstance(scheme, str) else scheme
    if not isinstance(drawn_by, Scheme) or drawn_by.size is not None:
        raise InvalidParameter("scheme must say at which rate the sample was drawn, such as 'ppswor:0.01'.")
    request = read_request(epsilon=epsilon, delta=delta, key=key, values=values, sampling=drawn_by, nulls=nulls)
    spec = read_mechanism(USUAL).spec(request).renamed(SANITIZED)
    if count is None and not isinstance(sample, Mapping):
        raise InvalidParameter("count must name the column of frequencies: a sample comes with the count of each key.")
    columns: dict[str, Any] = {"key": key, "unit": None, "count": count, "nulls": nulls, "format": format}
    released: TableRelease = publish_spec(
        spec,
        lambda paid: open_for(spec, paid, sample, sampled_by=drawn_by, **columns),
        unit=None,
        bits=read_bits(randomness),
        ledger=ledger,
        progress=progress,
    )
    return released


def _open_frame(
    paid: Paid, source: Any, columns: dict[str, Any], types: Mapping[str, str] | None, *, collect: bool
) -> OpenedFrame:
    """Rows of files as Spark reads them, by the rules of one machine, or of a DataFrame."""
    from dptally.sources.databases import is_url
    from dptally.spark import is_spark_frame

    with paid.opening():
        files = isinstance(source, str | PurePath | list | tuple) and not is_url(source)
        if not files and not is_spark_frame(source):
            raise InvalidParameter("the engine 'spark' reads files and Spark DataFrames; this source is neither.")
    with opening(paid, source, **columns):
        format_name = columns.pop("format")
        frame = _frame_of(source, columns["key"], columns["unit"], columns["count"], format_name, types)
        from dptally.spark.publishing import OpenedFrame
        from dptally.spark.rows import open_frame

        rows = open_frame(frame, **columns)
        refuse_reserved(rows.key)
        return OpenedFrame(rows, collect=collect)


def _frame_of(
    source: Any,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None,
    format_name: str | None,
    types: Mapping[str, str] | None,
) -> Any:
    """Files as a Spark DataFrame; a DataFrame stays what it is."""
    from dptally.spark import is_spark_frame, open_files

    if is_spark_frame(source):
        if types:
            raise InvalidParameter("types is for columns without a declared type, and a Spark DataFrame declares all.")
        return source
    if key is None:
        raise InvalidParameter("key must name the key column of a table.")
    paths = source if isinstance(source, list | tuple) else [source]
    return open_files([str(path) for path in paths], key=key, unit=unit, count=count, format=format_name, types=types)
