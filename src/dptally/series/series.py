"""`dptally.Series`: a table that is updated every night, under one guarantee for all of its nights."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.estimates.series import half_width, window_totals
from dptally.exact import as_count
from dptally.exact.integer_columns import integer_column
from dptally.laws.series import SeriesLaw, plan_series
from dptally.ledger.paying import paying
from dptally.mechanisms.base import in_order_of_keys, without_metadata
from dptally.privacy.guarantee import WITHIN, Guarantee
from dptally.privacy.spending import Part, Spending
from dptally.privacy.stored_facts import facts_of, read_certificate, read_guarantee
from dptally.randomness import BitSource, read_bits
from dptally.randomness.keyed import draw_secret
from dptally.releases.series_release import SERIES_COLUMNS, Place, SeriesRelease
from dptally.series.adding import EMPTY, Noise, add_period, keyed_words, known_blocks, published_history, used_pairs
from dptally.series.bounding import Bounds, count_period
from dptally.series.periods import Period, read_period
from dptally.series.state import State, check_free
from dptally.sources.requests import check_request
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import polars as pl

    from dptally.ledger.paying import AnyLedger
    from dptally.report.drawing import Chart
    from dptally.sources import Rows

__all__ = ["Series"]


class Series:
    """A table of private keys that grows period by period. Make one by `create`, open it again by `open`.

    The guarantee is for all periods together and was certified before the first one. The file is private: it holds a
    secret, and which pairs of units and keys have counted (as keyed hashes). `add` releases a period, once.

    >>> import tempfile, os
    >>> place = os.path.join(tempfile.mkdtemp(), "week.series")
    >>> week = Series.create(place, key="word", unit="user", periods=7, epsilon=2, delta="1e-6")
    >>> rows = [("tea", user) for user in range(500)]
    >>> import polars as pl
    >>> release = week.add(pl.DataFrame(rows, schema=["word", "user"], orient="row"), period="2026-11-16")
    >>> release.table().get_column("word").to_list()
    ['tea']
    """

    def __init__(self, state: State) -> None:
        self._state = state
        with state.reading():
            self._facts = state.facts()
        self.law = SeriesLaw.from_facts(self._facts["law"])
        self.guarantee: Guarantee = read_guarantee(self._facts["guarantee"])
        self.certificate: Certificate = read_certificate(self._facts["certificate"], Certificate)
        self.key: tuple[str, ...] = tuple(self._facts["key"])
        self.unit: str = self._facts["unit"]

    def __repr__(self) -> str:
        stated = f"epsilon={float(self.guarantee.epsilon):.6g}, delta={float(self.guarantee.delta):.6g}"
        return f"<Series of {self.law.periods} periods: {stated if self.guarantee.private else 'NOT PRIVATE (seeded)'}>"

    # ---- making and opening ----

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        key: str | Sequence[str],
        unit: str,
        max_keys_per_unit: int = 1,
        periods: int,
        epsilon: object,
        delta: object,
        periods_per_key: int = 1,
        max_new_keys_per_period: int | None = None,
        period_unit: Literal["day", "week", "month", "period"] | None = None,
        nulls: Literal["drop", "keep"] = "drop",
        ledger: AnyLedger | None = None,
        randomness: BitSource | None = None,
    ) -> Self:
        """Certify a whole series, pay for it, and make its state.

        Args:
            path: of the state, a new file that its owner alone can read.
            key: key column, or several.
            unit: the column that says whose row it is.
            max_keys_per_unit: for how many distinct keys a unit counts in the whole series; with `period_unit`, in one
                period.
            periods: how many periods there will be at most; public.
            epsilon: for all periods together.
            delta: for all periods together.
            periods_per_key: in how many periods a unit counts for one key; 1 counts it in the first one alone.
            max_new_keys_per_period: for how many new keys a unit may count in one period; None for no such bound. Keys
                of early periods use up the bound on all keys; this leaves some for later.
            period_unit: "day", "week", "month" or "period" for the weaker guarantee that protects the rows of a unit
                *within one period*: units count again in every period, and nothing about units is kept.
            nulls: as in `dptally.publish`.
            ledger: pays once, for all periods.
            randomness: as in `dptally.publish`.

        Raises:
            InvalidParameter: a request that cannot be met.
            BudgetExceeded: a ledger's budget does not allow it.
            PrivacyViolation: the series does not pass the verifier; nothing was made or spent.
        """
        place, names = Path(path), check_request(key, unit, None, nulls)
        if not isinstance(unit, str):
            raise InvalidParameter("unit must name the column that says whose row it is.")
        clash = [name for name in names or () if name in SERIES_COLUMNS or name in ("_hi", "_lo")]
        if clash:
            raise InvalidParameter(f"a key column may not be named {clash[0]!r}: a series has a column of that name.")
        if period_unit is not None and period_unit not in WITHIN[1:]:
            raise InvalidParameter(f"period_unit must be one of {', '.join(WITHIN[1:])}, got {period_unit!r}.")
        if period_unit is not None and (periods_per_key != 1 or max_new_keys_per_period is not None):
            raise InvalidParameter("period_unit bounds units within one period; leave bounds over periods out.")
        keys = as_count("max_keys_per_unit", max_keys_per_unit, largest=1 << 20)
        new = keys if max_new_keys_per_period is None else max_new_keys_per_period
        as_count("max_new_keys_per_period", new, largest=keys)
        check_free(place)
        bits = read_bits(randomness)
        law = plan_series(epsilon, delta, differing=keys, periods=periods, per_key=periods_per_key)
        certificate = law.certify()
        within = 0 if period_unit is None else WITHIN.index(period_unit)
        stated = Guarantee(law.epsilon, law.delta, unit, keys, "series", private=bits.private)
        stated = stated.under(periods=law.periods, periods_per_key=law.per_key, within=within)
        spending = Spending("series", law.epsilon, law.delta, (Part(law.epsilon, law.delta),))
        protected = unit if period_unit is None else f"{unit} within one {period_unit}"
        with paying(ledger, spending, bits, unit=protected) as paid:
            with paid.opening():
                check_free(place)
            seed = draw_secret(paid.bits)
            facts = {
                "id": secrets.token_hex(16),
                "key": list(names or ()),
                "unit": unit,
                "nulls": nulls,
                "max_new_keys_per_period": new,
                "law": law.facts(),
                "certificate": facts_of(certificate),
                "guarantee": facts_of(replace(stated, record=paid.record)),
                "schema": None,
                "sealed": False,
            }
            state = State.create(place, facts, bytes(seed))
            seed[:] = bytes(len(seed))
        made = cls(state)
        vars(made)["law"] = law  # certified already
        return made

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open the state of a series."""
        return cls(State(Path(path)))

    def close(self) -> None:
        """Close the file."""
        self._state.close()

    # ---- a period ----

    def add(
        self,
        source: Any,
        *,
        period: object,
        format: str | None = None,  # noqa: A002 - the word users expect
        table: str | None = None,
        query: str | None = None,
        types: Mapping[str, str] | None = None,
        memory_limit: str | None = None,
    ) -> SeriesRelease:
        """Add the rows of a period, and release it.

        A period is added once; one that was interrupted has changed nothing. Where it was complete but its release was
        not handed out, `add` hands it out, without reading the source. Periods follow each other; one that is left out
        counts as empty, and rows that come late belong into the current period.

        Args:
            source: as in `dptally.publish`.
            period: its name: a date, a week ``2026-W47``, a month ``2026-11``, or a whole number; as in the first one.
            format: as in `dptally.publish`.
            table: as in `dptally.publish`.
            query: as in `dptally.publish`.
            types: as in `dptally.publish`.
            memory_limit: as in `dptally.publish`.
        """
        number = self.commit(
            source, period=period, format=format, table=table, query=query, types=types, memory_limit=memory_limit
        )
        release = self.release(period)
        self.handed_out(number)
        return release

    def commit(self, source: Any, *, period: object, memory_limit: str | None = None, **place: Any) -> int:
        """Add the rows of a period without handing its release out: the number of the period."""
        from dptally.spark import is_spark_frame

        if is_spark_frame(source):
            raise InvalidParameter("a series does not read Spark DataFrames; write the day's rows to files first.")
        self._refuse_sealed()
        named, state = read_period(period), self._state
        with state.writing():
            state.check_note()
            known = state.periods()
            number = self._number(named, [(n, read_period(name), added) for n, name, _, added in known])
            last = known[-1][0] if known else 0
            if number > last:
                digests = [digest for _, _, digest, _ in known] + [EMPTY] * (number - last - 1)
                self._write(self._opened(source, place), named, number, last, digests, memory_limit)
        state.write_note()
        return number

    def handed_out(self, number: int) -> None:
        """Note that the release of a period was handed out: `add` refuses the period from then on."""
        self._state.put_delivered(number)

    def _write(
        self, rows: Rows, named: Period, number: int, last: int, digests: list[bytes], memory_limit: str | None
    ) -> None:
        """Everything that a period changes; inside a transaction."""
        state, private = self._state, self.guarantee.private
        seed, over_periods = state.seed(), not self.guarantee.within
        counted = count_period(
            rows,
            known=known_blocks(state),
            used=used_pairs(state),
            bounds=Bounds(self.law.differing, self.law.per_key, self._facts["max_new_keys_per_period"]),
            keyed=keyed_words(seed, private=private),
            memory_limit=memory_limit,
        )
        noise = Noise(self.law, seed, [*digests, counted.digest], private)
        add_period(state, noise, counted, number, last, keep_units=over_periods)
        for left_out in range(last + 1, number):
            earlier = Period(named.kind, named.place - number + left_out)
            state.put_period(left_out, str(earlier), EMPTY, added=False)
        state.put_period(number, str(named), counted.digest, added=True)

    def _number(self, named: Period, known: list[tuple[int, Period, bool]]) -> int:
        """The number of a period; refuses one that cannot be added now."""
        if not known:
            return 1
        last, newest, _ = known[-1]
        if named.kind != newest.kind:
            raise InvalidParameter(f"period must be a {newest.kind} like {newest}, as before, got {named}.")
        number = last + named.place - newest.place
        if number == last and not self._state.delivered(last):
            return number
        if number == last or any(n == number and added for n, _, added in known):
            raise InvalidParameter(
                f"period {named} was added already, and a period is added once; Series.release and dptally series show "
                "give its release again."
            )
        if number < last:
            raise InvalidParameter(
                f"period {named} is before {newest}, the last one: periods follow each other, and rows that come late "
                "belong into the current period."
            )
        if number > self.law.periods:
            raise InvalidParameter(
                f"period {named} is beyond the horizon of {self.law.periods} periods; seal this series and create the "
                "next one."
            )
        return number

    def _opened(self, source: Any, place: dict[str, Any]) -> Rows:
        """The source, its columns as they were in the first period."""
        from dptally.sources import open_rows

        rows = open_rows(source, key=list(self.key), unit=self.unit, nulls=self._facts["nulls"], **place)
        schema = [str(kind) for kind in rows.key_schema.types] + [rows.unit_type]
        facts = self._state.facts()
        if facts["schema"] is None:
            self._state.put_facts({**facts, "schema": schema})
        elif facts["schema"] != schema:
            changed = [n for n, a, b in zip((*self.key, self.unit), facts["schema"], schema, strict=True) if a != b]
            raise InvalidParameter(
                f"column {changed[0]!r} has another type than in the first period, and its values would be taken for "
                "new ones; convert it in the source, or say its type by `types`."
            )
        return rows

    def _refuse_sealed(self) -> None:
        if self._facts["sealed"]:
            raise InvalidParameter("the series is sealed: its secret is destroyed, and nothing can be added.")

    def seal(self) -> None:
        """End the series: destroy its secret, what is known about units, and all keys that were not published.

        What was released stays, and can be asked as before.
        """
        self._refuse_sealed()
        with self._state.writing():
            for kind in ("keys", "counts", "units", "buffers", "published_numbers"):
                self._state.drop(kind)
            self._state.forget_secret()
            self._facts = {**self._state.facts(), "sealed": True}
            self._state.put_facts(self._facts)
        self._state.shrink()

    # ---- what was released ----

    @property
    def sealed(self) -> bool:
        """Whether nothing can be added any more."""
        return bool(self._facts["sealed"])

    @property
    def periods(self) -> list[str]:
        """Names of the periods that were added, in order."""
        with self._state.reading():
            return [name for _, name, _, added in self._state.periods() if added]

    def release(self, period: object = None) -> SeriesRelease:
        """What was released of a period, the last one if left out: the same as `add` returned."""
        with self._published() as (keys, since, y, numbers):
            number = self._place_of(period, numbers)
            name = next(name for name, found in numbers.items() if found == number)
            head = self._state.head_of(number)
        there = since <= number
        total = window_totals(self.law, y[there], 1, number)
        increment = window_totals(self.law, y[there], number, number)
        rows = self._rows(keys, there, total=total, increment=increment)
        place = Place(self._facts["id"], name, number, head)
        return SeriesRelease(rows, self.guarantee, self.certificate, self.law, place)

    def table(self, period: object = None, *, confidence: object = 0.95) -> pl.DataFrame:
        """Key column(s), `total`, `lower`, `upper`, `increment`, `increment_lower` and `increment_upper` of a period.

        The last period, if it is left out; see `SeriesRelease.table`.
        """
        return self.release(period).table(confidence=confidence)

    def top(self, n: int = 10, *, period: object = None, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest running totals; intervals hold for all published keys at once."""
        return self.release(period).top(n, confidence=confidence)

    def window(self, first: object, last: object, *, confidence: object = 0.95) -> pl.DataFrame:
        """How many units count for each published key from one period to another, both included.

        Totals of two periods are correlated, and the interval knows how. Keys that were published after `last` are
        among them: what is known about them reaches back to the first period.
        """
        with self._published() as (keys, since, y, numbers):
            begin, end = self._place_of(first, numbers), self._place_of(last, numbers)
        if begin > end:
            raise InvalidParameter("first must not be after last.")
        found = window_totals(self.law, y, begin, end)
        rows = self._rows(keys, since > 0, total=found)
        half = half_width(self.law, begin, end, confidence)
        return _with_bounds(rows, half, clipped=True)

    def changes(
        self, before: object, after: object, *, n: int | None = None, confidence: object = 0.95
    ) -> pl.DataFrame:
        """How much more units count for each key in one period than in another; largest changes first.

        The columns are `change`, `lower` and `upper`. Intervals hold for all published keys at once, since rows are
        sorted by what they say.
        """
        with self._published() as (keys, since, y, numbers):
            earlier, later = self._place_of(before, numbers), self._place_of(after, numbers)
        found = window_totals(self.law, y, later, later) - window_totals(self.law, y, earlier, earlier)
        rows = self._rows(keys, since > 0, total=found)
        half = half_width(self.law, later, later, confidence, keys=len(y), less=earlier)
        table = _with_bounds(rows, half, clipped=False).rename({"total": "change"})
        ordered = table.sort(table.get_column("change").abs().alias("size"), descending=True, maintain_order=True)
        return ordered if n is None else ordered.head(as_count("n", n, largest=1 << 40))

    def lines(self, n: int = 6) -> tuple[list[str], list[tuple[tuple[object, ...], list[float]]]]:
        """Names of all periods, and the running totals in each of them of the n keys with the largest totals."""
        with self._published() as (keys, _, y, numbers):
            last = max(numbers.values())
            names = [name for _, name, _, _ in self._state.periods()]
        order = np.argsort(-window_totals(self.law, y, 1, last), kind="stable")[:n]
        totals = [window_totals(self.law, y[order], 1, period) for period in range(1, last + 1)]
        labels = list(zip(*(keys.column(name).take(pa.array(order)).to_pylist() for name in self.key), strict=True))
        return names, [(label, [float(row[at]) for row in totals]) for at, label in enumerate(labels)]

    def plot(self, n: int = 6, *, confidence: object = 0.95) -> Chart:
        """Running totals of the largest keys, period by period."""
        from dptally.report.of_series import lines_chart

        names, lines = self.lines(n)
        return lines_chart(self.law, self.guarantee, names, lines, confidence)

    def report(self, path: str | Path, *, overwrite: bool = False, **options: Any) -> None:
        """Write an HTML page about the last period; options as for `dptally.report.write`."""
        self.release().report(path, overwrite=overwrite, **options)

    # ---- inside ----

    @contextlib.contextmanager
    def _published(self) -> Iterator[tuple[pa.Table, Any, Any, dict[str, int]]]:
        with self._state.reading():
            numbers = {name: number for number, name, _, added in self._state.periods() if added}
            if not numbers:
                raise InvalidParameter("nothing was added to the series yet.")
            yield *published_history(self._state), numbers

    @staticmethod
    def _place_of(period: object, numbers: dict[str, int]) -> int:
        if period is None:
            return max(numbers.values())
        name = str(read_period(period))
        if name not in numbers:
            raise InvalidParameter(f"period {name} was not added to the series.")
        return numbers[name]

    def _rows(self, keys: pa.Table, there: Any, **columns: Any) -> pa.Table:
        """Some of the published keys with whole numbers, in the order of keys."""
        rows = keys.filter(pa.array(there, pa.bool_()))
        for name, numbers in columns.items():
            rows = rows.append_column(name, integer_column(np.rint(numbers).astype(np.int64)))
        return in_order_of_keys(without_metadata(rows), self.key).combine_chunks()


def _with_bounds(rows: pa.Table, half: int, *, clipped: bool) -> pl.DataFrame:
    import polars as pl

    table = pl.DataFrame(pl.from_arrow(rows))
    lower, upper = pl.col("total") - half, pl.col("total") + half
    if clipped:
        lower, upper = lower.clip(lower_bound=0), upper.clip(lower_bound=0)
    return table.with_columns(lower.alias("lower"), upper.alias("upper"))
