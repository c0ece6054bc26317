"""What to expect from mechanisms over a universe of keys, before any data is read. Exact, from their laws alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from dptally.errors import InvalidParameter
from dptally.laws.specs.compact import Compact
from dptally.laws.specs.dense import Dense
from dptally.laws.specs.sparse import Sparse
from dptally.laws.specs.stability import Stability
from dptally.laws.top_k_noise import least_possible_error
from dptally.planning.mechanisms import Setting, spec_for
from dptally.planning.plans import Plan
from dptally.universes.listed_keys import LARGEST_LIST

AskedFor = Literal["frequent", "any"]
_BETA = Fraction(1, 20)


@dataclass(frozen=True)
class UniverseLine:
    """What one mechanism leads to; errors at 95 %."""

    mechanism: str
    half: int | None  # the smallest frequency released with probability at least 50 %
    likely: int | None  # the same for 95 %
    key_error: int  # of the value of one key that is released
    # Of all keys of the universe ("dense", "sparse", for which what is not released counts as 0) or of as many keys as
    # the capacity, chosen in advance ("compact"); None where there is no bound.
    simultaneous_error: int | None
    least_possible_error: float | None = None  # for "sparse", of any pure release of so many keys [BV19, Thm. 7.2]


@dataclass(frozen=True, kw_only=True)
class UniversePlan(Plan):
    """The forecast for a universe: also a line for each mechanism over it, with errors for many keys at once."""

    universe: str
    size: int  # how many keys it has
    lines: tuple[UniverseLine, ...]  # for the mechanisms over the universe, and "stability" where there is a delta

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
    """Compare the mechanisms that a universe allows, and recommend one: what a `UniversePlan` has beside a `Plan`."""
    if asked_for not in (None, "frequent", "any"):
        raise InvalidParameter(f"asked_for must be 'frequent' or 'any', got {str(asked_for)[:40]!r}.")
    size, capacity = setting.universe_size, setting.capacity
    lines = []
    if size <= LARGEST_LIST:
        dense = spec_for(Dense.name, setting).law
        errors = dense.error_quantile(_BETA), dense.simultaneous_error(_BETA, size)
        lines.append(UniverseLine(Dense.name, 0, 0, *errors))
    sparse = spec_for(Sparse.name, setting).law
    errors = sparse.noise_error(_BETA), sparse.simultaneous_error(_BETA)
    least = least_possible_error(setting.epsilon, size, capacity, _BETA)
    lines.append(UniverseLine(Sparse.name, *_frequencies(sparse), *errors, least))
    compact = spec_for(Compact.name, setting).law
    lines.append(UniverseLine(Compact.name, 0, 0, compact.error(_BETA), compact.error(_BETA / capacity)))
    if setting.delta:
        stability = spec_for(Stability.name, replace(setting, sampling=None, values=True)).law
        lines.append(UniverseLine(Stability.name, *_frequencies(stability), _noise_error(stability), None))
    name, sentence = _recommend({line.mechanism: line for line in lines}, asked_for)
    return {
        "universe": setting.universe,
        "size": size,
        "lines": tuple(lines),
        "recommended": name,
        "recommendation": sentence,
    }


def _frequencies(law: Any) -> tuple[int | None, int | None]:
    return law.first_frequency(Fraction(1, 2)), law.first_frequency(1 - _BETA)


def _noise_error(law: Any) -> int:
    """The smallest error that noise exceeds in at most 5 % of draws."""
    return next(
        error
        for error in range(law.reach + 1)
        if sum(chance for noise, chance in law.noise_law.items() if abs(noise) > error) <= _BETA
    )


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
