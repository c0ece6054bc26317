"""`dptally.Series`: a table that is updated every night, under one guarantee for all of its nights."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from dptally.errors import InvalidParameter
from dptally.exact import as_count
from dptally.laws.series import plan_series
from dptally.ledger.paying import paying
from dptally.privacy.guarantee import WITHIN, Guarantee
from dptally.privacy.spending import Part, Spending
from dptally.privacy.stored_facts import facts_of
from dptally.randomness import BitSource, read_bits
from dptally.randomness.keyed import draw_secret
from dptally.releases.series_release import SERIES_COLUMNS, SeriesRelease
from dptally.series.adding import EMPTY, Noise, add_period, keyed_words, known_blocks, used_pairs
from dptally.series.bounding import Bounds, count_period
from dptally.series.periods import Period, read_period
from dptally.series.released import ReleasedSeries
from dptally.series.state import State, check_free
from dptally.sources.filters import read_filter
from dptally.sources.requests import check_request

if TYPE_CHECKING:
    from dptally.ledger.paying import AnyLedger
    from dptally.sources import Rows

__all__ = ["Series"]


class Series(ReleasedSeries):
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
                "filters": {},
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
        where: str | None = None,
        since: object = None,
        until: object = None,
        time_column: str | None = None,
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
            where: as in `dptally.publish`; the release of the period names it.
            since: as in `dptally.publish`.
            until: as in `dptally.publish`.
            time_column: as in `dptally.publish`.
            memory_limit: as in `dptally.publish`.
        """
        number = self.commit(
            source, period=period, format=format, table=table, query=query, types=types, memory_limit=memory_limit,
            where=where, since=since, until=until, time_column=time_column,
        )  # fmt: skip
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
        if WITHIN[self.guarantee.within] not in ("", "period", named.kind):
            raise InvalidParameter(
                f"period must be a {WITHIN[self.guarantee.within]}, as in the guarantee, got {named}."
            )
        filtered = read_filter(
            place.pop("where", None),
            **{name: place.pop(name, None) for name in ("since", "until", "time_column")},
        )
        with state.writing():
            state.keep_note()
            known = state.periods()
            number = self._number(named, [(n, read_period(name), added) for n, name, _, added in known])
            last = known[-1][0] if known else 0
            if number > last:
                digests = [digest for _, _, digest, _ in known] + [EMPTY] * (number - last - 1)
                rows = self._opened(source, {**place, "where": filtered})
                self._write(rows, named, number, last, digests, memory_limit)
                if filtered is not None:
                    facts = state.facts()
                    filters = {**facts["filters"], str(number): filtered.text}
                    state.put_facts({**facts, "filters": filters})
        with state.reading():
            state.keep_note()
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
        schema = [str(kind) for kind in rows.key_schema.types] + [rows.unit_identity]
        facts = self._state.facts()
        if facts["schema"] is None:
            self._state.put_facts({**facts, "schema": schema})
        elif facts["schema"] != schema:
            changed = [n for n, a, b in zip((*self.key, self.unit), facts["schema"], schema, strict=True) if a != b]
            raise InvalidParameter(
                f"column {changed[0]!r} has another type or kind of source than in the first period, and its values "
                "would be taken for new ones; convert it in the source, or say its type by `types`."
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
            self._state.keep_note()
            for kind in ("keys", "counts", "units", "buffers", "published_numbers"):
                self._state.drop(kind)
            self._state.forget_secret()
            self._facts = {**self._state.facts(), "sealed": True}
            self._state.put_facts(self._facts)
        self._state.shrink()
