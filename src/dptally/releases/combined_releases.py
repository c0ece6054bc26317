"""Releases of several streams added up, when nobody may see more of a stream than its release.

Each owner releases a sketch (or a table) with noise of its own, and whoever adds them up sees nothing else. That needs
no trust in the aggregator, and costs: noise and threshold of every stream add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.estimates.frequencies import as_confidence
from dptally.privacy.guarantee import guarantee_in_words
from dptally.releases.base import Release
from dptally.releases.several_tables import are_same, check_universes, largest_hidden
from dptally.releases.table_release import TableRelease

if TYPE_CHECKING:
    import polars as pl

    from dptally.verifiers.tables import Certificate

Units = Literal["disjoint", "shared"]


@dataclass(frozen=True, repr=False)
class CombinedReleases:
    """Several releases over the same keys, added up. Made by `combine`.

    Attributes:
        releases: what was added up.
        epsilon: what holds for one unit.
        delta: what holds for one unit.
        units: whether a unit is in one stream only ("disjoint") or may be in all of them ("shared").
    """

    releases: tuple[TableRelease, ...]
    epsilon: Fraction
    delta: Fraction
    units: Units

    def __repr__(self) -> str:
        return f"<{len(self.releases)} releases: epsilon={float(self.epsilon):.6g}, delta={float(self.delta):.6g}>"

    def in_words(self) -> str:
        """What is guaranteed about all releases together, and what it rests on."""
        changes = {release.guarantee.change for release in self.releases}
        change = changes.pop() if len(changes) == 1 else "one unit, as its release defines it"
        if self.units == "disjoint":
            rests_on = (
                "It holds provided that every unit is in one stream only, as was stated: whatever holds for the "
                "release of that stream then holds for all together."
            )
        else:
            change += ", in every stream"
            rests_on = "A unit may be in all of the streams: epsilons and deltas are added up."
        if any(release.guarantee.mechanism == "sanitized_sample" for release in self.releases):
            rests_on += " Samples that another party had drawn are taken to have been drawn as stated."
        subject = f"The {len(self.releases)} releases together: " if len(self.releases) > 1 else ""
        return f"{subject}{guarantee_in_words(self.epsilon, self.delta, change=change)} {rests_on}"

    def verify(self) -> tuple[Certificate, ...]:
        """Verify each release, and derive again what holds for all of them together.

        That the streams have no unit in common, where that was stated, no file can show.

        Raises:
            PrivacyViolation: if a release does not verify, is there twice, or more is stated than follows.
        """
        found = tuple(release.verify() for release in self.releases)
        try:
            _check_different(self.releases)
        except InvalidParameter as error:
            raise PrivacyViolation(f"verification failed: {error}") from None
        epsilon, delta = _together(self.releases, self.units)
        if self.units not in ("disjoint", "shared") or self.epsilon < epsilon or self.delta < delta:
            raise PrivacyViolation("verification failed: more is stated than the releases give together.")
        return found

    def hidden(self, *, confidence: object = 0.95) -> int:
        """What a key that no release reports may have in all of them together, at most."""
        error = (1 - as_confidence(confidence)) / len(self.releases)
        return sum(_hidden_by(release, error) for release in self.releases)

    def table(self, *, confidence: object = 0.95) -> pl.DataFrame:
        """Keys that any release reports, sorted by key.

        Each release gets an equal part of the allowed error. A release that does not report a key may hide as much of
        it as its law reports with too small a probability; that is added to `upper` and to nothing else. Bounds are
        those of each key on its own; those of `top` hold for all of them at once.

        Returns:
            polars.DataFrame: key column(s); `value` and `estimate`, sums over the releases that report the key; `lower`
            and `upper`, for the frequency in all streams; `reported_by`, how many releases report it.
        """
        return self._added_up(confidence, together=False)

    def top(self, n: int = 10, *, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest sums, largest first, with bounds that hold after this selection.

        With probability `confidence` the bounds of all keys that any release reports hold at once. Estimates at the top
        are more often too high than too low. Ties in the order of keys.
        """
        if n < 0:
            raise InvalidParameter(f"n must not be negative, got {n}.")
        key = list(self.releases[0].key)
        order = ["value", *key]
        found = self._added_up(confidence, together=True)
        return found.sort(order, descending=[True] + [False] * len(key)).head(n)

    def _added_up(self, confidence: object, *, together: bool) -> pl.DataFrame:
        """The table, with bounds for each key on its own or for all of them together.

        Each release has the error e = beta / (number of releases), half of it for keys that it reports and half for
        those that it may hide. Together: bounds of all keys it reports hold at once (as in `top`). Those it does not
        report are in the table because another release, drawn independently, reports them; so which they may be, at
        most k keys, is known apart from its draw, and each is hidden above the bound at e / (2k) with no more than
        that probability.
        """
        import polars as pl

        half = (1 - as_confidence(confidence)) / (2 * len(self.releases))
        key = list(self.releases[0].key)
        keys = max(1, pl.concat([release.table().select(key) for release in self.releases]).n_unique())
        parts, hidden = [], [_hidden_by(release, half / keys if together else half) for release in self.releases]
        for release, may_hide in zip(self.releases, hidden, strict=True):
            rows = release.top(len(release), confidence=1 - half) if together else release.table(confidence=1 - half)
            parts.append(rows.with_columns(hidden=pl.lit(may_hide, dtype=pl.Int64)))
        return (
            pl.concat(parts)
            .group_by(key)
            .agg(pl.col("value", "estimate", "lower", "upper", "hidden").sum(), reported_by=pl.len())
            .with_columns(upper=pl.col("upper") + sum(hidden) - pl.col("hidden"))
            .drop("hidden")
            .sort(key)
        )


