"""What to expect from a release, before any data is read. Exact, from the law alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon, as_fraction
from dptally.observation_models import WeightedSample
from dptally.observation_models.sampling_schemes import Scheme
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys

if TYPE_CHECKING:
    from dptally.universe_planning import AskedFor, UniversePlan

__all__ = ["Plan", "PlanLine", "plan"]

_UNIT_SIZES = (1, 3, 10, 30)


@dataclass(frozen=True)
class PlanLine:
    """What one bound on keys per unit leads to.

    Attributes:
        max_keys_per_unit: the bound.
        key_epsilon: what one key's law may spend.
        key_delta: what one key's law may spend.
        half: the smallest frequency reported with probability at least 50 %; None if sampling takes no key so often.
        likely: the same for 95 %.
        always: the smallest frequency that is always reported.
        always_if_divided: the same if epsilon and delta were divided by the number of keys instead.
        mean_absolute_error: of `estimate`, for frequencies that are always reported; None without values and with
            sampling.
        root_mean_square_error: likewise.
    """

    max_keys_per_unit: int
    key_epsilon: float
    key_delta: float
    half: int | None
    likely: int | None
    always: int | None
    always_if_divided: int | None
    mean_absolute_error: float | None
    root_mean_square_error: float | None


@dataclass(frozen=True)
class Plan:
    """The forecast: one line for the bound asked for, and others for comparison."""

    epsilon: Fraction
    delta: Fraction
    values: bool
    sampling: str | None
    asked: PlanLine
    others: tuple[PlanLine, ...]

    def __str__(self) -> str:
        line = self.asked
        bound = "one key" if line.max_keys_per_unit == 1 else f"{line.max_keys_per_unit:,} keys"
        sampling = "" if self.sampling is None else f", sampling {self.sampling}"
        text = (
            f"With epsilon = {float(self.epsilon):.6g}, delta = {float(self.delta):.6g}{sampling} and at most "
            f"{bound} per unit, a key is reported half the time at {_frequency(line.half)}, "
            f"95 % of the time at {_frequency(line.likely)}, and "
            + (f"always from {line.always:,} on." if line.always else "never with certainty.")
        )
        if line.mean_absolute_error is not None:
            text += f" Estimates of frequent keys are off by {line.mean_absolute_error:,.1f} on average."
        return text

    def describe(self) -> dict[str, Any]:
        """The plan as plain data for JSON."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "values": self.values,
            "sampling": self.sampling,
            "asked": asdict(self.asked),
            "others": [asdict(line) for line in self.others],
        }


def plan(
    *,
    epsilon: float | str | Fraction,
    delta: float | str | Fraction | None = None,
    sampling: Scheme | None = None,
    max_keys_per_unit: int = 1,
    values: bool = True,
    universe: Any = None,
    capacity: int | None = None,
    asked_for: AskedFor | None = None,
) -> Plan | UniversePlan:
    """Say at which frequencies keys are reported, how good estimates are, and what more keys per unit cost.

    Args:
        epsilon: as in `publish`.
        delta: as in `publish`; with a universe it may be left out or 0, and is what the stability histogram may spend.
        sampling: as in `publish`.
        max_keys_per_unit: as in `publish`.
        values: as in `publish`.
        universe: a universe or its name: compare the mechanisms over it, see `dptally.universe_planning`.
        capacity: as in `publish`, with a universe.
        asked_for: with a universe, "frequent" (which keys are) or "any" (key that somebody asks for).

    Returns:
        Plan: or a `UniversePlan` with a universe.

    >>> plan(epsilon=1, universe="ipv4", capacity=1000).recommended
    'sparse'
    >>> plan(epsilon=1, delta="1e-6").asked.always
    28
    """
    if universe is not None:
        from dptally.universe_planning import plan_over_universe

        pure = delta is None or as_fraction("delta", delta) == 0
        return plan_over_universe(
            epsilon,
            Fraction(0) if pure else as_delta(delta),
            universe=universe,
            capacity=capacity,
            max_keys_per_unit=max_keys_per_unit,
            asked_for=asked_for,
        )
    if delta is None:
        raise InvalidParameter("delta is missing; a plan for delta = 0 needs a universe, such as 'ipv4'.")
    if capacity is not None or asked_for is not None:
        raise InvalidParameter("capacity and asked_for are for plans with a universe.")
    exact_epsilon, exact_delta = as_epsilon(epsilon), as_delta(delta)
    asked = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
    sizes = sorted({asked, *_UNIT_SIZES})
    lines = {keys: _line(exact_epsilon, exact_delta, keys, values, sampling) for keys in sizes}
    others = tuple(line for keys, line in lines.items() if keys != asked)
    scheme = None if sampling is None else str(sampling)
    return Plan(exact_epsilon, exact_delta, values, scheme, lines[asked], others)


def _line(epsilon: Fraction, delta: Fraction, keys: int, values: bool, sampling: Scheme | None) -> PlanLine:
    key_epsilon, key_delta = share_between_keys(epsilon, delta, keys)
    law = WeightedSample(key_epsilon, key_delta, sampling, values=values)
    law.certify()
    divided = WeightedSample(epsilon / keys, delta / keys, sampling, values=values)
    absolute = square = None
    if values and sampling is None:
        # Floating point from here on: a forecast, not a guarantee.
        drops = [(float(chance), drop - law.likely_drop) for drop, chance in enumerate(law.drop_law)]
        absolute = sum(chance * abs(error) for chance, error in drops)
        square = sum(chance * error**2 for chance, error in drops) ** 0.5
    return PlanLine(
        max_keys_per_unit=keys,
        key_epsilon=float(key_epsilon),
        key_delta=float(key_delta),
        half=law.first_frequency(Fraction(1, 2)),
        likely=law.first_frequency(Fraction(95, 100)),
        always=law.first_frequency(Fraction(1)),
        always_if_divided=divided.first_frequency(Fraction(1)),
        mean_absolute_error=absolute,
        root_mean_square_error=square,
    )


def _frequency(frequency: int | None) -> str:
    return "no frequency" if frequency is None else f"frequency {frequency:,}"
