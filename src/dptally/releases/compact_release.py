"""A release that answers any key of a universe, held by anyone: n + 1 numbers instead of one for each key.

Everything here is public: a compact release holds nothing that is not in its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact import as_fraction
from dptally.exact.field_polynomials import PrimeField
from dptally.laws.specs.compact import BeyondCapacity, certify_law
from dptally.verifiers.compact import CompactCertificate
from dptally.verifiers.guarantees import verify_compact

if TYPE_CHECKING:
    import polars as pl

    from dptally.laws.field_geometric import FieldGeometric
    from dptally.privacy.guarantee import Guarantee
    from dptally.universes import Universe

__all__ = [
    "CompactRelease",
    "Count",
]


class Count(NamedTuple):
    """A key's reported value and bounds of its true count.

    The true count is the number of units that count for the key, cut to the largest count of the release (and, if the
    data had more occurrences than the capacity, after the rest was left out at random).
    """

    value: int
    lower: int
    upper: int


class CompactRelease:
    """A polynomial p over a prime field: the value of key number x is what the field element p(x) means.

    Made by the mechanism "compact" or by `CompactRelease.load`. Every key of the universe has a value, whether it was
    in the data or not, and asking for it costs no privacy. All values follow one law, `law`, given their true counts.

    Args:
        coefficients: of p, lowest first; one more than the capacity.
        law: what elements mean, and the law of the values.
        universe: the keys.
        guarantee: what is promised.
        beyond_capacity: what was to happen to data beyond the capacity.
    """

    def __init__(
        self,
        coefficients: Sequence[int],
        law: FieldGeometric,
        universe: Universe,
        guarantee: Guarantee,
        beyond_capacity: BeyondCapacity,
    ) -> None:
        self._coefficients = tuple(coefficients)
        self._field = PrimeField(law.size)
        self._polynomial = self._field.polynomial(self._coefficients)
        self.law = law
        self.universe = universe
        self.beyond_capacity: BeyondCapacity = beyond_capacity
        most = self.capacity if beyond_capacity == "refuse" else None
        self.guarantee = replace(guarantee, most_distinct_keys=most)

    def __repr__(self) -> str:
        return (
            f"CompactRelease(universe={self.universe.name!r}, capacity={self.capacity}, "
            f"epsilon={float(self.guarantee.epsilon):.6g}, field=2^{self.law.exponent}-1)"
        )

    @property
    def coefficients(self) -> tuple[int, ...]:
        """The polynomial, lowest coefficient first."""
        return self._coefficients

    @property
    def capacity(self) -> int:
        """How many keys (or occurrences) the release has room for: the polynomial's largest degree."""
        return len(self._coefficients) - 1

    # ---- questions ----

    def count(self, key: object, confidence: object = "0.95") -> Count:
        """The value of one key, with bounds.

        The bounds contain the true count with chance `confidence` at least, for every key that is chosen without
        looking at the release. The largest of many values is no such key.

        Raises:
            InvalidParameter: if the key is not in the universe.
        """
        reach = self.error(1 - _confidence(confidence))
        value = self.values(self._indices([key]))[0]
        return Count(value, max(0, value - reach), min(self.law.largest_count, value + reach))

    def counts(self, keys: Iterable[object], confidence: object = "0.95") -> pl.DataFrame:
        """The values of many keys, with bounds as in `count`, each at that confidence by itself.

        Returns:
            polars.DataFrame: key, value, lower, upper, in the order of the keys given.
        """
        import polars as pl

        asked = list(keys)
        reach = self.error(1 - _confidence(confidence))
        values = pl.Series("value", self.values(self._indices(asked)), dtype=pl.Int64)
        return pl.DataFrame({"key": pl.Series("key", asked), "value": values}).with_columns(
            (pl.col("value") - reach).clip(lower_bound=0).alias("lower"),
            (pl.col("value") + reach).clip(upper_bound=self.law.largest_count).alias("upper"),
        )

    def values(self, indices: Sequence[int]) -> list[int]:
        """The values of the keys with these numbers."""
        if any(not 0 <= index < self.universe.size for index in indices):
            raise InvalidParameter(f"key numbers must be from 0 to below the universe's size, {self.universe.size}.")
        return [self.law.decode(element) for element in self._field.evaluate(self._polynomial, indices)]

    def error(self, beta: object) -> int:
        """The smallest E such that each key's value is within E of its true count with chance 1 - beta at least."""
        chance = as_fraction("beta", beta)
        if not 0 < chance < 1:
            raise InvalidParameter(f"beta must be between 0 and 1, got {beta}.")
        return self.law.error(chance)

    def _indices(self, keys: Sequence[object]) -> list[int]:
        try:
            numbers, inside = self.universe.indices(keys)
        except (InvalidSource, OverflowError, TypeError, ValueError):
            # Keys of different types together: those that are no keys of the universe are found one by one.
            found = [self.universe.index(key) for key in keys]
            numbers, inside = [index or 0 for index in found], [index is not None for index in found]  # type: ignore[assignment]
        outside = [place for place, known in enumerate(inside) if not known]
        if outside:
            raise InvalidParameter(
                f"key {outside[0] + 1} of {len(keys)} is not in the universe {self.universe.name!r}."
            )
        return [int(number) for number in numbers]

    # ---- the guarantee ----

    @cached_property
    def certificate(self) -> CompactCertificate:
        """The judge's finding on the law that the release says it was drawn from."""
        return certify_law(self.law, self.guarantee.epsilon, self.guarantee.max_keys_per_unit, self.beyond_capacity)

    def verify(self) -> CompactCertificate:
        """Verify the law again, and derive the guarantee from the parameters in the release alone.

        Returns:
            CompactCertificate: with the exact largest ratio found.

        Raises:
            PrivacyViolation: if the guarantee states more than the law gives, or what no compact release has.
        """
        subsample = self.beyond_capacity == "subsample"
        return verify_compact(self.guarantee, self.law, capacity=self.capacity, subsample=subsample)

    def report(self, path: str | Path, *, overwrite: bool = False, **options: Any) -> None:
        """Write an HTML page about this release, to show to anyone; options as for `dptally.report.write`."""
        from dptally.report import write

        write(self, path, overwrite=overwrite, **options)

    def describe(self) -> dict[str, Any]:
        """What is promised and how it was checked, as plain data for JSON."""
        from dptally.releases.compact_release_file import metadata

        found = {
            name: str(part) if isinstance(part, Fraction) else part for name, part in vars(self.certificate).items()
        }
        return {**metadata(self), "certificate": found, "guarantee_text": str(self.guarantee)}

    # ---- the file ----

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release to one file, complete or not at all."""
        from dptally.releases.compact_release_file import save

        save(self, Path(path), overwrite=overwrite)

    @staticmethod
    def load(path: str | Path, universe: Universe | None = None) -> CompactRelease:
        """Read a release file; see `dptally.releases.compact_release_file.load`."""
        from dptally.releases.compact_release_file import load

        return load(path, universe)


def _confidence(confidence: object) -> Fraction:
    level = as_fraction("confidence", confidence)
    if not 0 < level < 1:
        raise InvalidParameter(f"confidence must be between 0 and 1, got {confidence}.")
    return level
