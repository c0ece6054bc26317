"""The chance that a key is reported, as a curve over its true frequency: what charts and plans are drawn from.

Every point is the law's own probability, turned into a float when it is known exactly. `reporting_curves` gives many
laws at the same frequencies; `reporting_curve` one law at few frequencies, chosen so that straight lines between them
suffice.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dptally.laws.base import Reporting

LIKELY = Fraction(95, 100)
SURELY = Fraction(999, 1000)
_EVEN = 8  # points at equal distances, before more are placed where the curve bends
_FEW = 26  # points of a law that takes long for each
_UNLIKELY_END = 1000  # end of the curve where no frequency is likely to be reported
_FARTHEST = 1 << 20


# ---- many laws, at the same frequencies ----


def reporting_curves(mechanisms: Mapping[str, Reporting], frequencies: Iterable[int]) -> dict[str, list[float]]:
    """For each law, the probability that a key of each frequency is reported.

    >>> from dptally.observation_models import WeightedSample
    >>> reporting_curves({"best": WeightedSample(1, "1e-6")}, [1, 28])
    {'best': [1e-06, 1.0]}
    """
    points = list(frequencies)
    return {name: [float(law.chance(point)) for point in points] for name, law in mechanisms.items()}


def useful_frequencies(laws: Iterable[Reporting], points: int = 160) -> Sequence[int]:
    """Evenly spaced frequencies from 0 to a little beyond where every law reports keys with 99.9 % probability.

    Where a law never gets there, 95 % will do. A law that takes more than four times as many units as the median one
    does not stretch the axis: it runs out of the picture.
    """
    ends = []
    for law in laws:
        end = law.first_frequency(SURELY)
        ends.append((law.first_frequency(LIKELY) if end is None else end) or 0)
    found = sorted(end for end in ends if end > 0)
    if not found:
        return range(21)
    last = min(found[-1], 4 * found[(len(found) - 1) // 2], _FARTHEST)
    last += max(2, last // 12)
    return range(0, last + 1, max(1, -(-last // points)))


# ---- one law, at few frequencies ----


@dataclass(frozen=True)
class ReportingCurve:
    """The chance that a key is reported, by its true frequency."""

    points: tuple[tuple[int, float], ...]  # frequency and chance, by frequency, from 0 on
    half: int | None  # the smallest frequency that is reported with at least 50 %; None if there is none
    likely: int | None  # the same for 95 %
    surely: int | None  # the same for 99.9 %
    always: int | None  # the smallest frequency that is reported with certainty, for laws that have one worth naming
    at_least: bool  # whether chances are lower bounds, because they depend on other keys

    @property
    def hides(self) -> bool:
        """Whether there are keys that the law may not report."""
        return any(chance < 1 for _, chance in self.points)

    def chance(self, frequency: float) -> float:
        """The chance at any frequency, by straight lines between the points; beyond them as at the last one."""
        place = bisect_left(self.points, frequency, key=lambda point: point[0])
        if place == len(self.points):
            return self.points[-1][1]
        after, reached = self.points[place]
        if place == 0 or after == frequency:
            return reached
        before, low = self.points[place - 1]
        return low + (reached - low) * (frequency - before) / (after - before)


def reporting_curve(law: Reporting, *, points: int = 60, proceed: Callable[[], None] | None = None) -> ReportingCurve:
    """The curve of a law from frequency 0 to a little beyond where keys are reported with 99.9 %."""
    law = law.for_charts()

    def found(frequency: int) -> float:
        if proceed is not None:
            proceed()
        return float(law.chance(frequency))

    marks: list[int | None] = []
    for share in (Fraction(1, 2), LIKELY, SURELY):
        if proceed is not None:
            proceed()
        marks.append(law.first_frequency(share))
    half, likely, surely = marks
    named = not (law.endless or law.complete or law.scheme is not None)
    always = law.first_frequency(Fraction(1)) if named else None
    last = always or surely or likely or half or _UNLIKELY_END
    end = last + max(2, last // 6)
    even = {end * step // _EVEN for step in range(_EVEN + 1)}
    known = {
        frequency: found(frequency)
        for frequency in sorted({0, 1, end, *even, *(mark for mark in (*marks, always) if mark)})
    }
    _refine(known, found, min(points, _FEW) if law.slow else points)
    return ReportingCurve(tuple(sorted(known.items())), half, likely, surely, always, law.at_least)


def _refine(known: dict[int, float], found: Callable[[int], float], points: int) -> None:
    """Halve the interval with the largest step, again and again."""
    places = sorted(known)
    steps = [(known[low] - known[high], low, high) for low, high in pairwise(places)]
    heapq.heapify(steps)
    while steps and len(known) < points:
        step, low, high = heapq.heappop(steps)
        if high - low < 2:
            continue
        if not step:
            break
        middle = (low + high) // 2
        known[middle] = found(middle)
        heapq.heappush(steps, (known[low] - known[middle], low, middle))
        heapq.heappush(steps, (known[middle] - known[high], middle, high))
