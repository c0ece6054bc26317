"""The whole flow: source, bounded contributions, counts, mechanism, release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from dptally.errors import InvalidParameter
from dptally.exact import as_epsilon
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Ppswor, Scheme, read_scheme
from dptally.ledger.paying import Paid, paying
from dptally.mechanism_requests import (
    MECHANISMS,
    PURE,
    SKETCH,
    Drawing,
    assumed_keys,
    check_keys,
    checked_units,
    make_mechanism,
    make_pure_mechanism,
    make_sketch_mechanism,
    refuse_options,
)
from dptally.mechanisms.independent_keys import IndependentKeys
from dptally.mechanisms.private_total import draw_total
from dptally.paid_sources import open_paid, opening
from dptally.progress import Progress, progress_reporter
from dptally.randomness import BitSource, read_bits
from dptally.releases.release import RESERVED_COLUMNS, Release

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.ledger.paying import AnyLedger
    from dptally.mechanisms.base import Drawn
    from dptally.mechanisms.private_misra_gries import PrivateMisraGries
    from dptally.publish_options import PublishOptions, TableMechanism
    from dptally.releases.compact_release import CompactRelease
    from dptally.sources import Rows
    from dptally.spark.released import SparkRelease
    from dptally.spark.rows import SparkRows
    from dptally.summaries.frequencies import Frequencies
    from dptally.summaries.row_sample import SampledRows
    from dptally.summaries.weighted_sample import SampledFrequencies

__all__ = ["publish", "sanitize"]

_SHARE_FOR_SIZE = Fraction(1, 20)
_SPARSE = Fraction(1, 100)  # rates up to it sample rows while reading
_Result = TypeVar("_Result")
_Signed = TypeVar("_Signed", "Release", "CompactRelease", "Release | CompactRelease", "Release | SparkRelease")


@overload
def publish(
    source: Any, *, mechanism: Literal["compact"], collect: Literal[True] = ..., **options: Unpack[PublishOptions]
) -> CompactRelease: ...


@overload
def publish(
    source: Any, *, mechanism: TableMechanism = ..., collect: Literal[True] = ..., **options: Unpack[PublishOptions]
) -> Release: ...


@overload
def publish(
    source: Any, *, mechanism: str, collect: Literal[True] = ..., **options: Unpack[PublishOptions]
) -> Release | CompactRelease: ...


@overload
def publish(
    source: Any, *, mechanism: str = ..., collect: bool, **options: Unpack[PublishOptions]
) -> Release | CompactRelease | SparkRelease: ...


def publish(
    source: Any,
    *,
    key: str | Sequence[str] | None = None,
    unit: str | None = None,
    max_keys_per_unit: int = 1,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    mechanism: str = "weighted_sample",
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
    collect: bool = True,
) -> Release | CompactRelease | SparkRelease:
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
        max_keys_per_unit: a unit with more distinct keys keeps a uniform random choice of this many.
        epsilon: positive; a float means its exact binary value, ``"0.1"`` means 1/10.
        delta: the probability with which the guarantee may fail; well below one over the number of units. Left out for
            mechanisms that keep delta = 0.
        mechanism: "weighted_sample", "stability", "gaussian" or "sample_and_threshold", which report keys of the data;
            "misra_gries", which does so in bounded memory, however many keys there are; or, with delta = 0 and a
            universe, "dense" (a value for each of a list of keys), "sparse" (the heaviest keys of a universe too large
            to list) or "compact" (a `CompactRelease` that answers any key of such a universe).
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
        count: a column of counts, for data that is already aggregated; each counted occurrence is a unit.
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
        types: types of key and unit columns that have no declared type, such as ``{"age": "int64"}``: text, int64,
            float64, bool, date, time, timestamp, timestamptz, bytes or decimal(precision,scale). Columns of CSV, JSON
            and Python objects are text if left out. A value that is not written as one of its type is null.
        collect: False leaves the released rows of a Spark DataFrame on the cluster.

    Returns:
        Release: what may be shown to anyone; a `CompactRelease` for the mechanism "compact"; with collect=False a
        `dptally.spark.SparkRelease`, which is a Spark DataFrame.

    Raises:
        InvalidParameter: a request that cannot be met.
        BudgetExceeded: a request that the ledger's budget does not allow.
        InvalidSource: data that cannot be read as asked.
        PrivacyViolation: a table that does not pass the judge; nothing has been drawn.

    >>> release = publish({"common": 1000, "rare": 1}, epsilon=1, delta="1e-6")
    >>> release.table().get_column("key").to_list()
    ['common']
    """
    bits = read_bits(randomness)
    wanted = _checked_sampling(sampling, unit)
    on_spark = _checked_engine(source, mechanism, engine, memory_limit, format, collect)
    place: dict[str, Any] = {"table": table, "query": query, "engine": engine, "types": types}
    if mechanism in PURE:
        keys = checked_units(unit, max_keys_per_unit)
        asked = {
            "universe": universe,
            "capacity": capacity,
            "bound": bound,
            "strict_time": strict_time,
            "beyond_capacity": beyond_capacity,
        }
        pure = make_pure_mechanism(mechanism, epsilon, delta, keys, key, nulls, sampling, values, asked)
        with paying(ledger, pure.spends, bits, unit=unit) as paid:
            rows = _open(
                paid,
                source,
                key,
                unit,
                count,
                nulls,
                format,
                **place,
                assumed=assumed_keys(pure, universe, key),
                fits=partial(check_keys, pure, universe),
            )
            return _signed(_released(_draw(pure, rows, keys, memory_limit, bits, progress, paid)), paid)
    if mechanism == SKETCH:
        keys = checked_units(unit, max_keys_per_unit)
        refuse_options(
            mechanism, universe=universe, bound=bound, strict_time=strict_time, beyond_capacity=beyond_capacity
        )
        if sampling is not None or not values:
            raise InvalidParameter("the mechanism 'misra_gries' takes no sampling, and releases values with the keys.")
        private = make_sketch_mechanism(epsilon, delta, unit, keys, capacity, on_spark=on_spark)
        with paying(ledger, private.spends, bits, unit=unit) as paid:
            if on_spark:
                from dptally.spark.publishing import publish_sketch

                spark_rows = _open_with_spark(paid, source, key, unit, count, nulls, format, types)
                with progress_reporter(progress) as report:
                    return _signed(publish_sketch(private, spark_rows, bits, paid.bits, progress=report), paid)
            rows = _open(paid, source, key, unit, count, nulls, format, **place, fits=_check_sketched)
            return _signed(_publish_sketch(private, rows, memory_limit, bits, progress, paid), paid)
    refuse_options(
        mechanism,
        universe=universe,
        capacity=capacity,
        bound=bound,
        strict_time=strict_time,
        beyond_capacity=beyond_capacity,
    )
    size = 0 if wanted is None or wanted.size is None else wanted.size
    spent = as_epsilon(epsilon) * _SHARE_FOR_SIZE if size else Fraction(0)

    def mechanism_for(scheme: Scheme | None) -> IndependentKeys:
        rest = as_epsilon(epsilon) - spent
        return make_mechanism(mechanism, rest, delta, unit, max_keys_per_unit, scheme, values, spent)

    # Everything is checked and certified before data is read; a rate that depends on the total gets a stand-in first.
    chosen = mechanism_for(wanted.of_total(1000 * size) if wanted is not None and size else wanted)
    with paying(ledger, chosen.spends, bits, unit=unit) as paid:
        if on_spark:
            spark_rows = _open_with_spark(paid, source, key, unit, count, nulls, format, types)
            from dptally.spark import publishing  # not before: opening says what is not installed

            with progress_reporter(progress) as report:
                if wanted is not None and size:
                    total = draw_total(publishing.count_occurrences(spark_rows, report), spent, paid.bits)
                    chosen = mechanism_for(wanted.of_total(total))
                return _signed(
                    publishing.publish_rows(
                        chosen, spark_rows, max_keys_per_unit, bits, paid.begin, collect=collect, progress=report
                    ),
                    paid,
                )
        rows = _open(paid, source, key, unit, count, nulls, format, twice=size > 0, **place)
        if wanted is not None and size:
            from dptally.summaries.frequencies import count_occurrences

            total = draw_total(count_occurrences(rows, memory_limit=memory_limit), spent, paid.bits)
            chosen = mechanism_for(wanted.of_total(total))
        return _signed(_release(_draw(chosen, rows, max_keys_per_unit, memory_limit, bits, progress, paid)), paid)


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
) -> Release:
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
        Release: what may be shown to anyone.

    Raises:
        InvalidParameter: a request that cannot be met.
        InvalidSource: a sample with repeated keys, counts below 1, or frequencies that the scheme never takes.

    >>> release = sanitize({"common": 900, "rare": 1}, "ppswor:0.01", epsilon=1, delta="1e-6")
    >>> release.table().get_column("key").to_list()
    ['common']
    """
    drawn_by = _checked_sampling(read_scheme(scheme) if isinstance(scheme, str) else scheme, None)
    if drawn_by is None or drawn_by.size is not None:
        raise InvalidParameter("scheme must say at which rate the sample was drawn, such as dptally.Ppswor('0.01').")
    chosen = make_mechanism("weighted_sample", epsilon, delta, None, 1, drawn_by, values)
    if count is None and not isinstance(sample, Mapping):
        raise InvalidParameter("count must name the column of frequencies: a sample comes with the count of each key.")
    bits = read_bits(randomness)
    with paying(ledger, replace(chosen.spends, mechanism="sanitized_sample"), bits, unit=None) as paid:
        rows = _open(paid, sample, key, None, count, nulls, format)
        release = _release(_draw(chosen, rows, 1, None, bits, progress, paid, sampled_by=drawn_by))
        release.guarantee = replace(release.guarantee, mechanism="sanitized_sample")
        return _signed(release, paid)


def _checked_sampling(sampling: object, unit: str | None) -> Scheme | None:
    """Refuse what is no scheme, and a size where the total would depend on units."""
    if sampling is not None and not isinstance(sampling, Scheme):
        raise InvalidParameter(
            f"sampling must be a scheme such as dptally.Ppswor(rate), got {type(sampling).__name__}."
        )
    if sampling is not None and sampling.size is not None and unit is not None:
        raise InvalidParameter("a sample size needs unit=None: with units, give a sampling rate.")
    return sampling


def _open(
    paid: Paid,
    source: Any,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None,
    nulls: Literal["drop", "keep"],
    format_name: str | None,
    *,
    twice: bool = False,
    fits: Callable[[pa.Schema], None] | None = None,
    **place: Any,
) -> Rows:
    """Open the source and check its columns; nothing of its rows is counted yet.

    With `twice`, it must be one that can be read twice; `fits` refuses columns of keys by their types.
    """

    def check(rows: Rows) -> None:
        # Imported here, where an interruption still gives the budget back.
        from dptally.summaries.frequencies import check_repeated

        _refuse_reserved(rows.key)
        if twice:
            check_repeated(rows)
        if fits is not None:
            fits(rows.key_schema)

    return open_paid(
        paid, source, key=key, unit=unit, count=count, nulls=nulls, format=format_name, check=check, **place
    )


def _refuse_reserved(key: Sequence[str]) -> None:
    clash = [name for name in key if name in RESERVED_COLUMNS]
    if clash:
        raise InvalidParameter(f"a key column may not be named {clash[0]!r}: the release has a column of that name.")


def _check_sketched(keys: pa.Schema) -> None:
    """Refuse keys of a declared type that no sketch takes."""
    from dptally.summaries.sketch_keys import kind_of

    kind_of(keys.types[0])


def _checked_engine(
    source: object, mechanism: str, engine: str, memory_limit: str | None, format_name: str | None, collect: bool
) -> bool:
    """Whether Spark reads the source; refuses what only goes there, and what does not."""
    from dptally.sources.engine_choice import check_engine
    from dptally.spark import is_spark_frame

    check_engine(engine, memory_limit=memory_limit)
    if not is_spark_frame(source) and engine != "spark":
        if not collect:
            raise InvalidParameter("collect=False is for Spark DataFrames; this source is read on one machine.")
        return False
    if mechanism in PURE:
        raise InvalidParameter(
            f"the mechanism {mechanism!r} does not run on Spark; use {', '.join(map(repr, MECHANISMS))} or {SKETCH!r}."
        )
    if mechanism == SKETCH and not collect:
        raise InvalidParameter("a sketch is drawn from in the driver; leave collect at True.")
    if engine not in ("auto", "spark"):
        raise InvalidParameter(f"a Spark DataFrame is read by Spark; leave engine at 'auto', got {engine!r}.")
    if memory_limit is not None:
        raise InvalidParameter("memory_limit is for one machine; Spark's memory is set where its session starts.")
    if format_name is not None and is_spark_frame(source):
        raise InvalidParameter("format is for files; this source is not a path.")
    return True


def _open_with_spark(
    paid: Paid,
    source: Any,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None,
    nulls: Literal["drop", "keep"],
    format_name: str | None,
    types: Mapping[str, str] | None,
) -> SparkRows:
    """Rows of files as Spark reads them, by the rules of one machine, or of a DataFrame."""
    from dptally.sources.databases import is_url
    from dptally.spark import is_spark_frame

    with paid.opening():
        files = isinstance(source, str | PurePath | list | tuple) and not is_url(source)
        if not files and not is_spark_frame(source):
            raise InvalidParameter("the engine 'spark' reads files and Spark DataFrames; this source is neither.")
    with opening(paid, source, key=key, unit=unit, count=count, nulls=nulls, format=format_name):
        frame = _frame_of(source, key, unit, count, format_name, types)
        from dptally.spark.rows import open_frame

        rows = open_frame(frame, key=key, unit=unit, count=count, nulls=nulls)
        _refuse_reserved(rows.key)
        return rows


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


def _draw(
    mechanism: Drawing[_Result],
    rows: Rows,
    max_keys_per_unit: int,
    memory_limit: str | None,
    bits: BitSource,
    progress: bool | Progress | None,
    paid: Paid,
    sampled_by: Scheme | None = None,
) -> _Result:
    """Count and draw; `bits` choose which keys of a unit count, and everything that is drawn is drawn with `paid`."""
    with (
        progress_reporter(progress) as report,
        _count(mechanism, rows, max_keys_per_unit, memory_limit, bits, report, sampled_by, paid) as frequencies,
    ):
        return mechanism.draw(frequencies, paid.bits)


def _release(drawn: Drawn) -> Release:
    return Release(drawn.rows, drawn.guarantee, drawn.certificate, drawn.law)


def _signed(release: _Signed, paid: Paid) -> _Signed:
    """The release, its guarantee naming what paid for it."""
    release.guarantee = paid.sign(release.guarantee)
    return release


def _released(drawn: Drawn | CompactRelease) -> Release | CompactRelease:
    from dptally.mechanisms.base import Drawn

    return _release(drawn) if isinstance(drawn, Drawn) else drawn


def _count(
    mechanism: Drawing[Any],
    rows: Rows,
    max_keys_per_unit: int,
    memory_limit: str | None,
    bits: BitSource,
    report: Progress | None,
    sampled_by: Scheme | None,
    paid: Paid,
) -> Frequencies | SampledFrequencies | SampledRows:
    """Count all keys, or sample rows while reading where the scheme allows it and few keys will be left.

    The law of what is released is the same either way. A seeded draw always counts: which row comes first is the
    engine's choice, and a seed must repeat itself. So does a source that counts by itself.
    """
    from dptally.summaries.frequencies import count_keys
    from dptally.summaries.row_sample import sample_rows
    from dptally.summaries.weighted_sample import sample_keys

    scheme = mechanism.law.scheme
    sparse = isinstance(scheme, Ppswor) and scheme.power == 1 and scheme.rate <= _SPARSE
    by_row = bits.private and rows.unit is None and rows.count is None and not rows.counted_at_source
    if sparse and by_row and rows.repeatable:
        assert isinstance(scheme, Ppswor)  # noqa: S101 - for the type checker
        return sample_keys(rows, scheme, bits=paid.bits, memory_limit=memory_limit, progress=report)
    if isinstance(mechanism.law, SampleAndThreshold) and by_row:
        return sample_rows(rows, mechanism.law.rate, bits=paid.bits, memory_limit=memory_limit, progress=report)
    return count_keys(
        rows,
        max_keys_per_unit=max_keys_per_unit,
        bits=bits,
        memory_limit=memory_limit,
        progress=report,
        sampled_by=sampled_by,
    )


def _publish_sketch(
    mechanism: PrivateMisraGries,
    rows: Rows,
    memory_limit: str | None,
    bits: BitSource,
    progress: bool | Progress | None,
    paid: Paid,
) -> Release:
    """Read the rows into a sketch, in bounded memory, and release it."""
    from dptally.summaries.misra_gries import MisraGries
    from dptally.summaries.user_misra_gries import UserMisraGries

    sketch: MisraGries | UserMisraGries
    if rows.unit is None:
        sketch = MisraGries(mechanism.capacity, bits=bits)
    else:
        sketch = UserMisraGries(mechanism.capacity, mechanism.max_keys_per_unit, bits=bits)
    with progress_reporter(progress) as report:
        sketch.update_rows(rows, memory_limit=memory_limit, progress=report)
    drawn, shortfall = mechanism.draw(sketch.contents(), rows.key[0], paid.bits)
    return Release(drawn.rows, drawn.guarantee, drawn.certificate, drawn.law, shortfall)
