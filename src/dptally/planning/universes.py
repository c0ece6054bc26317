"""What to expect from mechanisms over a universe of keys, before any data is read. Exact, from their laws alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from dptally.errors import InvalidParameter
from dptally.laws.specs.compact import Compact
from dptally.laws.specs.dense import Dense
from dptally.laws.specs.sparse import Sparse
from dptally.laws.specs.stability import Stability
from dptally.laws.top_k_noise import least_possible_error
from dptally.planning.mechanisms import spec_for
from dptally.planning.plans import Plan
from dptally.universes.listed_keys import LARGEST_LIST

if TYPE_CHECKING:
    from dptally.planning.mechanisms import Setting

__all__ = ["AskedFor", "UniverseLine", "UniversePlan", "compare_over_universe"]

AskedFor = Literal["frequent", "any"]
_BETA = Fraction(1, 20)


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


@dataclass(frozen=True, kw_only=True)
class UniversePlan(Plan):
    """The forecast for a universe: also a line for each mechanism over it, with errors for many keys at once.

    Attributes:
        universe: its name.
        size: how many keys it has.
        lines: for the mechanisms over the universe, and "stability" where there is a delta.
    """

    universe: str
    size: int
    lines: tuple[UniverseLine, ...]

    @property
    def sentence(self) -> str:
        """What was asked, and what is recommended."""
        size = f"{self.size:,}" if self.size < 10**12 else f"{float(self.size):.2g}"
        bound = "one key" if self.max_keys_per_unit == 1 else f"{self.max_keys_per_unit:,} keys"
        return (
            f"With epsilon = {float(self.epsilon):.6g}, delta = {float(self.delta):.6g}, the {size} keys of "
            f"{self.universe}, capacity {self.capacity:,} and at most {bound} per unit: {self.recommendation}"
        )

    def describe(self) -> dict[str, Any]:
        """The plan as plain data for JSON."""
        lines = [asdict(line) for line in self.lines]
        return {**super().describe(), "universe": self.universe, "size": str(self.size), "lines": lines}


def compare_over_universe(setting: Setting, asked_for: AskedFor | None) -> dict[str, Any]:
    """Compare the mechanisms that a universe allows, and recommend one: what a `UniversePlan` has beside a `Plan`.

    Args:
        setting: with a universe.
        asked_for: "frequent" if the question is which keys are frequent, "any" if keys will be asked for one by one.
    """
    if asked_for not in (None, "frequent", "any"):
        raise InvalidParameter(f"asked_for must be 'frequent' or 'any', got {str(asked_for)[:40]!r}.")
    lines = [_sparse(setting), _compact(setting)]
    if setting.universe_size <= LARGEST_LIST:
        lines.insert(0, _dense(setting))
    if setting.delta:
        lines.append(_stability(setting))
    name, sentence = _recommend({line.mechanism: line for line in lines}, asked_for)
    return {
        "universe": setting.universe,
        "size": setting.universe_size,
        "lines": tuple(lines),
        "recommended": name,
        "recommendation": sentence,
    }


def _dense(setting: Setting) -> UniverseLine:
    law = spec_for(Dense.name, setting).law
    return UniverseLine(
        Dense.name, 0, 0, law.error_quantile(_BETA), law.simultaneous_error(_BETA, setting.universe_size)
    )


def _sparse(setting: Setting) -> UniverseLine:
    law = spec_for(Sparse.name, setting).law
    return UniverseLine(
        Sparse.name,
        law.first_frequency(Fraction(1, 2)),
        law.first_frequency(1 - _BETA),
        law.noise_error(_BETA),
        law.simultaneous_error(_BETA),
        least_possible_error(setting.epsilon, setting.universe_size, setting.capacity, _BETA),
    )


def _compact(setting: Setting) -> UniverseLine:
    law = spec_for(Compact.name, setting).law
    return UniverseLine(Compact.name, 0, 0, law.error(_BETA), law.error(_BETA / setting.capacity))


def _stability(setting: Setting) -> UniverseLine:
    law = spec_for(Stability.name, replace(setting, sampling=None, values=True)).law
    half, likely = law.first_frequency(Fraction(1, 2)), law.first_frequency(1 - _BETA)
    error = next(
        error
        for error in range(law.reach + 1)
        if sum(chance for noise, chance in law.noise_law.items() if abs(noise) > error) <= _BETA
    )
    return UniverseLine(Stability.name, half, likely, error, None)


def _recommend(lines: dict[str, UniverseLine], asked_for: AskedFor | None) -> tuple[str, str]:
    """The mechanism for the question, and why, in one sentence."""
    sparse, compact = lines[Sparse.name], lines[Compact.name]
    if Dense.name in lines:
        error = lines[Dense.name].key_error
        return Dense.name, f"take 'dense': all keys can be listed, and each is within {error:,}."
    if asked_for == "any":
        return Compact.name, f"take 'compact': any key that is asked for is within {compact.key_error:,} of its count."
    stability = lines.get(Stability.name)
    if stability is not None and (sparse.likely is None or (stability.likely or 0) <= sparse.likely):
        return Stability.name, (
            f"take 'stability', or 'weighted_sample', which reports more: delta pays for reporting keys of the data "
            f"from frequency {stability.likely:,} on (95 %), and none that nobody has."
        )
    found = "no frequency" if sparse.likely is None else f"frequency {sparse.likely:,}"
    text = f"take 'sparse' to find frequent keys, which it releases from {found} on (95 %)"
    if asked_for is None:
        text += f", or 'compact' to ask for keys one by one, each within {compact.key_error:,} of its count"
    return Sparse.name, text + "."
