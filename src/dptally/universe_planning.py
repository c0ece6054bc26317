"""What to expect from mechanisms over a universe of keys, before any data is read. Exact, from their laws alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon
from dptally.observation_models import DyadicGeometric, Stability
from dptally.observation_models.field_geometric import choose_law
from dptally.observation_models.heaviest_noise import HeaviestNoise, least_possible_error
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys
from dptally.universes import read_universe

if TYPE_CHECKING:
    from dptally.universes import Universe

__all__ = ["AskedFor", "UniverseLine", "UniversePlan", "plan_over_universe"]

AskedFor = Literal["frequent", "any"]
_BETA = Fraction(1, 20)
_LISTABLE = 1 << 22
_LARGEST_CAPACITY = 10_000_000
_USUAL_CAPACITY = 10_000
_COMPACT_COUNT = (1 << 32) - 1
_DENSE_BOUND = 1 << 40


@dataclass(frozen=True)
class UniverseLine:
    """What one mechanism leads to; errors at 95 %.

    Attributes:
        mechanism: its name.
        half: the smallest frequency released with probability at least 50 %.
        likely: the same for 95 %.
        key_error: of the value of one key that is released.
        simultaneous_error: of all keys of the universe ("dense", "sparse", for which what is not released counts as 0)
            or of as many keys as the capacity, chosen in advance ("compact"); None where there is no bound.
        least_possible_error: for "sparse", what no pure release of so many keys can go below, for all keys at once
            [BV19, Thm. 7.2].
    """

    mechanism: str
    half: int | None
    likely: int | None
    key_error: int
    simultaneous_error: int | None
    least_possible_error: float | None = None


@dataclass(frozen=True)
class UniversePlan:
    """The forecast for a universe: a line for each mechanism that keeps what is asked, and one recommendation."""

    epsilon: Fraction
    delta: Fraction
    universe: str
    size: int
    capacity: int
    max_keys_per_unit: int
    lines: tuple[UniverseLine, ...]
    recommended: str
    recommendation: str

    def __str__(self) -> str:
        size = f"{self.size:,}" if self.size < 10**12 else f"{float(self.size):.2g}"
        bound = "one key" if self.max_keys_per_unit == 1 else f"{self.max_keys_per_unit:,} keys"
        return (
            f"With epsilon = {float(self.epsilon):.6g}, delta = {float(self.delta):.6g}, the {size} keys of "
            f"{self.universe}, capacity {self.capacity:,} and at most {bound} per unit: {self.recommendation}"
        )

    def describe(self) -> dict[str, Any]:
        """The plan as plain data for JSON."""
        facts = {name: part for name, part in vars(self).items() if name != "lines"}
        facts |= {"epsilon": str(self.epsilon), "delta": str(self.delta), "size": str(self.size)}
        return {**facts, "lines": [asdict(line) for line in self.lines]}


def plan_over_universe(
    epsilon: object,
    delta: Fraction,
    *,
    universe: object,
    capacity: int | None,
    max_keys_per_unit: int,
    asked_for: AskedFor | None,
) -> UniversePlan:
    """Compare the mechanisms that a universe allows, and recommend one.

    Args:
        epsilon: for the unit.
        delta: 0, or what the stability histogram may spend.
        universe: a universe or its name.
        capacity: how many keys a sparse release holds, or a compact one is made for; 10,000 if None.
        max_keys_per_unit: bound on what one unit touches.
        asked_for: "frequent" if the question is which keys are frequent, "any" if keys will be asked for one by one.
    """
    whole, keys = as_epsilon(epsilon), read_universe(universe)
    count = as_count("capacity", _USUAL_CAPACITY if capacity is None else capacity, largest=_LARGEST_CAPACITY)
    unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
    if asked_for not in (None, "frequent", "any"):
        raise InvalidParameter(f"asked_for must be 'frequent' or 'any', got {str(asked_for)[:40]!r}.")
    lines = [_sparse(whole, unit, keys, count), _compact(whole, unit, keys, count)]
    if keys.size <= _LISTABLE:
        lines.insert(0, _dense(whole, unit, keys))
    if delta:
        lines.append(_stability(whole, delta, unit))
    name, sentence = _recommend({line.mechanism: line for line in lines}, asked_for)
    return UniversePlan(whole, delta, keys.name, keys.size, count, unit, tuple(lines), name, sentence)


def _dense(epsilon: Fraction, unit: int, keys: Universe) -> UniverseLine:
    law = DyadicGeometric(epsilon / unit, _DENSE_BOUND)
    return UniverseLine("dense", 0, 0, law.error_quantile(_BETA), law.simultaneous_error(_BETA, keys.size))


def _sparse(epsilon: Fraction, unit: int, keys: Universe, capacity: int) -> UniverseLine:
    law = HeaviestNoise(epsilon / unit, size=keys.size, keep=capacity, universe=keys.name)
    return UniverseLine(
        "sparse",
        law.first_frequency(Fraction(1, 2)),
        law.first_frequency(1 - _BETA),
        law.noise_error(_BETA),
        law.simultaneous_error(_BETA),
        least_possible_error(epsilon, keys.size, capacity, _BETA),
    )


def _compact(epsilon: Fraction, unit: int, keys: Universe, capacity: int) -> UniverseLine:
    law = choose_law(epsilon / unit, universe_size=keys.size, largest_count=_COMPACT_COUNT)
    return UniverseLine("compact", 0, 0, law.error(_BETA), law.error(_BETA / capacity))


def _stability(epsilon: Fraction, delta: Fraction, unit: int) -> UniverseLine:
    law = Stability(*share_between_keys(epsilon, delta, unit))
    half, likely = law.first_frequency(Fraction(1, 2)), law.first_frequency(1 - _BETA)
    error = next(
        error
        for error in range(law.reach + 1)
        if sum(chance for noise, chance in law.noise_law.items() if abs(noise) > error) <= _BETA
    )
    return UniverseLine("stability", half, likely, error, None)


def _recommend(lines: dict[str, UniverseLine], asked_for: AskedFor | None) -> tuple[str, str]:
    """The mechanism for the question, and why, in one sentence."""
    sparse, compact = lines["sparse"], lines["compact"]
    if "dense" in lines:
        return "dense", f"take 'dense': all keys can be listed, and each is within {lines['dense'].key_error:,}."
    if asked_for == "any":
        return "compact", f"take 'compact': any key that is asked for is within {compact.key_error:,} of its count."
    stability = lines.get("stability")
    if stability is not None and (sparse.likely is None or (stability.likely or 0) <= sparse.likely):
        return "stability", (
            f"take 'stability', or 'weighted_sample', which reports more: delta pays for reporting keys of the data "
            f"from frequency {stability.likely:,} on (95 %), and none that nobody has."
        )
    found = "no frequency" if sparse.likely is None else f"frequency {sparse.likely:,}"
    text = f"take 'sparse' to find frequent keys, which it releases from {found} on (95 %)"
    if asked_for is None:
        text += f", or 'compact' to ask for keys one by one, each within {compact.key_error:,} of its count"
    return "sparse", text + "."
