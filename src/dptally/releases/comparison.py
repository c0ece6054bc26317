"""Two releases compared: how much more or less each key has in the second, with confidence intervals.

The releases are independent draws. Each gets half of the allowed error beta, e = beta / 2, which is split again: a key
that it reports has its interval at the error e / 2, among reported keys; a key that it does not report has a frequency
of at most the largest one that it hides with probability e / 2 or more. So for every key, whatever its frequencies are,
each release fails with probability at most e, both together with at most beta (Bonferroni), and where none fails the
true pair is in the box of both intervals. The difference is then between the corners of that box, and so is the ratio.
No shape of the noise is assumed. The convolution of two equal noises would give intervals that are narrower by a factor
of up to 1.4.
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.laws.base import as_confidence
from dptally.releases.several_tables import are_same, check_universes, largest_hidden

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MISSING", "compare", "differing_guarantees"]

MISSING = (
    "Not released is not zero: a key that only one release reports may have any count that the other hides, and "
    "whether a rare key is reported is partly chance. Its interval says what is known."
)
"""What keys that appeared or are gone do and do not mean."""

_STATED = {
    "epsilon": "epsilon",
    "delta": "delta",
    "mechanism": "mechanism",
    "max_keys_per_unit": "the number of keys that a unit counts for",
    "sketch_capacity": "the capacity of the sketch",
}


def compare(before: Any, after: Any, *, n: int | None = None, confidence: object = 0.95) -> pl.DataFrame:
    """Keys that either release reports, with both estimates, and difference and ratio of the second to the first.

    See `Release.compare`; refuses what cannot be compared, and warns where guarantees differ.
    """
    import polars as pl

    level = as_confidence(confidence)
    if n is not None and n < 0:
        raise InvalidParameter(f"n must not be negative, got {n}.")
    _check(before, after)
    differing = differing_guarantees(before, after)
    if differing is not None:
        warnings.warn(differing, stacklevel=3)
    key, half = list(before.key), (1 - level) / 4
    sides = [
        _side(release, other, half, name, together=n is not None)
        for release, other, name in ((before, after, "before"), (after, before, "after"))
    ]
    found = sides[0][0].join(sides[1][0], on=key, how="full", coalesce=True, nulls_equal=True)
    for name, (_, hidden) in zip(("before", "after"), sides, strict=True):
        missing = pl.col(f"estimate_{name}").is_null()
        found = found.with_columns(
            pl.when(missing).then(0).otherwise(pl.col(f"lower_{name}")).alias(f"lower_{name}"),
            pl.when(missing).then(pl.lit(hidden, pl.Int64)).otherwise(pl.col(f"upper_{name}")).alias(f"upper_{name}"),
        )
    found = _differences(found, key)
    if n is None:
        return found.sort(key)
    least = pl.max_horizontal("difference_lower", -pl.col("difference_upper"), pl.lit(0))
    order = [least, pl.col("difference").abs().fill_null(0), *key]
    return found.sort(order, descending=[True, True] + [False] * len(key)).head(n)


def _side(release: Any, other: Any, half: Fraction, name: str, *, together: bool) -> tuple[pl.DataFrame, int | None]:
    """Estimates and bounds of one release, and the most that it hides of a key; None where that is anything."""
    import polars as pl

    rows = release.top(len(release), confidence=1 - half) if together else release.table(confidence=1 - half)
    # Which keys the other one reports, of which this one may hide some, is known apart from this draw.
    hidden = largest_hidden(release, half / max(1, len(other)) if together else half)
    columns = [pl.col(column).cast(pl.Int64).alias(f"{column}_{name}") for column in ("estimate", "lower", "upper")]
    return rows.select(*release.key, *columns), hidden


def _differences(found: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    import polars as pl

    first, second = (pl.col(f"estimate_{name}") for name in ("before", "after"))
    low, high, after_low, after_high = (
        pl.col(f"{bound}_{name}") for name in ("before", "after") for bound in ("lower", "upper")
    )
    status = pl.when(first.is_null()).then(pl.lit("appeared")).when(second.is_null()).then(pl.lit("gone"))
    found = found.with_columns(
        difference=second - first,
        difference_lower=after_low - high,
        difference_upper=after_high - low,
        ratio=pl.when(first > 0).then(second / first),
        ratio_lower=pl.when(high > 0).then(after_low / high),
        ratio_upper=pl.when(low > 0).then(after_high / low),
        status=status.otherwise(pl.lit("both")),
    )
    bounds = ("difference", "difference_lower", "difference_upper", "ratio", "ratio_lower", "ratio_upper", "status")
    return found.select(*key, "estimate_before", "estimate_after", *bounds)


def _check(before: Any, after: Any) -> None:
    """Refuse releases that do not count the same."""
    for release in (before, after):
        if getattr(release, "kind", None) != "table":
            raise InvalidParameter("only tables of keys can be compared, and one of the releases is none.")
        if not release.law.values:
            raise InvalidParameter("a release without values cannot be compared.")
    first, second = (release.stored_rows().select(release.key).schema for release in (before, after))
    if first.names != second.names or first.types != second.types:
        raise InvalidParameter("the releases have different key columns, or key columns of different types.")
    units = [release.guarantee.unit for release in (before, after)]
    if units[0] != units[1]:
        named = ["rows" if unit is None else f"different {unit!r}" for unit in units]
        raise InvalidParameter(f"the first release counts {named[0]}, the second {named[1]}: they cannot be compared.")
    if are_same(before, after):
        raise InvalidParameter("both are the same release; its noise is the same, and there is nothing to compare.")
    check_universes([before, after])


def differing_guarantees(before: Any, after: Any) -> str | None:
    """What two guarantees differ in, where that makes counts less comparable; None where they do not."""
    one, other = before.guarantee, after.guarantee
    parts = [words for name, words in _STATED.items() if getattr(one, name) != getattr(other, name)]
    if one.private != other.private:
        parts.append("whether they are private: one was sampled from a seed")
    if not parts:
        return None
    return f"the releases differ in {', '.join(parts)}; intervals hold, but rare keys may appear or go for that alone."
