"""From runs on two neighbouring data sets to a lower bound of epsilon.

If a mechanism is (epsilon, delta)-private, then P(T) <= e^epsilon Q(T) + delta for every event T, so that

    epsilon >= log((P(T) - delta) / Q(T)).

The event is chosen on one half of the runs, from a family that holds "reported", "not reported", values from some t on
or up to some t, and the set of all outcomes that were e^epsilon times as frequent as under the other data set. The
bound is computed on the other half, with P(T) and Q(T) replaced by their Clopper-Pearson bounds [CP34]. So the choice,
of which pair of data sets, which order and which event, costs nothing, and the bound is above the truth with
probability alpha at most: alpha / 2 for each of the two probabilities.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from flint import arb

from dptally.verifiers.gaussian import working_precision

_MOST_VALUES = 200  # thresholds that are tried
_NEAR = 1e-10
_DEVIATIONS = 7
_BITS = 96


@dataclass(frozen=True)
class Sample:
    """What came out of runs on one data set: counts of outcomes, in two halves. None is "not reported"."""

    choosing: Counter[Hashable]
    testing: Counter[Hashable]


@dataclass(frozen=True)
class Neighbours:
    """Runs on two neighbouring data sets, named in words."""

    name: str
    first: Sample
    second: Sample


@dataclass(frozen=True)
class Bound:
    """A lower bound of epsilon."""

    epsilon: float  # the bound; 0 where nothing can be said, infinity never
    event: str  # in words
    neighbours: str  # which data sets
    hits: tuple[int, int]  # of the event in the testing half, under the one data set and under the other
    runs: tuple[int, int]  # in the testing half, likewise


def lower_bound(pairs: Sequence[Neighbours], *, epsilon: float, delta: float, alpha: float) -> Bound:
    """The lower bound of epsilon at `delta`, wrong with probability `alpha` at most.

    The `epsilon` that is claimed decides which events are tried, and nothing else.
    """
    best: tuple[float, str, frozenset[Hashable], str, Sample, Sample] | None = None
    for pair in pairs:
        for one, other, name in (
            (pair.first, pair.second, pair.name),
            (pair.second, pair.first, pair.name + ", the other way"),
        ):
            for event, outcomes in _events(one.choosing, other.choosing, epsilon):
                score = _guess(one.choosing, other.choosing, outcomes, delta)
                if best is None or score > best[0]:
                    best = (score, event, outcomes, name, one, other)
    if best is None:
        return Bound(0.0, "none", "none", (0, 0), (0, 0))
    _, event, outcomes, name, one, other = best
    runs = (one.testing.total(), other.testing.total())
    hits = (_hits(one.testing, outcomes), _hits(other.testing, outcomes))
    least = probability_at_least(hits[0], runs[0], alpha / 2) - delta
    most = probability_at_most(hits[1], runs[1], alpha / 2)
    found = max(0.0, math.log(least / most)) if least > 0 else 0.0
    return Bound(found, event, name, hits, runs)


def _events(
    one: Counter[Hashable], other: Counter[Hashable], epsilon: float
) -> Iterator[tuple[str, frozenset[Hashable]]]:
    outcomes = {*one, *other}
    reported = {outcome for outcome in outcomes if outcome is not None}
    yield "reported", frozenset(reported)
    yield "not reported", frozenset({None})
    factor = math.exp(epsilon) * one.total() / max(1, other.total())
    likelier = frozenset(outcome for outcome in outcomes if one[outcome] > factor * other[outcome])
    yield f"one of {len(likelier)} outcomes that were likelier", likelier
    values = sorted(value for value in reported if isinstance(value, int))
    for value in values[:: max(1, len(values) // _MOST_VALUES)]:
        yield f"value at least {value}", frozenset(found for found in values if found >= value)
        yield f"value at most {value}", frozenset(found for found in values if found <= value)
        yield f"not reported, or value at most {value}", frozenset({None, *(v for v in values if v <= value)})
    for outcome in reported:
        if not isinstance(outcome, int):
            yield str(outcome), frozenset({outcome})


def _hits(counts: Counter[Hashable], outcomes: frozenset[Hashable]) -> int:
    return sum(counts[outcome] for outcome in outcomes)


def _guess(one: Counter[Hashable], other: Counter[Hashable], outcomes: frozenset[Hashable], delta: float) -> float:
    """About the bound that this event will give; used to choose, never to claim."""
    runs, others = max(1, one.total()), max(1, other.total())
    share, against = _hits(one, outcomes) / runs, _hits(other, outcomes) / others
    least = share - 5 * math.sqrt(share * (1 - share) / runs) - 5 / runs - delta
    most = against + 5 * math.sqrt(against * (1 - against) / others) + 15 / others
    return math.log(least / most) if least > 0 else -math.inf


def probability_at_least(hits: int, runs: int, alpha: float) -> float:
    """A number that exceeds the true probability with probability `alpha` at most: the lower Clopper-Pearson bound.

    The largest p, up to one part in 10^10, for which `hits` or more of `runs` independent runs have probability
    `alpha` at most. That probability is a regularised incomplete beta function, enclosed by a ball; a p is taken only
    if the whole ball is below `alpha`, so rounding goes to the safe side.

    >>> round(probability_at_least(90, 100, 0.05), 4), probability_at_least(0, 100, 0.05)
    (0.8363, 0.0)
    """
    if hits <= 0:
        return 0.0
    with working_precision(_BITS):

        def safe(p: float) -> bool:
            return bool(arb(p).beta_lower(arb(hits), arb(runs - hits + 1), 1) <= arb(alpha))

        high = hits / runs
        # Where to begin: any safe p will do.
        low = max(0.0, high - _DEVIATIONS * math.sqrt(high * (1 - high) / runs))
        if not safe(low):
            low = 0.0
        while high - low > _NEAR * high:  # invariant: `low` is safe
            middle = (low + high) / 2
            low, high = (middle, high) if safe(middle) else (low, middle)
    return low


def probability_at_most(hits: int, runs: int, alpha: float) -> float:
    """A number that is below the true probability with probability `alpha` at most: the upper bound.

    >>> round(probability_at_most(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 - probability_at_least(runs - hits, runs, alpha)
