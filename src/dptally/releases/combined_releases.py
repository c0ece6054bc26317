"""Releases of several streams added up, when nobody may see more of a stream than its release.

Each owner releases a sketch (or a table) with noise of its own, and whoever adds them up sees nothing else. That needs
no trust in the aggregator, and costs: noise and threshold of every stream add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence

if TYPE_CHECKING:
    import polars as pl

    from dptally.releases.release import Release

__all__ = ["CombinedReleases", "combine"]


@dataclass(frozen=True, repr=False)
class CombinedReleases:
    """Several releases over the same keys, added up. Made by `combine`.

    Attributes:
        releases: what was added up.
        epsilon: what holds for one unit.
        delta: what holds for one unit.
    """

    releases: tuple[Release, ...]
    epsilon: Fraction
    delta: Fraction

    def __repr__(self) -> str:
        return f"<{len(self.releases)} releases: epsilon={float(self.epsilon):.6g}, delta={float(self.delta):.6g}>"

    def hidden(self, *, confidence: object = 0.95) -> int:
        """What a key that no release reports may have in all of them together, at most."""
        error = (1 - as_confidence(confidence)) / len(self.releases)
        return sum(_unreported(release, error) for release in self.releases)

    def table(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """Keys that any release reports, sorted by key.

        Each release gets an equal part of the allowed error. A release that does not report a key may hide as much of
        it as its law reports with too small a probability; that is added to `upper` and to nothing else.

        Returns:
            polars.DataFrame: key column(s); `value` and `estimate`, sums over the releases that report the key; `lower`
            and `upper`, for the frequency in all streams; `reported_by`, how many releases report it.
        """
        import polars as pl

        error = (1 - as_confidence(confidence)) / len(self.releases)
        key = list(self.releases[0].key)
        parts = []
        for release in self.releases:
            hidden = _unreported(release, error)
            parts.append(release.table(confidence=1 - error).with_columns(hidden=pl.lit(hidden, dtype=pl.Int64)))
        all_hidden = sum(_unreported(release, error) for release in self.releases)
        return (
            pl.concat(parts)
            .group_by(key)
            .agg(
                pl.col("value", "estimate", "lower", "upper", "hidden").sum(),
                reported_by=pl.len(),
            )
            .with_columns(upper=pl.col("upper") + all_hidden - pl.col("hidden"))
            .drop("hidden")
            .sort(key)
        )

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest sums, largest first; ties in the order of keys."""
        if n < 0:
            raise InvalidParameter(f"n must not be negative, got {n}.")
        key = list(self.releases[0].key)
        order = ["value", *key]
        return self.table(confidence=confidence).sort(order, descending=[True] + [False] * len(key)).head(n)


def combine(releases: Sequence[Release], *, units: Literal["disjoint", "shared"]) -> CombinedReleases:
    """Add up releases of several streams.

    Args:
        releases: at least one, with values, over the same key columns.
        units: "disjoint" when every unit is in one stream only: then what holds for one release holds for all together
            (parallel composition: the other releases are the same whether the unit is there or not). "shared" when a
            unit may be in all of them: epsilons and deltas add up.

    Raises:
        InvalidParameter: if they cannot be added up.
    """
    if not releases:
        raise InvalidParameter("releases must not be empty.")
    if units not in ("disjoint", "shared"):
        raise InvalidParameter(f"units must be 'disjoint' or 'shared', got {units!r}.")
    if len({(release.key, tuple(release.to_arrow().schema.types)) for release in releases}) > 1:
        raise InvalidParameter("the releases have different key columns, or key columns of different types.")
    if not all(release.law.values for release in releases):
        raise InvalidParameter("a release without values cannot be added up.")
    if not all(release.guarantee.private for release in releases):
        raise InvalidParameter("one of the releases was drawn from a seed and is not private.")
    together = max if units == "disjoint" else sum
    return CombinedReleases(
        tuple(releases),
        Fraction(together(release.guarantee.epsilon for release in releases)),
        Fraction(together(release.guarantee.delta for release in releases)),
    )


def _unreported(release: Release, error: Fraction) -> int:
    """The largest frequency that stays hidden with more than this probability."""
    shortfall = release.shortfall
    first = release.law.first_frequency(1 - (error if shortfall is None else error * Fraction(9, 10)))
    if first is None:
        raise InvalidParameter("a release that samples keys may hide keys of any frequency, and cannot be added up.")
    return first - 1 + (0 if shortfall is None else shortfall.upper(error / 10))