def combine(releases: Sequence[Release], *, units: Units) -> CombinedReleases:
    """Add up releases of several streams.

    Args:
        releases: at least one, with values, over the same key columns.
        units: "disjoint" when every unit is in one stream only: then what holds for one release holds for all together
            (parallel composition: the other releases are the same whether the unit is there or not). "shared" when a
            unit may be in all of them: epsilons and deltas add up.

    Raises:
        InvalidParameter: if they cannot be added up: the same release twice, without values, drawn from a seed, of
            different key columns, or over different universes, as a release says nothing about keys outside of its own.
    """
    if not releases:
        raise InvalidParameter("releases must not be empty.")
    if units not in ("disjoint", "shared"):
        raise InvalidParameter(f"units must be 'disjoint' or 'shared', got {units!r}.")
    tables = [release for release in releases if isinstance(release, TableRelease)]
    if len(tables) < len(releases):
        raise InvalidParameter("only tables of keys can be added up, and one of the releases is of another kind.")
    if len({(release.key, tuple(release.to_arrow().schema.types)) for release in tables}) > 1:
        raise InvalidParameter("the releases have different key columns, or key columns of different types.")
    _check_different(tables)
    if not all(release.law.values for release in tables):
        raise InvalidParameter("a release without values cannot be added up.")
    if not all(release.guarantee.private for release in tables):
        raise InvalidParameter("one of the releases was sampled from a seed and is not private.")
    check_universes(tables)
    return CombinedReleases(tuple(tables), *_together(tables, units), units)


def _together(releases: Sequence[TableRelease], units: Units) -> tuple[Fraction, Fraction]:
    """Epsilon and delta of all releases for one unit."""
    together = max if units == "disjoint" else sum
    return (
        Fraction(together(release.guarantee.epsilon for release in releases)),
        Fraction(together(release.guarantee.delta for release in releases)),
    )


def _check_different(releases: Sequence[TableRelease]) -> None:
    """Refuse a release that is there twice: every unit behind it would count twice."""
    for (first, one), (second, other) in combinations(enumerate(releases, start=1), 2):
        if are_same(one, other):
            raise InvalidParameter(
                f"releases {first} and {second} are the same, and a release is added up once; two that are equal by "
                "chance can be distinguished only if a ledger has them."
            )


def _hidden_by(release: TableRelease, error: Fraction) -> int:
    """The largest frequency that stays hidden with more than this probability."""
    found = largest_hidden(release, error)
    if found is None:
        raise InvalidParameter("a release that samples keys may hide keys of any frequency, and cannot be added up.")
    return found
