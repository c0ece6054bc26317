"""What a list of events spends together, by three rules that are all proved, in exact or outward-rounded integers.

- Basic composition: epsilons and deltas add up. It holds whatever the events are chosen by, earlier outcomes too.
- Optimal composition of (e, d)-private mechanisms [KOV15, Thm. 3.3; MV16 for different ones]: nothing better can be
  said of mechanisms of which nothing is known but e and d. Events are composed by their two-point measures. Where all
  epsilons are multiples of a common step the result is exact up to 2^-300; otherwise epsilons are rounded up to a grid.
- Tight composition of the laws that are drawn from: by the measure above each law's exact profile, see
  `dptally.verifiers.loss_measures`; a release in rounds enters by the function that was declared for it
  (`dptally.verifiers.declared_profile`), parts without a known profile by their epsilon and delta.

The second and the third hold for events whose *parameters* are fixed without looking at earlier outcomes. If they are
not, the sum must be kept under control on every path, which these rules do not guarantee [RRUV16]; basic composition
does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dptally.errors import InvalidParameter
from dptally.exact.searching import first_where
from dptally.laws.base import Law
from dptally.laws.registry import law_from_facts
from dptally.privacy.spending import Part, Spending
from dptally.verifiers.declared_profile import DeclaredProfile
from dptally.verifiers.loss_measures import (
    ONE,
    LossMeasure,
    composed,
    delta_at,
    measure_above,
    repeated,
    two_point_measure,
)

_FINEST = 2048  # steps for the epsilon of the budget
_COARSEST = 96
_STEPS_OF_A_PART = 8
_REACH, _MOST_PLACES = 4, 1024  # losses beyond that many times epsilon, or so many places, are merged
_ANSWER_BITS = 20
_SUM_BITS = 14_000  # of a denominator that is kept exactly; Python prints no number with more than 4300 digits
_MOST_LAWS = 256  # different ones that profiles are worked out for
_MOST_PARTS = 4096  # different ones that are composed


@dataclass(frozen=True)
class Total:
    """What was spent in all, by one rule."""

    method: str  # "basic", "optimal" or "tight"
    delta: Fraction  # all together are (budget's epsilon, delta)-private; 1 where the rule cannot say anything
    # all together are (epsilon, budget's delta)-private; None where the rule has no such epsilon
    epsilon: Fraction | None

    def within(self, delta: Fraction) -> bool:
        """Whether a budget with this delta holds them."""
        return self.delta <= delta


def basic_total(events: Iterable[Spending], *, epsilon: Fraction, delta: Fraction) -> Total:
    """Sums of epsilons and of deltas, for a budget of epsilon and delta."""
    sums = Fraction(0), Fraction(0)
    for event, times in Counter(events).items():
        sums = short_above(sums[0] + times * event.epsilon), short_above(sums[1] + times * event.delta)
    return Total("basic", sums[1] if sums[0] <= epsilon else Fraction(1), sums[0] if sums[1] <= delta else None)


def short_above(number: Fraction) -> Fraction:
    """The number itself, or if its denominator is very long, the next larger multiple of 2^-14000.

    Sums of numbers with many digits would get more digits with each of them, without end.
    """
    if number.denominator.bit_length() <= _SUM_BITS:
        return number
    return Fraction(math.ceil(number * (1 << _SUM_BITS)), 1 << _SUM_BITS)


def optimal_total(
    events: Iterable[Spending], *, epsilon: Fraction, delta: Fraction, with_epsilon: bool = False
) -> Total:
    """Optimal composition of what is known as (e, d)-private; `with_epsilon`: find its epsilon at delta, too."""
    every = Counter((event.epsilon, event.delta) for event in events)
    parts = Counter({Part(e, d): times for (e, d), times in every.items()})
    return _total("optimal", parts, epsilon, delta, with_epsilon)


def tight_total(events: Iterable[Spending], *, epsilon: Fraction, delta: Fraction, with_epsilon: bool = False) -> Total:
    """Composition of the profiles of the laws that were drawn from; arguments as in `optimal_total`."""
    return _total("tight", counted_parts(events), epsilon, delta, with_epsilon)


def counted_parts(events: Iterable[Spending]) -> Counter[Part]:
    """Single draws of all events, and how many there are of each kind."""
    parts: Counter[Part] = Counter()
    for event in events:
        for part in event.parts or (Part(event.epsilon, event.delta),):
            parts[Part(part.epsilon, part.delta, 1, part.law)] += part.copies
    return parts


def _total(method: str, parts: Counter[Part], epsilon: Fraction, delta: Fraction, with_epsilon: bool) -> Total:
    if not parts:
        return Total(method, Fraction(0), Fraction(0))
    if delta == 0:  # then losses of every draw may be as large as they can be at once
        sums = Fraction(0)
        for part, times in parts.items():
            sums = short_above(sums + part.epsilon * times)
        pure = not any(part.delta for part in parts)
        return Total(method, Fraction(0 if pure and sums <= epsilon else 1), sums if pure else None)
    if sum(part.law is not None for part in parts) > _MOST_LAWS:
        parts = _without_laws(parts)
    if len(parts) > _MOST_PARTS:
        return Total(method, Fraction(1), None)
    step = grid_step(parts, epsilon)
    largest = sum(math.ceil(part.epsilon / step) * times for part, times in parts.items() if part.law is None)
    cut = max(_REACH * math.ceil(epsilon / step), _MOST_PLACES)
    if any(part.epsilon > cut * step and not _sampled(part) for part in parts):
        return Total(method, Fraction(1), None)  # far beyond the budget: not worth the memory to say by how much
    reach = cut if any(part.law is not None for part in parts) else min(cut, largest)
    both = _composed(parts, step, reach)
    at_epsilon = max(delta_at(measure, step, epsilon) for measure in both)
    return Total(method, Fraction(at_epsilon, ONE), _epsilon_at(both, step, delta) if with_epsilon else None)


def _without_laws(parts: Counter[Part]) -> Counter[Part]:
    """The same by epsilon and delta alone, which is more: working out the profile of each takes too long."""
    plain: Counter[Part] = Counter()
    for part, times in parts.items():
        plain[Part(part.epsilon, part.delta)] += times
    return plain


def _sampled(part: Part) -> bool:
    """Whether a part has a profile that ends early, whatever its epsilon is."""
    return part.law is not None and _with_profile(part.law).rate is not None


def grid_step(parts: Iterable[Part], epsilon: Fraction) -> Fraction:
    """g: so that epsilons of parts are multiples of it, if that is not too fine; with room for the shape of profiles.

    Any g is right. A coarse one makes bounds looser, and so does one that epsilons are no multiples of.
    """
    known = list(parts)
    smallest = min(part.epsilon for part in known)
    common = _common_divisor([part.epsilon for part in known])
    wanted = common
    if any(part.law is not None for part in known):
        wanted = min(epsilon / _COARSEST, smallest / _STEPS_OF_A_PART)
    aligned = common / math.ceil(common / wanted)
    if epsilon / aligned <= _FINEST:
        return aligned
    return max(epsilon / _FINEST, min(wanted, epsilon / _COARSEST))


def _common_divisor(numbers: Sequence[Fraction]) -> Fraction:
    """The largest number that all are multiples of; a smaller one where that would have a very long denominator."""
    found = numbers[0]
    for number in numbers[1:]:
        found = Fraction(
            math.gcd(found.numerator * number.denominator, number.numerator * found.denominator),
            found.denominator * number.denominator,
        )
        if found.denominator.bit_length() > _SUM_BITS:
            break  # much finer than any grid: what it is does not matter any more
    return found


def _composed(parts: Counter[Part], step: Fraction, reach: int) -> list[LossMeasure]:
    """The measures of all parts together, for both orders of the two data sets."""
    directions: list[LossMeasure | None] = [None, None]
    for part, times in parts.items():
        for order, one in enumerate(part_measures(part, step)):
            power = repeated(one, times, -reach, reach)
            before = directions[order]
            directions[order] = power if before is None else composed(before, power).clipped(-reach, reach)
    return [measure for measure in directions if measure is not None]


def part_measures(part: Part, step: Fraction) -> tuple[LossMeasure, LossMeasure]:
    """The measures of one part, for both orders of the two data sets: by its law, or by epsilon and delta alone."""
    if part.law is not None:
        return law_measures(part.law, step)
    measure = two_point_measure(math.ceil(part.epsilon / step), part.delta, step)
    return measure, measure


@lru_cache(maxsize=256)
def law_measures(law: tuple[tuple[str, Any], ...], step: Fraction) -> tuple[LossMeasure, LossMeasure]:
    """The measures above the exact profile of one draw from a law (its facts), for both orders of two data sets."""
    try:
        up, down = _with_profile(law).profile(step)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidParameter("a part of an event has a law that cannot be accounted for.") from None
    return measure_above(up, down, step), measure_above(down, up, step)


def _with_profile(law: tuple[tuple[str, Any], ...]) -> Law | DeclaredProfile:
    """What has the profile: a law, or the function that was declared for all stages of a release."""
    facts = dict(law)
    return DeclaredProfile.from_facts(facts) if facts["name"] == "DeclaredProfile" else law_from_facts(facts)


def _epsilon_at(both: Sequence[LossMeasure], step: Fraction, delta: Fraction) -> Fraction | None:
    """The smallest multiple of 2^-20 at which delta is kept, or None if there is none on the grid."""
    allowed = math.floor(delta * ONE)
    last = max(measure.first + len(measure.weights) for measure in both) * step
    one = 1 << _ANSWER_BITS
    most = math.ceil(last * one)

    def holds(place: int) -> bool:
        return all(delta_at(measure, step, Fraction(place, one)) <= allowed for measure in both)

    return Fraction(first_where(holds, 0, most), one) if holds(most) else None
