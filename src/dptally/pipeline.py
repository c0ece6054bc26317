"""The whole flow: source, bounded contributions, counts, mechanism, release."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.mechanisms.private_weighted_sampling import PrivateWeightedSampling
from dptally.observation_models.sampling_schemes import Scheme
from dptally.privacy.composition import LARGEST_UNIT
from dptally.randomness import BitSource, SystemBits
from dptally.release import RESERVED_COLUMNS, Release

if TYPE_CHECKING:
    from dptally.mechanisms.base import Mechanism

__all__ = ["Progress", "publish"]

Progress = Callable[[str, float | None], None]


def publish(
    source: Any,
    *,
    key: str | Sequence[str] | None = None,
    unit: str | None = None,
    max_keys_per_unit: int = 1,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction,
    mechanism: str = "weighted_sample",
    sampling: Scheme | None = None,
    values: bool = True,
    ledger: None = None,
    count: str | None = None,
    nulls: Literal["drop", "keep"] = "drop",
    format: str | None = None,  # noqa: A002 - the word users expect
    memory_limit: str | None = None,
    randomness: BitSource | None = None,
    progress: bool | Progress | None = None,
) -> Release:
    """Publish a table of private keys and counts.

    Everything that can be refused is refused before data is read: parameters first, then the table's certificate, then
    the source's columns. The data is counted by DuckDB in bounded memory, and one value is drawn for each distinct key.

    Args:
        source: path, glob or list of paths (CSV, TSV, JSON lines, Parquet, .gz, .zst), "-" for standard input, a
            Polars, pandas or PyArrow table, a DuckDB relation, a mapping key -> count, or an iterable of keys.
        key: column name, or several. Not needed for a mapping or an iterable.
        unit: whose privacy: a column, or None when every row is a unit of its own.
        max_keys_per_unit: a unit with more distinct keys keeps a uniform random choice of this many.
        epsilon: positive; a float means its exact binary value, ``"0.1"`` means 1/10.
        delta: the probability with which the guarantee may fail; well below one over the number of units.
        mechanism: "weighted_sample".
        sampling: a sampling scheme such as `dptally.Ppswor(rate)`, its rate fixed without looking at the data, or None.
        values: False to release keys only.
        ledger: not available in this version.
        count: a column of counts, for data that is already aggregated; each counted occurrence is a unit.
        nulls: "drop" leaves out rows with a null in a key column, "keep" makes null a key like any other. Rows without
            a unit are always left out.
        format: "csv", "tsv", "jsonl" or "parquet", where the file name does not tell.
        memory_limit: for the counting engine, such as "2GB".
        randomness: None for secret bits of the operating system. `dptally.randomness.SeededBits` makes the release
            repeatable and therefore not private, and the release says so.
        progress: True or False; None shows it when attached to a terminal; or a function of stage and fraction.

    Returns:
        Release: what may be shown to anyone.

    Raises:
        InvalidParameter: a request that cannot be met.
        InvalidSource: data that cannot be read as asked.
        PrivacyViolation: a table that does not pass the judge; nothing has been drawn.

    >>> release = publish({"common": 1000, "rare": 1}, epsilon=1, delta="1e-6")
    >>> release.table().get_column("key").to_list()
    ['common']
    """
    from dptally.sources import open_rows
    from dptally.summaries.frequencies import count_keys

    chosen = _mechanism(mechanism, epsilon, delta, unit, max_keys_per_unit, sampling, values, ledger)
    rows = open_rows(source, key=key, unit=unit, count=count, nulls=nulls, format=format)
    clash = [name for name in rows.key if name in RESERVED_COLUMNS]
    if clash:
        raise InvalidParameter(f"a key column may not be named {clash[0]!r}: the release has a column of that name.")
    bits = SystemBits() if randomness is None else randomness
    with (
        _reporter(progress) as report,
        count_keys(
            rows, max_keys_per_unit=max_keys_per_unit, bits=bits, memory_limit=memory_limit, progress=report
        ) as frequencies,
    ):
        drawn = chosen.draw(frequencies, bits)
    return Release(drawn.rows, drawn.guarantee, drawn.certificate, drawn.law)


def _mechanism(
    name: str,
    epsilon: object,
    delta: object,
    unit: str | None,
    max_keys_per_unit: int,
    sampling: object,
    values: bool,
    ledger: object,
) -> Mechanism:
    """Check the request and certify its table, before any data is read."""
    if name != "weighted_sample":
        raise InvalidParameter(f"mechanism must be 'weighted_sample' in this version, got {name!r}.")
    if sampling is not None and not isinstance(sampling, Scheme):
        raise InvalidParameter(
            f"sampling must be a scheme such as dptally.Ppswor(rate), got {type(sampling).__name__}."
        )
    if ledger is not None:
        raise InvalidParameter("ledger must be None: ledgers are not available in this version.")
    keys = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
    if unit is None and keys > 1:
        raise InvalidParameter("max_keys_per_unit needs a unit: without one, every row is its own unit with one key.")
    return PrivateWeightedSampling(
        as_epsilon(epsilon), as_delta(delta), max_keys_per_unit=keys, values=values, scheme=sampling
    )


@contextlib.contextmanager
def _reporter(progress: bool | Progress | None) -> Iterator[Progress | None]:
    """Turn the caller's wish into a function of stage and fraction, or None for silence."""
    import sys

    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(stage: str, fraction: float | None) -> None:
            bars.update(task, description=stage, total=None if fraction is None else 1.0, completed=fraction or 0.0)

        yield show
