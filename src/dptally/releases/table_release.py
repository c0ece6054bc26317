"""A table of released keys and values, and the questions it answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.estimates.accuracy import Frequencies, accuracy_by_frequency
from dptally.estimates.frequencies import as_confidence, estimate_frequencies, estimate_together, together_in_words
from dptally.estimates.sketch_error import SketchError, sketch_error
from dptally.estimates.sql_text import read_expression
from dptally.estimates.subset_sums import Sum, estimate_sum
from dptally.exact.integer_columns import integer_column, integers
from dptally.labels import printable
from dptally.laws.base import EstimatorKind, FrequencyFunction, Law
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.registry import law_from_facts
from dptally.laws.shortfall import Shortfall
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.stored_facts import read_certificate, read_guarantee
from dptally.releases.base import Count, Release, Summary
from dptally.releases.released_rows import check_against_table, check_rows
from dptally.releases.released_statistics import ReleasedStatistics
from dptally.releases.roll_ups import rolled_up
from dptally.verifiers.guarantees import verify_table
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import polars as pl

    from dptally.report.contents import Asked, Report
    from dptally.report.drawing import Chart

RESERVED_COLUMNS = ("value", "estimate", "lower", "upper")
_LONGEST_REASON = 300
_ROWS_ALONE = 16
_LARGEST_SHORTFALL, _LARGEST_SCALE = 1 << 61, 1 << 40  # added to a value, it stays a number of 64 bits


class TableRelease(Release):
    """Released keys with values. Made by `dptally.publish` or `dptally.load`.

    Rows have key columns and an int64 column "value", sorted by key. A `shortfall` says how far a sketch that was
    released falls short of true counts; None where counts were exact.
    """

    kind = "table"
    noun = "a table of keys"
    answers = "it answers table, top, count, sum, rank and quantile"
    law: Law
    certificate: Certificate

    def __init__(
        self,
        rows: pa.Table,
        guarantee: Guarantee,
        certificate: Certificate,
        law: Law,
        shortfall: Shortfall | None = None,
        numbers: Mapping[str, NDArray[np.int64]] | None = None,
    ) -> None:
        self._rows = rows
        self.key = tuple(name for name in rows.column_names if name != "value")
        self._values: NDArray[np.int64] = integers(rows.column("value"))
        self.guarantee = guarantee
        self.certificate = certificate
        self.law = law
        self.shortfall = shortfall
        self._statistics = None if law.statistics is None else ReleasedStatistics(law.statistics, numbers or {})

    def __len__(self) -> int:
        """How many keys were released."""
        return len(self._values)

    def _held(self) -> str:
        return f"{len(self)} keys by {', '.join(map(printable, self.key))}"

    # ---- the table ----

    def to_arrow(self, *, confidence: object = 0.95) -> pa.Table:
        """The table as a PyArrow table; see `table`."""
        found = estimate_frequencies(self.law, self._values, confidence, self.shortfall)
        return self._with_bounds(self._rows, found, 1 - as_confidence(confidence))

    def _with_bounds(
        self, rows: pa.Table, found: FrequencyEstimates, beta: Fraction, places: NDArray[np.int64] | None = None
    ) -> pa.Table:
        """Some of the rows, with their estimates and bounds; those of statistics are missed with beta."""
        nothing = pa.nulls(len(rows), type=pa.int64())
        table = rows if self.law.values else rows.set_column(len(self.key), "value", nothing)
        for name, column in (("estimate", found.estimate), ("lower", found.lower), ("upper", found.upper)):
            table = table.append_column(name, nothing if column is None else integer_column(column))
        for name, numbers in ({} if self._statistics is None else self._statistics.columns(beta, places)).items():
            table = table.append_column(name, pa.array(numbers))
        return table

    def table(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """The released keys, sorted by key, each with a confidence interval of its own.

        The intervals are for keys that are looked up. For rows that are chosen or sorted by value use `top`, whose
        intervals hold for all keys at once: of the largest values of this table far fewer than `confidence` are right.

        The confidence is that of each key's bounds, among released keys; see `dptally.estimates.frequencies`.

        Returns:
            polars.DataFrame: key column(s); `value`, what was drawn; `estimate`, the frequency that makes this value
            most likely; `lower` and `upper`. All but `lower` are null when values were not asked for. Sums and means
            follow, as `sum_amount`, `sum_amount_lower`, `sum_amount_upper`; each has an interval of its own.
        """
        import polars as pl

        return pl.DataFrame(pl.from_arrow(self.to_arrow(confidence=confidence)))

    def for_people(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows; without values, their keys alone; sums and means with few digits."""
        import polars as pl

        return rows.with_columns(pl.col(pl.Float64).round_sig_figs(5)) if self.law.values else rows.select(self.key)

    # ---- questions ----

    def sum(
        self,
        where: pl.Expr | str | None = None,
        of: FrequencyFunction | str | None = None,
        *,
        times: pl.Expr | str | None = None,
        kind: EstimatorKind | None = None,
        confidence: object = 0.95,
    ) -> Sum:
        """Sum of counts over the released keys of a selection, with a confidence interval.

        Keys that were not released are not included. What they add up to, a release does not tell; the result says
        so. `estimate`, `lower` and `upper` are for sum of L(key) g(frequency) over the released keys.

        Args:
            where: a Polars expression on the key columns, or the same as SQL text, such as ``"query LIKE 'a%'"``. A
                condition on `value`, `estimate` or bounds is possible; it makes the interval of the sum wider.
            of: the function g: "count" or None for the frequency itself, "keys" for 1, "power:P", "capped:C", "log",
                or any non-decreasing function with g(0) = 0; see `dptally.estimates.functions`.
            times: the factor L, a Polars expression on the key columns or SQL text that gives a number for each key;
                None for 1. A missing number counts as 0. Equal positive factors scale the interval of the plain sum;
                others make it wider, since errors of different keys cannot be trusted to cancel.
            kind: None; or "mle", "lower" or "unbiased" for an `extrapolation` by reporting probabilities as well, which
                is no estimate of what is hidden; see `dptally.estimates.subset_sums.estimate_sum`.
            confidence: of the interval.
        """
        chosen, by_value = self._selected(where)
        factors: NDArray[np.float64] | None = None
        if times is not None:
            numbers, weighed_by_value = self._factors(times)
            chosen &= numbers != 0
            factors = numbers[chosen]
            by_value |= weighed_by_value
        found = estimate_sum(
            self.law,
            self._values[chosen],
            shortfall=self.shortfall,
            of=of,
            factors=factors,
            chosen_among=len(self) if by_value else None,
            kind=kind,
            confidence=confidence,
        )
        found = replace(found, counters=self._of_counters)
        plain = of in (None, "count") and times is None and not by_value
        if self._statistics is None or not plain:
            return found
        return self._statistics.sum_of(found, chosen, 1 - as_confidence(confidence), everything=where is None)

    def totals(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """How many there are in all: units, pairs of a unit and a key, and the pairs whose key was not released.

        Pairs are those that were counted: at most as many keys of a unit as the release counts. `other` is what all
        keys that were not released add up to, `pairs` what all keys do.

        Returns:
            polars.DataFrame: rows "units", "pairs" and "other" with the columns `name`, `estimate`, `lower`, `upper`.

        Raises:
            InvalidParameter: the release was published without totals.
        """
        if self._statistics is None:
            raise InvalidParameter(
                "this release does not tell how many there are in all; publish with totals=True to have it measured."
            )
        return self._statistics.totals(1 - as_confidence(confidence))

    def by(self, *columns: str, confidence: object = 0.95) -> pl.DataFrame:
        """Counts, sums and means of groups of released keys: those that agree in some of the key columns.

        Keys that were not released are not included. A unit counts once for every released key that it has, so that
        counts of a group are of pairs of a unit and a key, and means are over such pairs.

        Args:
            columns: names of key columns.
            confidence: of each interval.

        Returns:
            polars.DataFrame: the columns, sorted by them; `keys`, how many released keys were added up; `estimate`,
            `lower`, `upper`; then sums and means as in `table`.
        """
        unknown = next((name for name in columns if name not in self.key), None)
        if not columns or unknown is not None:
            raise InvalidParameter(f"by takes names of key columns, which are {', '.join(self.key)}.")
        if not self.law.values:
            raise InvalidParameter("by needs values, and this release has none.")

        def one(places: NDArray[np.int64]) -> Sum:
            return estimate_sum(self.law, self._values[places], shortfall=self.shortfall, confidence=confidence)

        return rolled_up(self._rows.select(list(columns)), one, self._statistics, 1 - as_confidence(confidence))

    @property
    def _of_counters(self) -> bool:
        """Whether counts are those of a sketch, and the release does not tell how far they fall short."""
        return self.guarantee.sketch_capacity is not None and self.shortfall is None

    def _selected(self, where: pl.Expr | str | None) -> tuple[NDArray[np.bool_], bool]:
        """Which released keys meet a condition, and whether it looks at more than the key."""
        import polars as pl

        if where is None:
            return np.ones(len(self), dtype=bool), False
        chosen, by_value = self._evaluate("where", where)
        if chosen.dtype != pl.Boolean:
            raise InvalidParameter("where must be a condition: true or false for each key.")
        return chosen.fill_null(False).to_numpy(writable=True), by_value

    def _factors(self, times: pl.Expr | str) -> tuple[NDArray[np.float64], bool]:
        """A number for each released key, and whether it looks at what was drawn."""
        import polars as pl

        found, by_value = self._evaluate("times", times)
        if not (found.dtype.is_numeric() or found.dtype == pl.Boolean):
            raise InvalidParameter("times must give a number for each key.")
        numbers = found.cast(pl.Float64).fill_null(0.0).to_numpy()
        if not np.isfinite(numbers).all():
            raise InvalidParameter("times must give a finite number for each key.")
        return numbers, by_value

    def _evaluate(self, name: str, expression: pl.Expr | str) -> tuple[pl.Series, bool]:
        """An expression for each released key, and whether it looks at what was drawn: at values, or at other keys.

        It is evaluated on the key columns if they are enough, else on the whole table.
        """
        import polars as pl

        try:
            wanted = (read_expression(name, expression) if isinstance(expression, str) else expression).alias(
                "__wanted"
            )
            try:
                keys = pl.DataFrame(pl.from_arrow(self._rows.select(list(self.key))))
                found = keys.with_columns(wanted).get_column("__wanted")
                return found, _looks_around(keys, wanted, found)
            except pl.exceptions.ColumnNotFoundError:
                return self.table().with_columns(wanted).get_column("__wanted"), True
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = (str(error).splitlines() or ["unknown reason"])[0][:_LONGEST_REASON]
            raise InvalidParameter(f"{name} cannot be evaluated on the release: {reason}") from None

    def accuracy(
        self, frequencies: Frequencies, of: FrequencyFunction | str | None = None, *, kind: EstimatorKind = "mle"
    ) -> pl.DataFrame:
        """How the estimate for one key errs, for each of the given true frequencies: exact, from the law alone.

        Function and kind of estimate as in `sum`. Sums over many keys:
        `dptally.estimates.accuracy.population_accuracy`.

        Returns:
            polars.DataFrame: `frequency`, `reported` (probability), `truth`, `bias`, `variance`, `mse`, `nrmse`.
        """
        return accuracy_by_frequency(self.law, frequencies, of=of, kind=kind)

    def sketch_error(self, *, confidence: object = 0.95) -> SketchError:
        """How far values, and keys not reported, can be from frequencies, all at once; of a sketch alone."""
        return sketch_error(self.law, self.guarantee, self.shortfall, confidence)

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n released keys with the largest values, with confidence intervals that hold after this selection.

        With probability `confidence` the intervals of all released keys, and so of all rows here, contain the true
        counts at once; see `dptally.estimates.frequencies.estimate_together`. They are wider than those of `table`,
        which are for each key on its own. The estimates are not corrected: at the top most of them are too high.

        Rows are as in `table`, largest value first, ties in the order of keys; n is `len(release)` for all of them.
        """
        if n < 0:
            raise InvalidParameter(f"n must not be negative, got {n}.")
        import polars as pl

        order = np.argsort(-self._values, kind="stable")[:n]
        found = estimate_together(self.law, self._values[order], confidence, self.shortfall, among=len(self))
        beta = (1 - as_confidence(confidence)) / max(1, len(self))
        return pl.DataFrame(pl.from_arrow(self._with_bounds(self._rows.take(order), found, beta, order)))

    def top_in_words(self, *, confidence: object = 0.95) -> str:
        """Which kind of confidence intervals `top` gives, in words for those who read them."""
        keep = self.law.keep
        condition = "" if keep is None else f", if no more than {keep:,} different keys occur in the data"
        counts = "counters of the sketch" if self._of_counters else f"true counts{self.guarantee.after_bounding}"
        return together_in_words(as_confidence(confidence), counts=counts, condition=condition)

    def count(self, key: object, confidence: object = 0.95) -> Count | None:
        """The value of one key with a confidence interval of its own, for a key chosen without looking at the release.

        A key of several columns is a tuple. The confidence is that among released keys. None when the key was not
        released, which does not mean that it does not occur.
        """
        place = self._find(key)
        if place is None:
            return None
        found = estimate_frequencies(self.law, self._values[[place]], confidence, self.shortfall)
        if found.upper is None:
            raise InvalidParameter("count needs values, and this release has none.")
        return Count(int(self._values[place]), int(found.lower[0]), int(found.upper[0]))

    def look_up(self, parts: list[str], *, confidence: object = 0.95) -> pl.DataFrame:
        """The rows of keys as they are written, with nulls for those that were not released; bytes in hexadecimal."""
        import polars as pl

        names, table = list(self.key), self.table(confidence=confidence)
        if len(parts) % len(names):
            raise InvalidParameter(
                f"a key of this release has {len(names)} parts ({', '.join(names)}); give all parts of each key, "
                f"key after key, got {len(parts)}."
            )
        binary = [name for name in names if table.schema[name] == pl.Binary]
        written = table.with_columns(
            pl.col(name).bin.encode("hex") if name in binary else pl.col(name).cast(pl.String) for name in names
        )
        asked = pl.DataFrame({name: parts[place :: len(names)] for place, name in enumerate(names)})
        asked = asked.with_columns(pl.col(name).str.to_lowercase() for name in binary)
        return asked.join(written, on=names, how="left", maintain_order="left")

    def rank(self, key: object) -> int | None:
        """The place of a released key by value, 1 for the largest; equal values share the best place.

        Keys as in `count`; None when the key was not released, which does not mean that it does not occur.
        """
        place = self._find(key)
        return None if place is None else int(np.count_nonzero(self._values > self._values[place])) + 1

    def _find(self, key: object) -> int | None:
        import polars as pl

        wanted = key if isinstance(key, tuple) else (key,)
        if len(wanted) != len(self.key):
            raise InvalidParameter(f"key must have {len(self.key)} parts, got {len(wanted)}.")
        condition = pl.all_horizontal(
            pl.col(name).eq_missing(pl.lit(part)) for name, part in zip(self.key, wanted, strict=True)
        )
        places = np.flatnonzero(self._selected(condition)[0])
        return int(places[0]) if len(places) else None

    def quantile(self, q: object) -> int | None:
        """The estimated frequency that a share q of the released keys does not exceed; None for an empty release.

        It describes released keys; rare keys are missing from a release more often than frequent ones.
        """
        share = as_confidence(q) if q not in (0, 1) else Fraction(q)
        found = estimate_frequencies(self.law, self._values, 0.5).estimate
        if found is None:
            raise InvalidParameter("quantile needs values, and this release has none.")
        if not len(found):
            return None
        place = max(1, -((-share.numerator * len(found)) // share.denominator))
        return int(np.partition(found, place - 1)[place - 1])

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """The first n keys, and how frequent all of them are."""
        first = self.table(confidence=confidence).head(n)
        spread = self._distribution()
        more = (f"... and {len(self) - len(first):,} more, by key.",) if len(self) > len(first) > 0 else ()
        return Summary(
            title=f"{len(self):,} released keys by {', '.join(self.key)}",
            rows=self.for_people(first),
            words=len(self.key),
            notes=(*more, self.law.counted) if self.law.counted else more,
            bars=tuple((f"{low:,} - {high:,}" if high else "0", keys) for low, high, keys in spread),
            answers={
                "rows": first,
                "distribution": [{"from": low, "to": high, "keys": keys} for low, high, keys in spread],
            },
        )

    def _distribution(self) -> list[tuple[int, int, int]]:
        """How many released keys have an estimated count of 0, or from 2^b to 2^(b+1) - 1, without empty ends."""
        if not self.law.values or not len(self):
            return []
        bins = Counter(estimate.bit_length() for estimate in self.table().get_column("estimate").to_list())
        return [(1 << digits >> 1, (1 << digits) - 1, bins[digits]) for digits in range(min(bins), max(bins) + 1)]

    # ---- trust ----

    def verify(self) -> Certificate:
        """Rebuild the law's table from the stated parameters, derive the guarantee from it, and compare.

        Every field of the guarantee is derived from the law and the mechanism, or must have its neutral value; see
        `dptally.verifiers.guarantees`, which also says what no file can show.

        Raises:
            PrivacyViolation: if the guarantee states more than the rebuilt table gives, the certificate is not the one
                of that table, or the rows cannot have come from it.
        """
        law = law_from_facts(self.law.facts())
        found = verify_table(self.guarantee, law, rows=len(self), shortfall=self.shortfall)
        if found != self.certificate:
            raise PrivacyViolation("the certificate in the release is not the one of the table its parameters give.")
        try:
            check_rows(self._rows, law)
            check_against_table(self._rows, law, self.shortfall)
            if self._statistics is not None:
                self._statistics.check(self._values)
        except ValueError as error:
            raise PrivacyViolation(f"the release holds rows that its law cannot have given: {error}.") from None
        return found

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """Names of the key columns, the law, and how far a sketch falls short."""
        shortfall = None if self.shortfall is None else asdict(self.shortfall)
        found = {"key": list(self.key), "law": self.law.facts(), "shortfall": shortfall}
        return found if self._statistics is None else {**found, "numbers": self._statistics.facts()}

    def stored_rows(self) -> pa.Table:
        """The key columns, then `value`, `estimate`, `lower`, `upper` (confidence 95 %); the last three for readers.

        So are sums and means; they come from the noisy integers of the columns after them.
        """
        return self.to_arrow() if self._statistics is None else self._statistics.stored(self.to_arrow())

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any]) -> Self:
        """The release back from the columns and the metadata of a file."""
        law = law_from_facts(facts["law"])
        guarantee = read_guarantee(facts["guarantee"])
        certificate = read_certificate(facts["certificate"], Certificate)
        shortfall = _read_shortfall(facts.get("shortfall"))
        key = [str(name) for name in facts["key"]]
        own = RESERVED_COLUMNS if law.statistics is None else (*RESERVED_COLUMNS, *law.statistics.column_names)
        if key != [name for name in table.column_names if name not in own]:
            raise ValueError("not the names of key columns")
        rows = table.select([*key, "value"])
        values = rows.column("value").cast(pa.int64())
        values = values if law.values else pc.fill_null(values, 1)
        rows = rows.set_column(len(key), "value", values).replace_schema_metadata(None).combine_chunks()
        check_rows(rows, law)
        numbers = None
        if law.statistics is not None:
            numbers = ReleasedStatistics.read(law.statistics, table, facts["numbers"]).numbers
        return cls(rows, guarantee, certificate, law, shortfall, numbers)

    def plot(self, n: int = 20, *, confidence: object = 0.95) -> Chart:
        """A picture: the n most frequent keys with confidence intervals, and the chance of a key to be released.

        A notebook shows it; ``release.plot().save("picture.svg")`` writes it (.svg, .html, or .png).
        """
        from dptally.report.plots import release_chart

        return release_chart(self, n=n, confidence=confidence)

    def describe(self) -> dict[str, Any]:
        """What is guaranteed and how it was verified, as plain data for JSON."""
        facts = {**super().describe(), "keys_released": len(self)}
        if self.guarantee.sketch_capacity is not None:
            facts["sketch_error"] = asdict(self.sketch_error())
        return facts

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        from dptally.report.of_table import report_of_table

        return report_of_table(self, asked)


def _read_shortfall(facts: dict[str, Any] | None) -> Shortfall | None:
    if facts is None:
        return None
    found = Shortfall(int(facts["reported"]), int(facts["scale"]), int(facts["parts"]))
    if not (0 <= found.reported <= _LARGEST_SHORTFALL and 0 <= found.scale <= _LARGEST_SCALE and found.parts >= 1):
        raise ValueError("not a shortfall")
    return found


def _looks_around(keys: pl.DataFrame, wanted: pl.Expr, found: pl.Series) -> bool:
    """Whether an expression says something else of a key when other keys are there, as ``key = max(key)`` does.

    Tried on halves of the rows and on some rows alone: it does if it says something else there, or fails. What depends
    on others in no such part is not noticed.
    """
    import polars as pl

    count = len(keys)
    alone = [(int(place), 1) for place in np.linspace(0, count - 1, _ROWS_ALONE)] if count else []
    for start, length in [(0, count // 2), (count // 2, count - count // 2), *alone]:
        try:
            part = keys.slice(start, length).with_columns(wanted).get_column("__wanted")
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
            return True
        if not part.equals(found.slice(start, length), null_equal=True):
            return True
    return False
