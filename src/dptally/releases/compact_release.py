"""A release that answers any key of a universe, held by anyone: n + 1 numbers instead of one for each key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation, UnreadableRelease
from dptally.estimates.frequencies import as_confidence
from dptally.exact import as_fraction
from dptally.exact.field_polynomials import PrimeField
from dptally.laws.field_geometric import FIELD_EXPONENTS, FieldGeometric
from dptally.laws.specs.compact import BeyondCapacity, certify_law
from dptally.privacy.stored_facts import read_certificate, read_fraction, read_guarantee
from dptally.releases.base import Count, Release, Summary
from dptally.releases.release_file import intact, read_release
from dptally.universes import Universe, read_universe
from dptally.verifiers.compact import CompactCertificate
from dptally.verifiers.guarantees import verify_compact

if TYPE_CHECKING:
    import polars as pl

    from dptally.privacy.guarantee import Guarantee
    from dptally.report.contents import Asked, Report

__all__ = ["CompactRelease", "Count"]

_LARGEST_ELEMENT_BITS = 1024


class CompactRelease(Release):
    """A polynomial p over a prime field: the value of key number x is what the field element p(x) means.

    Made by the mechanism "compact" or by `dptally.load`. Every key of the universe has a value, whether it was in the
    data or not, and asking for it costs no privacy. All values follow one law, `law`, given their true counts. The
    `coefficients` of p, lowest first, are one more than the capacity. Without a certificate, the law is verified when
    one is asked for.
    """

    kind = "polynomial"
    noun = "a compact release, which lists no keys,"
    answers = "ask for the counts of given keys (dptally count)"
    key = ("key",)
    law: FieldGeometric

    def __init__(
        self,
        coefficients: Sequence[int],
        law: FieldGeometric,
        universe: Universe,
        guarantee: Guarantee,
        beyond_capacity: BeyondCapacity,
        certificate: CompactCertificate | None = None,
    ) -> None:
        self.coefficients = tuple(coefficients)
        self._field = PrimeField(law.size)
        self._polynomial = self._field.polynomial(self.coefficients)
        self._certificate = certificate
        self.law = law
        self.universe = universe
        self.beyond_capacity: BeyondCapacity = beyond_capacity
        most = self.capacity if beyond_capacity == "refuse" else None
        self.guarantee = guarantee.under(most_distinct_keys=most)

    def _held(self) -> str:
        return f"{self.universe.name!r}, capacity {self.capacity}, field 2^{self.law.exponent}-1"

    @property
    def capacity(self) -> int:
        """How many keys (or occurrences) the release has room for: the polynomial's largest degree."""
        return len(self.coefficients) - 1

    # ---- questions ----

    def count(self, key: object, confidence: object = "0.95") -> Count:
        """The value of one key, with a confidence interval.

        It contains the true count with probability `confidence` at least, for every key that is chosen without looking
        at the release. The largest of many values is no such key. The true count is the number of units that count for
        the key, cut to the largest count of the release (and, if the data had more occurrences than the capacity, after
        the rest was left out at random).

        Raises:
            InvalidParameter: if the key is not in the universe.
        """
        reach = self.error(1 - as_confidence(confidence))
        value = self.values(self._indices([key]))[0]
        return Count(value, max(0, value - reach), min(self.law.largest_count, value + reach))

    def counts(self, keys: Iterable[object], confidence: object = "0.95") -> pl.DataFrame:
        """The values of many keys, in their order, with confidence intervals as in `count`."""
        import polars as pl

        asked = list(keys)
        reach = self.error(1 - as_confidence(confidence))
        values = pl.Series("value", self.values(self._indices(asked)), dtype=pl.Int64)
        return pl.DataFrame({"key": pl.Series("key", asked), "value": values}).with_columns(
            (pl.col("value") - reach).clip(lower_bound=0).alias("lower"),
            (pl.col("value") + reach).clip(upper_bound=self.law.largest_count).alias("upper"),
        )

    def look_up(self, parts: list[str], *, confidence: object = "0.95") -> pl.DataFrame:
        """The values of keys as they are written; as `counts`."""
        return self.counts(parts, confidence)

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

    def summary(self, n: int = 10, *, confidence: object = 0.95) -> Summary:
        """How many keys it answers, and how well."""
        keys = f"all {self.universe.size:,} keys of {self.universe.name}"
        return Summary(f"counts of {keys}, each within {self.error('0.05'):,} (95 % sure)")

    # ---- trust ----

    @cached_property
    def certificate(self) -> CompactCertificate:  # type: ignore[override]  # derived where a file has none
        """What the verifier found of the law that the release says it was sampled from."""
        facts = self.guarantee.epsilon, self.guarantee.max_keys_per_unit, self.beyond_capacity
        return self._certificate or certify_law(self.law, *facts)

    def verify(self) -> CompactCertificate:
        """Verify the law again, and derive the guarantee from the parameters in the release alone.

        Raises:
            PrivacyViolation: if the guarantee states more than the law gives, or what no compact release has.
        """
        subsample = self.beyond_capacity == "subsample"
        found = verify_compact(self.guarantee, self.law, capacity=self.capacity, subsample=subsample)
        if self._certificate not in (None, found):
            raise PrivacyViolation("the certificate in the release is not the one of the table its parameters give.")
        return found

    # ---- file and page ----

    def facts(self) -> dict[str, Any]:
        """Universe, capacity, the law, and a checksum of the coefficients, which finds damage, not malice."""
        law = self.law
        return {
            "universe": self.universe.name,
            "universe_size": self.universe.size,
            "capacity": self.capacity,
            "beyond_capacity": self.beyond_capacity,
            "law": {
                "name": "FieldGeometric",
                "exponent": law.exponent,
                "largest_count": law.largest_count,
                "ratio": str(law.ratio),
                "floor": law.floor,
                "element_bits": law.element_bits,
            },
            "sha256": hashlib.sha256(self._packed()).hexdigest(),
        }

    def _packed(self) -> bytes:
        width = _width(self.law)
        return b"".join(coefficient.to_bytes(width, "little") for coefficient in self.coefficients)

    def stored_rows(self) -> pa.Table:
        """The column `coefficient`: numbers of a fixed width, little-endian, lowest coefficient first."""
        kind, buffers = pa.binary(_width(self.law)), [None, pa.py_buffer(self._packed())]
        return pa.table({"coefficient": pa.FixedSizeBinaryArray.from_buffers(kind, self.capacity + 1, buffers)})

    @classmethod
    def from_facts(cls, table: pa.Table, facts: dict[str, Any], universe: Universe | None = None) -> Self:
        """The release back from a file; its universe by the name in it, unless one is given."""
        law, beyond_capacity = _read_law(facts["law"]), facts["beyond_capacity"]
        guarantee, stated = read_guarantee(facts["guarantee"]), facts["certificate"]
        certificate = None if stated is None else read_certificate(stated, CompactCertificate)
        capacity, size = int(facts["capacity"]), int(facts["universe_size"])
        held = table.column("coefficient").to_pylist()
        if not (
            beyond_capacity in ("subsample", "refuse")
            and guarantee.delta == 0
            and 1 <= capacity == len(held) - 1
            and all(len(packed) == _width(law) for packed in held)
            and 1 <= size <= law.size
        ):
            raise ValueError("not a compact release")
        if hashlib.sha256(b"".join(held)).hexdigest() != facts["sha256"]:
            raise UnreadableRelease("is damaged: its checksum does not match.")
        coefficients = [int.from_bytes(packed, "little") for packed in held]
        if max(coefficients) >= law.size:
            raise UnreadableRelease("is damaged: a number is not in its field.")
        keys = _named_universe(str(facts["universe"])) if universe is None else universe
        if universe is None and keys.size != size:
            raise ValueError("not the size of that universe")
        return cls(coefficients, law, keys, guarantee, beyond_capacity, certificate)

    @staticmethod
    def load(path: str | Path, universe: Universe | None = None) -> CompactRelease:
        """Read a compact release; by default with the universe of the name in the file.

        Raises:
            UnreadableRelease: if the file is missing, damaged, not a compact release, or of a newer version.
            InvalidParameter: if the universe given is not the one the release is about.
        """
        place = Path(path)
        table, facts = read_release(place)
        if facts.get("kind") != CompactRelease.kind:
            raise UnreadableRelease(f"{place} is not a compact dptally release.")
        with intact(place):
            found = CompactRelease.from_facts(table, facts, universe)
            name, size = str(facts["universe"]), int(facts["universe_size"])
        if (found.universe.name, found.universe.size) != (name, size):
            raise InvalidParameter(
                f"{place} is about the universe {name[:60]!r} of {size} keys, not {found.universe.name!r}."
            )
        return found

    def contents(self, asked: Asked) -> Report:
        """What a page says about the release."""
        from dptally.report.of_compact import report_of_compact

        return report_of_compact(self, asked)


def _width(law: FieldGeometric) -> int:
    """How many bytes a coefficient takes."""
    return -(-law.exponent // 8)


def _read_law(facts: dict[str, Any]) -> FieldGeometric:
    exponent, largest_count, element_bits = (int(facts[name]) for name in ("exponent", "largest_count", "element_bits"))
    if facts["name"] != "FieldGeometric" or exponent not in FIELD_EXPONENTS:
        raise ValueError("another law")
    if largest_count >= 1 << 62 or element_bits > _LARGEST_ELEMENT_BITS:
        raise ValueError("too large")
    return FieldGeometric(exponent, largest_count, read_fraction(facts["ratio"]), int(facts["floor"]), element_bits)


def _named_universe(name: str) -> Universe:
    try:
        return read_universe(name)
    except InvalidParameter:
        raise UnreadableRelease(
            f"is about the universe {name[:60]!r}, which has to be given: CompactRelease.load(path, universe)."
        ) from None
